//! Second stage behind the window: makes every check of a datapath packet, and its descriptor.
//!
//! Reasons to drop a frame are tried in the order of the counters; that one of them applies is known without that order.

use super::classify::{Classified, number};
use super::lanes::at_least;
use super::{POSITION_BITS, PacketParser, counter};
use crate::counter::Counter;
use crate::fields::Fields;
use spraynic_config::descriptor::ReceivedPacket;
use spraynic_config::{BTH_BYTES, UDP_BYTES};
use spraynic_rtl::{Module, Signal, cat, cat_lsb_first};

/// Bits of the number of a word of 4 bytes where payload can begin.
const WORD_BITS: u32 = 5;
/// Bits of the number of the last payload byte.
const LENGTH_BITS: u32 = 12;

/// Where the payload of a frame is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// There is some.
    pub(super) any: Signal<'a>,
    /// It begins 2 bytes and this many words of 4 bytes behind the beginning of the frame.
    pub(super) word: Signal<'a>,
    /// Its bytes, less one.
    pub(super) length_less_1: Signal<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.any, self.word, self.length_less_1])
    }

    pub(super) fn unpack(packed: Signal<'a>) -> Self {
        Self {
            any: packed.bit(0),
            word: packed.part(1, WORD_BITS),
            length_less_1: packed.part(1 + WORD_BITS, LENGTH_BITS),
        }
    }
}

/// What is known of a frame at last.
pub(super) struct Judged<'a> {
    /// A frame has ended, and `dropped` is valid.
    pub(super) ended: Signal<'a>,
    /// It is dropped; of a frame for the host: the MAC marked it bad.
    pub(super) dropped: Signal<'a>,
    /// A packet for the datapath has ended: `descriptor` is valid.
    pub(super) accepted: Signal<'a>,
    /// One clock later than `ended`: it was no packet for the datapath.
    pub(super) refused: Signal<'a>,
    /// `ReceivedPacket`.
    pub(super) descriptor: Signal<'a>,
    /// `place` is valid: the headers of a frame are there, or it has ended.
    pub(super) placed: Signal<'a>,
    pub(super) place: Place<'a>,
    /// Counters, and when each goes up.
    pub(super) counters: Vec<(Counter, Signal<'a>)>,
}

