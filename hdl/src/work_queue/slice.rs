//! Steps of a slice: what its queue pair would send, whether it has credit and tokens, and what is given then.

use super::engine::{Engine, Step};
use super::turns::{in_credit, quantum};
use crate::counter::{Counter, count_more, count_when};
use crate::fields::Fields;
use spraynic_config::descriptor::{RateRequest, WorkSlice};
use spraynic_rtl::{Signal, cat};

/// From the first PSN of the oldest request that is not complete to the next one to be sent there are at most so many.
const MAX_SPAN: u32 = 1 << 23;

/// What is known of the slice.
struct Part<'a> {
    lost: Signal<'a>,
    again: Signal<'a>,
    psn: Signal<'a>,
    index: Signal<'a>,
    left: Signal<'a>,
    packets: Signal<'a>,
    psns: Signal<'a>,
    cost: Signal<'a>,
}

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let part = Part {
        lost: m.reg("part_lost", 1),
        again: m.reg("part_again", 1),
        psn: m.reg("part_psn", 24),
        index: m.reg("part_index", 24),
        left: m.reg("part_left", 24),
        packets: m.reg("part_packets", 5),
        psns: m.reg("part_psns", 24),
        cost: m.reg("part_cost", 13),
    };
    begin(e, at);
    scan(e, &part, at);
    cut(e, &part, at);
    ask(e, &part, at);
    commit(e, &part, at);
}

/// The queue pair has nothing that it may send: it loses its place, and what it saved.
fn unlist(e: &Engine<'_>) {
    e.turns.pop(e.class);
    e.q("listed").set_lit(0);
    let deficit = e.q("deficit");
    e.m.when(!deficit.msb(), || deficit.set_lit(0));
    e.go(Step::Store);
}

fn begin<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let sends = e.q("state").eq_lit(3) & !e.q("waits");
    let lost = e.q("lost_words").any();
    let posted = e.q("cut").ne(e.q("tail"));
    m.when(at(Step::Execute) & e.kind.slice, || {
        m.when(e.q("class").ne(e.class), || {
            // It was opened again in another class.
            e.turns.pop(e.class);
            e.q("listed").set_lit(0);
            e.go(Step::Wake);
        })
        .else_when(sends & lost, || {
            e.lost.word.set(e.word_of(e.q("base")));
            e.go(Step::ScanLost);
        })
        .else_when(sends & posted, || e.read_slot(e.q("cut"), Step::CutRead))
        .otherwise(|| unlist(e));
    });
}

/// PSN of the bit that the scan has found.
pub(super) fn scanned_psn<'a>(e: &Engine<'a>) -> Signal<'a> {
    let one_hot = e.lost.found;
    let bits: Vec<Signal<'a>> = (0..6u32)
        .map(|bit| {
            let places = (0..64u32).filter(|place| place >> bit & 1 == 1);
            places.fold(e.m.low(), |any, place| any | one_hot.bit(place))
        })
        .collect();
    let low = cat(&bits.into_iter().rev().collect::<Vec<_>>());
    let place = (e.lost.word.zero_extend(16) << 6).part(0, e.sizes.window) | low.zero_extend(e.sizes.window);
    let base = e.q("base");
    let ahead = place - base.part(0, e.sizes.window);
    base + ahead.zero_extend(24)
}

