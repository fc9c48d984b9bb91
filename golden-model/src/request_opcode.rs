//! BTH opcode and extension headers of a request packet, by profile, operation and place in the message.
//! It decides nothing about acceptance: `packet_slicer` has made all checks before.

use spraynic_config::descriptor::{Extension, SliceContext, WorkOpcode, WorkRequest};

use crate::profile::Profile;

/// Place of a packet in its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) first: bool,
    pub(crate) last: bool,
}

/// First opcode of the RC WRITE group \[IBA table 38\]; SEND starts at 0 in the same order.
const RC_WRITE: u8 = 0x06;
/// First opcode of the WRITE group of MRC \[MRC 1.0\].
const MRC_WRITE: u8 = 0xC6;
const RC_READ_REQUEST: u8 = 0x0C;
const RC_COMPARE_SWAP: u8 = 0x13;
const RC_FETCH_ADD: u8 = 0x14;
const RC_SEND_LAST_INVALIDATE: u8 = 0x16;
const RC_SEND_ONLY_INVALIDATE: u8 = 0x17;
/// TSETH: frame type 1, a time stamp \[MRC 1.0\].
const TSETH: u32 = 1;

/// BTH opcode. SEND and WRITE groups share one order: first, middle, last, last with immediate, only, only with
/// immediate.
pub(crate) fn opcode(profile: Profile, operation: WorkOpcode, position: Position, immediate: bool) -> u8 {
    let in_group = match (position.first, position.last) {
        (true, false) => 0,
        (false, false) => 1,
        (false, true) => 2 + u8::from(immediate),
        (true, true) => 4 + u8::from(immediate),
    };
    match operation {
        WorkOpcode::SendInvalidate if position.last && position.first => RC_SEND_ONLY_INVALIDATE,
        WorkOpcode::SendInvalidate if position.last => RC_SEND_LAST_INVALIDATE,
        WorkOpcode::Send | WorkOpcode::SendInvalidate => in_group,
        WorkOpcode::Write if profile == Profile::Mrc => MRC_WRITE + in_group,
        WorkOpcode::Write => RC_WRITE + in_group,
        WorkOpcode::Read => RC_READ_REQUEST,
        WorkOpcode::CompareSwap => RC_COMPARE_SWAP,
        WorkOpcode::FetchAdd => RC_FETCH_ADD,
    }
}

/// Extension headers as on the wire and their length in bytes.
pub(crate) fn extension(
    profile: Profile,
    operation: WorkOpcode,
    position: Position,
    request: &WorkRequest,
    context: &SliceContext,
    offset: u64,
) -> (Extension, usize) {
    let mut headers = Headers::default();
    let mrc = profile == Profile::Mrc;
    if mrc {
        // METH: RQMSN, MSN. The stamp itself is put in by `header_builder`.
        headers.put(&context.rqmsn.to_be_bytes());
        headers.put(&context.msn.to_be_bytes());
        if context.timestamps {
            headers.put(&TSETH.to_be_bytes());
        }
    }
    match operation {
        WorkOpcode::Send => {}
        WorkOpcode::SendInvalidate => {
            if position.last {
                headers.put(&request.immediate.to_be_bytes()); // IETH
            }
        }
        WorkOpcode::Write | WorkOpcode::Read => {
            if position.first || mrc {
                headers.put(&request.remote_address.wrapping_add(offset).to_be_bytes());
                headers.put(&request.remote_key.to_be_bytes());
                headers.put(&request.length.to_be_bytes());
            }
        }
        WorkOpcode::CompareSwap | WorkOpcode::FetchAdd => {
            headers.put(&request.remote_address.to_be_bytes());
            headers.put(&request.remote_key.to_be_bytes());
            headers.put(&request.swap_add.to_be_bytes());
            // FetchAdd's compare field is ignored by the peer; it is sent as the request has it.
            headers.put(&request.compare.to_be_bytes());
        }
    }
    if request.inline_immediate && position.last {
        headers.put(&request.immediate.to_be_bytes()); // ImmDt
    }
    (headers.bytes, headers.length)
}

/// Extension headers as they grow.
#[derive(Default)]
struct Headers {
    bytes: Extension,
    length: usize,
}

impl Headers {
    fn put(&mut self, header: &[u8]) {
        self.bytes.0[self.length..self.length + header.len()].copy_from_slice(header);
        self.length += header.len();
    }
}