pub(super) fn judge<'a>(m: Module<'a>, parser: &PacketParser, packet: &Classified<'a>) -> Judged<'a> {
    let bth = |at: u32| packet.transport.part((UDP_BYTES + at) * 8, 8);
    let bth_number = |at: u32, count: u32| number(packet.transport, UDP_BYTES + at, count);
    let facts = &packet.opcode;
    let trimmed = packet.trimmed.any();
    let whole = !trimmed;

    // Bytes between headers and ICRC by the IP length, and payload without padding: negative where headers do not fit.
    let extension_bytes = cat(&[facts.extension_words, m.lit(0, 2)]).zero_extend(POSITION_BITS);
    let body = (packet.body - extension_bytes).named("body_length");
    let payload = (packet.unpadded - extension_bytes).named("payload_length");
    let most = payload.part(0, POSITION_BITS - 1);
    let too_long = at_least(most, parser.max_payload + 1) | (!facts.has_payload & body.any());

    // Of a trimmed packet there is what the frame has and the IP length says.
    let bth_is_there = (packet.holds_bth & !packet.behind_bth.msb()).named("bth_is_there");
    // Extension headers are whole words, at most 9 of them: their upper bits are compared, and nothing is subtracted before.
    let holds_extension = |bytes: Signal<'a>| {
        let (words, more) = (bytes.part(2, 4), bytes.part(6, bytes.width() - 7).any());
        !bytes.msb() & (more | words.ge(facts.extension_words))
    };
    let extension_is_there = holds_extension(packet.ip_behind_bth) & holds_extension(packet.behind_bth);
    let words = facts
        .extension_words
        .gate(whole | extension_is_there)
        .named("given_extension_words");

    let datapath = !packet.short & !packet.slow_path;
    let too_far = packet.ended & packet.ip_end.gt(packet.end);
    let reasons: [(&str, Signal<'a>); 13] = [
        ("drop_mac", packet.ended & packet.bad),
        ("drop_short", packet.short),
        ("drop_ip_checksum", datapath & checksum_wrong(m, packet)),
        ("drop_ip_length", datapath & whole & (!packet.holds_udp | too_far)),
        (
            "drop_udp_length",
            datapath & whole & number(packet.transport, 4, 2).ne(packet.ip_payload),
        ),
        ("drop_short", datapath & trimmed.mux(!bth_is_there, !packet.holds_bth)),
        ("drop_version", datapath & bth(1).part(0, 4).any()),
        ("drop_opcode", datapath & !facts.known),
        ("drop_trimmed", datapath & trimmed & !facts.takes_psn),
        ("drop_short", datapath & whole & body.msb()),
        ("drop_pad", datapath & whole & payload.msb()),
        ("drop_payload", datapath & whole & too_long),
        ("drop_pad", datapath & whole & packet.ip_payload.part(0, 2).any()),
    ];
    let dropped = cat_lsb_first(&reasons.map(|(_, applies)| applies))
        .any()
        .named("dropped");
    let accepted = (packet.ended & datapath & !dropped).named("accepted");

    // One clock later: counters and the place of the payload.
    let later = |name: &str, value: Signal<'a>| value.delayed(name);
    let event = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        register.set(value);
        register
    };
    let found: Vec<_> = reasons.iter().map(|(_, applies)| *applies).collect();
    let found = later("reasons", cat_lsb_first(&found));
    let ended = event("judged_ended", packet.ended);
    let packet_ended = event("judged_packet", accepted);
    let host = event("judged_slow_path", packet.ended & packet.slow_path & !packet.bad);
    let mut counters = vec![
        (counter("frames", "frames taken"), ended),
        (
            counter("packets", "packets given to the datapath, trimmed ones included"),
            packet_ended,
        ),
        (counter("slow_path", "frames given to the host"), host),
    ];
    for (name, doc) in DROPS {
        let of_name = reasons.iter().enumerate().filter(|(_, (reason, _))| reason == name);
        let first = of_name.map(|(index, _)| {
            let before = found.part(0, index as u32 + 1);
            // The first that applies: it does, and none before it.
            before.eq_lit(1u32 << index)
        });
        let first = first.reduce(|one, other| one | other).unwrap_or(m.low());
        counters.push((counter(name, doc), (ended & first).named(name)));
    }

    let length_less_1 = payload.part(0, LENGTH_BITS + 1) - payload.lit(1).part(0, LENGTH_BITS + 1);
    let place = Place {
        any: later("place_any", datapath & whole & !dropped & payload.any()),
        word: later(
            "place_word",
            packet.bth_end_words + facts.extension_words.zero_extend(WORD_BITS),
        ),
        length_less_1: later("place_length_less_1", length_less_1.part(0, LENGTH_BITS)),
    };
    Judged {
        ended: packet.ended,
        dropped,
        accepted,
        refused: ended & !packet_ended,
        descriptor: descriptor(m, parser, packet, words, payload.gate(whole), bth, bth_number),
        placed: event("placed", packet.first),
        place,
        counters,
    }
}

/// Counters of dropped frames.
const DROPS: &[(&str, &str)] = &[
    ("drop_mac", "frames that the MAC marked bad"),
    (
        "drop_short",
        "frames that end in a header, or whose datagram ends in one or in the ICRC",
    ),
    ("drop_ip_checksum", "wrong IPv4 header checksum"),
    (
        "drop_ip_length",
        "IP length that does not hold its headers or exceeds the frame",
    ),
    ("drop_udp_length", "UDP length that is not what the IP length leaves"),
    ("drop_version", "transport version other than 0"),
    ("drop_opcode", "opcode that no profile of this NIC has"),
    ("drop_trimmed", "trimmed, with an opcode that takes no PSN"),
    (
        "drop_pad",
        "pad count beyond what is there, or payload and padding no multiple of 4",
    ),
    (
        "drop_payload",
        "payload where the opcode has none, or over the largest MTU",
    ),
];

