//! Steps of a slice: what its queue pair would give, whether it has tokens, and what is given then.

use super::engine::{Engine, Step};
use crate::counter::{Counter, count_more, count_when};
use crate::fields::Fields;
use spraynic_config::descriptor::RateRequest;
use spraynic_rtl::Signal;

/// What is known of the slice.
struct Part<'a> {
    lost: Signal<'a>,
    psn: Signal<'a>,
    /// Number of its first packet in the response.
    index: Signal<'a>,
    /// Bytes of the response before it.
    offset: Signal<'a>,
    /// Bytes of the response from it on.
    remaining: Signal<'a>,
    address: Signal<'a>,
    left: Signal<'a>,
    room: Signal<'a>,
    packets: Signal<'a>,
    ends: Signal<'a>,
    cost: Signal<'a>,
}

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let part = Part {
        lost: m.reg("part_lost", 1),
        psn: m.reg("part_psn", 24),
        index: m.reg("part_index", 24),
        offset: m.reg("part_offset", 32),
        remaining: m.reg("part_remaining", 32),
        address: m.reg("part_address", 64),
        left: m.reg("part_left", 24),
        room: m.reg("part_room", 11),
        packets: m.reg("part_packets", 5),
        ends: m.reg("part_ends", 1),
        cost: m.reg("part_cost", 13),
    };
    begin(e, &part);
    scan(e, &part, at);
    size(e, &part, at);
    ask(e, &part, at);
    commit(e, &part, at);
}

/// The next turn becomes the one at hand.
fn begin<'a>(e: &Engine<'a>, part: &Part<'a>) {
    let m = e.m;
    let ahead = &e.ahead;
    let lost = ahead.lost();
    m.when(e.slice_begins, || {
        part.lost.set(lost);
        part.psn.set(ahead.queue.get("next"));
        part.index.set(ahead.queue.get("given"));
        part.offset.set(ahead.offset);
        part.left.set(ahead.left);
        part.room.set(lost.mux(m.lit(1, 11), ahead.room));
        e.lost.go_to(ahead.queue.get("floor"));
        // The queue pair loses its turn if it has nothing that it may give.
        m.when(!ahead.gives, || e.go(Step::Unlist))
            .else_when(lost, || e.go(Step::ScanLost))
            .otherwise(|| e.go(Step::Size));
    });
}

/// The lowest lost packet, from the word of `floor` on around the window, and its response.
fn scan<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let floor = e.q("floor");
    m.when(at(Step::ScanLost), || {
        let fetched = e.lost.look();
        m.when(fetched, || e.go(Step::ScanLostRead));
    });
    m.when(at(Step::ScanLostRead), || {
        let found = e.lost.find(floor);
        e.go(Step::ScanLost);
        m.when(found, || e.go(Step::ScanLostFound));
    });
    m.when(at(Step::ScanLostFound), || {
        part.psn.set(e.lost.found_psn(floor));
        e.read_message(e.q("head"), Step::Find);
    });
    m.when(at(Step::Find), || {
        part.index.set(part.psn - e.message.get("psn"));
        e.go(Step::Found);
    });
    m.when(at(Step::Found), || {
        let packets = e.message.get("packets");
        part.left.set(packets - part.index);
        part.offset.set(bytes_of(part.index, e.message.get("mtu"), 32));
        m.when(part.index.lt(packets), || e.go(Step::Size))
            .otherwise(|| e.read_message(e.walk + e.walk.lit(1), Step::Find));
    });
}

/// A number of packets as bytes, by the MTU code.
pub(super) fn bytes_of<'a>(packets: Signal<'a>, mtu: Signal<'a>, width: u32) -> Signal<'a> {
    let choices: Vec<Signal<'a>> = (0..8u32)
        .map(|code| packets.resize(width) << (7 + code.clamp(1, 5)))
        .collect();
    mtu.select(&choices)
}