/// The lowest lost packet: from the word of `base` on, around the window.
fn scan<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let first = m.reg("scan_first", 1).doc("the word of `base`, for the first time");
    m.when(at(Step::Execute), || first.set_lit(1));
    let next_word = || {
        let words = e.lost.word.lit(e.sizes.words - 1);
        e.lost.word.set((e.lost.word + e.lost.word.lit(1)) & words);
        first.set_lit(0);
        e.go(Step::ScanLost);
    };
    m.when(at(Step::ScanLost), || {
        m.when(e.lost_flag(e.lost.word), || {
            e.lost.read.set_lit(1);
            e.go(Step::ScanLostRead);
        })
        .otherwise(next_word);
    });
    let from_base = m.lit(u64::MAX, 64) << e.q("base").part(0, 6);
    let candidates = (e.lost.data & first.mux(from_base, m.lit(u64::MAX, 64))).named("lost_candidates");
    let lowest = candidates & (!candidates + m.lit(1, 64));
    m.when(at(Step::ScanLostRead), || {
        e.lost.found.set(lowest);
        m.when(candidates.any(), || e.go(Step::ScanLostFound))
            .otherwise(next_word);
    });
    m.when(at(Step::ScanLostFound), || {
        part.psn.set(scanned_psn(e));
        e.walk.set(e.q("head"));
        e.go(Step::Find);
    });
    m.when(at(Step::LostFound), || {
        part.lost.set_lit(1);
        part.again.set_lit(1);
        part.index.set(part.psn - e.slot.get("first_psn"));
        part.packets.set_lit(1);
        e.go(Step::CutBytes);
    });
}

/// A number of packets as bytes, by the MTU code.
fn bytes_of<'a>(packets: Signal<'a>, mtu: Signal<'a>, width: u32) -> Signal<'a> {
    let choices: Vec<Signal<'a>> = (0..8u32)
        .map(|code| packets.zero_extend(width) << (7 + code.clamp(1, 5)))
        .collect();
    mtu.select(&choices)
}

/// What may be sent of the request at the cut.
fn cut<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let (psns, responds) = (e.slot.get("psns"), e.slot.get("responds"));
    let index = (e.q("cut_psn") - e.slot.get("first_psn")).named("cut_index");
    let passed = psns.le(index);
    let flying = (e.q("next_psn") - e.q("base")).delayed("flying");
    let span = e.offset(e.q("next_psn")).delayed("span");
    let behind = (e.q("next_psn") - e.q("cut_psn")).delayed("behind");
    m.when(at(Step::CutRead), || {
        part.lost.set_lit(0);
        part.psn.set(e.q("cut_psn"));
        part.index.set(index);
        part.left.set(psns - index);
        part.again.set(e.q("cut_psn").ne(e.q("next_psn")));
        e.go(Step::CutRoom);
        m.when(passed, || {
            e.q("cut").set(e.q("cut") + e.q("cut").lit(1));
            e.go(Step::Execute);
        });
    });
    let window = e.q("window").zero_extend(24);
    let in_window = (window - flying).gate(flying.lt(window));
    let in_span = m.lit(MAX_SPAN, 24) - span;
    let room = part.again.mux(behind, in_window.lt(in_span).mux(in_window, in_span));
    let room = room.delayed("room");
    let reads = e.q("reads");
    let request = e.slot_request();
    let full = responds & e.q("reads_allowed").le(reads);
    let blocked = (!part.again & !part.index.any() & ((request.get("fence") & reads.any()) | full)).delayed("blocked");
    // A READ of roce takes the PSNs of its responses: all of them fit, or it goes alone.
    let roce_read = part.left.le(in_window) | !flying.any();
    let fits = (part.again | (roce_read & part.left.le(in_span))).delayed("read_fits");
    m.when(at(Step::CutRoom), || e.go(Step::CutPackets));
    let most: Vec<Signal<'a>> = (0..8u32).map(|code| m.lit(32u32 >> code.clamp(1, 5), 24)).collect();
    let most = e.q("mtu").select(&most);
    let fewer = part.left.lt(room).mux(part.left, room);
    let packets = fewer.lt(most).mux(fewer, most);
    let sends = !blocked & responds.mux(fits, room.any());
    m.when(at(Step::CutPackets), || {
        part.packets.set(responds.mux(m.lit(1, 5), packets.part(0, 5)));
        part.psns.set(responds.mux(part.left, packets));
        m.when(sends, || e.go(Step::CutBytes)).otherwise(|| unlist(e));
    });
    let whole = bytes_of(part.packets, e.q("mtu"), 32);
    let left = request.get("length") - bytes_of(part.index, e.q("mtu"), 32);
    let payload = left.lt(whole).mux(left, whole).part(0, 13).gate(!responds);
    let cost = payload + (part.packets.zero_extend(13) << 6);
    m.when(at(Step::CutBytes), || {
        part.cost.set(cost);
        e.go(Step::Credit);
    });
}

