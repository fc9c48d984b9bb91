//! What happened in a run, by time, as a person reads it: frames with their fate, requests, completions, timers, script.
//!
//! It sees what the wires and the host see of a NIC, and the NIC's counters; it never looks inside. It is kept outside of the run, so that it
//! is there when a model panics.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spraynic_config::descriptor::{Completion, ReceiveRequest, WorkRequest};
use spraynic_wire::{Packet, icrc, pcap};

use crate::run::{RECEIVE, status_name};
use crate::scenario::{Action, Operation};
use crate::time::Picoseconds;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A frame began to leave a port, for a path.
    Sent {
        /// The NIC.
        nic: usize,
        /// Its port.
        port: u8,
        /// The path of the port's plane.
        path: usize,
        /// What befell it there; empty: nothing.
        fate: String,
        /// The frame as it left.
        frame: Vec<u8>,
    },
    /// Something befell a frame at the last switch before a NIC.
    AtSwitch {
        /// The NIC.
        nic: usize,
        /// Its port.
        port: u8,
        /// What befell it.
        fate: String,
        /// The frame as it came to the switch.
        frame: Vec<u8>,
    },
    /// A frame came to a port.
    Received {
        /// The NIC.
        nic: usize,
        /// Its port.
        port: u8,
        /// Whether the port's link is up; a frame is lost where it is not.
        up: bool,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The host posted a work request.
    Posted {
        /// The NIC.
        nic: usize,
        /// What.
        request: WorkRequest,
    },
    /// The host posted a receive request.
    PostedReceive {
        /// The NIC.
        nic: usize,
        /// What.
        request: ReceiveRequest,
    },
    /// The host got a completion.
    Completed {
        /// The NIC.
        nic: usize,
        /// What.
        completion: Completion,
    },
    /// The host got a frame.
    SlowPath {
        /// The NIC.
        nic: usize,
        /// The frame.
        frame: Vec<u8>,
    },
    /// One of the counts of [`Activity`](crate::Activity) went up.
    Did {
        /// The NIC.
        nic: usize,
        /// The count.
        name: &'static str,
        /// By how much.
        count: u64,
    },
    /// A step of the script.
    Script(Action),
}

/// Something that happened, with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Picoseconds,
    /// What.
    pub what: What,
}

/// What happened, in its order. Clones are the same log.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Entry>>>);

impl Log {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // An entry is pushed whole or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, at: Picoseconds, what: What) {
        self.entries().push(Entry { at, what });
    }

    /// All of it.
    #[must_use]
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries())
    }
}

/// A line for each entry: time in nanoseconds, NIC, what happened. A frame whose PSN its NIC sent before to the same queue pair is marked
/// `AGAIN`.
#[must_use]
pub fn lines(entries: &[Entry]) -> Vec<String> {
    let mut seen = HashSet::new();
    entries.iter().map(|entry| line(entry, &mut seen)).collect()
}

/// Writes the frames that left and reached a NIC as a capture; its times begin at 1970-01-01 with the run.
///
/// # Errors
/// What the sink says.
pub fn capture<W: io::Write>(entries: &[Entry], of: usize, sink: W) -> io::Result<W> {
    let mut writer = pcap::Writer::new(sink)?;
    for Entry { at, what } in entries {
        match what {
            What::Sent { nic, frame, .. } | What::Received { nic, frame, .. } if *nic == of => {
                writer.write(Duration::from_nanos(at.ns()), frame)?;
            }
            _ => {}
        }
    }
    writer.finish()
}

/// A sequence of PSNs and a place in it: sender, destination QPN, whether a response, PSN.
type Sequenced = (usize, u32, bool, u32);