/// How many packets, and where they lie.
fn size<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let mtu = e.message.get("mtu");
    let most: Vec<Signal<'a>> = (0..8u32).map(|code| m.lit(32u32 >> code.clamp(1, 5), 11)).collect();
    let most = mtu.select(&most);
    let fewer = most.lt(part.room).mux(most, part.room).named("most_packets");
    let ends = part.left.le(fewer.zero_extend(24)).named("ends_response");
    m.when(at(Step::Size), || {
        part.packets.set(ends.mux(part.left.part(0, 5), fewer.part(0, 5)));
        part.ends.set(ends);
        part.remaining.set(e.message.get("byte_count") - part.offset);
        part.address.set(e.message.get("value") + part.offset.zero_extend(64));
        e.go(Step::Cost);
    });
    let whole = bytes_of(part.packets, mtu, 13);
    let payload = part.ends.mux(part.remaining.part(0, 13), whole);
    let payload = payload.gate(!e.message.get("atomic"));
    m.when(at(Step::Cost), || {
        part.cost.set(payload + (part.packets.zero_extend(13) << 6));
        e.go(Step::Ask);
    });
}

/// Asks for tokens.
fn ask<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let asks = at(Step::Ask);
    e.asks.valid.set(asks);
    let fields = Fields::build::<RateRequest>(|name, width| match name {
        "qpn" => e.qpn,
        "class" => e.q("class"),
        "bytes" => part.cost.zero_extend(width),
        "responses" => m.high(),
        _ => m.lit(0, width),
    });
    e.asks.data.set(fields.pack());
    m.when(asks & e.asks.ready, || e.go(Step::Grant));
    let waits = at(Step::Grant);
    e.grants.ready.set(waits);
    m.when(waits & e.grants.valid, || {
        m.when(e.grants.data.any(), || {
            e.turns.park(e.index);
            e.go(Step::Choose);
        })
        .otherwise(|| e.go(Step::Commit));
    });
}

fn commit<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let commits = at(Step::Commit);
    let begin = &e.begin;
    begin.packets.set(part.packets);
    begin.first.set(!part.index.any());
    begin.ends.set(part.ends);
    begin.qpn.set(e.qpn);
    begin.place.set(e.walk);
    begin.class.set(e.q("class"));
    begin.retransmission.set(part.lost);
    for (field, name) in [
        (begin.atomic, "atomic"),
        (begin.mtu, "mtu"),
        (begin.entropy, "entropy"),
        (begin.msn, "msn"),
    ] {
        field.set(e.message.get(name));
    }
    begin.psn.set(part.psn);
    begin.address.set(part.address);
    begin.remaining.set(part.remaining);
    // A queue pair that is alone goes on with what follows.
    let packets = part.packets.zero_extend(24);
    let sending = e.q("sending");
    let more_responses = (sending + sending.lit(1)).ne(e.q("count")).delayed("more_responses");
    let room_left = part.room.ne(part.packets.zero_extend(11)).delayed("room_is_left");
    let goes_on = (e.alone & room_left & (!part.ends | more_responses)).named("goes_on");
    let whole = bytes_of(part.packets, e.message.get("mtu"), 32);
    let [gives, given_packets, given_ends] = e.gives;
    m.when(commits, || {
        e.begins.set_lit(1);
        m.when(part.lost, || {
            e.lost.take();
            e.turns.turns.push(e.index);
            e.go(Step::Store);
        })
        .otherwise(|| {
            gives.set_lit(1);
            given_packets.set(packets);
            given_ends.set(part.ends);
            e.q("next").set(e.q("next") + packets);
            sending.set(sending + part.ends.zero_extend(sending.width()));
            e.q("given").set((e.q("given") + packets).gate(!part.ends));
            part.psn.set(part.psn + packets);
            part.room.set(part.room - part.packets.zero_extend(11));
            part.index.set((part.index + packets).gate(!part.ends));
            part.offset.set((part.offset + whole).gate(!part.ends));
            part.left
                .set(part.ends.mux(e.next_message().get("packets"), part.left - packets));
            m.when(part.ends, || e.go_to_next_message());
            m.when(goes_on, || e.go(Step::Size)).otherwise(|| {
                e.turns.turns.push(e.index);
                e.go(Step::Choose);
            });
        });
    });
    count_more(
        m,
        Counter("packets", "packets of slices begun, those given again included"),
        commits,
        part.packets,
    );
    count_when(
        m,
        Counter("retransmissions", "packets given again"),
        commits & part.lost,
    );
}
