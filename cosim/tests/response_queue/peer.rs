//! What stands around the block in its test: a rate limiter that refuses by chance, `response_engine` with the READs of a peer, and that peer,
//! which loses packets, acknowledges, and asks for the next READ when it has one in full.

use std::collections::{BTreeMap, VecDeque};

use spraynic_config::descriptor::{Descriptor, PacketDescriptor, PacketOrigin, Resend, ResponseMessage, SendProgress};
use spraynic_cosim::{Agent, Answer, Frame, Received};

use crate::queues::{Chance, PSN_MASK, Window, psn_at};

/// Nanoseconds of a clock.
pub(crate) const CLOCK_NS: u64 = 4;

const HALF: u32 = 1 << 23;

/// What was sent into the block by itself, in the order of each stream.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) messages: Vec<ResponseMessage>,
    pub(crate) progress: Vec<SendProgress>,
    pub(crate) resends: Vec<Resend>,
    pub(crate) grants: Vec<u8>,
}

/// How the surroundings behave: chances are of 256.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    pub(crate) seed: u64,
    /// Packets that are lost.
    pub(crate) loss: u64,
    /// Requests for tokens that are refused.
    pub(crate) refusals: u64,
    /// Packets after which something comes that makes no sense: a failure, PSNs that were not given, or long ago.
    pub(crate) nonsense: u64,
    /// Clocks from a packet to what it causes.
    pub(crate) delay: u64,
}

/// The surroundings.
pub(crate) struct Peer {
    manners: Manners,
    chance: Chance,
    lines: BTreeMap<u32, Window>,
    /// READs that the peer has asked for, and those that it will ask for later, by queue pair.
    pub(crate) reads: BTreeMap<u32, (VecDeque<ResponseMessage>, VecDeque<ResponseMessage>)>,
    pub(crate) sent: Sent,
}

/// A frame of `m_axis`.
pub(crate) fn given(data: &[u8]) -> (PacketDescriptor, PacketOrigin) {
    let (packet, origin) = data.split_at(PacketDescriptor::width() as usize / 8);
    (PacketDescriptor::unpack(packet), PacketOrigin::unpack(origin))
}

impl Peer {
    /// `messages`: what the stimulus sends by itself.
    pub(crate) fn new(manners: Manners, messages: Vec<ResponseMessage>) -> Self {
        Self {
            chance: Chance::new(manners.seed),
            manners,
            lines: BTreeMap::new(),
            reads: BTreeMap::new(),
            sent: Sent {
                messages,
                ..Sent::default()
            },
        }
    }

    fn send(&self, answer: &mut Answer<'_>, stream: &str, packed: Vec<u8>) -> Result<(), String> {
        let mut frame = Frame::new(packed);
        frame.not_before = answer.cycle + self.manners.delay;
        answer.send(stream, frame).map_err(|error| error.to_string())
    }

    fn resend(&mut self, answer: &mut Answer<'_>, qpn: u32, psn: u32) -> Result<(), String> {
        let resend = Resend {
            qpn,
            psn,
            space: true,
            ..Resend::default()
        };
        self.sent.resends.push(resend);
        self.send(answer, "s_axis_resend", resend.pack())
    }

    fn progress(&mut self, answer: &mut Answer<'_>, qpn: u32, base: u32, failed: bool) -> Result<(), String> {
        let progress = SendProgress {
            qpn,
            base,
            done: base,
            space: true,
            failed,
            ..SendProgress::default()
        };
        self.sent.progress.push(progress);
        self.send(answer, "s_axis_progress", progress.pack())
    }

    /// Where the response of the oldest READ is there, the peer asks for another one: its response may come before the SACK.
    fn ask_for_more(&mut self, answer: &mut Answer<'_>, qpn: u32, base: u32) -> Result<(), String> {
        let Some((asked, waiting)) = self.reads.get_mut(&qpn) else {
            return Ok(());
        };
        let has_come =
            |message: &ResponseMessage| psn_at(base, HALF + HALF - psn_at(message.psn, message.packets)) < HALF;
        let mut more = vec![];
        while asked.pop_front_if(|message| has_come(message)).is_some() {
            if let Some(message) = waiting.pop_front() {
                asked.push_back(message);
                more.push(message);
            }
        }
        for message in more {
            self.sent.messages.push(message);
            let mut frame = Frame::new(message.pack());
            let late = if self.chance.of_256(128) { 0 } else { self.manners.delay };
            frame.not_before = answer.cycle + late;
            answer.send("s_axis", frame).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn packet(
        &mut self,
        answer: &mut Answer<'_>,
        packet: &PacketDescriptor,
        origin: &PacketOrigin,
    ) -> Result<(), String> {
        let (qpn, psn) = (packet.qpn, packet.psn);
        let lost = self.chance.of_256(self.manners.loss);
        let line = self.lines.entry(qpn).or_default();
        if !origin.retransmission {
            if psn != line.next {
                // It was opened anew.
                *line = Window::new(psn);
            }
            line.next = psn_at(psn, 1);
        }
        if lost {
            self.resend(answer, qpn, psn)?;
        } else {
            line.receive(psn);
        }
        let line = self.lines.entry(qpn).or_default();
        let (base, next) = (line.base, line.next);
        self.ask_for_more(answer, qpn, base)?;
        if self.chance.of_256(self.manners.nonsense) {
            let off = self.chance.bits(40, 8) as u32;
            match self.chance.bits(50, 3) {
                0 => self.progress(answer, qpn, base, true)?,
                1 => self.progress(answer, qpn, psn_at(next, off), false)?,
                2 => self.progress(answer, qpn, psn_at(base, PSN_MASK + 1 - off), false)?,
                3 => self.progress(answer, qpn ^ 8, base, false)?,
                4 => self.resend(answer, qpn ^ 8, psn)?,
                5 => self.resend(answer, qpn, psn_at(next, off))?,
                6 => self.resend(answer, qpn, psn_at(base, PSN_MASK + 1 - off))?,
                _ => self.resend(answer, qpn, psn)?,
            }
        }
        self.progress(answer, qpn, base, false)
    }
}

impl Agent for Peer {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        match stream {
            "m_axis_rate_request" => {
                let code = if self.chance.of_256(self.manners.refusals) {
                    1 + u8::from(self.chance.of_256(64))
                } else {
                    0
                };
                self.sent.grants.push(code);
                answer
                    .send("s_axis_rate_grant", Frame::new(vec![code]))
                    .map_err(|error| error.to_string())
            }
            "m_axis" => {
                let (packet, origin) = given(&frame.data);
                self.packet(answer, &packet, &origin)
            }
            _ => Ok(()),
        }
    }
}
