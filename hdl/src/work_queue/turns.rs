//! Whose turn it is: a list of queue pairs for each class, the deficits of the classes, and the queue pairs that wait for tokens.
//! The model's `turns.rs` says the rules; here one step of the choice is made in a clock.

use super::state::{DEFICIT_BITS, Sizes};
use spraynic_rtl::{Module, ReadDuringWrite, Signal, cat};

/// Traffic classes.
const CLASSES: u32 = 4;

/// Slices of a class that refused one, for which it may refuse again.
const LIMITED_SLICES: u32 = 15;

/// Nanoseconds after which whoever had no token is asked for again.
const RETRY_NS: u32 = 1024;

/// Bits of time that are enough to tell before from after.
const TIME_BITS: u32 = 32;

/// The lists and what the engine sees of them.
pub(super) struct Turns<'a> {
    m: Module<'a>,
    heads: Vec<Signal<'a>>,
    tails: Vec<Signal<'a>>,
    filled: Vec<Signal<'a>>,
    deficits: Vec<Signal<'a>>,
    /// Deficits with one share more.
    shared: Vec<Signal<'a>>,
    /// Classes whose turn it is if one of their queue pairs is listed now, but for their deficits.
    firsts: Vec<Signal<'a>>,
    /// No other class has anything to send.
    alone: Vec<Signal<'a>>,
    turn: Signal<'a>,
    begun: Signal<'a>,
    /// Slices for which a class that refused one may refuse again.
    limited: Vec<Signal<'a>>,
    rests: Vec<Signal<'a>>,
    rests_until: Vec<Signal<'a>>,
    now: Signal<'a>,
    strict: Signal<'a>,
    link_write: Signal<'a>,
    link_to: Signal<'a>,
    link_value: Signal<'a>,
    park: Signal<'a>,
    parked: Signal<'a>,
    /// A class may send; which, and the queue pair whose turn it is.
    pub(super) may: Signal<'a>,
    pub(super) class: Signal<'a>,
    pub(super) qpn: Signal<'a>,
    /// A queue pair has waited long enough for tokens; which. `due_taken` takes it off.
    pub(super) due: Signal<'a>,
    pub(super) due_qpn: Signal<'a>,
    pub(super) due_taken: Signal<'a>,
    /// The one behind the queue pair that was read.
    pub(super) link: Signal<'a>,
}

/// A weight as bytes; 0 counts as 1.
pub(super) fn quantum<'a>(weight: Signal<'a>) -> Signal<'a> {
    let m = weight.module();
    let weight = weight.any().mux(weight, m.lit(1, 8));
    cat(&[weight, m.lit(0, 12)]).zero_extend(DEFICIT_BITS)
}

