//! `transmit_pipeline`: work requests, descriptors and foreign frames in, frames for the MAC out.
//!
//! It composes the blocks and adds no rule of its own. The order between sources is a matter of time, so the model
//! either runs by itself ([`TransmitPipeline::transmit`]), or takes the next packet of a named source
//! ([`TransmitPipeline::take`]), or follows the frames that the RTL gave ([`TransmitPipeline::follow`]).
//! Theory of operation: `docs/src/blocks/transmit_pipeline.md`.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bitvec::prelude::*;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{HeaderTemplate, PacketDescriptor, PayloadRequest, SliceContext, WorkRequest};
use thiserror::Error;

use crate::frame_fifo::{self, FrameFifo, Outcome};
use crate::header_builder::{self, HeaderBuilder, stamp_of, stamp_offset};
use crate::icrc::{self, IcrcInsert};
use crate::packet_slicer::{self, DropReason, PacketSlicer, Packets};
use crate::round_robin_arbiter::RoundRobinArbiter;

/// What payload is read from.
pub trait Memory {
    /// The one payload packet that answers a request. An answer of another length makes the frame a bad one.
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8>;
}

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The slicer's part.
    pub packet_slicer: packet_slicer::Config,
    /// The header builder's part.
    pub header_builder: header_builder::Config,
    /// The store-and-forward FIFO's part.
    pub frame_fifo: frame_fifo::Config,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            packet_slicer: config.into(),
            header_builder: config.into(),
            frame_fifo: config.into(),
        }
    }
}

/// Counters of the blocks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Of `packet_slicer`.
    pub packet_slicer: packet_slicer::Counters,
    /// Of `header_builder`.
    pub header_builder: header_builder::Counters,
    /// Of `icrc`.
    pub icrc: icrc::Counters,
    /// Of `frame_fifo`.
    pub frame_fifo: frame_fifo::Counters,
}

/// Where a frame comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A work request, by `packet_slicer`.
    Slicer,
    /// `s_axis_response`.
    Response,
    /// `s_axis_control`.
    Control,
    /// `s_axis_slow_path`.
    SlowPath,
}

impl Source {
    /// All sources, in the order in which [`TransmitPipeline::follow`] looks at them.
    pub const ALL: [Self; 4] = [Self::Control, Self::Slicer, Self::Response, Self::SlowPath];
}

/// A source was taken from that has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0:?} has no packet that waits")]
pub struct Nothing(pub Source);

/// A frame that no source could have given next.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the frame is none of the {} that could come next", candidates.len())]
pub struct Mismatch {
    /// What came.
    pub observed: Vec<u8>,
    /// What each source that has something would have given.
    pub candidates: Vec<(Source, Vec<u8>)>,
}

/// The payload request of a descriptor, if it has payload.
#[must_use]
pub fn payload_request(descriptor: &PacketDescriptor) -> Option<PayloadRequest> {
    (descriptor.payload_length > 0).then(|| PayloadRequest {
        local_key: descriptor.local_key,
        length: descriptor.payload_length,
        address: descriptor.local_address,
        ..PayloadRequest::default()
    })
}

/// A descriptor with its payload, read once.
#[derive(Debug, Clone)]
struct Fetched {
    descriptor: PacketDescriptor,
    payload: Vec<u8>,
}

/// Descriptors of one source: those that wait, and those looked at already.
#[derive(Debug, Clone, Default)]
struct Waiting {
    messages: VecDeque<Packets>,
    descriptors: VecDeque<PacketDescriptor>,
    fetched: VecDeque<Fetched>,
}

impl Waiting {
    fn next_descriptor(&mut self) -> Option<PacketDescriptor> {
        while let Some(message) = self.messages.front_mut() {
            if let Some(packet) = message.next() {
                return Some(packet);
            }
            self.messages.pop_front();
        }
        self.descriptors.pop_front()
    }

    fn get(&mut self, index: usize, memory: &mut dyn Memory) -> Option<&Fetched> {
        while self.fetched.len() <= index {
            let descriptor = self.next_descriptor()?;
            let payload = payload_request(&descriptor).map_or_else(Vec::new, |request| memory.read(&request));
            self.fetched.push_back(Fetched { descriptor, payload });
        }
        self.fetched.get(index)
    }

