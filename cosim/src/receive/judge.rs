//! What came out of the receive pipeline against the golden models, which follow the order of events that the RTL gives (`m_axis_event`,
//! `m_axis_given`).
//!
//! Streams whose order between queue pairs is a matter of time are compared by queue pair. Control packets depend on time and are compared in
//! the tests of `ack_engine`; the counters of that block are not looked at here.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, PacketDescriptor};
use spraynic_golden::packet_parser::TrimmedDscp;
use spraynic_golden::receive_pipeline::path::Config;
use spraynic_golden::receive_pipeline::requests::{Effects, Requests};
use spraynic_golden::receive_pipeline::{Destination, Moment, ReceivePipeline};
use spraynic_golden::reorder_buffer::{Given, Released, Space};
use spraynic_hdl::reorder_buffer::observed;
use thiserror::Error;

use super::{Result as Run, Scenario, TRIMMED, TRIMMED_LAST_HOP};

/// The RTL did something else than the golden models.
#[derive(Debug, Error)]
pub enum Difference {
    /// An event that cannot be.
    #[error("event {index} ({event:x?}): {problem}")]
    Event {
        /// Its index.
        index: usize,
        /// Its bytes.
        event: Vec<u8>,
        /// What is wrong with it.
        problem: String,
    },
    /// A stream gave something else.
    #[error("{stream}, queue pair {qpn:?}:\n RTL    {rtl}\n golden {golden}")]
    Stream {
        /// Name of the stream.
        stream: &'static str,
        /// Queue pair, where the stream is compared by queue pair.
        qpn: Option<u32>,
        /// What came.
        rtl: String,
        /// What should have come.
        golden: String,
    },
    /// A counter has another value.
    #[error("counter {name}: RTL {rtl}, golden {golden}")]
    Counter {
        /// Its name, without `count_`.
        name: String,
        /// The RTL's value.
        rtl: u64,
        /// The golden model's.
        golden: u64,
    },
}

/// Compares a run with the golden models.
///
/// # Errors
/// The first [`Difference`].
pub fn judge(config: &NicConfig, scenario: &Scenario, run: &Run) -> Result<(), Difference> {
    let mut golden = Golden::new(config, scenario);
    let mut frames = scenario.frames.iter();
    for (index, received) in run.outcome.received("m_axis_event").iter().enumerate() {
        let event = Event::unpack(&received.data);
        golden
            .follow(&event, &mut frames)
            .map_err(|problem| Difference::Event {
                index,
                event: received.data.clone(),
                problem,
            })?;
    }
    // What stands behind the last packet that takes a PSN makes no event.
    for frame in frames {
        if let Destination::Sequence(report) = golden.receive(frame) {
            return Err(Difference::Stream {
                stream: "m_axis_event",
                qpn: Some(report.qpn),
                rtl: "nothing".to_owned(),
                golden: format!("{report:?}"),
            });
        }
    }
    golden.take_in_order(run)?;
    golden.compare(run)
}

/// An event of `m_axis_event`: see `hdl/src/reorder_buffer.rs`.
struct Event {
    qpn: u32,
    kind: u8,
    space: Space,
    count: u32,
}

