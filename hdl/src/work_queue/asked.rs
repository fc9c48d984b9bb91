//! Slices that were asked for: here they wait for their grants, and then for the port. Those that are refused wait until they are undone.
//! It never changes anything of a queue pair.

use super::state::Sizes;
use crate::counter::{Counter, count_more, count_when};
use crate::fields::Fields;
use crate::record::Record;
use spraynic_config::descriptor::{Descriptor, WorkRequest, WorkSlice};
use spraynic_rtl::{MemoryStyle, Module, Signal, Stream};

/// Slices that wait for grants and for the port: a grant comes some ten clocks behind its request, a slice each eight.
const PLACES: u32 = 4;

/// Bits of a place.
const PLACE_BITS: u32 = PLACES.trailing_zeros();

/// Slices that were asked for.
pub(super) struct Asked<'a> {
    /// There is a place for one more.
    pub(super) free: Signal<'a>,
    /// A slice of the queue pair at hand waits for its grant, or is to be undone.
    pub(super) locked: Signal<'a>,
    /// It is the last one of all, and none was refused: one more may follow it.
    pub(super) extends: Signal<'a>,
    /// One that was refused is to be undone.
    pub(super) refused: Signal<'a>,
    /// That one, and its queue pair.
    pub(super) undo: Record<'a>,
    pub(super) undo_qpn: Signal<'a>,
    /// The class refused it.
    pub(super) by_class: Signal<'a>,
    /// It followed one that was refused.
    pub(super) follower: Signal<'a>,
    undone: Signal<'a>,
    push: Signal<'a>,
    pushed: Signal<'a>,
    pushed_follows: Signal<'a>,
    pushed_undo: Signal<'a>,
}

/// What is needed to undo a slice.
#[track_caller]
pub(super) fn undo_record(m: Module<'_>, sizes: Sizes) -> Record<'_> {
    let fields = [
        ("psn", 24),
        ("place", sizes.place()),
        ("cost", 13),
        ("new", 1),
        ("lost", 1),
        ("responds", 1),
    ];
    Record::regs(m, "undo", &fields)
}

fn count_up<'a>(m: Module<'a>, pointer: Signal<'a>, when: Signal<'a>) {
    m.when(when, || pointer.set(pointer + pointer.lit(1)));
}

impl<'a> Asked<'a> {
    /// Between the grants and the port. `index` is the queue pair at hand.
    pub(super) fn new(m: Module<'a>, sizes: Sizes, index: Signal<'a>, grants: Stream<'a>, port: Stream<'a>) -> Self {
        let wire = |name: &str, width: u32| {
            let wire = m.wire(name, width);
            wire.set_lit(0);
            wire
        };
        let each = |name: &str, width: u32| -> Vec<Signal<'a>> {
            (0..PLACES)
                .map(|place| m.reg(&format!("asked_{place}_{name}"), width))
                .collect()
        };
        let pointer = |name: &str, doc: &str| m.reg(name, PLACE_BITS + 1).reset(0).doc(doc);
        let asked = pointer("asked", "slices asked for");
        let decided = pointer("decided", "of them granted or refused");
        let settled = pointer("settled", "of them granted, or refused and undone");
        let left = pointer("left", "of them gone to the port, or undone");
        let at = |pointer: Signal<'a>| pointer.part(0, PLACE_BITS);
        let (qpn, follows) = (each("qpn", sizes.qpn), each("follows", 1));
        let (granted, refused) = (each("granted", 1), each("refused", 1));
        let (by_class, follower) = (each("by_class", 1), each("follower", 1));
        let open: Vec<Signal<'a>> = each("open", 1).into_iter().map(|open| open.reset(0)).collect();

        // A slice is asked for.
        let push = wire("slice_asked", 1);
        let pushed = wire("slice_word", port.data.width());
        let pushed_follows = wire("slice_follows", 1);
        let record = undo_record(m, sizes);
        let pushed_undo = wire("slice_undo_word", record.width());
        count_up(m, asked, push);
        let slices = m
            .memory("asked_slices", PLACES, port.data.width())
            .style(MemoryStyle::Distributed);
        slices.write(push, at(asked), pushed);
        let undos = m
            .memory("asked_undos", PLACES, record.width())
            .style(MemoryStyle::Distributed);
        undos.write(push, at(asked), pushed_undo);

