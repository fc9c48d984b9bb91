//! The golden NIC as a device, with the memory of its host.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, ReceiveRequest, WorkRequest};
use spraynic_golden::frame::Frame;
use spraynic_golden::receive_pipeline::requests::Memory;
use spraynic_golden::response_engine::AtomicMemory;
use spraynic_golden::spraynic_nic::{HostMemory, Settings, SpraynicNic};

use crate::device::{Activity, Device, TableWrite};

/// Memory that counts what is written.
#[derive(Debug, Clone, Default)]
struct Host {
    bytes: Vec<u8>,
    written: u64,
}

impl AtomicMemory for Host {
    fn read(&mut self, address: u64) -> u64 {
        self.bytes.read(address)
    }

    fn write(&mut self, address: u64, value: u64) -> bool {
        self.bytes.write(address, value)
    }
}

impl Memory for Host {
    fn write_payload(&mut self, address: u64, bytes: &[u8]) -> bool {
        self.written += bytes.len() as u64;
        self.bytes.write_payload(address, bytes)
    }
}

impl HostMemory for Host {
    fn payload(&self, address: u64, length: u16) -> &[u8] {
        self.bytes.payload(address, length)
    }
}

/// A golden NIC and its host's memory.
#[derive(Debug, Clone)]
pub struct GoldenDevice {
    nic: SpraynicNic,
    host: Host,
}

impl GoldenDevice {
    /// After reset, with so many bytes of memory.
    #[must_use]
    pub fn new(config: &NicConfig, settings: Settings, memory_bytes: usize) -> Self {
        Self {
            nic: SpraynicNic::new(config, settings),
            host: Host {
                bytes: vec![0; memory_bytes],
                written: 0,
            },
        }
    }

    /// The NIC, to look at.
    #[must_use]
    pub fn nic(&self) -> &SpraynicNic {
        &self.nic
    }

    /// Payload bytes that reached memory.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.host.written
    }
}

impl Device for GoldenDevice {
    fn write(&mut self, write: &TableWrite, now_ns: u64) {
        let nic = &mut self.nic;
        match write {
            TableWrite::QueuePair(context) => nic.write_queue_pair(context, &mut self.host),
            TableWrite::Send(context) => nic.write_send_context(context),
            TableWrite::Template(template) => nic.write_template(template),
            TableWrite::Region(region) => nic.write_region(region),
            TableWrite::Path(entry) => nic.write_path(entry),
            TableWrite::Rate(limit) => nic.write_rate(limit, now_ns),
        }
    }

    fn post(&mut self, request: &WorkRequest, _now_ns: u64) {
        self.nic.post(request);
    }

    fn post_receive(&mut self, request: &ReceiveRequest, now_ns: u64) {
        self.nic.post_receive(request, &mut self.host, now_ns);
    }

    fn set_port(&mut self, port: u8, up: bool, _now_ns: u64) {
        self.nic.set_port(port, up);
    }

    fn receive(&mut self, _port: u8, frame: Vec<u8>, now_ns: u64) {
        self.nic.receive(&Frame::plain(frame), &mut self.host, now_ns);
    }

    fn transmit(&mut self, free: u8, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        self.nic.transmit(free, &self.host, now_ns)
    }

    fn wake_ns(&mut self) -> Option<u64> {
        self.nic.wake_ns()
    }

    fn advance(&mut self, now_ns: u64) {
        self.nic.advance(now_ns);
    }

    fn completion(&mut self) -> Option<Completion> {
        self.nic.completion()
    }

    fn slow_path(&mut self) -> Option<Vec<u8>> {
        self.nic.slow_path()
    }

    fn memory(&mut self) -> &mut Vec<u8> {
        &mut self.host.bytes
    }

    fn leftovers(&self) -> String {
        self.nic.leftovers()
    }

    fn activity(&self) -> Activity {
        let counters = self.nic.counters();
        let (sent, paths) = (&counters.retransmit_engine, &counters.path_monitor);
        let again = [
            counters.work_queue.retransmissions,
            counters.response_queue.retransmissions,
        ];
        Activity {
            sent_again: again.iter().map(|count| u64::from(*count)).sum(),
            timeouts: sent.timeouts.into(),
            rewinds: sent.rewinds.into(),
            sacks: sent.sacks.into(),
            nacks: sent.nacks.into(),
            naks: sent.naks.into(),
            probes: u64::from(sent.probes) + u64::from(paths.probes),
            paths_skipped: paths.skipped.into(),
            paths_retired: u64::from(paths.bad_by_loss) + u64::from(paths.bad_by_peer),
            paths_recovered: paths.recovered.into(),
            paths_recycled: counters.spray_scheduler.recycled.into(),
            failures: sent.failures.into(),
        }
    }
}