impl Event {
    fn unpack(bytes: &[u8]) -> Self {
        let mut wide = [0; 8];
        wide[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        let bits = u64::from_le_bytes(wide);
        Self {
            qpn: bits as u32 & 0xFF_FFFF,
            kind: (bits >> 24) as u8 & 3,
            space: Space::ALL[(bits >> 26) as usize & 1],
            count: (bits >> 27) as u32 & 63,
        }
    }
}

struct Golden {
    pipeline: ReceivePipeline,
    requests: Requests,
    memory: Vec<u8>,
    effects: Effects,
    slow_path: Vec<Vec<u8>>,
    /// What the reorder buffer has given, by queue pair, space, and whether it tells of a retired message.
    given: BTreeMap<Way, VecDeque<Given>>,
}

/// Packets of one order: queue pair, space, retired. (How those of mrc that tell of retired messages stand among its packets is a matter of time.)
type Way = (u32, bool, bool);

impl Golden {
    fn new(config: &NicConfig, scenario: &Scenario) -> Self {
        let Config { pipeline, requests } = Config::from(config);
        let mut golden = Self {
            pipeline: ReceivePipeline::new(pipeline),
            requests: Requests::new(requests),
            memory: scenario.memory.clone(),
            effects: Effects::default(),
            slow_path: Vec::new(),
            given: BTreeMap::new(),
        };
        for context in &scenario.contexts {
            if let Some(written) = golden.pipeline.write_context(context) {
                let effects = golden.requests.write_context(&written, &mut golden.memory);
                golden.effects.completions.extend(effects.completions);
            }
        }
        for region in &scenario.regions {
            golden.requests.write_region(region);
        }
        for request in &scenario.receive_requests {
            // The credit comes when the RTL says so.
            let (_, effects) = golden.requests.post(request, &mut golden.memory);
            golden.effects.completions.extend(effects.completions);
        }
        golden
    }

    /// Gives a frame to the models, up to the reorder buffer, and its packet on.
    fn receive(&mut self, frame: &crate::stream::Frame) -> Destination {
        let moment = Moment {
            trimmed_dscp: TrimmedDscp {
                trimmed: TRIMMED,
                last_hop: TRIMMED_LAST_HOP,
            },
            ..Moment::default()
        };
        let frame = spraynic_golden::frame::Frame {
            bad: frame.user & 1 == 1,
            ..spraynic_golden::frame::Frame::plain(frame.data.clone())
        };
        let received = self.pipeline.receive(&frame, &moment);
        if let Some(given) = received.given {
            self.give(given);
        }
        if let Destination::SlowPath(bytes) = &received.destination {
            self.slow_path.push(bytes.clone());
        }
        received.destination
    }

    fn give(&mut self, given: Given) {
        let packet = &given.packet;
        let way = (packet.qpn, packet.space, packet.retired);
        self.given.entry(way).or_default().push_back(given);
    }

    /// Gives the packets to the models behind, in the order in which the RTL's responder took them.
    fn take_in_order(&mut self, run: &Run) -> Result<(), Difference> {
        for observed in run.outcome.received("m_axis_given") {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&observed.data[..4]);
            let bits = u32::from_le_bytes(bytes);
            let way = (bits & 0xFF_FFFF, bits >> 24 & 1 == 1, bits >> 25 & 1 == 1);
            let given = self.given.get_mut(&way).and_then(VecDeque::pop_front);
            let given = given.ok_or_else(|| Difference::Stream {
                stream: "m_axis_given",
                qpn: Some(way.0),
                rtl: format!("space {}, retired {}", way.1, way.2),
                golden: "nothing".to_owned(),
            })?;
            self.requests.take(given, &mut self.memory, &mut self.effects);
        }
        let left = self.given.iter().find(|(_, left)| !left.is_empty());
        match left {
            None => Ok(()),
            Some((way, left)) => Err(Difference::Stream {
                stream: "m_axis_given",
                qpn: Some(way.0),
                rtl: "nothing".to_owned(),
                golden: format!("{:?}", left[0].packet),
            }),
        }
    }