/// Deficit and tokens.
fn ask<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let deficit = e.q("deficit");
    let with_share = (deficit + quantum(e.q("weight"))).named("deficit_with_share");
    m.when(at(Step::Credit), || {
        e.go(Step::Ask);
        m.when(!in_credit(deficit), || {
            deficit.set(with_share);
            m.when(!in_credit(with_share), || e.go(Step::Rotate));
        });
    });
    let asks = at(Step::Ask);
    e.asks.valid.set(asks);
    let fields = Fields::build::<RateRequest>(|name, width| match name {
        "qpn" => e.qpn,
        "class" => e.q("class"),
        "bytes" => part.cost.zero_extend(24),
        _ => m.lit(0, width),
    });
    e.asks.data.set(fields.pack());
    m.when(asks & e.asks.ready, || e.go(Step::Grant));
    let waits = at(Step::Grant);
    e.grants.ready.set(waits);
    let grant = e.grants.data;
    m.when(waits & e.grants.valid, || {
        m.when(grant.eq_lit(0), || e.go(Step::Commit))
            .else_when(grant.eq_lit(1), || {
                e.turns.park(e.class, e.qpn.part(0, e.sizes.qpn));
                e.go(Step::Store);
            })
            .otherwise(|| {
                e.turns.rest(e.class);
                e.go(Step::Store);
            });
    });
}

fn commit<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let commits = at(Step::Commit);
    let new = !part.again;
    let end = part.psn + part.psns;
    // The window is full behind it: all of this has stood in registers since Step::CutPackets.
    let fills = (end - e.q("base"))
        .ge(e.q("window").zero_extend(24))
        .delayed("fills_the_window");
    let slice = Fields::build::<WorkSlice>(|name, width| match name {
        "index" => part.index,
        "packets" => part.packets.zero_extend(8),
        "psn" => part.psn,
        "slot" => e.slot_of(e.walk).zero_extend(8),
        "msn" => e.slot.get("msn"),
        "rqmsn" => e.slot.get("rqmsn"),
        "entropy" | "profile" | "mtu" | "timestamps" | "class" => e.q(name),
        "retransmission" => part.again,
        "ask" => fills & !part.lost,
        _ => m.lit(0, width),
    });
    let cost = part.cost.zero_extend(super::state::DEFICIT_BITS);
    let deficit = e.q("deficit") - cost;
    m.when(commits, || {
        e.slice_valid.set_lit(1);
        e.slice_out.set(cat(&[slice.pack(), e.slot.get("request")]));
        e.turns.charge(e.class, cost);
        e.q("deficit").set(deficit);
        e.go(Step::Store);
        m.when(!in_credit(deficit), || e.go(Step::Rotate));
        m.when(part.lost, || {
            e.lost.write.set_lit(1);
            let kept = e.lost.data & !e.lost.found;
            e.lost.value.set(kept);
            e.set_lost_flag(e.lost.word, kept.any());
        })
        .otherwise(|| {
            e.q("cut_psn").set(end);
            let next = e.q("cut") + e.q("cut").lit(1);
            let cut = part.psns.eq(part.left).mux(next, e.q("cut"));
            e.q("cut").set(cut);
            m.when(new, || {
                e.q("next_psn").set(end);
                e.q("frontier").set(cut);
                let responds = e.slot.get("responds").zero_extend(5);
                e.q("reads").set(e.q("reads") + responds);
            });
        });
    });
    m.when(at(Step::Rotate), || {
        e.turns.rotate(e.class);
        e.go(Step::Store);
    });
    count_when(m, Counter("slices", "slices given"), commits);
    for (name, doc, event) in [
        ("packets", "packets of slices given", commits),
        (
            "retransmissions",
            "packets of slices that were sent before",
            commits & part.again,
        ),
    ] {
        count_more(m, Counter(name, doc), event, part.packets);
    }
}
