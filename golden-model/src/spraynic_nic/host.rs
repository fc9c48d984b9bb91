//! What the host does: writes of the tables, work requests, receive requests, frames of the slow path; and its memory.

use spraynic_config::descriptor::{
    Doorbell, HeaderTemplate, MemoryRegion, PathEntry, QueuePairContext, RateLimit, ReceiveRequest, RequestRing,
    SendContext, WorkRequest,
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
        let mut outcome = self.receive.write_context(context, memory);
        self.response_writer.write_context(context);
        self.take_outcome(&mut outcome, memory, 0);
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

    /// Writes a queue pair's ring of work requests.
    pub fn write_ring(&mut self, ring: &RequestRing) {
        self.rings.write_ring(ring);
    }

    /// Takes a doorbell: reads what it tells of, and takes those work requests.
    pub fn doorbell(&mut self, doorbell: &Doorbell, memory: &impl HostMemory) {
        self.rings.doorbell(doorbell);
        while let Some(turn) = self.rings.turn() {
            let Some(read) = turn.read else { continue };
            let entry = memory.payload(read.address, read.length);
            // Fewer bytes than were asked for: memory refuses it.
            if let Some((request, _)) = self.rings.data(entry, false) {
                self.post(&request);
            }
        }
    }

    /// Takes a receive request.
    pub fn post_receive(&mut self, request: &ReceiveRequest, memory: &mut impl HostMemory, now_ns: u64) {
        let mut outcome = self.receive.post(request, memory);
        self.take_outcome(&mut outcome, memory, now_ns);
        self.settle();
    }

    /// Takes a frame of the host that is to be sent as it is.
    pub fn send_frame(&mut self, frame: Vec<u8>) {
        self.sources.slow_path.push_back(frame);
    }
}

#[cfg(test)]
mod tests {
    use spraynic_config::descriptor::{CompletionStatus, Descriptor, QueuePairState};
    use spraynic_config::{NicConfig, Preset};

    use super::*;
    use crate::spraynic_nic::Settings;

    #[test]
    fn a_doorbell_posts_the_entries_of_a_ring_and_what_memory_refuses_completes_too() {
        const BASE: usize = 4096;
        let mut nic = SpraynicNic::new(&NicConfig::preset(Preset::Lab), Settings::default());
        nic.write_send_context(&SendContext {
            qpn: 1,
            state: QueuePairState::ReadyToSend as u8,
            mtu: 3,
            window: 16,
            timeout_ns: 1 << 20,
            ..SendContext::default()
        });
        let entry = |cookie: u64| WorkRequest {
            opcode: 0xee,
            segments: 1,
            signalled: true,
            qpn: 0,
            cookie,
            ..WorkRequest::default()
        };
        // Four entries, of which the last two are beyond memory.
        let mut memory = vec![0u8; BASE];
        memory.extend(entry(70).pack());
        memory.extend(entry(71).pack());
        nic.write_ring(&RequestRing {
            qpn: 1,
            entries_log2: 2,
            valid: true,
            base: BASE as u64,
            ..RequestRing::default()
        });
        for producer in [1, 3] {
            let doorbell = Doorbell {
                qpn: 1,
                producer,
                ..Doorbell::default()
            };
            nic.doorbell(&doorbell, &memory);
        }
        let done: Vec<(u32, u8, u64)> = std::iter::from_fn(|| nic.completion())
            .map(|completion| (completion.qpn, completion.status, completion.cookie))
            .collect();
        let wrong = CompletionStatus::LocalInvalidRequest as u8;
        assert_eq!(done, [(1, wrong, 70), (1, wrong, 71), (1, wrong, 2)]);
        let counters = nic.counters();
        assert_eq!((counters.request_ring.entries, counters.request_ring.refused), (3, 1));
        assert_eq!(counters.work_queue.drop_opcode, 3);
    }
}