        // A grant. Whatever follows a refused one is refused.
        let decides = grants.fires().named("slice_decided");
        grants.ready.set(decided.ne(asked));
        let last_refused = m.reg("last_refused", 1).reset(0).doc("the last answer was a refusal");
        let dead = (at(decided).select(&follows) & last_refused).named("follows_a_refused_one");
        let good = (grants.data.eq_lit(0) & !dead).named("slice_granted");
        m.when(decides, || last_refused.set(!good));
        count_up(m, decided, decides);

        // One that was refused is undone.
        let undone = wire("slice_undone", 1);
        let waits =
            (settled.ne(decided) & at(settled).select(&refused) & at(settled).select(&open)).named("refused_waits");
        count_up(m, settled, settled.ne(decided) & !waits);
        record.load(undos.read_now(at(settled)));

        // A slice leaves by a register.
        let valid = m.reg("slice_valid", 1).reset(0);
        let out = m.reg("slice_out", port.data.width());
        port.valid.set(valid);
        port.data.set(out);
        let decided_now = decides & decided.eq(left);
        let any = left.ne(asked);
        let may_leave = at(left).select(&granted) | (decided_now & good);
        let leaves = (any & may_leave & (!valid | port.ready)).named("slice_leaves");
        let skipped = any & at(left).select(&refused) & !at(left).select(&open);
        count_up(m, left, leaves | skipped);
        let word = slices.read_now(at(left));
        m.when(leaves, || {
            valid.set_lit(1);
            out.set(word);
        })
        .else_when(port.ready, || valid.set_lit(0));
        let slice = Fields::unpack::<WorkSlice>(word.part(WorkRequest::width(), WorkSlice::width()));
        count_when(m, Counter("slices", "slices given"), leaves);
        for (name, doc, event) in [
            ("packets", "packets of slices given", leaves),
            (
                "retransmissions",
                "packets of slices that were sent before",
                leaves & slice.get("retransmission"),
            ),
        ] {
            count_more(m, Counter(name, doc), event, slice.get("packets"));
        }

        let (mut any_open, mut locked) = (m.low(), m.low());
        for place in 0..PLACES {
            let of = place as usize;
            m.when(push & at(asked).eq_lit(place), || {
                qpn[of].set(index);
                follows[of].set(pushed_follows);
                granted[of].set_lit(0);
                refused[of].set_lit(0);
                open[of].set_lit(1);
            });
            m.when(decides & at(decided).eq_lit(place), || {
                granted[of].set(good);
                refused[of].set(!good);
                by_class[of].set(grants.data.bit(1));
                follower[of].set(dead);
                m.when(good, || open[of].set_lit(0));
            });
            m.when(undone & at(settled).eq_lit(place), || open[of].set_lit(0));
            any_open = any_open | open[of];
            locked = locked | (open[of] & qpn[of].eq(index));
        }
        let refused_waits = waits.delayed("undo_waits") & waits;
        m.assert("undoes_what_was_refused", !undone | refused_waits);
        m.assert("slice_has_place", !push | !(asked - left).msb());
        let breaks = m
            .reg("chain_breaks", 1)
            .reset(0)
            .doc("one was refused: none follows until all are settled");
        m.when(!any_open, || breaks.set_lit(0));
        m.when(decides & !good, || breaks.set_lit(1));
        let last = at(asked) - m.lit(1, PLACE_BITS);
        let of_last = last.select(&open) & last.select(&qpn).eq(index);
        Self {
            free: (!(asked - left).msb()).named("place_for_a_slice"),
            locked: locked.named("queue_pair_locked"),
            extends: (of_last & !breaks).named("slice_may_follow"),
            refused: refused_waits,
            undo: record,
            undo_qpn: at(settled).select(&qpn),
            by_class: at(settled).select(&by_class),
            follower: at(settled).select(&follower),
            undone,
            push,
            pushed,
            pushed_follows,
            pushed_undo,
        }
    }

    /// A slice is asked for in this clock; `follows`: one of the same queue pair that was not decided when this one was begun.
    pub(super) fn push(&self, slice: Signal<'a>, follows: Signal<'a>, undo: &[(&str, Signal<'a>)]) {
        self.push.set_lit(1);
        self.pushed.set(slice);
        self.pushed_follows.set(follows);
        self.pushed_undo.set(self.undo.pack_with(undo));
    }

    /// The refused one is undone.
    pub(super) fn undone(&self) {
        self.undone.set_lit(1);
    }
}
