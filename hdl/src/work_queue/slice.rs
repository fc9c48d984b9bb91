//! Steps of a slice: what its queue pair would send, whether it has credit and tokens, and what is given then.

use super::engine::{Engine, Step};
use super::turns::{debt, in_credit, quantum};
use crate::fields::Fields;
use spraynic_config::descriptor::{RateRequest, WorkSlice};
use spraynic_rtl::{Module, Signal, cat};

/// From the first PSN of the oldest request that is not complete to the next one to be sent there are at most so many.
const MAX_SPAN: u32 = 1 << 23;

/// What is known of the slice.
pub(super) struct Part<'a> {
    lost: Signal<'a>,
    again: Signal<'a>,
    psn: Signal<'a>,
    index: Signal<'a>,
    left: Signal<'a>,
    packets: Signal<'a>,
    psns: Signal<'a>,
    /// It has the last packet of its message.
    ends: Signal<'a>,
    cost: Signal<'a>,
}

impl<'a> Part<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        Self {
            lost: m.reg("part_lost", 1),
            again: m.reg("part_again", 1),
            psn: m.reg("part_psn", 24),
            index: m.reg("part_index", 24),
            left: m.reg("part_left", 24),
            packets: m.reg("part_packets", 5),
            psns: m.reg("part_psns", 24),
            ends: m
                .reg("part_ends", 1)
                .doc("the slice has the last packet of its message"),
            cost: m.reg("part_cost", 13),
        }
    }

    /// The slice is a packet that was lost.
    pub(super) fn lost_packet(&self, psn: Signal<'a>, index: Signal<'a>, ends: Signal<'a>) {
        self.lost.set_lit(1);
        self.again.set_lit(1);
        self.psn.set(psn);
        self.index.set(index);
        self.packets.set_lit(1);
        self.ends.set(ends);
    }
}

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    begin(e, at);
    scan(e, at);
    cut(e, part, at);
    bytes(e, part, at);
    ask(e, part, at);
}

/// The queue pair has nothing that it may send: it loses its place, and what it saved.
fn unlist(e: &Engine<'_>) {
    e.turns.pop(e.class);
    e.q("listed").set_lit(0);
    e.q("deficit").set(debt(e.q("deficit")));
    e.go(Step::Choose);
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
            e.q("turn_over").set_lit(0);
            e.go(Step::Wake);
        })
        .else_when(e.q("turn_over"), || {
            // It stayed the first one of its class until its last slice was granted.
            m.when(!e.follows, || {
                e.q("turn_over").set_lit(0);
                e.turns.rotate(e.class);
            });
            e.go(Step::Choose);
        })
        .else_when(e.q("refused"), || {
            // Its bucket holds too little: it waits, with what was undone.
            e.q("refused").set_lit(0);
            e.turns.park(e.class, e.qpn.part(0, e.sizes.qpn));
            e.go(Step::Choose);
        })
        .else_when(sends & lost, || {
            e.lost.word.set(e.word_of(e.q("base")));
            e.go(Step::ScanLost);
        })
        .else_when(sends & posted & e.cut_fetched, || {
            e.slot_load.set_lit(1);
            e.walk.set(e.q("cut"));
            e.go(Step::CutRead);
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
fn scan<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
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
        e.walk.set(e.q("head"));
        e.go(Step::Find);
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
    m.when(at(Step::CutRead), || {
        part.lost.set_lit(0);
        part.psn.set(e.q("cut_psn"));
        part.index.set(index);
        part.left.set(psns - index);
        part.again.set(e.q("cut_psn").ne(e.q("next_psn")));
        e.go(Step::CutPackets);
        m.when(passed, || {
            e.q("cut").set(e.q("cut") + e.q("cut").lit(1));
            e.go(Step::Execute);
        });
    });
    // The room depends on the queue pair alone, which stands in its registers two clocks before.
    let flying = (e.q("next_psn") - e.q("base")).delayed("flying");
    let span = e.offset(e.q("next_psn")).delayed("span");
    let behind = (e.q("next_psn") - e.q("cut_psn")).delayed("behind");
    let window = e.q("window").zero_extend(24);
    let in_window_now = (window - flying).gate(flying.lt(window));
    let in_span_now = m.lit(MAX_SPAN, 24) - span;
    let in_both = in_window_now
        .lt(in_span_now)
        .mux(in_window_now, in_span_now)
        .delayed("room_of_new");
    let in_window = in_window_now.delayed("room_in_window");
    let in_span = in_span_now.delayed("room_in_span");
    let nothing_flies = (!flying.any()).delayed("nothing_flies");
    let room = part.again.mux(behind, in_both).named("room");
    let reads = e.q("reads");
    let request = e.slot_request();
    let full = responds & e.q("reads_allowed").le(reads);
    let blocked = !part.again & !part.index.any() & ((request.get("fence") & reads.any()) | full);
    // A READ of roce takes the PSNs of its responses: all of them fit, or it goes alone.
    let fits = part.again | ((part.left.le(in_window) | nothing_flies) & part.left.le(in_span));
    let most: Vec<Signal<'a>> = (0..8u32).map(|code| m.lit(32u32 >> code.clamp(1, 5), 24)).collect();
    let most = e.q("mtu").select(&most);
    let fewer = part.left.lt(room).mux(part.left, room);
    let packets = fewer.lt(most).mux(fewer, most);
    let sends = !blocked & responds.mux(fits, room.any());
    m.when(at(Step::CutPackets), || {
        part.packets.set(responds.mux(m.lit(1, 5), packets.part(0, 5)));
        part.psns.set(responds.mux(part.left, packets));
        part.ends.set(responds | (part.left.le(room) & part.left.le(most)));
        m.when(sends, || e.go(Step::CutBytes)).otherwise(|| unlist(e));
    });
}

/// What it costs, and whether the queue pair has credit; if not, its turn brings its share, and if not even that is enough, the next one is first.
fn bytes<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let whole = bytes_of(part.packets, e.q("mtu"), 13);
    // What is left of a message at its last slice is at most a slice.
    let left = e.slot_request().get("length").part(0, 13) - bytes_of(part.index.part(0, 13), e.q("mtu"), 13);
    let payload = part.ends.mux(left, whole).gate(!e.slot.get("responds"));
    let cost = payload + (part.packets.zero_extend(13) << 6);
    let deficit = e.q("deficit");
    let with_share = (deficit + quantum(e.q("weight"))).named("deficit_with_share");
    m.when(at(Step::CutBytes), || {
        part.cost.set(cost);
        e.go(Step::Ask);
        m.when(!in_credit(deficit), || {
            deficit.set(with_share);
            m.when(!in_credit(with_share), || {
                e.turns.rotate(e.class);
                e.go(Step::Choose);
            });
        });
    });
}

