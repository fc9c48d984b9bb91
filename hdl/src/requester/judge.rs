//! The verdict on an operation: what becomes of its queue pair and of the oldest entry, what is written, what is counted.

use super::operation::{CONTEXT, EXPECTED, Operation, RESPONSE};
use super::payload::Decision;
use super::{Expected, Fields, Module, State};
use spraynic_config::descriptor::{CompletionStatus, PayloadWrite};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Signal};
use spraynic_wire::{Opcode, Syndrome};

/// Bytes of an atomic.
const ATOMIC_BYTES: u32 = 8;

/// What an operation does. All of it is formed from registers of the clock before.
pub(super) struct Verdict<'a> {
    /// The state behind it.
    pub(super) state: State<'a>,
    /// The entry behind it is stored: the new one of `expected`, or what is left of the oldest.
    pub(super) stores: Signal<'a>,
    /// See `stores`.
    pub(super) entry: Expected<'a>,
    /// A packet is taken: a PayloadWrite is given.
    pub(super) taken: Signal<'a>,
    /// See `taken`.
    pub(super) write: Signal<'a>,
    /// Something is decided of payload.
    pub(super) decides: Signal<'a>,
    /// See `decides`.
    pub(super) decision: Decision<'a>,
    /// Name, meaning and event of each counter.
    pub(super) counters: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// Judges in the clock `now`; the verdict stands in the clock after.
pub(super) fn judge<'a>(
    m: Module<'a>,
    config: &NicConfig,
    operation: &Operation<'a>,
    state: &State<'a>,
    entry: &Expected<'a>,
    in_table: Signal<'a>,
    now: Signal<'a>,
) -> Verdict<'a> {
    let hold = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, value.width());
        m.when(now, || register.set(value));
        register
    };
    let is = |kind: u32| operation.kind.eq_lit(kind);

    // A response packet.
    let waits = (is(RESPONSE) & in_table & state.sends & !state.failed & state.count.any()).named("waits")
        & state.roce.eq(operation.roce);
    let in_turn = !operation.roce | operation.psn.eq(entry.psn);
    let taken = hold("taken", waits & in_turn);
    let mtu = state
        .mtu
        .select(&[256, 256, 512, 1024, 2048, 4096, 4096, 4096].map(|bytes| m.lit(bytes, 13)));
    let fits_in_one = entry.left.le(mtu.zero_extend(32)).named("fits_in_one");
    let whole = fits_in_one.mux(entry.left.part(0, 13), mtu);
    let has = |opcode: Opcode| operation.opcode.eq_lit(opcode.0);
    let has_place = (has(Opcode::READ_RESPONSE_FIRST) & !fits_in_one)
        | (has(Opcode::READ_RESPONSE_MIDDLE) & !entry.fresh & !fits_in_one)
        | (has(Opcode::READ_RESPONSE_LAST) & !entry.fresh & fits_in_one)
        | (has(Opcode::READ_RESPONSE_ONLY) & fits_in_one);
    let read_is_right = has_place & operation.length.eq(whole);
    let atomic_is_right = has(Opcode::ATOMIC_ACKNOWLEDGE) & !operation.length.any();
    let right = hold("is_right", entry.atomic.mux(atomic_is_right, read_is_right));
    let done = hold("is_done", entry.atomic | fits_in_one) | !right;
    let length = entry
        .atomic
        .mux(m.lit(ATOMIC_BYTES, 13), operation.length)
        .gate(right)
        .named("bytes_taken");

    // Something to expect, and a context.
    let full = state.count.eq_lit(config.send.reads);
    let expects = hold("expects", is(EXPECTED) & in_table & state.sends & !full);
    let opens = hold("opens", is(CONTEXT) & operation.sends & !state.sends);
    let closes = hold("closes", is(CONTEXT) & !operation.sends);
    let refused = hold("expected_refused", is(EXPECTED) & !(in_table & state.sends & !full));
    let unexpected = hold("unexpected", is(RESPONSE) & !waits);
    let out_of_turn = hold("out_of_turn", waits & !in_turn);

    let gone = (taken & done).named("entry_is_gone");
    let renewed = opens | closes;
    let next = |value: Signal<'a>| value.gate(!renewed);
    let after = State {
        sends: (state.sends | opens) & !closes,
        roce: opens.mux(operation.roce, state.roce),
        failed: next(state.failed | (taken & !right)),
        mtu: opens.mux(operation.mtu, state.mtu),
        head: next(advance(m, state.head, gone, config.send.reads)),
        count: next(gone.mux(
            state.count - state.count.lit(1),
            expects.mux(state.count + state.count.lit(1), state.count),
        )),
    };
    let rest = Expected {
        slot: entry.slot,
        atomic: entry.atomic,
        fresh: m.low(),
        psn: entry.psn + entry.psn.lit(1),
        left: entry.left - length.zero_extend(32),
        address: entry.address + length.zero_extend(64),
    };
    let new = Expected {
        slot: operation.slot,
        atomic: operation.atomic,
        fresh: m.high(),
        psn: operation.psn,
        left: operation.bytes,
        address: operation.address,
    };
    let (is_roce, is_solar) = (m.lit(Profile::Roce.code(), 2), m.lit(Profile::Solar.code(), 2));
    let write = Fields::build::<PayloadWrite>(|name, width| match name {
        "qpn" => operation.qpn,
        "opcode" => operation.opcode,
        "address" => entry.address,
        "length" => length,
        "answer" => done,
        "psn" => operation.psn,
        "syndrome" => m.lit(Syndrome::ACK.byte(), width),
        "profile" => state.roce.mux(is_roce, is_solar),
        "status" => right.mux(
            m.lit(CompletionStatus::Success as u8, width),
            m.lit(CompletionStatus::BadResponse as u8, width),
        ),
        "cookie" => entry.slot.zero_extend(width),
        _ => m.lit(0, width),
    })
    .pack();
    let immediate = (taken & right & entry.atomic).named("gives_value");
    let has_payload = operation.length.any() & is(RESPONSE);
    Verdict {
        state: after,
        stores: expects | (taken & !done),
        entry: Expected::unpack(expects.mux(new.pack(), rest.pack())),
        taken,
        write,
        decides: immediate | has_payload,
        decision: Decision {
            roce: operation.roce,
            keep: taken & right,
            immediate,
            value: operation.original,
        },
        counters: vec![
            ("packets", "response packets that were expected, in their turn", taken),
            ("done", "READs and atomics done", gone),
            (
                "failed",
                "of these, those whose response was not what was asked for",
                taken & !right,
            ),
            (
                "drop_sequence",
                "roce: response packets that are not the next one: repeated, or behind a gap",
                out_of_turn,
            ),
            (
                "drop_unexpected",
                "response packets that nobody waits for, and those behind a failure",
                unexpected,
            ),
            (
                "drop_expected",
                "READs and atomics that were to be expected, but the queue pair does not send, or waits for as many as it can",
                refused,
            ),
        ],
    }
}

/// The head of a ring of `reads` entries, a power of two.
fn advance<'a>(m: Module<'a>, head: Signal<'a>, moves: Signal<'a>, reads: u32) -> Signal<'a> {
    let next = head + moves.zero_extend(head.width());
    next & m.lit(reads - 1, head.width())
}
