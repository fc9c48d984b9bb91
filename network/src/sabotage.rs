//! NICs with a fault of their own, to show that the checks of a run find it. They wrap any device and touch nothing but frames.

use std::collections::HashSet;

use spraynic_config::descriptor::{Completion, ReceiveRequest, WorkRequest};
use spraynic_wire::{Packet, icrc};

use crate::device::{Activity, Device, TableWrite};

/// What a NIC does wrong with frames that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// It forgets every retransmission of a packet whose PSN is divisible by 4.
    ForgetRetransmissions,
    /// It swaps the first two bytes of payloads of more than 64 bytes; the ICRC is right.
    SwapBytes,
    /// It loses every 50th frame.
    LoseFrames,
    /// It panics at the 20th frame.
    Panic,
}

impl Sabotage {
    /// Each with a name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("forget-retransmissions", Self::ForgetRetransmissions),
        ("swap-bytes", Self::SwapBytes),
        ("lose-frames", Self::LoseFrames),
        ("panic", Self::Panic),
    ];
}

/// A device with a fault, or without.
#[derive(Debug, Clone)]
pub struct Sabotaged<D> {
    device: D,
    sabotage: Option<Sabotage>,
    frames: u64,
    /// Destination QPN, whether a response, PSN of packets sent.
    sent: HashSet<(u32, bool, u32)>,
}

impl<D> Sabotaged<D> {
    /// The device with this fault.
    #[must_use]
    pub fn new(device: D, sabotage: Option<Sabotage>) -> Self {
        Self {
            device,
            sabotage,
            frames: 0,
            sent: HashSet::new(),
        }
    }

    /// What becomes of a frame; `None`: it is lost.
    fn spoil(&mut self, sabotage: Sabotage, mut frame: Vec<u8>) -> Option<Vec<u8>> {
        self.frames += 1;
        match sabotage {
            Sabotage::LoseFrames => (!self.frames.is_multiple_of(50)).then_some(frame),
            Sabotage::Panic => {
                if self.frames == 20 {
                    // As `panic!`, but without a message on standard error for each run.
                    std::panic::resume_unwind(Box::new("this NIC was to panic"));
                }
                Some(frame)
            }
            Sabotage::ForgetRetransmissions => {
                let Ok(packet) = Packet::parse(&frame, None) else {
                    return Some(frame);
                };
                let operation = packet.info()?.operation;
                if !operation.is_request() && !operation.is_response() {
                    return Some(frame);
                }
                let psn = packet.bth.psn.value();
                let first = self
                    .sent
                    .insert((packet.bth.destination_qpn, operation.is_response(), psn));
                (first || psn % 4 != 0).then_some(frame)
            }
            Sabotage::SwapBytes => {
                if let Ok(packet) = Packet::parse(&frame, None)
                    && packet.payload.len() > 64
                {
                    let behind =
                        packet.payload.len() + usize::from(packet.bth.pad_count) + icrc::LENGTH + packet.trailer.len();
                    if let Some(first) = frame.len().checked_sub(behind) {
                        frame.swap(first, first + 1);
                        icrc::insert(&mut frame).ok()?;
                    }
                }
                Some(frame)
            }
        }
    }
}

impl<D: Device> Device for Sabotaged<D> {
    fn write(&mut self, write: &TableWrite, now_ns: u64) {
        self.device.write(write, now_ns);
    }

    fn post(&mut self, request: &WorkRequest, now_ns: u64) {
        self.device.post(request, now_ns);
    }

    fn post_receive(&mut self, request: &ReceiveRequest, now_ns: u64) {
        self.device.post_receive(request, now_ns);
    }

    fn set_port(&mut self, port: u8, up: bool, now_ns: u64) {
        self.device.set_port(port, up, now_ns);
    }

    fn set_pause(&mut self, port: u8, paused: bool, now_ns: u64) {
        self.device.set_pause(port, paused, now_ns);
    }

    fn receive(&mut self, port: u8, frame: Vec<u8>, now_ns: u64) {
        self.device.receive(port, frame, now_ns);
    }

    fn transmit(&mut self, free: u8, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        loop {
            let (port, frame) = self.device.transmit(free, now_ns)?;
            let frame = match self.sabotage {
                None => Some(frame),
                Some(sabotage) => self.spoil(sabotage, frame),
            };
            if let Some(frame) = frame {
                return Some((port, frame));
            }
        }
    }

    fn wake_ns(&mut self) -> Option<u64> {
        self.device.wake_ns()
    }

    fn advance(&mut self, now_ns: u64) {
        self.device.advance(now_ns);
    }

    fn completion(&mut self) -> Option<Completion> {
        self.device.completion()
    }

    fn slow_path(&mut self) -> Option<Vec<u8>> {
        self.device.slow_path()
    }

    fn memory(&mut self) -> &mut Vec<u8> {
        self.device.memory()
    }

    fn leftovers(&self) -> String {
        self.device.leftovers()
    }

    fn activity(&self) -> Activity {
        self.device.activity()
    }
}