/// IPv4: the words of the header do not sum up to 0xFFFF \[RFC 1071\].
fn checksum_wrong<'a>(m: Module<'a>, packet: &Classified<'a>) -> Signal<'a> {
    let Some([first, second, single]) = packet.checksum_parts else {
        return m.low();
    };
    // Three addends to two, then one adder.
    let [first, second, single] = [first, second, single].map(|part| part.zero_extend(19));
    let carries = (first & second) | (first & single) | (second & single);
    let sum = (first ^ second ^ single).add_wide(cat(&[carries, m.low()])).part(0, 20);
    let sum = sum.named("checksum_sum");
    // Ten words: the upper 4 bits are at most 9, so that folding carries once at most, and gives 0xFFFF only where the lower
    // bits are the complement of the upper ones.
    let right = sum.part(4, 12).all() & sum.part(0, 4).eq(!sum.part(16, 4));
    !packet.ipv6 & !right
}

/// The descriptor without what stands behind its extension headers: done behind the queue, because their number is known late.
pub(super) fn clear_behind_extension(descriptor: Signal<'_>) -> Signal<'_> {
    let fields = Fields::unpack::<ReceivedPacket>(descriptor);
    let (words, bytes) = (fields.get("extension_words"), fields.get("extension"));
    let extension: Vec<_> = (0..super::EXTENSION_BYTES / 4)
        .map(|word| bytes.part(32 * word, 32).gate(at_least(words, word + 1)))
        .collect();
    fields.with("extension", cat_lsb_first(&extension)).pack()
}

/// The descriptor with all bytes behind the BTH as extension headers: see [`clear_behind_extension`].
fn descriptor<'a>(
    m: Module<'a>,
    parser: &PacketParser,
    packet: &Classified<'a>,
    words: Signal<'a>,
    payload: Signal<'a>,
    bth: impl Fn(u32) -> Signal<'a>,
    bth_number: impl Fn(u32, u32) -> Signal<'a>,
) -> Signal<'a> {
    let network = packet.network;
    let by_version = |ipv6: &dyn Fn() -> Signal<'a>, ipv4: &dyn Fn() -> Signal<'a>| match (parser.ipv6, parser.ipv4) {
        (true, true) => packet.ipv6.mux(ipv6(), ipv4()),
        (true, false) => ipv6(),
        _ => ipv4(),
    };
    let traffic_class = by_version(&|| cat(&[network.part(0, 4), network.part(12, 4)]), &|| {
        network.part(8, 8)
    });
    let flow_label = by_version(
        &|| cat(&[network.part(8, 4), network.part(16, 8), network.part(24, 8)]),
        &|| m.lit(0, 20),
    );
    let source = by_version(&|| number(network, 8, 16), &|| number(network, 12, 4).zero_extend(128));
    let destination = by_version(&|| number(network, 24, 16), &|| number(network, 16, 4).zero_extend(128));
    // C0 to DF: the bit order of mrc.
    let mrc = bth(0).part(5, 3).eq_lit(6);
    let high = bth(1).part(6, 2);
    let extension = packet
        .transport
        .part((UDP_BYTES + BTH_BYTES) * 8, super::EXTENSION_BYTES * 8);
    Fields::build::<ReceivedPacket>(|name, width| match name {
        "qpn" => bth_number(5, 3),
        "opcode" => bth(0),
        "psn" => bth_number(9, 3),
        "partition_key" => bth_number(2, 2),
        "solicited" => mrc.mux(high.bit(0), high.bit(1)),
        "migration" => mrc.mux(high.bit(1), high.bit(0)),
        "ack_request" => bth(8).bit(7),
        "retransmission" => bth(8).bit(5),
        "timestamped" => bth(8).bit(4),
        "fecn" => bth(4).bit(7),
        "becn" => bth(4).bit(6),
        "ipv6" => packet.ipv6,
        "ecn" => traffic_class.part(0, 2),
        "dscp" => traffic_class.part(2, 6),
        "trimmed" => packet.trimmed,
        "vlan_tags" => packet.tags,
        "extension_words" => words,
        "payload_length" => payload.part(0, width),
        "udp_source_port" => number(packet.transport, 0, 2),
        "flow_label" => flow_label,
        "source_ip" => source,
        "destination_ip" => destination,
        "extension" => extension,
        _ => m.lit(0, width),
    })
    .pack()
}
