//! What can happen to a queue pair, right or wrong, and strategies for it.

use proptest::prelude::*;
use spraynic_config::descriptor::QueuePairState;

use super::traffic::{BASE, KEY, LENGTH};

/// Something that happens to a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) qpn: u32,
    pub(crate) what: What,
    /// Numbers that keys, immediates and cookies are made of.
    pub(crate) number: u16,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Send {
        length: u16,
        immediate: bool,
        invalidate: bool,
    },
    Write {
        length: u16,
        immediate: bool,
    },
    Read {
        length: u32,
    },
    Atomic,
    Response {
        length: u16,
    },
    Request {
        length: u16,
    },
    State(QueuePairState),
    /// One packet of whatever bits.
    Anything {
        opcode: u8,
        payload: u16,
        length: u32,
        flags: u8,
    },
    /// The next message has this wrong.
    Fault(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Key(u32),
    Offset(u64),
    Length(u32),
    Payload(u16),
    Opcode(u8),
    MissingLast,
    MissingFirst,
    Rights,
    Duplicate,
    Domain,
    Rqmsn(u16),
    Profile,
}

fn length() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0..3u16, 3 => 254..260u16, 2 => 0..700u16, 1 => 8190..8200u16]
}

fn what() -> impl Strategy<Value = What> {
    let fault = prop_oneof![
        prop_oneof![Just(0), Just(KEY ^ 1), Just(0x035A), any::<u32>()].prop_map(Fault::Key),
        prop_oneof![
            Just(LENGTH - 8),
            Just(LENGTH),
            Just(4),
            Just(u64::MAX - BASE - 3),
            any::<u64>()
        ]
        .prop_map(Fault::Offset),
        prop_oneof![Just(0u32), Just(1 << 31), Just((1 << 31) + 1), 0..600u32].prop_map(Fault::Length),
        prop_oneof![Just(0u16), Just(1), Just(255), Just(257), 0..600u16].prop_map(Fault::Payload),
        prop_oneof![0..0x18u8, 0xC6..0xCCu8, any::<u8>()].prop_map(Fault::Opcode),
        Just(Fault::MissingLast),
        Just(Fault::MissingFirst),
        Just(Fault::Rights),
        Just(Fault::Duplicate),
        Just(Fault::Duplicate),
        Just(Fault::Domain),
        any::<u16>().prop_map(Fault::Rqmsn),
        Just(Fault::Profile),
    ];
    let state = prop::sample::select(QueuePairState::ALL.to_vec());
    let payload = prop_oneof![Just(0u16), Just(8), Just(256), 0..600u16];
    let opcode = prop_oneof![0..0x18u8, 0xC6..0xCCu8, any::<u8>()];
    let anything = (
        opcode,
        payload,
        prop_oneof![Just(0u32), Just(8), Just(256), 0..600u32],
        any::<u8>(),
    );
    let anything = anything.prop_map(|(opcode, payload, length, flags)| What::Anything {
        opcode,
        payload,
        length,
        flags,
    });
    prop_oneof![
        6 => (length(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(length, immediate, invalidate)| What::Send {
            length, immediate: immediate && !invalidate, invalidate,
        }),
        8 => (length(), any::<bool>()).prop_map(|(length, immediate)| What::Write { length, immediate }),
        2 => prop_oneof![0..9000u32, Just(1 << 31)].prop_map(|length| What::Read { length }),
        2 => Just(What::Atomic),
        1 => length().prop_map(|length| What::Response { length }),
        8 => prop_oneof![4 => Just(9000u16), 1 => length()].prop_map(|length| What::Request { length }),
        1 => state.prop_map(What::State),
        2 => fault.prop_map(What::Fault),
        2 => anything,
    ]
}

/// Events of four queue pairs, and seldom of one beyond the table.
pub(crate) fn events() -> impl Strategy<Value = Vec<Event>> {
    let qpn = prop_oneof![60 => 0..4u32, 1 => Just(8u32), 1 => Just(0xFF_FFFF)];
    let event = (qpn, what(), any::<u16>()).prop_map(|(qpn, what, number)| Event { qpn, what, number });
    prop::collection::vec(event, 1..100)
}