    fn pop(&mut self, memory: &mut dyn Memory) -> Option<Fetched> {
        self.get(0, memory)?;
        self.fetched.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.fetched.is_empty() && self.descriptors.is_empty() && self.messages.iter().all(|message| message.len() == 0)
    }
}

/// The composition of the transmit blocks.
#[derive(Debug, Clone)]
pub struct TransmitPipeline {
    slicer: PacketSlicer,
    builder: HeaderBuilder,
    icrc: IcrcInsert,
    fifo: FrameFifo,
    arbiter: RoundRobinArbiter,
    multiplexer: RoundRobinArbiter,
    requests: Waiting,
    responses: Waiting,
    control: VecDeque<PacketDescriptor>,
    slow_path: VecDeque<Vec<u8>>,
    stored: VecDeque<(Source, Vec<u8>)>,
}

impl TransmitPipeline {
    /// The pipeline after reset.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            slicer: PacketSlicer::new(config.packet_slicer),
            builder: HeaderBuilder::new(config.header_builder),
            icrc: IcrcInsert::new(),
            fifo: FrameFifo::new(config.frame_fifo),
            arbiter: RoundRobinArbiter::new(2),
            multiplexer: RoundRobinArbiter::new(2),
            requests: Waiting::default(),
            responses: Waiting::default(),
            control: VecDeque::new(),
            slow_path: VecDeque::new(),
            stored: VecDeque::new(),
        }
    }

    /// Writes a slicing context: it holds for requests given from then on.
    pub fn write_context(&mut self, context: &SliceContext) {
        self.slicer.write_context(context);
    }

    /// Writes a header template: it holds for frames built from then on, those of waiting requests included.
    pub fn write_template(&mut self, template: &HeaderTemplate) {
        self.builder.write_template(template);
    }

    /// Sets the identification of the next IPv4 frame that is built.
    pub fn load_identification(&mut self, identification: u16) {
        self.builder.load_identification(identification);
    }

    /// Gives a work request.
    ///
    /// # Errors
    /// The reason why the slicer dropped it; it is counted.
    pub fn request(&mut self, request: &WorkRequest) -> Result<(), DropReason> {
        let packets = self.slicer.request(request)?;
        self.requests.messages.push_back(packets);
        Ok(())
    }

    /// Gives a descriptor of `s_axis_response`.
    pub fn response(&mut self, descriptor: PacketDescriptor) {
        self.responses.descriptors.push_back(descriptor);
    }

    /// Gives a descriptor of `s_axis_control`.
    pub fn control(&mut self, descriptor: PacketDescriptor) {
        self.control.push_back(descriptor);
    }

    /// Gives a frame of `s_axis_slow_path`.
    pub fn slow_path(&mut self, frame: Vec<u8>) {
        self.slow_path.push_back(frame);
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            packet_slicer: *self.slicer.counters(),
            header_builder: *self.builder.counters(),
            icrc: *self.icrc.counters(),
            frame_fifo: *self.fifo.counters(),
        }
    }

    /// Whether a source has something that has not been taken.
    #[must_use]
    pub fn is_waiting(&self, source: Source) -> bool {
        match source {
            Source::Slicer => !self.requests.is_empty(),
            Source::Response => !self.responses.is_empty(),
            Source::Control => !self.control.is_empty(),
            Source::SlowPath => !self.slow_path.is_empty(),
        }
    }

    /// Takes the next packet of a source. `None`: it was dropped and counted on its way.
    ///
    /// # Errors
    /// [`Nothing`] waits at this source.
    pub fn take(&mut self, source: Source, memory: &mut dyn Memory, time_ns: u64) -> Result<Option<Vec<u8>>, Nothing> {
        let built = match source {
            Source::SlowPath => return self.slow_path.pop_front().map(Some).ok_or(Nothing(source)),
            Source::Control => {
                let descriptor = self.control.pop_front().ok_or(Nothing(source))?;
                self.builder.build_control(&descriptor, time_ns)
            }
            Source::Slicer | Source::Response => {
                let Fetched { descriptor, payload } = self.waiting(source).pop(memory).ok_or(Nothing(source))?;
                self.builder.build(&descriptor, &payload, time_ns)
            }
        };
        Ok(built.and_then(|frame| {
            self.fifo.push(self.icrc.insert(frame));
            self.fifo.pop().map(|frame| frame.bytes)
        }))
    }

    /// The next frame, with everything given before it in time: control first, then requests and responses in turn;
    /// frames of the pipeline and of the slow path in turn.
    pub fn transmit(&mut self, memory: &mut dyn Memory, time_ns: u64) -> Option<(Source, Vec<u8>)> {
        while self.stored.is_empty() {
            let Some(source) = self.next_source() else { break };
            if let Ok(Some(frame)) = self.take(source, memory, time_ns) {
                self.stored.push_back((source, frame));
            }
        }
        let offered: BitVec = [!self.stored.is_empty(), !self.slow_path.is_empty()].iter().collect();
        match self.multiplexer.grant(&offered)? {
            0 => self.stored.pop_front(),
            _ => self.slow_path.pop_front().map(|frame| (Source::SlowPath, frame)),
        }
    }

    fn next_source(&mut self) -> Option<Source> {
        if !self.control.is_empty() {
            return Some(Source::Control);
        }
        let asking = [Source::Slicer, Source::Response];
        let requests: BitVec = asking.iter().map(|source| self.is_waiting(*source)).collect();
        self.arbiter.grant(&requests).map(|granted| asking[granted])
    }

    fn waiting(&mut self, source: Source) -> &mut Waiting {
        match source {
            Source::Response => &mut self.responses,
            _ => &mut self.requests,
        }
    }

    /// Follows a frame that the RTL gave: finds the source whose next frame it is and takes it, with all that was
    /// dropped before it. A time stamp must be one of a time in `built`.
    ///
    /// Templates must not be written while descriptors wait, for nothing says then which one a frame had.
    ///
    /// # Errors
    /// [`Mismatch`]: no source could have given this frame next; nothing is taken.
    pub fn follow(
        &mut self,
        observed: &[u8],
        memory: &mut dyn Memory,
        built: RangeInclusive<u64>,
    ) -> Result<Source, Mismatch> {
        let mut candidates = Vec::new();
        let builds = |builder: &HeaderBuilder, descriptor: &PacketDescriptor| {
            builder.builds(&PacketDescriptor {
                payload_length: 0,
                ..*descriptor
            })
        };
        while (self.control.front()).is_some_and(|descriptor| !builds(&self.builder, descriptor)) {
            // It leaves no frame and takes no identification, so its place in the order cannot be told.
            let _ = self.take(Source::Control, memory, *built.end());
        }
        let dropped = [
            self.dropped_ahead(Source::Slicer, memory),
            self.dropped_ahead(Source::Response, memory),
        ];
        for source in Source::ALL {
            for skipped in skips(source, &dropped) {
                let Some(candidate) = self.candidate(source, skipped, &dropped, observed, memory, &built) else {
                    continue;
                };
                if candidate == observed {
                    self.advance(source, skipped, memory, *built.end());
                    return Ok(source);
                }
                candidates.push((source, candidate));
            }
        }
        Err(Mismatch {
            observed: observed.to_vec(),
            candidates,
        })
    }

    /// Ends a run: takes what is dropped on its way.
    ///
    /// # Errors
    /// A [`Mismatch`] without an observed frame: these are still to come.
    pub fn finish(&mut self, memory: &mut dyn Memory) -> Result<(), Mismatch> {
        let mut candidates = Vec::new();
        for source in Source::ALL {
            while self.is_waiting(source) {
                if let Ok(Some(frame)) = self.take(source, memory, 0) {
                    candidates.push((source, frame));
                }
            }
        }
        if candidates.is_empty() {
            return Ok(());
        }
        Err(Mismatch {
            observed: Vec::new(),
            candidates,
        })
    }

    /// Packets at the head of a source that leave no frame, each with the identifications that it takes.
    fn dropped_ahead(&mut self, source: Source, memory: &mut dyn Memory) -> Vec<u16> {
        let mut taken = Vec::new();
        loop {
            let waiting = match source {
                Source::Response => &mut self.responses,
                _ => &mut self.requests,
            };
            let Some(Fetched { descriptor, payload }) = waiting.get(taken.len(), memory) else {
                return taken;
            };
            match self.builder.render(descriptor, payload, 0, 0) {
                None => taken.push(0),
                Some(frame) if self.fifo.outcome(&frame) != Outcome::Stored => taken.push(u16::from(!frame.ipv6)),
                Some(_) => return taken,
            }
        }
    }

    /// The frame that a source would give now, with `skipped` packets of slicer and response dropped before.
    fn candidate(
        &mut self,
        source: Source,
        skipped: [usize; 2],
        dropped: &[Vec<u16>; 2],
        observed: &[u8],
        memory: &mut dyn Memory,
        built: &RangeInclusive<u64>,
    ) -> Option<Vec<u8>> {
        let fetched = match source {
            Source::SlowPath => return self.slow_path.front().cloned(),
            Source::Control => Fetched {
                descriptor: PacketDescriptor {
                    payload_length: 0,
                    ..*self.control.front()?
                },
                payload: Vec::new(),
            },
            Source::Slicer => self.requests.get(skipped[0], memory)?.clone(),
            Source::Response => self.responses.get(skipped[1], memory)?.clone(),
        };
        let identifications: u16 = dropped[0][..skipped[0]].iter().chain(&dropped[1][..skipped[1]]).sum();
        let identification = self.builder.identification().wrapping_add(identifications);
        let time_ns = self.time_of(&fetched.descriptor, observed, built);
        let Fetched { descriptor, payload } = &fetched;
        let frame = self.builder.render(descriptor, payload, identification, time_ns)?;
        let frame = icrc::insert(frame);
        (self.fifo.outcome(&frame) == Outcome::Stored).then_some(frame.bytes)
    }

    /// A time in `built` that has the time stamp of the observed frame; the end of `built` where none has.
    fn time_of(&self, descriptor: &PacketDescriptor, observed: &[u8], built: &RangeInclusive<u64>) -> u64 {
        const WRAP: u64 = 1 << 23;
        let (start, end) = (*built.start(), *built.end());
        let stamp = stamp_offset(descriptor).and_then(|offset| {
            let template = self.builder.template(descriptor.qpn)?;
            let at = header_builder::extension_offset(template) + offset;
            observed.get(at..at + 2)
        });
        let Some(stamp) = stamp else { return end };
        let low = u64::from(u16::from_be_bytes([stamp[0], stamp[1]])) << 7;
        // The first instant with this stamp that ends at or after the start.
        let mut time = (start & !(WRAP - 1)) | low;
        if time + 127 < start {
            time += WRAP;
        }
        let time = time.max(start);
        if time <= end && stamp_of(time) == (low >> 7) as u16 {
            time
        } else {
            end
        }
    }

    fn advance(&mut self, source: Source, skipped: [usize; 2], memory: &mut dyn Memory, time_ns: u64) {
        for (dropping, count) in [Source::Slicer, Source::Response].into_iter().zip(skipped) {
            for _ in 0..count {
                // It leaves no frame: that is why it is skipped.
                let _ = self.take(dropping, memory, time_ns);
            }
        }
        let _ = self.take(source, memory, time_ns);
    }
}

/// How many of the dropped packets of slicer and response may have gone before a frame of this source: all of its own,
/// any number of the other's.
fn skips(source: Source, dropped: &[Vec<u16>; 2]) -> Vec<[usize; 2]> {
    let range = |index: usize, own: bool| {
        let all = dropped[index].len();
        if own { all..=all } else { 0..=all }
    };
    match source {
        Source::SlowPath => vec![[0, 0]],
        _ => range(0, source == Source::Slicer)
            .flat_map(|slicer| range(1, source == Source::Response).map(move |response| [slicer, response]))
            .collect(),
    }
}

#[cfg(test)]
#[path = "transmit_pipeline_tests.rs"]
mod tests;