    fn follow<'f>(
        &mut self,
        event: &Event,
        frames: &mut impl Iterator<Item = &'f crate::stream::Frame>,
    ) -> Result<(), String> {
        match event.kind {
            observed::CREDIT => (0..event.count).for_each(|_| self.pipeline.credit(event.qpn)),
            observed::RELEASE => {
                for step in 0..event.count {
                    match self.pipeline.release(event.qpn, event.space) {
                        Released::Nothing => return Err(format!("the window cannot move on by more than {step}")),
                        Released::Moved => {}
                        Released::Given(given) => self.give(given),
                    }
                }
            }
            observed::CONTEXT => {}
            _ => loop {
                let frame = frames.next().ok_or("a packet, but no frame is left")?;
                if let Destination::Sequence(report) = self.receive(frame) {
                    if report.qpn != event.qpn {
                        return Err(format!("golden has a packet of queue pair {}", report.qpn));
                    }
                    break;
                }
            },
        }
        Ok(())
    }

    fn compare(&self, run: &Run) -> Result<(), Difference> {
        let differs = run
            .memory
            .iter()
            .zip(&self.memory)
            .position(|(rtl, golden)| rtl != golden);
        same("memory, first address that differs", None, &differs, &None)?;
        let slow_path = run.outcome.received("m_axis_slow_path").iter();
        // Frames of the host that the MAC marks bad leave as bad ones.
        let slow_path: Vec<Vec<u8>> = slow_path
            .filter(|frame| frame.user & 1 == 0)
            .map(|frame| frame.data.clone())
            .collect();
        same("m_axis_slow_path", None, &slow_path, &self.slow_path)?;
        let completions = by_queue_pair(&run.completions, |completion: &Completion| completion.qpn);
        let golden = by_queue_pair(&self.effects.completions, |completion| completion.qpn);
        same_each("m_axis_completion", &completions, &golden)?;
        let responses: Vec<PacketDescriptor> = run.responses.iter().map(|given| given.packet).collect();
        let responses = by_queue_pair(&responses, |packet| packet.qpn);
        let golden: Vec<PacketDescriptor> = self.effects.response_packets().collect();
        let golden = by_queue_pair(&golden, |packet| packet.qpn);
        same_each("m_axis_response", &responses, &golden)?;
        let (front, back) = (self.pipeline.counters(), self.requests.counters());
        let blocks: [(&str, &dyn Debug); 8] = [
            ("packet_parser", &front.packet_parser),
            ("icrc", &front.icrc),
            ("qp_lookup", &front.qp_lookup),
            ("reorder_buffer", &front.reorder_buffer),
            ("responder", &back.responder),
            ("memory_regions", &back.memory_regions),
            ("payload_writer", &back.payload_writer),
            ("response_engine", &back.response_engine),
        ];
        for (block, counters) in blocks {
            for (name, golden) in values(counters) {
                let name = format!("{block}_{name}");
                let rtl = run.outcome.counters.get(&name).copied().unwrap_or(u64::MAX);
                if rtl != golden {
                    return Err(Difference::Counter { name, rtl, golden });
                }
            }
        }
        Ok(())
    }
}

/// Names and values of a counter struct, from its `Debug`: `Counters { passed: 3, stored: 0 }`.
fn values(counters: &dyn Debug) -> Vec<(String, u64)> {
    let text = format!("{counters:?}");
    let fields = text
        .split_once('{')
        .map_or("", |(_, fields)| fields)
        .trim_end_matches('}');
    fields
        .split(',')
        .filter_map(|field| field.split_once(':'))
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect()
}

fn by_queue_pair<T: Clone>(all: &[T], qpn: impl Fn(&T) -> u32) -> BTreeMap<u32, Vec<T>> {
    let mut sorted: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for one in all {
        sorted.entry(qpn(one)).or_default().push(one.clone());
    }
    sorted
}

fn same_each<T: Debug + PartialEq>(
    stream: &'static str,
    rtl: &BTreeMap<u32, Vec<T>>,
    golden: &BTreeMap<u32, Vec<T>>,
) -> Result<(), Difference> {
    let qpns: std::collections::BTreeSet<u32> = rtl.keys().chain(golden.keys()).copied().collect();
    for qpn in qpns {
        let (rtl, golden) = (
            rtl.get(&qpn).map_or(&[][..], Vec::as_slice),
            golden.get(&qpn).map_or(&[][..], Vec::as_slice),
        );
        for index in 0..rtl.len().max(golden.len()) {
            same(stream, Some(qpn), &rtl.get(index), &golden.get(index))?;
        }
    }
    Ok(())
}

fn same<T: Debug + PartialEq>(stream: &'static str, qpn: Option<u32>, rtl: &T, golden: &T) -> Result<(), Difference> {
    if rtl == golden {
        return Ok(());
    }
    let shorten = |value: &T| format!("{value:?}").chars().take(1500).collect();
    Err(Difference::Stream {
        stream,
        qpn,
        rtl: shorten(rtl),
        golden: shorten(golden),
    })
}
