//! First stage behind the window: finds the headers by their layout, says whose the frame is, and registers every field at
//! its own place, whatever stood before it.
//!
//! What is decided before the frame has ended (`decided`: its BTH is there, or it is over) is right for the whole frame.

use super::lanes::at_least;
use super::opcode_table::{OpcodeFacts, opcode_facts};
use super::window::{EtherType, Window};
use super::{Layout, POSITION_BITS, PacketParser};
use spraynic_config::{BTH_BYTES, ICRC_BYTES, IPV4_BYTES, IPV6_BYTES, UDP_BYTES};
use spraynic_rtl::{Module, Signal, cat, cat_lsb_first};

/// IP protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;
/// UDP destination port of RoCEv2.
const UDP_PORT: u16 = 4791;
/// Bytes of UDP, BTH and extension headers.
const TRANSPORT_BYTES: u32 = UDP_BYTES + BTH_BYTES + super::EXTENSION_BYTES;

/// Where a frame goes, known when its BTH has come or the frame has ended, whichever is first.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    /// To the datapath, if nothing is wrong with it.
    pub(super) datapath: Signal<'a>,
    /// To the host, if the MAC does not mark it bad.
    pub(super) slow_path: Signal<'a>,
    pub(super) ipv6: Signal<'a>,
    /// VLAN tags, 2 bits.
    pub(super) tags: Signal<'a>,
    /// Trimmed, by DSCP.
    pub(super) trimmed: Signal<'a>,
    /// Position of the last byte of the IP packet by its own length.
    pub(super) ip_end: Signal<'a>,
}

impl<'a> Route<'a> {
    /// What the reader of frames for `icrc` needs.
    pub(super) fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.datapath, self.ipv6, self.tags, self.trimmed, self.ip_end])
    }

    /// What [`Route::pack`] made; it does not say what is the host's.
    pub(super) fn unpack(packed: Signal<'a>) -> Self {
        Self {
            datapath: packed.bit(0),
            slow_path: packed.module().low(),
            ipv6: packed.bit(1),
            tags: packed.part(2, 2),
            trimmed: packed.bit(4),
            ip_end: packed.part(5, POSITION_BITS),
        }
    }
}

/// The headers of a frame as registers.
pub(super) struct Classified<'a> {
    /// In the clock before the registers: [`Route`] is decided.
    pub(super) decided: Signal<'a>,
    /// In the clock before the registers.
    pub(super) route: Route<'a>,
    /// The registers hold a frame whose route was decided by them.
    pub(super) first: Signal<'a>,
    /// The registers hold a frame that has ended.
    pub(super) ended: Signal<'a>,
    pub(super) bad: Signal<'a>,
    /// It ends in a header up to UDP.
    pub(super) short: Signal<'a>,
    pub(super) slow_path: Signal<'a>,
    pub(super) ipv6: Signal<'a>,
    pub(super) tags: Signal<'a>,
    /// Code of the descriptor: 0 not trimmed.
    pub(super) trimmed: Signal<'a>,
    pub(super) ip_end: Signal<'a>,
    /// Position of the last byte of the frame so far.
    pub(super) end: Signal<'a>,
    /// Bytes of the frame behind the BTH, two's complement, 9 bits; at most 255 counts.
    pub(super) behind_bth: Signal<'a>,
    /// Three sums whose sum is that of the words of an IPv4 header.
    pub(super) checksum_parts: Option<[Signal<'a>; 3]>,
    /// The IP length holds IP and UDP header.
    pub(super) holds_udp: Signal<'a>,
    /// The IP length holds a BTH, too.
    pub(super) holds_bth: Signal<'a>,
    /// Bytes behind the IP header by the IP length, modulo 2^16.
    pub(super) ip_payload: Signal<'a>,
    /// Bytes between BTH and ICRC by the IP length, two's complement, [`POSITION_BITS`]: extension headers, payload, padding.
    pub(super) body: Signal<'a>,
    /// Bytes behind the BTH by the IP length, ICRC included, two's complement, [`POSITION_BITS`].
    pub(super) ip_behind_bth: Signal<'a>,
    /// `body` without padding.
    pub(super) unpadded: Signal<'a>,
    /// Words from byte 2 of the frame to the end of the BTH, 5 bits.
    pub(super) bth_end_words: Signal<'a>,
    pub(super) opcode: OpcodeFacts<'a>,
    /// Bytes of the IP header as on the wire, as long as the longest that is read.
    pub(super) network: Signal<'a>,
    /// Bytes of UDP, BTH and extension headers as on the wire.
    pub(super) transport: Signal<'a>,
}

