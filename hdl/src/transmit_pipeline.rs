//! transmit_pipeline: work requests and payload in, frames out.