/// The slice is asked for, and taken as granted: its queue pair goes on behind it.
fn ask<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let asks = at(Step::Ask);
    e.asks.valid.set(asks);
    let fields = Fields::build::<RateRequest>(|name, width| match name {
        "qpn" => e.qpn,
        "class" => e.q("class"),
        "follows" => e.follows,
        "bytes" => part.cost.zero_extend(24),
        _ => m.lit(0, width),
    });
    e.asks.data.set(fields.pack());

    let new = !part.again;
    let end = part.psn + part.psns;
    // The window is full behind it.
    let ahead = (e.q("cut_psn") - e.q("base")).delayed("cut_ahead");
    let fills = (ahead + part.psns)
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
    let responds = e.slot.get("responds");
    let cost = part.cost.zero_extend(super::state::DEFICIT_BITS);
    let deficit = e.q("deficit") - cost;
    m.when(asks & e.asks.ready, || {
        let undo = [
            ("psn", part.psn),
            ("place", e.walk),
            ("cost", part.cost),
            ("new", new),
            ("lost", part.lost),
            ("responds", responds),
        ];
        e.asked
            .push(cat(&[slice.pack(), e.slot.get("request")]), e.follows, &undo);
        e.turns.charge(e.class, cost);
        e.q("deficit").set(deficit);
        // Where the class may refuse it, the queue pair must be the first one still when that is known.
        let limited = e.turns.limited(e.class);
        m.when(!in_credit(deficit), || {
            m.when(limited, || e.q("turn_over").set_lit(1))
                .otherwise(|| e.turns.rotate(e.class));
        });
        e.go(Step::Choose);
        e.known.set_lit(0);
        m.when(part.lost, || {
            e.lost.write.set_lit(1);
            // Of a known one nothing else stands in the word.
            let kept = (e.lost.data & !e.lost.found).gate(!e.known);
            e.lost.value.set(kept);
            e.set_lost_flag(e.lost.word, kept.any());
        })
        .otherwise(|| {
            e.q("cut_psn").set(end);
            let next = e.q("cut") + e.q("cut").lit(1);
            let cut = part.ends.mux(next, e.q("cut"));
            e.q("cut").set(cut);
            m.when(new, || {
                e.q("next_psn").set(end);
                e.q("frontier").set(cut);
                e.q("reads").set(e.q("reads") + responds.zero_extend(5));
            });
        });
    });
}
