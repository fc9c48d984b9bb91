//! Bit-accurate golden model of the NIC datapath.
//!
//! The model is the specification: each module says what the block of the same name in `hdl` must give, bit for bit,
//! for any input. It is deterministic, does no input or output of its own and knows neither clocks nor pipeline
//! depths. Where a decision of the RTL depends on time (arbitration, time stamps) the model is told the decision and
//! says whether it was legal.

pub mod ack_engine;
pub mod axi_read_master;
pub mod axi_write_master;
pub mod capture;
mod capture_messages;
pub mod capture_server;
mod counter;
pub mod frame;
pub mod frame_fifo;
pub mod header_builder;
pub mod icrc;
pub mod memory_regions;
pub mod packet_buffer;
pub mod packet_multiplexer;
pub mod packet_parser;
pub mod packet_slicer;
mod path_bits;
pub mod path_monitor;
pub mod payload_router;
pub mod payload_writer;
pub mod port_multiplexer;
pub mod qp_lookup;
pub mod rate_limiter;
pub mod receive_pipeline;
#[cfg(any(test, feature = "strategies"))]
pub mod received_frames;
mod reception;
pub mod register_file;
pub mod reorder_buffer;
mod request_opcode;
pub mod request_ring;
pub mod requester;
pub mod responder;
pub mod response_engine;
pub mod response_queue;
pub mod retransmit_engine;
pub mod round_robin_arbiter;
pub mod skid_buffer;
pub mod spray_scheduler;
pub mod spraynic_nic;
pub mod stream_fifo;
pub mod transmit_pipeline;
pub mod work_queue;
