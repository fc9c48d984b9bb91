//! RoCEv2, MRC and Solar packet formats: parse, emit, ICRC, PSN arithmetic.
//!
//! It knows bytes and nothing else: no state, no I/O but reading and writing capture files ([`pcap`]). Each header is a
//! plain struct with a table of its fields ([`Header`]); [`Packet`] is a whole frame.
//!
//! ```
//! use spraynic_wire::{Bth, Ethernet, Ip, Ipv4, Opcode, Packet, Psn, icrc};
//!
//! let bth = Bth { opcode: Opcode::SEND_ONLY, destination_qpn: 17, psn: Psn::new(5), ..Bth::default() };
//! let packet = Packet::new(Ethernet::default(), Ip::V4(Ipv4::default()), 0xC000, bth, vec![])
//!     .with_payload(b"hello".to_vec());
//! let frame = packet.emit();
//! assert!(icrc::verify(&frame)?.is_valid());
//! assert_eq!(Packet::parse(&frame, None)?.payload, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bth;
pub mod entropy;
pub mod extension;
pub mod frame;
pub mod header;
pub mod icrc;
pub mod mrc;
pub mod network;
pub mod opcode;
pub mod parse_error;
pub mod pcap;
pub mod pfc;
pub mod psn;
pub mod rdma;
pub mod syndrome;

pub use bth::{Bth, DEFAULT_PARTITION_KEY};
pub use entropy::{EntropyFormat, PathFields, path_fields};
pub use extension::{Extension, HeaderKind};
pub use frame::{Packet, pad_count};
pub use header::{Header, HeaderField, TooShort};
pub use mrc::{
    CcState, Eeth, EndpointOperation, Erth, Meth, NackReason, Neth, PathFeedback, Peth, SequenceSpace, Seth, Tseth,
};
pub use network::{Ethernet, Ip, Ipv4, Ipv6, MacAddress, ROCE_PORT, VlanTag};
pub use opcode::{BitOrder, Opcode, OpcodeInfo, Operation, Position, Profile};
pub use parse_error::ParseError;
pub use pfc::Pfc;
pub use psn::Psn;
pub use rdma::{Aeth, AtomicAckEth, AtomicEth, CnpReserved, Ieth, ImmDt, Reth};
pub use syndrome::{NakCode, RnrTimer, Syndrome};