fn line(entry: &Entry, seen: &mut HashSet<Sequenced>) -> String {
    let (nic, text) = match &entry.what {
        What::Sent {
            nic,
            port,
            path,
            fate,
            frame,
        } => {
            let (text, sequenced) = describe(frame);
            let again = sequenced.is_some_and(|(qpn, response, psn)| !seen.insert((*nic, qpn, response, psn)));
            let again = if again { " AGAIN" } else { "" };
            let fate = if fate.is_empty() {
                String::new()
            } else {
                format!("  --- {fate}")
            };
            (*nic, format!("port {port} path {path}{again} > {text}{fate}"))
        }
        What::AtSwitch { nic, port, fate, frame } => (
            *nic,
            format!(
                "port {port}        > {}  --- {fate} at the last switch",
                describe(frame).0
            ),
        ),
        What::Received { nic, port, up, frame } => {
            let lost = if *up { "" } else { "  --- LOST (port is down)" };
            (*nic, format!("port {port}        < {}{lost}", describe(frame).0))
        }
        What::Posted { nic, request } => (*nic, posted(request)),
        What::PostedReceive { nic, request } => (
            *nic,
            format!(
                "host posts a receive request of message {}: queue pair {}, {} bytes",
                message_of(request.cookie),
                request.qpn,
                request.length
            ),
        ),
        What::Completed { nic, completion } => (*nic, completed(completion)),
        What::SlowPath { nic, frame } => (*nic, format!("host gets a frame: {}", describe(frame).0)),
        What::Did { nic, name, count } => (*nic, format!("    {name}: +{count}")),
        What::Script(action) => return format!("{:>12} script: {action:?}", ns(entry.at)),
    };
    format!("{:>12} NIC {nic} {text}", ns(entry.at))
}

fn ns(at: Picoseconds) -> String {
    format!("{}.{:03}", at.ns(), at.0 % 1_000)
}

/// Cookies of receive requests have a bit beyond the number of the message.
fn message_of(cookie: u64) -> u64 {
    cookie & !RECEIVE
}

fn posted(request: &WorkRequest) -> String {
    let operation = Operation::ALL
        .into_iter()
        .find(|operation| operation.opcode() as u8 == request.opcode)
        .map_or_else(
            || format!("operation {}", request.opcode),
            |operation| format!("{operation:?}"),
        );
    let mut text = format!(
        "host posts message {}: queue pair {}, {operation}, {} bytes",
        request.cookie, request.qpn, request.length
    );
    let flags = [
        (request.inline_immediate, ", immediate"),
        (request.fence, ", fence"),
        (!request.signalled, ", unsignalled"),
    ];
    for (_, name) in flags.iter().filter(|(set, _)| *set) {
        text.push_str(name);
    }
    text
}

fn completed(completion: &Completion) -> String {
    let what = if completion.cookie & RECEIVE == 0 {
        "message"
    } else {
        "the receive request of message"
    };
    let status = status_name(completion.status);
    let mut text = format!(
        "host gets the completion of {what} {}: queue pair {}, {status}, {} bytes",
        message_of(completion.cookie),
        completion.qpn,
        completion.byte_count
    );
    if completion.has_immediate {
        let _ = write!(text, ", immediate 0x{:08x}", completion.immediate);
    }
    text
}

/// The frame in words, and destination QPN, whether it is a response, and PSN where that is a place in a sequence.
fn describe(frame: &[u8]) -> (String, Option<(u32, bool, u32)>) {
    let packet = match Packet::parse(frame, None) {
        Ok(packet) => packet,
        Err(error) => return (format!("{} bytes, not RoCEv2: {error}", frame.len()), None),
    };
    let bth = &packet.bth;
    let mut text = format!("{} qp {} psn {}", bth.opcode, bth.destination_qpn, bth.psn);
    let flags = [(bth.ack_request, "ack-req"), (bth.becn, "becn")];
    for (_, name) in flags.iter().filter(|(set, _)| *set) {
        let _ = write!(text, " {name}");
    }
    for extension in &packet.extensions {
        let _ = write!(text, " {extension}");
    }
    let _ = write!(text, " payload {}", packet.payload.len());
    if packet.ip.traffic_class() & 3 == 3 {
        text.push_str(" CE");
    }
    if !icrc::verify(frame).is_ok_and(|verdict| verdict.is_valid()) {
        text.push_str(" icrc WRONG");
    }
    let operation = packet.info().map(|info| info.operation);
    let sequenced = operation.filter(|operation| operation.is_request() || operation.is_response());
    let place = sequenced.map(|operation| (bth.destination_qpn, operation.is_response(), bth.psn.value()));
    (text, place)
}
