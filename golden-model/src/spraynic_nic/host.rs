//! What the host does: writes of the tables, work requests, receive requests, frames of the slow path; and its memory.

use spraynic_config::descriptor::{
    HeaderTemplate, MemoryRegion, PathEntry, QueuePairContext, RateLimit, ReceiveRequest, SendContext, WorkRequest,
};

use super::SpraynicNic;
use crate::receive_pipeline::requests::Memory;

/// Memory as the NIC sees it.
pub trait HostMemory: Memory {
    /// Bytes of payload; fewer than asked for where there are none, so that the packet is a bad one.
    fn payload(&self, address: u64, length: u16) -> &[u8];
}

impl HostMemory for Vec<u8> {
    fn payload(&self, address: u64, length: u16) -> &[u8] {
        let start = usize::try_from(address).ok();
        let bytes = start.and_then(|start| self.get(start..start.checked_add(length.into())?));
        bytes.unwrap_or_default()
    }
}

impl SpraynicNic {
    /// Writes a queue pair's context of the receive path.
    pub fn write_queue_pair(&mut self, context: &QueuePairContext, memory: &mut impl HostMemory) {
        let outcome = self.receive.write_context(context, memory);
        self.response_writer.write_context(context);
        self.take_outcome(outcome, memory, 0);
        self.settle();
    }

    /// Writes a queue pair's context of the send side.
    pub fn write_send_context(&mut self, context: &SendContext) {
        self.work.write_context(context);
        self.spray.write_context(context);
        self.retransmit.write_context(context);
        self.requester.write_context(context);
        self.responses.write_context(context);
        self.settle();
    }

    /// Writes a header template.
    pub fn write_template(&mut self, template: &HeaderTemplate) {
        self.builder.write_template(template);
    }

    /// Writes a memory region.
    pub fn write_region(&mut self, region: &MemoryRegion) {
        self.receive.write_region(region);
    }

    /// Writes a path.
    pub fn write_path(&mut self, entry: &PathEntry) {
        for update in self.monitor.write_entry(entry) {
            self.update_path(&update);
        }
    }

    /// Writes a bucket of the rate limiter.
    pub fn write_rate(&mut self, limit: &RateLimit, now_ns: u64) {
        self.limiter.write_limit(limit, now_ns);
    }

    /// Takes a work request.
    pub fn post(&mut self, request: &WorkRequest) {
        self.work.post(request);
        self.settle();
    }

    /// Takes a receive request.
    pub fn post_receive(&mut self, request: &ReceiveRequest, memory: &mut impl HostMemory, now_ns: u64) {
        let outcome = self.receive.post(request, memory);
        self.take_outcome(outcome, memory, now_ns);
        self.settle();
    }

    /// Takes a frame of the host that is to be sent as it is.
    pub fn send_frame(&mut self, frame: Vec<u8>) {
        self.sources.slow_path.push_back(frame);
    }
}
