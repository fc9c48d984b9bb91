//! What the network and the host see of a NIC: frames, writes of its tables, requests, completions, memory.

use serde::Serialize;
use spraynic_config::descriptor::{
    Completion, HeaderTemplate, MemoryRegion, PathEntry, QueuePairContext, RateLimit, ReceiveRequest, SendContext,
    WorkRequest,
};

/// A write of the host into a table of the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableWrite {
    /// A queue pair for the receive path.
    QueuePair(QueuePairContext),
    /// A queue pair for the send side.
    Send(SendContext),
    /// Headers of what a queue pair sends.
    Template(HeaderTemplate),
    /// Memory that peers may reach.
    Region(MemoryRegion),
    /// A path of a set.
    Path(PathEntry),
    /// A bucket of the rate limiter.
    Rate(RateLimit),
}

/// What a NIC did beyond sending its work once: sums of its counters since reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Activity {
    /// Packets of requests and responses sent again.
    pub sent_again: u64,
    /// Retransmission timers that ran out.
    pub timeouts: u64,
    /// Go-back-N rewinds (profile roce).
    pub rewinds: u64,
    /// SACKs taken.
    pub sacks: u64,
    /// NACKs taken.
    pub nacks: u64,
    /// NAKs taken, RNR NAKs among them.
    pub naks: u64,
    /// Probes sent, of paths and for missing acknowledgements.
    pub probes: u64,
    /// Paths left out once because of congestion.
    pub paths_skipped: u64,
    /// Paths that became bad.
    pub paths_retired: u64,
    /// Paths that a probe brought back.
    pub paths_recovered: u64,
    /// Packets that took the path of one that came back unmarked (policy reps).
    pub paths_recycled: u64,
    /// Queue pairs that failed.
    pub failures: u64,
}

impl Activity {
    /// Each count with its name.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 12] {
        [
            ("sent again", self.sent_again),
            ("timeouts", self.timeouts),
            ("rewinds", self.rewinds),
            ("SACKs taken", self.sacks),
            ("NACKs taken", self.nacks),
            ("NAKs taken", self.naks),
            ("probes", self.probes),
            ("paths skipped", self.paths_skipped),
            ("paths retired", self.paths_retired),
            ("paths recovered", self.paths_recovered),
            ("paths recycled", self.paths_recycled),
            ("queue pairs failed", self.failures),
        ]
    }
}

/// A NIC, golden or Verilated. Times are in nanoseconds and never go back.
pub trait Device {
    /// A write into a table.
    fn write(&mut self, write: &TableWrite, now_ns: u64);

    /// A work request.
    fn post(&mut self, request: &WorkRequest, now_ns: u64);

    /// A receive request.
    fn post_receive(&mut self, request: &ReceiveRequest, now_ns: u64);

    /// A port's link goes down or comes up.
    fn set_port(&mut self, port: u8, up: bool, now_ns: u64);

    /// The peer of a port's wire pauses it (PFC, PAUSE), or no longer: no frame begins on it meanwhile. A device that cannot be told finds its wire busy.
    fn set_pause(&mut self, _port: u8, _paused: bool, _now_ns: u64) {}

    /// A frame comes in.
    fn receive(&mut self, port: u8, frame: Vec<u8>, now_ns: u64);

    /// The next frame for one of the ports whose wire is free: bit n for port n. It leaves now.
    fn transmit(&mut self, free: u8, now_ns: u64) -> Option<(u8, Vec<u8>)>;

    /// When it has to be looked at again, by [`Device::advance`], though nothing comes.
    fn wake_ns(&mut self) -> Option<u64>;

    /// Its timers go on to this time.
    fn advance(&mut self, now_ns: u64);

    /// The next completion that it gave.
    fn completion(&mut self) -> Option<Completion>;

    /// The next frame that it gave the host.
    fn slow_path(&mut self) -> Option<Vec<u8>>;

    /// Memory of its host, from address 0.
    fn memory(&mut self) -> &mut Vec<u8>;

    /// What is still held for queue pairs, as text; empty: no slot, no place in a window, no response.
    fn leftovers(&self) -> String;

    /// What it did so far beyond sending its work once.
    fn activity(&self) -> Activity;
}

/// So that NICs of different kinds are on one network.
impl<D: Device + ?Sized> Device for Box<D> {
    fn write(&mut self, write: &TableWrite, now_ns: u64) {
        (**self).write(write, now_ns);
    }

    fn post(&mut self, request: &WorkRequest, now_ns: u64) {
        (**self).post(request, now_ns);
    }

    fn post_receive(&mut self, request: &ReceiveRequest, now_ns: u64) {
        (**self).post_receive(request, now_ns);
    }

    fn set_port(&mut self, port: u8, up: bool, now_ns: u64) {
        (**self).set_port(port, up, now_ns);
    }

    fn set_pause(&mut self, port: u8, paused: bool, now_ns: u64) {
        (**self).set_pause(port, paused, now_ns);
    }

    fn receive(&mut self, port: u8, frame: Vec<u8>, now_ns: u64) {
        (**self).receive(port, frame, now_ns);
    }

    fn transmit(&mut self, free: u8, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        (**self).transmit(free, now_ns)
    }

    fn wake_ns(&mut self) -> Option<u64> {
        (**self).wake_ns()
    }

    fn advance(&mut self, now_ns: u64) {
        (**self).advance(now_ns);
    }

    fn completion(&mut self) -> Option<Completion> {
        (**self).completion()
    }

    fn slow_path(&mut self) -> Option<Vec<u8>> {
        (**self).slow_path()
    }

    fn memory(&mut self) -> &mut Vec<u8> {
        (**self).memory()
    }

    fn leftovers(&self) -> String {
        (**self).leftovers()
    }

    fn activity(&self) -> Activity {
        (**self).activity()
    }
}
