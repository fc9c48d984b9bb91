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
    begin(e, &part, at);
    scan(e, &part, at);
    cut(e, &part, at);
    ask(e, &part, at);
    commit(e, &part, at);
}

/// The queue pair has nothing that it may give: it loses its turn.
fn unlist(e: &Engine<'_>) {
    e.q("listed").set_lit(0);
    e.go(Step::Store);
}

fn begin<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let executes = at(Step::Execute) & e.kind.slice;
    m.when(executes, || {
        part.lost.set(e.lost.any());
        part.psn.set(e.q("next"));
        e.lost.go_to(e.q("floor"));
        m.when(e.closed, || unlist(e))
            .else_when(e.lost.any(), || e.go(Step::ScanLost))
            .else_when(e.q("sending").ne(e.q("count")), || e.await_message(Step::Cut))
            .otherwise(|| unlist(e));
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
    let index = index_in_response(e, part);
    m.when(at(Step::Find), || {
        part.index.set(index);
        e.go(Step::Found);
    });
    m.when(at(Step::Found), || {
        let within = part.index.lt(e.message.get("packets"));
        m.when(within, || e.go(Step::Cut))
            .otherwise(|| e.read_message(e.walk + e.walk.lit(1), Step::Find));
    });
}

fn index_in_response<'a>(e: &Engine<'a>, part: &Part<'a>) -> Signal<'a> {
    part.psn - e.message.get("psn")
}

/// A number of packets as bytes, by the MTU code.
fn bytes_of<'a>(packets: Signal<'a>, mtu: Signal<'a>, width: u32) -> Signal<'a> {
    let choices: Vec<Signal<'a>> = (0..8u32)
        .map(|code| packets.resize(width) << (7 + code.clamp(1, 5)))
        .collect();
    mtu.select(&choices)
}

/// How many packets, and where they lie.
fn cut<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let mtu = e.message.get("mtu");
    // In registers from the step before on.
    let flying = (e.q("next") - e.q("base")).delayed("flying");
    let window = e.q("window");
    let in_window = (window - flying.part(0, 11)).gate(flying.lt(window.zero_extend(24)));
    let in_window = in_window.delayed("room_in_window");
    let index = index_in_response(e, part);
    m.when(at(Step::Cut), || {
        part.index.set(index);
        part.room.set(part.lost.mux(m.lit(1, 11), in_window));
        e.go(Step::Room);
    });
    m.when(at(Step::Room), || {
        part.left.set(e.message.get("packets") - part.index);
        part.offset.set(bytes_of(part.index, mtu, 32));
        m.when(part.room.any(), || e.go(Step::Size)).otherwise(|| unlist(e));
    });
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
            e.go(Step::Store);
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
    m.when(commits, || {
        e.begins.set_lit(1);
        e.turns.turns.push(e.index);
        e.go(Step::Store);
        m.when(part.lost, || e.lost.take()).otherwise(|| {
            e.q("next").set(e.q("next") + part.packets.zero_extend(24));
            let sending = e.q("sending");
            sending.set(sending + part.ends.zero_extend(sending.width()));
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