/// Chooses by the layout: first by tags, then by IP version.
struct Layouts<'a> {
    parser: PacketParser,
    /// One tag at least; a second one, where there is one.
    tagged: [Signal<'a>; 2],
    ipv6: Signal<'a>,
}

impl<'a> Layouts<'a> {
    fn by_tags(&self, choice: impl Fn(u32) -> Signal<'a>) -> Signal<'a> {
        if self.parser.vlan {
            let behind = self.tagged[1].mux(choice(2), choice(1));
            self.tagged[0].mux(behind, choice(0))
        } else {
            choice(0)
        }
    }

    fn by_version(&self, ipv6: impl FnOnce() -> Signal<'a>, ipv4: impl FnOnce() -> Signal<'a>) -> Signal<'a> {
        match (self.parser.ipv6, self.parser.ipv4) {
            (true, true) => self.ipv6.mux(ipv6(), ipv4()),
            (true, false) => ipv6(),
            _ => ipv4(),
        }
    }

    fn choose(&self, choice: impl Fn(Layout) -> Signal<'a>) -> Signal<'a> {
        let of = |ipv6| self.by_tags(|tags| choice(self.parser.layout(ipv6, tags)));
        self.by_version(|| of(true), || of(false))
    }
}

/// Byte of a header.
fn byte(header: Signal<'_>, at: u32) -> Signal<'_> {
    header.part(at * 8, 8)
}

/// Number of `count` bytes of a header, the first one most significant.
pub(super) fn number(header: Signal<'_>, at: u32, count: u32) -> Signal<'_> {
    cat(&(at..at + count).map(|at| byte(header, at)).collect::<Vec<_>>())
}

pub(super) fn classify<'a>(m: Module<'a>, parser: &PacketParser, window: &Window<'a>) -> Classified<'a> {
    let [first, second, third] = window.ether_types;
    let tagged = [first.tag, second.tag];
    let of_type = |flag: fn(&EtherType<'a>) -> Signal<'a>| {
        let behind = tagged[1].mux(flag(&third), flag(&second));
        tagged[0].mux(behind, flag(&first))
    };
    let ipv6 = of_type(|found| found.ipv6).named("is_ipv6");
    let ipv4 = of_type(|found| found.ipv4).named("is_ipv4");
    let layouts = Layouts {
        parser: parser.clone(),
        tagged,
        ipv6,
    };
    let two_tags = first.tag & second.tag;
    let tags = cat_lsb_first(&[first.tag & !second.tag, two_tags]).gate(m.lit(u8::from(parser.vlan), 1));

    // Positions below 128 are all that headers need.
    let (near, far) = (
        window.end.part(0, 7),
        window.end.part(7, POSITION_BITS - 7).any().named("far"),
    );
    let reaches = |bytes: u32| far | at_least(near, bytes - 1);

    let network_bytes = if parser.ipv6 { IPV6_BYTES } else { IPV4_BYTES };
    let network = layouts
        .by_tags(|tags| window.bytes(parser.layout(false, tags).network(), network_bytes))
        .named("network_header");
    let transport = layouts
        .choose(|layout| window.bytes(layout.udp(), TRANSPORT_BYTES))
        .named("transport_headers");

    // Whose it is.
    let plain_ipv4 = || {
        // Version 4, no options; no fragment, and the reserved flag is 0.
        let flags = number(network, 6, 2);
        byte(network, 0).eq_lit(0x45) & !cat(&[flags.bit(15), flags.part(0, 14)]).any()
    };
    let plain_ipv6 = || network.part(4, 4).eq_lit(6);
    let protocol = layouts.by_version(|| byte(network, 6), || byte(network, 9));
    let is_udp = (layouts.by_version(plain_ipv6, plain_ipv4) & protocol.eq_lit(PROTOCOL_UDP)).named("is_udp");
    let is_ip = ((ipv4 | ipv6) & (m.lit(u8::from(parser.vlan), 1) | !tagged[0])).named("is_ip");
    let short = (!reaches(14)
        | (first.tag & !reaches(18))
        | (two_tags & !reaches(22))
        | (is_ip & !layouts.choose(|layout| reaches(layout.udp())))
        | (is_ip & is_udp & !layouts.choose(|layout| reaches(layout.udp() + UDP_BYTES))))
    .named("short");
    let is_roce = is_ip & is_udp & number(transport, 2, 2).eq_lit(UDP_PORT);
    let datapath = (!short & is_roce).named("datapath");
    let slow_path = (!short & !is_roce).named("slow_path");

    // Lengths.
    let length = layouts
        .by_version(|| number(network, 4, 2), || number(network, 2, 2))
        .named("ip_length");
    let wide = length.zero_extend(POSITION_BITS);
    let add = |value: i64| m.lit((value & ((1 << POSITION_BITS) - 1)) as u64, POSITION_BITS);
    let by_version = |ipv6: i64, ipv4: i64| layouts.by_version(|| add(ipv6), || add(ipv4));
    let ip_end = wide
        + layouts.choose(|layout| {
            let counted = if layout.ipv6 { layout.udp() } else { layout.network() };
            add(i64::from(counted) - 1)
        });
    let behind_ip = i64::from(UDP_BYTES + BTH_BYTES + ICRC_BYTES);
    let with_ipv4 = behind_ip + i64::from(IPV4_BYTES);
    let body = wide + by_version(-behind_ip, -with_ipv4);
    let icrc = i64::from(ICRC_BYTES);
    let ip_behind_bth = wide + by_version(icrc - behind_ip, icrc - with_ipv4);
    let pad_count = transport.part((UDP_BYTES + 1) * 8 + 4, 2);
    let less: Vec<_> = (0..4)
        .map(|pad| by_version(-behind_ip - pad, -with_ipv4 - pad))
        .collect();
    let unpadded = wide + pad_count.select(&less);
    let holds = |bytes: u32| {
        layouts.by_version(
            || at_least(number(network, 4, 2), bytes),
            || at_least(number(network, 2, 2), bytes + IPV4_BYTES),
        )
    };
    let near_end = cat(&[far, near]).part(0, 8) | far.repeat(8);
    let behind_bth = near_end.zero_extend(9) + layouts.choose(|layout| m.lit(513 - u64::from(layout.bth_end()), 9));

    // Trimmed packets.
    let dscp = layouts
        .by_version(
            || cat(&[network.part(0, 4), network.part(14, 2)]),
            || network.part(10, 6),
        )
        .named("dscp");
    let [trimmed_dscp, last_hop_dscp] = window.trimmed_dscp;
    let is_trimmed = |port: Signal<'a>| dscp.any() & dscp.eq(port);
    let last_hop = is_trimmed(last_hop_dscp);
    let trimmed = cat(&[last_hop, is_trimmed(trimmed_dscp) & !last_hop]);

    // When.
    let routed = m
        .reg("routed", 1)
        .reset(0)
        .doc("the route of the frame at hand is decided");
    let bth_there = layouts.choose(|layout| {
        let beat = (layout.bth_end() - 1) / parser.beat_bytes();
        at_least(window.beat, beat)
    });
    let decided = (window.valid & !routed & (window.last | bth_there)).named("decided");
    m.when(window.valid, || routed.set((routed | decided) & !window.last));

    let register = |name: &str, value: Signal<'a>| match value.constant() {
        Some(_) => value,
        None => {
            let register = m.reg(name, value.width());
            m.when(window.valid, || register.set(value));
            register
        }
    };
    let event = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        register.set(value);
        register
    };
    // Looked up for both IP versions: which of them it is, is known late.
    let facts = |ipv6: bool| {
        let bth = |at: u32| layouts.by_tags(|tags| window.bytes(parser.layout(ipv6, tags).udp() + UDP_BYTES + at, 1));
        opcode_facts(m, parser, if ipv6 { "ipv6" } else { "ipv4" }, bth(0), bth(8).bit(4))
    };
    let facts = [parser.ipv4.then(|| facts(false)), parser.ipv6.then(|| facts(true))];
    let opcode = match facts {
        [Some(ipv4), Some(ipv6)] => ipv6.or(&ipv4, layouts.ipv6),
        [ipv4, ipv6] => ipv4.or(ipv6).expect("one IP version at least"),
    };
    let route = Route {
        datapath,
        slow_path,
        ipv6: layouts.by_version(|| if parser.ipv4 { ipv6 } else { m.high() }, || m.low()),
        tags,
        trimmed: trimmed.any(),
        ip_end,
    };
    Classified {
        decided,
        route,
        first: event("classified_first", decided),
        ended: event("classified_ended", window.valid & window.last),
        bad: register("classified_bad", window.bad),
        short: register("classified_short", short),
        slow_path: register("classified_slow_path", slow_path),
        ipv6: register("classified_ipv6", route.ipv6),
        tags: register("classified_tags", tags),
        trimmed: register("classified_trimmed", trimmed),
        ip_end: register("classified_ip_end", ip_end),
        end: register("classified_end", window.end),
        behind_bth: register("classified_behind_bth", behind_bth),
        checksum_parts: checksum_parts(parser, &layouts, window).map(|[first, second, single]| {
            [
                register("checksum_first", first),
                register("checksum_second", second),
                register("checksum_single", single),
            ]
        }),
        holds_udp: register("holds_udp", holds(UDP_BYTES)),
        holds_bth: register("holds_bth", holds(UDP_BYTES + BTH_BYTES)),
        ip_payload: register("ip_payload", (wide + by_version(0, -i64::from(IPV4_BYTES))).part(0, 16)),
        body: register("body", body),
        ip_behind_bth: register("ip_behind_bth", ip_behind_bth),
        unpadded: register("unpadded", unpadded),
        bth_end_words: register(
            "bth_end_words",
            layouts.choose(|layout| m.lit((layout.bth_end() - 2) / 4, 5)),
        ),
        opcode: OpcodeFacts {
            known: register("known", opcode.known),
            has_payload: register("has_payload", opcode.has_payload),
            takes_psn: register("takes_psn", opcode.takes_psn),
            extension_words: register("words", opcode.extension_words),
        },
        network: register("network", network),
        transport: register("transport", transport),
    }
}

/// The ten words of an IPv4 header, added to three sums: four pairs were added when they came in.
fn checksum_parts<'a>(parser: &PacketParser, layouts: &Layouts<'a>, window: &Window<'a>) -> Option<[Signal<'a>; 3]> {
    if !parser.ipv4 {
        return None;
    }
    let network = |tags| parser.layout(false, tags).network();
    let pair = |index: u32| layouts.by_tags(|tags| window.pair_sum(network(tags) + 2 + 4 * index));
    let word = |at: u32| layouts.by_tags(|tags| number(window.bytes(network(tags) + at, 2), 0, 2));
    Some([
        pair(0).add_wide(pair(1)),
        pair(2).add_wide(pair(3)),
        word(0).add_wide(word(18)),
    ])
}
