//! BTH opcode and extension headers of a request packet, by profile, operation and place in the message.
//! It decides nothing about acceptance: `packet_slicer` has made all checks before.

use spraynic_config::descriptor::{Extension, SliceContext, WorkOpcode, WorkRequest};

use spraynic_config::Profile;
use spraynic_wire::{AtomicEth, Header, Ieth, ImmDt, Meth, Opcode, Reth, Tseth};

/// Place of a packet in its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) first: bool,
    pub(crate) last: bool,
}

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
        WorkOpcode::SendInvalidate if position.last && position.first => Opcode::SEND_ONLY_INVALIDATE.0,
        WorkOpcode::SendInvalidate if position.last => Opcode::SEND_LAST_INVALIDATE.0,
        WorkOpcode::Send | WorkOpcode::SendInvalidate => Opcode::SEND_FIRST.0 + in_group,
        WorkOpcode::Write if profile == Profile::Mrc => Opcode::MRC_WRITE_FIRST.0 + in_group,
        WorkOpcode::Write => Opcode::WRITE_FIRST.0 + in_group,
        WorkOpcode::Read => Opcode::READ_REQUEST.0,
        WorkOpcode::CompareSwap => Opcode::COMPARE_SWAP.0,
        WorkOpcode::FetchAdd => Opcode::FETCH_ADD.0,
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
        headers.put(&Meth {
            rqmsn: context.rqmsn,
            msn: context.msn,
        });
        if context.timestamps {
            // The stamp itself is put in by `header_builder`.
            headers.put(&Tseth {
                ftype: TSETH_TIMESTAMP,
                ..Tseth::default()
            });
        }
    }
    match operation {
        WorkOpcode::Send => {}
        WorkOpcode::SendInvalidate => {
            if position.last {
                headers.put(&Ieth {
                    remote_key: request.immediate,
                });
            }
        }
        WorkOpcode::Write | WorkOpcode::Read => {
            if position.first || mrc {
                headers.put(&Reth {
                    virtual_address: request.remote_address.wrapping_add(offset),
                    remote_key: request.remote_key,
                    length: request.length,
                });
            }
        }
        // FetchAdd's compare field is ignored by the peer; it is sent as the request has it.
        WorkOpcode::CompareSwap | WorkOpcode::FetchAdd => headers.put(&AtomicEth {
            virtual_address: request.remote_address,
            remote_key: request.remote_key,
            swap_add: request.swap_add,
            compare: request.compare,
        }),
    }
    if request.inline_immediate && position.last {
        headers.put(&ImmDt {
            immediate: request.immediate,
        });
    }
    (headers.bytes, headers.length)
}

/// `ftype` of a TSETH that is a time stamp \[MRC 1.0\].
const TSETH_TIMESTAMP: u8 = 1;

/// Extension headers as they grow.
#[derive(Default)]
struct Headers {
    bytes: Extension,
    length: usize,
}

impl Headers {
    fn put<H: Header>(&mut self, header: &H) {
        header.emit(&mut self.bytes.0[self.length..self.length + H::LENGTH]);
        self.length += H::LENGTH;
    }
}
