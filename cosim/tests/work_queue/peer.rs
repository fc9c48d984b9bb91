//! What stands around the block in its test: a rate limiter that refuses by chance or by the golden model, and a peer that loses packets,
//! acknowledges, answers READs and asks again.

use std::collections::{BTreeMap, BTreeSet};

use spraynic_config::descriptor::{
    Completion, Descriptor, RateRequest, Resend, ResponseDone, SendProgress, WorkOpcode, WorkRequest, WorkSlice,
};
use spraynic_cosim::{Agent, Answer, Frame, Received};
use spraynic_golden::rate_limiter::RateLimiter;

/// Nanoseconds of a clock.
pub(crate) const CLOCK_NS: u64 = 4;

const MASK: u32 = 0xff_ffff;

/// What was sent into the block by itself, in the order of each stream.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) progress: Vec<SendProgress>,
    pub(crate) resends: Vec<Resend>,
    pub(crate) responses: Vec<ResponseDone>,
    pub(crate) grants: Vec<u8>,
}

/// How the surroundings behave.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    pub(crate) seed: u64,
    /// Of 256 packets so many are lost.
    pub(crate) loss: u64,
    /// Of 256 requests for tokens so many are refused.
    pub(crate) refusals: u64,
    /// Clocks from a slice to what it causes.
    pub(crate) delay: u64,
}

#[derive(Debug, Default)]
struct Line {
    roce: bool,
    /// Oldest PSN that was not received, and the next one to be sent.
    base: u32,
    next: u32,
    received: BTreeSet<u32>,
}

/// The surroundings.
pub(crate) struct Peer {
    manners: Manners,
    state: u64,
    lines: BTreeMap<u32, Line>,
    /// The golden model says which requests are granted.
    pub(crate) limiter: Option<RateLimiter>,
    pub(crate) sent: Sent,
    /// For each request that completes, the same one is posted again, so often.
    pub(crate) posts: usize,
    pub(crate) template: WorkRequest,
}

fn psn_at(base: u32, offset: u32) -> u32 {
    base.wrapping_add(offset) & MASK
}

impl Peer {
    pub(crate) fn new(manners: Manners, lines: impl IntoIterator<Item = (u32, u32, bool)>) -> Self {
        let lines = lines.into_iter().map(|(qpn, psn, roce)| {
            let line = Line {
                roce,
                base: psn,
                next: psn,
                ..Line::default()
            };
            (qpn, line)
        });
        Self {
            state: manners.seed | 1,
            manners,
            lines: lines.collect(),
            limiter: None,
            sent: Sent::default(),
            posts: 0,
            template: WorkRequest::default(),
        }
    }

    fn chance(&mut self, of_256: u64) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 24 & 0xff < of_256
    }

    fn later(&self, answer: &Answer<'_>, packed: Vec<u8>) -> Frame {
        let mut frame = Frame::new(packed);
        frame.not_before = answer.cycle + self.manners.delay;
        frame
    }

    fn resend(&mut self, answer: &mut Answer<'_>, resend: Resend) -> Result<(), String> {
        let frame = self.later(answer, resend.pack());
        self.sent.resends.push(resend);
        answer.send("s_axis_resend", frame).map_err(|error| error.to_string())
    }

    fn respond(&mut self, answer: &mut Answer<'_>, qpn: u32, slot: u8) -> Result<(), String> {
        let done = ResponseDone { qpn, slot, status: 0 };
        let frame = self.later(answer, done.pack());
        self.sent.responses.push(done);
        answer
            .send("s_axis_response_done", frame)
            .map_err(|error| error.to_string())
    }

    fn slice(&mut self, answer: &mut Answer<'_>, request: &WorkRequest, slice: &WorkSlice) -> Result<(), String> {
        let qpn = request.qpn;
        let responds = matches!(
            WorkOpcode::from_code(request.opcode),
            Some(WorkOpcode::Read | WorkOpcode::CompareSwap | WorkOpcode::FetchAdd)
        );
        let Some(line) = self.lines.get(&qpn) else {
            return Ok(());
        };
        let roce = line.roce;
        let psns = match (responds, roce && request.opcode == WorkOpcode::Read as u8) {
            (true, true) => request.length.div_ceil(128 << slice.mtu).max(1) - slice.index,
            (true, false) => 1,
            _ => u32::from(slice.packets),
        };
        let end = psn_at(slice.psn, psns);
        if !slice.retransmission {
            self.lines.entry(qpn).or_default().next = end;
        }
        for offset in 0..psns {
            let psn = psn_at(slice.psn, offset);
            let lost = self.chance(self.manners.loss);
            let line = self.lines.entry(qpn).or_default();
            let in_order = psn == line.base;
            let resend = Resend {
                qpn,
                psn,
                slot: slice.slot,
                rewind: roce,
                ..Resend::default()
            };
            if roce && !in_order {
                continue;
            }
            if lost {
                self.resend(answer, resend)?;
                continue;
            }
            line.received.insert(psn);
            while line.received.remove(&line.base) {
                line.base = psn_at(line.base, 1);
            }
            // A READ of roce ends with its last response, any other request of that kind with its only one.
            if responds && psn_at(psn, 1) == end {
                self.respond(answer, qpn, slice.slot)?;
            }
        }
        let done_lags = self.chance(64);
        let line = &self.lines[&qpn];
        // The last one of all says the whole truth.
        let done = if done_lags && line.base != line.next {
            psn_at(line.base, MASK)
        } else {
            line.base
        };
        let progress = SendProgress {
            qpn,
            base: line.base,
            done,
            ..SendProgress::default()
        };
        let frame = self.later(answer, progress.pack());
        self.sent.progress.push(progress);
        answer.send("s_axis_progress", frame).map_err(|error| error.to_string())
    }
}

/// Bytes of a slice, with 64 for each packet.
pub(crate) fn cost_of(request: &WorkRequest, slice: &WorkSlice) -> u64 {
    let mtu = 128u32 << slice.mtu;
    let packets = u32::from(slice.packets);
    let sends = request.opcode <= WorkOpcode::Write as u8;
    let payload = if sends {
        (packets * mtu).min(request.length - slice.index * mtu)
    } else {
        0
    };
    u64::from(payload + 64 * packets)
}

/// A frame of `m_axis`.
pub(crate) fn given(data: &[u8]) -> (WorkRequest, WorkSlice) {
    let (request, slice) = data.split_at(WorkRequest::width() as usize / 8);
    (WorkRequest::unpack(request), WorkSlice::unpack(slice))
}

impl Agent for Peer {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        match stream {
            "m_axis_rate_request" => {
                let request = RateRequest::unpack(&frame.data);
                let granted = self
                    .limiter
                    .as_mut()
                    .map(|limiter| limiter.request(&request, answer.cycle * CLOCK_NS));
                let code = match granted {
                    Some(grant) => grant as u8,
                    None if self.chance(self.manners.refusals) => 1 + u8::from(self.chance(64)),
                    None => 0,
                };
                self.sent.grants.push(code);
                answer
                    .send("s_axis_rate_grant", Frame::new(vec![code]))
                    .map_err(|error| error.to_string())
            }
            "m_axis" => {
                let (request, slice) = given(&frame.data);
                self.slice(answer, &request, &slice)
            }
            "m_axis_completion" if self.posts > 0 => {
                self.posts -= 1;
                let qpn = Completion::unpack(&frame.data).qpn;
                let request = WorkRequest { qpn, ..self.template };
                answer
                    .send("s_axis_work_request", Frame::new(request.pack()))
                    .map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}
