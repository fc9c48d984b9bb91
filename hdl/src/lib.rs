//! The blocks of the NIC datapath, described with spraynic-rtl and emitted as Verilog.
//!
//! One file a block, `pub fn NAME(context, …) -> Definition`; the behaviour is that of the golden model's block of the same name.

pub use catalogue::{Block, EmitError, blocks, emit, registers};

pub mod ack_engine;
mod axi_bursts;
pub mod axi_read_master;
pub mod axi_write_master;
pub mod catalogue;
mod context_order;
pub mod counter;
pub mod extension;
pub mod fields;
pub mod frame_fifo;
pub mod header_builder;
mod held;
pub mod icrc;
mod joints;
mod lost_psns;
pub mod memory_regions;
pub mod packet_buffer;
pub mod packet_multiplexer;
pub mod packet_parser;
pub mod packet_slicer;
pub mod path_monitor;
mod path_sets;
pub mod payload_router;
pub mod payload_writer;
pub mod port_multiplexer;
pub mod qp_lookup;
pub mod rate_limiter;
pub mod receive_pipeline;
mod record;
pub mod register_file;
pub mod reorder_buffer;
pub mod request_ring;
pub mod requester;
pub mod responder;
pub mod response_engine;
mod response_packet;
pub mod response_queue;
pub mod retransmit_engine;
pub mod round_robin_arbiter;
pub mod skid_buffer;
pub mod spray_scheduler;
pub mod spraynic_nic;
pub mod state_bits;
mod state_table;
pub mod stream_fifo;
mod stream_fork;
mod sweep;
mod table;
pub mod transmit_pipeline;
pub mod work_queue;
pub mod write_data;
