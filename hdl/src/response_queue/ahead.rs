//! The next turn: what is kept of the queue pair whose turn is next, and its first response that has not been given in full, are read while the
//! engine does something else.
//!
//! What the engine stores of that queue pair meanwhile makes it begin again. It changes nothing itself, and takes no more than one turn.

use super::slice::bytes_of;
use super::turns::Turns;
use crate::fields::Fields;
use crate::record::Record;
use spraynic_config::descriptor::{Descriptor, ResponseMessage};
use spraynic_rtl::{Module, Signal, cat};

/// Steps, as they stand in the register `ahead_step`.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Step {
    Idle,
    /// The state is to be read again.
    Read,
    Word,
    ReadMessage,
    Message,
    Cut,
    Ready,
}

/// What is known of the next turn.
pub(super) struct Ahead<'a> {
    m: Module<'a>,
    step: Signal<'a>,
    /// The queue pair, with what is kept of it.
    pub(super) index: Signal<'a>,
    pub(super) queue: Record<'a>,
    /// The response, without its queue pair's number, and its place.
    pub(super) message: Signal<'a>,
    pub(super) place: Signal<'a>,
    /// Packets of it that have not been given, and the bytes of those that have.
    pub(super) left: Signal<'a>,
    pub(super) offset: Signal<'a>,
    /// Packets that the window has room for.
    pub(super) room: Signal<'a>,
    flying: Signal<'a>,
    /// It may give something.
    pub(super) gives: Signal<'a>,
}

/// What the engine does in this clock.
pub(super) struct Busy<'a> {
    /// It reads a state.
    pub(super) reads_state: Signal<'a>,
    /// It reads a response.
    pub(super) reads_message: Signal<'a>,
    /// It stores a state, of this queue pair.
    pub(super) stores: Signal<'a>,
    pub(super) index: Signal<'a>,
    /// It takes the turn.
    pub(super) takes: Signal<'a>,
}

impl<'a> Ahead<'a> {
    #[track_caller]
    pub(super) fn new(m: Module<'a>, fields: &[(&'static str, u32)], index_bits: u32, message_bits: u32) -> Self {
        Self {
            m,
            step: m
                .reg("ahead_step", 3)
                .reset(0)
                .doc("how far the next turn has been read"),
            index: m.reg("ahead_index", index_bits),
            queue: Record::regs(m, "ahead", fields),
            message: m.reg("ahead_message", message_bits),
            place: m.reg("ahead_place", 8),
            left: m.reg("ahead_left", 24),
            offset: m.reg("ahead_offset", 32),
            room: m.reg("ahead_room", 11),
            flying: m.reg("ahead_flying", 24).doc("packets that are not acknowledged"),
            gives: m.reg("ahead_gives", 1),
        }
    }

    fn at(&self, step: Step) -> Signal<'a> {
        self.step.eq_lit(step as u8)
    }

    fn go(&self, step: Step) {
        self.step.set_lit(step as u8);
    }

    /// There is no turn.
    pub(super) fn idle(&self) -> Signal<'a> {
        self.at(Step::Idle)
    }

    /// The turn may be taken.
    pub(super) fn ready(&self) -> Signal<'a> {
        self.at(Step::Ready)
    }

    /// It sends anew what was lost.
    pub(super) fn lost(&self) -> Signal<'a> {
        self.queue.get("lost_words").any()
    }

    /// Which state it would read.
    pub(super) fn state_address(&self, turns: &Turns<'a>) -> Signal<'a> {
        self.idle().mux(turns.turns.front, self.index)
    }

    /// Whether it would read a response: at `place` of `index`.
    pub(super) fn wants_message(&self) -> Signal<'a> {
        self.at(Step::ReadMessage)
    }

    /// The steps. `state` and `found` are what the RAMs give.
    pub(super) fn steps(&self, turns: &Turns<'a>, busy: &Busy<'a>, state: Signal<'a>, found: Signal<'a>) {
        let m = self.m;
        let q = |name: &str| self.queue.get(name);
        let may_read = !busy.reads_state & !busy.stores;
        m.when(self.idle() & turns.turns.valid & may_read, || {
            turns.turns.pop();
            self.index.set(turns.turns.front);
            self.go(Step::Word);
        });
        m.when(self.at(Step::Read) & may_read, || self.go(Step::Word));
        let sending = self.queue.field_of(state, "sending");
        m.when(self.at(Step::Word), || {
            self.queue.load(state);
            // Places wrap at 256, the ring in RAM before.
            self.place
                .set(self.queue.field_of(state, "head") + sending.zero_extend(8));
            self.go(Step::ReadMessage);
        });
        m.when(self.at(Step::ReadMessage), || {
            self.flying.set(q("next") - q("base"));
            m.when(!busy.reads_message, || self.go(Step::Message));
        });
        let window = q("window");
        let in_window = self.flying.lt(window.zero_extend(24)).named("ahead_in_window");
        m.when(self.at(Step::Message), || {
            self.message.set(found);
            self.room.set((window - self.flying.part(0, 11)).gate(in_window));
            self.go(Step::Cut);
        });
        let message = message_fields(self.message, m.lit(0, 24));
        let more = q("sending").ne(q("count")) & self.room.any();
        m.when(self.at(Step::Cut), || {
            self.left.set(message.get("packets") - q("given"));
            self.offset.set(bytes_of(q("given"), message.get("mtu"), 32));
            self.gives.set(q("receives") & (self.lost() | more));
            self.go(Step::Ready);
        });
        m.when(busy.takes, || self.go(Step::Idle));
        let stale = busy.stores & busy.index.eq(self.index) & !self.idle();
        m.when(stale.named("ahead_is_stale"), || self.go(Step::Read));
    }
}

/// A response as it is kept, with the queue pair's number.
pub(super) fn message_fields<'a>(message: Signal<'a>, qpn: Signal<'a>) -> Fields<'a> {
    Fields::unpack::<ResponseMessage>(cat(&[message, qpn]))
}

/// Bits of a response as it is kept.
pub(super) fn message_bits() -> u32 {
    ResponseMessage::width() - QPN_BITS
}

/// Bits of a queue pair's number, the first field of all that comes.
pub(super) const QPN_BITS: u32 = 24;