/// A deficit of 0.
pub(super) fn nothing(m: Module<'_>) -> Signal<'_> {
    m.lit((1u64 << DEFICIT_BITS) - 1, DEFICIT_BITS)
}

impl<'a> Turns<'a> {
    /// Builds the lists. `steady`: nobody charges a class in this clock, or pays back; `read`, `of`: the link of this queue pair is read.
    pub(super) fn new(m: Module<'a>, sizes: Sizes, steady: Signal<'a>, read: Signal<'a>, of: Signal<'a>) -> Self {
        let strict = m
            .input("class_strict", CLASSES)
            .doc("a bit a class: it goes before all that are not strict");
        let weights = m
            .input("class_weight", 8 * CLASSES)
            .doc("share of each class that is not strict, class 0 lowest; 0 counts as 1");
        let time = m.input("time_ns", 64).doc("time in nanoseconds");
        let now = time.part(0, TIME_BITS);
        time.ignore();
        let each = |name: &str, width: u32, reset: bool| {
            let mut regs = vec![];
            for class in 0..CLASSES {
                let reg = m.reg(&format!("class_{class}_{name}"), width);
                regs.push(if reset { reg.reset(0) } else { reg });
            }
            regs
        };
        let heads = each("head", sizes.qpn, false);
        let tails = each("tail", sizes.qpn, false);
        let filled = each("filled", 1, true);
        let deficits: Vec<Signal<'a>> = each("deficit", DEFICIT_BITS, false)
            .into_iter()
            .map(|deficit| deficit.reset((1u64 << DEFICIT_BITS) - 1))
            .collect();
        let shared: Vec<Signal<'a>> = (0..CLASSES)
            .map(|class| deficits[class as usize] + quantum(weights.part(8 * class, 8)))
            .collect();
        let rests = each("rests", 1, true);
        let limited = each("limited", 4, true);
        let rests_until = each("rests_until", TIME_BITS, false);
        for (rests, until) in rests.iter().zip(&rests_until) {
            m.when(!(now - *until).msb(), || rests.set_lit(0));
        }

        let may: Vec<Signal<'a>> = (0..CLASSES as usize)
            .map(|class| filled[class] & !rests[class])
            .collect();
        let turn = m.reg("turn", 2).reset(0).doc("weighted class whose turn it is");
        let begun = m.reg("turn_begun", 1).reset(0).doc("its share was added");
        let weighted_may: Vec<Signal<'a>> = (0..CLASSES)
            .map(|class| may[class as usize] & !strict.bit(class))
            .collect();
        let turn_may = turn.select(&weighted_may);
        let weighted = (turn_may & begun & in_credit(turn.select(&deficits))).named("weighted_class_sends");
        let mut strict_class = m.lit(0, 2);
        let mut strict_may = m.low();
        for class in (0..CLASSES).rev() {
            let ready = may[class as usize] & strict.bit(class);
            strict_class = ready.mux(m.lit(class, 2), strict_class);
            strict_may = strict_may | ready;
        }
        // The turn goes to the next class that has something to send, and its share is added; those in between lose what they saved.
        let mut next = turn;
        let mut any = turn_may;
        for step in (1..CLASSES).rev() {
            let class = turn + turn.lit(step);
            let ready = class.select(&weighted_may);
            next = ready.mux(class, next);
            any = any | ready;
        }
        let next = next.named("turn_next");
        m.when(steady & !weighted, || {
            begun.set(any);
            m.when(any, || turn.set(next));
            for class in 0..CLASSES {
                let deficit = deficits[class as usize];
                m.when(any & next.eq_lit(class), || deficit.set(shared[class as usize]))
                    .else_when(!weighted_may[class as usize] & in_credit(deficit), || {
                        deficit.set(nothing(m));
                    });
            }
        });
        // Who has the turn at once if a queue pair of it is listed now: nobody else may send, or only those who go behind.
        let mut before = m.low();
        let (mut firsts, mut alone) = (vec![], vec![]);
        for class in 0..CLASSES as usize {
            let others = (0..CLASSES as usize).filter(|other| *other != class);
            let others = others.fold(m.low(), |any, other| any | may[other]);
            alone.push(!others);
            let is_strict = strict.bit(class as u32);
            firsts.push(!filled[class] & !rests[class] & !is_strict.mux(before, others));
            before = before | (may[class] & is_strict);
        }
        let class = strict_may.mux(strict_class, turn).named("class_chosen");

        let wire = |name: &str, width: u32| {
            let wire = m.wire(name, width);
            wire.set_lit(0);
            wire
        };
        let (link_write, link_to, link_value) = (
            wire("link_write", 1),
            wire("link_to", sizes.qpn),
            wire("link_value", sizes.qpn),
        );
        let links = m.memory("links", 1 << sizes.qpn, sizes.qpn);
        links.write(link_write, link_to, link_value);
        let link = links.read(read, of);

        // Those without tokens, in the order of the time at which they are asked for again.
        let (park, parked) = (wire("park", 1), wire("parked_qpn", sizes.qpn));
        let due_taken = wire("due_taken", 1);
        let waiting = m
            .memory("waiting", 1 << sizes.qpn, sizes.qpn + TIME_BITS)
            .read_during_write(ReadDuringWrite::New);
        let (first, free) = (
            m.reg("waiting_first", sizes.qpn).reset(0),
            m.reg("waiting_free", sizes.qpn).reset(0),
        );
        let count = m.reg("waiting_count", sizes.qpn + 1).reset(0);
        waiting.write(park, free, cat(&[now + now.lit(RETRY_NS), parked]));
        m.when(park, || free.set(free + free.lit(1)));
        m.when(due_taken, || first.set(first + first.lit(1)));
        count.set(count + park.zero_extend(sizes.qpn + 1) - due_taken.zero_extend(sizes.qpn + 1));
        let front = waiting.read(m.high(), first);
        let front_valid = m.reg("front_valid", 1).reset(0);
        front_valid.set(count.any() & !due_taken);
        let reached = !(now - front.part(sizes.qpn, TIME_BITS)).msb();
        Self {
            m,
            may: (strict_may | weighted).named("class_sends"),
            class,
            qpn: class.select(&heads),
            due: (front_valid & reached).named("due"),
            due_qpn: front.part(0, sizes.qpn),
            due_taken,
            link,
            heads,
            tails,
            filled,
            deficits,
            shared,
            firsts,
            alone,
            turn,
            begun,
            limited,
            rests,
            rests_until,
            now,
            strict,
            link_write,
            link_to,
            link_value,
            park,
            parked,
        }
    }

    /// A slice that was charged was not sent.
    pub(super) fn pay_back(&self, class: Signal<'a>, cost: Signal<'a>) {
        self.of_class(class, |number| {
            let deficit = self.deficits[number];
            self.m
                .when(!self.strict.bit(number as u32), || deficit.set(deficit + cost));
        });
    }

    fn of_class(&self, class: Signal<'a>, action: impl Fn(usize)) {
        for number in 0..CLASSES {
            self.m.when(class.eq_lit(number), || action(number as usize));
        }
    }

    /// Whether a queue pair of this class has the turn at once if it is listed now.
    pub(super) fn is_first(&self, class: Signal<'a>) -> Signal<'a> {
        let credit: Vec<Signal<'a>> = (0..CLASSES)
            .zip(&self.firsts)
            .map(|(class, first)| *first & (self.strict.bit(class) | in_credit(self.shared[class as usize])))
            .collect();
        class.select(&credit)
    }

    /// Puts a queue pair behind the others of its class. Where nobody else has anything to send, its class has the turn.
    pub(super) fn push(&self, class: Signal<'a>, qpn: Signal<'a>) {
        let jumps = (class.select(&self.firsts) & !self.strict.bit_at(class)).named("turn_jumps");
        self.m.when(jumps, || {
            self.turn.set(class);
            self.begun.set_lit(1);
            for (number, deficit) in (0..).zip(&self.deficits) {
                let mine = class.eq_lit(number);
                let credit = in_credit(*deficit);
                self.m
                    .when(mine & !credit, || deficit.set(self.shared[number as usize]))
                    .else_when(!mine & credit, || deficit.set(nothing(self.m)));
            }
        });
        self.link_write.set(class.select(&self.filled));
        self.link_to.set(class.select(&self.tails));
        self.link_value.set(qpn);
        self.of_class(class, |number| {
            self.tails[number].set(qpn);
            self.filled[number].set_lit(1);
            self.m.when(!self.filled[number], || self.heads[number].set(qpn));
        });
    }

    /// Takes the first one of a class off.
    pub(super) fn pop(&self, class: Signal<'a>) {
        self.of_class(class, |number| {
            let last = self.heads[number].eq(self.tails[number]);
            self.m
                .when(last, || self.filled[number].set_lit(0))
                .otherwise(|| self.heads[number].set(self.link));
        });
    }

    /// Puts the first one of a class behind the others.
    pub(super) fn rotate(&self, class: Signal<'a>) {
        let (heads, tails) = (class.select(&self.heads), class.select(&self.tails));
        let alone = heads.eq(tails);
        self.link_write.set(!alone);
        self.link_to.set(tails);
        self.link_value.set(heads);
        self.of_class(class, |number| {
            self.m.when(!alone, || {
                self.heads[number].set(self.link);
                self.tails[number].set(self.heads[number]);
            });
        });
    }

    /// The first one of a class has no tokens.
    pub(super) fn park(&self, class: Signal<'a>, qpn: Signal<'a>) {
        self.pop(class);
        self.park.set_lit(1);
        self.parked.set(qpn);
    }

    /// The class has no tokens.
    pub(super) fn rest(&self, class: Signal<'a>) {
        self.of_class(class, |number| {
            self.rests[number].set_lit(1);
            self.limited[number].set_lit(LIMITED_SLICES);
            self.rests_until[number].set(self.now + self.now.lit(RETRY_NS));
        });
    }

    /// The class has refused one of its last slices.
    pub(super) fn limited(&self, class: Signal<'a>) -> Signal<'a> {
        let limited: Vec<Signal<'a>> = self.limited.iter().map(|slices| slices.any()).collect();
        class.select(&limited)
    }

    /// The class has sent so many bytes. Where nobody else has anything to send, its next turn begins at once.
    pub(super) fn charge(&self, class: Signal<'a>, cost: Signal<'a>) {
        self.of_class(class, |number| {
            let (deficit, limited) = (self.deficits[number], self.limited[number]);
            let after = deficit - cost;
            let again = !in_credit(after) & self.alone[number];
            self.m.when(!self.strict.bit(number as u32), || {
                deficit.set(again.mux(self.shared[number] - cost, after));
            });
            self.m.when(limited.any(), || limited.set(limited - limited.lit(1)));
        });
    }
}

/// Whether a deficit allows a slice.
pub(super) fn in_credit<'a>(deficit: Signal<'a>) -> Signal<'a> {
    !deficit.msb()
}

/// What is kept of a deficit by who has nothing to send: a debt.
pub(super) fn debt<'a>(deficit: Signal<'a>) -> Signal<'a> {
    in_credit(deficit).mux(nothing(deficit.module()), deficit)
}
