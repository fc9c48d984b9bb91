//! Frames that go out: the choice among the sources, the path, the headers.

use std::collections::VecDeque;

use spraynic_config::descriptor::{PacketDescriptor, PacketOrigin};

use super::{HostMemory, SpraynicNic};
use crate::frame::Frame;
use crate::packet_slicer::{self, Slice};
use crate::requester::expected_response;
use crate::response_engine::Packets;
use crate::spray_scheduler::{Ports, first_from, next_random};

/// Where packets with a path come from. They take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Requests,
    Responses,
    Direct,
}

impl Source {
    const ALL: [Self; 3] = [Self::Requests, Self::Responses, Self::Direct];
}

/// What waits for a port.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// The rest of a slice of a request.
    slice: Option<Slice>,
    /// Responses of roce: they are not tracked, and leave in the order in which they were made.
    pub(super) direct: VecDeque<Packets>,
    /// Packets that were drawn, but found no port with room.
    drawn: [Option<(PacketDescriptor, PacketOrigin)>; 3],
    /// Whose turn it is.
    turn: usize,
    /// Frames of the host.
    pub(super) slow_path: VecDeque<Vec<u8>>,
}

impl SpraynicNic {
    /// The next frame, for one of the ports that are free (bit n: port n), and its port. It leaves now.
    pub fn transmit(&mut self, free: u8, memory: &impl HostMemory, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        let free = free & self.ports_up;
        if free == 0 {
            return None;
        }
        if let Some(sent) = self.transmit_control(free, now_ns) {
            return Some(sent);
        }
        if let Some(sent) = self.transmit_data(free, memory, now_ns) {
            return Some(sent);
        }
        let frame = self.sources.slow_path.pop_front()?;
        Some((free.trailing_zeros() as u8, frame))
    }

    /// What a peer is answered leaves by any port that is up, by chance: a plane that is dead beyond its first link takes some answers with it, but
    /// never all of a kind.
    pub(super) fn answer(&mut self, packet: PacketDescriptor) {
        let planes = (self.config.paths.ports as usize).next_power_of_two();
        self.answer_random = next_random(self.answer_random);
        let port = first_from(self.ports_up, self.answer_random as usize % planes, planes) as u8;
        self.control.push_back(PacketDescriptor { port, ..packet });
    }

    /// A control packet leaves by its port, or by the lowest one that is up where that is down.
    fn transmit_control(&mut self, free: u8, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        while let Some(packet) = self.control.front() {
            let is_up = self.ports_up >> packet.port & 1 == 1;
            let port = if is_up {
                packet.port
            } else {
                self.ports_up.trailing_zeros() as u8
            };
            if free >> port & 1 == 0 {
                return None;
            }
            let packet = self.control.pop_front()?;
            if let Some(frame) = self.builder.build_control(&packet, now_ns) {
                return Some((port, self.icrc.insert(frame).bytes));
            }
        }
        None
    }

    /// Nothing waits in any source: to draw from them all would give nothing and change nothing.
    fn is_idle(&self) -> bool {
        let Sources {
            slice, direct, drawn, ..
        } = &self.sources;
        let drained = slice.is_none() && direct.is_empty() && drawn.iter().all(Option::is_none);
        drained && self.work.gives_nothing() && self.responses.gives_nothing()
    }

    fn transmit_data(&mut self, free: u8, memory: &impl HostMemory, now_ns: u64) -> Option<(u8, Vec<u8>)> {
        if self.is_idle() {
            return None;
        }
        let mut tried = 0;
        while tried < Source::ALL.len() {
            let turn = self.sources.turn;
            self.sources.turn = (turn + 1) % Source::ALL.len();
            let Some((packet, origin)) = self.draw(turn, now_ns) else {
                tried += 1;
                continue;
            };
            let ports = Ports {
                up: self.ports_up,
                room: free,
            };
            let Some(scheduled) = self.spray.choose(&packet, &origin, ports) else {
                self.sources.drawn[turn] = Some((packet, origin));
                tried += 1;
                continue;
            };
            if let Some(sent) = scheduled.sent {
                self.retransmit.sent(&sent, now_ns);
                self.settle();
            }
            let packet = scheduled.descriptor;
            let payload = memory.payload(packet.local_address, packet.payload_length);
            let frame = self
                .builder
                .build(&packet, payload, now_ns)
                .map(|frame| self.icrc.insert(frame));
            // A frame without its payload is bad and never leaves, as in `frame_fifo`.
            if let Some(Frame { bytes, bad: false, .. }) = frame {
                return Some((packet.port, bytes));
            }
            tried = 0;
        }
        None
    }

    /// The next packet of a source.
    fn draw(&mut self, source: usize, now_ns: u64) -> Option<(PacketDescriptor, PacketOrigin)> {
        if let Some(drawn) = self.sources.drawn[source].take() {
            return Some(drawn);
        }
        match Source::ALL[source] {
            Source::Requests => self.draw_request(now_ns),
            Source::Responses => {
                let limiter = &mut self.limiter;
                self.responses
                    .give(now_ns, |request| Self::granted(limiter.request(request, now_ns)))
            }
            Source::Direct => {
                while let Some(response) = self.sources.direct.front_mut() {
                    if let Some(packet) = response.next() {
                        return Some((packet, PacketOrigin::default()));
                    }
                    self.sources.direct.pop_front();
                }
                None
            }
        }
    }

    fn draw_request(&mut self, now_ns: u64) -> Option<(PacketDescriptor, PacketOrigin)> {
        loop {
            if let Some(slice) = &mut self.sources.slice {
                if let Some(packet) = slice.next() {
                    return Some(packet);
                }
                self.sources.slice = None;
            }
            let limiter = &mut self.limiter;
            let given = self.work.next_slice(now_ns, |request| limiter.request(request, now_ns));
            let Some((request, slice)) = given else {
                // Requests that ended without being cut.
                self.settle();
                return None;
            };
            if let Some(expected) = expected_response(&request, &slice) {
                self.requester.expect(&expected);
            }
            self.sources.slice = Some(packet_slicer::slice(&request, &slice));
        }
    }
}
