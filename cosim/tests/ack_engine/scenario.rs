//! What is given to the block and when, and the judgement of what came out: the golden model is given the same in the order in which the RTL
//! accepted it. When a timer's SACK is given is the RTL's choice: it must be legal, and within the bound of the documentation.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{
    Answer, Descriptor, PacketContext, PacketDescriptor, QueuePairContext, QueuePairState, ReceivedPacket,
    SequenceReport,
};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Frame, Outcome, Pattern, SinkChecks, Stimulus};
use spraynic_golden::ack_engine::{AckEngine, Config, Pacing};
use spraynic_golden::reorder_buffer::Space;

pub(super) const QUEUE_PAIRS: u32 = 8;
/// Cycle from which on the tables are swept and the first contexts written.
pub(super) const BEGIN: u64 = 60;
/// Clocks from acceptance to a packet on an idle port.
pub(super) const LATENCY: u64 = 4;

pub(super) fn config() -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = QUEUE_PAIRS;
    config
}

/// Latest clocks from the time of a timer to its SACK, where `spaces` have something unreported and `kinds` of inputs (reports, probes,
/// answers) are offered in each clock: as long as the output takes a packet in each clock, and nothing waits before it.
pub(super) const fn timer_bound(spaces: u64, kinds: u64) -> u64 {
    (kinds + 2) * spaces + 16
}

/// A time in nanoseconds from a cycle on, and what it grows by in each clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) cycle: u64,
    pub(super) ns: u64,
    pub(super) step: u64,
}

/// Everything that goes in. The numbers are cycles before which it is not offered, from [`BEGIN`] on.
#[derive(Debug, Clone, Default)]
pub(super) struct Scenario {
    pub(super) pacing: Pacing,
    pub(super) times: Vec<Time>,
    /// Written before [`BEGIN`].
    pub(super) opened: Vec<QueuePairContext>,
    pub(super) contexts: Vec<(u64, QueuePairContext)>,
    pub(super) reports: Vec<(u64, SequenceReport)>,
    pub(super) probes: Vec<(u64, ReceivedPacket)>,
    pub(super) answers: Vec<(u64, Answer)>,
    /// When reports, probes, answers are offered, and packets taken.
    pub(super) patterns: [Pattern; 4],
}

/// A packet that came out, as the golden model has it too.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) packet: PacketDescriptor,
    pub(super) cycle: u64,
    /// Of the timer: clocks since its time.
    pub(super) late: Option<u64>,
}

enum Event {
    Context(QueuePairContext),
    Report(SequenceReport),
    Probe(ReceivedPacket),
    Answer(Answer),
}

/// A context of a queue pair that receives.
pub(super) fn open(qpn: u32, profile: Profile, psn: u32) -> QueuePairContext {
    QueuePairContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        psn,
        response_psn: psn,
        peer_qpn: 0xAB_CDEF,
        ..QueuePairContext::default()
    }
}

impl Scenario {
    /// One queue pair, number 1; the time begins at 1,000,000 ns and grows by 4 in each clock.
    pub(super) fn of(profile: Profile, psn: u32) -> Self {
        Self {
            times: vec![Time {
                cycle: 0,
                ns: 1_000_000,
                step: 4,
            }],
            opened: vec![open(1, profile, psn)],
            ..Self::default()
        }
    }

    pub(super) fn time_at(&self, cycle: u64) -> u64 {
        let time = self.times.iter().rev().find(|time| time.cycle <= cycle);
        time.map_or(0, |time| time.ns + time.step * (cycle - time.cycle))
    }

    pub(super) fn stimulus(&self) -> Stimulus {
        let at = |(cycle, data): (u64, Vec<u8>)| {
            let mut frame = Frame::new(data);
            frame.not_before = BEGIN + cycle;
            frame
        };
        let probe = |packet: &ReceivedPacket| {
            let context = PacketContext {
                route: 2,
                ..PacketContext::default()
            };
            [packet.pack(), context.pack()].concat()
        };
        let opened = self.opened.iter().map(|context| Frame::new(context.pack()));
        let contexts = self
            .contexts
            .iter()
            .map(|(cycle, context)| at((*cycle, context.pack())));
        let reports = self.reports.iter().map(|(cycle, report)| at((*cycle, report.pack())));
        let probes = self.probes.iter().map(|(cycle, packet)| at((*cycle, probe(packet))));
        let answers = self.answers.iter().map(|(cycle, answer)| at((*cycle, answer.pack())));
        let [report_pattern, probe_pattern, answer_pattern, output] = self.patterns.clone();
        let stimulus = Stimulus::default()
            .input("sack_every", self.pacing.sack_every.into())
            .input("sack_bytes", self.pacing.sack_bytes.into())
            .input("sack_timer_ns", self.pacing.sack_timer_ns.into())
            .input("cnp_interval_ns", self.pacing.cnp_interval_ns.into())
            .source("s_axis_context", Pattern::Always, opened.chain(contexts))
            .source("s_axis_report", report_pattern, reports)
            .source("s_axis_probe", probe_pattern, probes)
            .source("s_axis_answer", answer_pattern, answers)
            .sink("m_axis", output, SinkChecks::default());
        self.times.iter().fold(stimulus, |stimulus, time| {
            stimulus.input_at("time_ns", time.cycle, time.ns, time.step)
        })
    }

    /// What was accepted, in its order, with its cycle.
    fn events(&self, outcome: &Outcome) -> Vec<(u64, Event)> {
        let contexts = self
            .opened
            .iter()
            .chain(self.contexts.iter().map(|(_, context)| context));
        let streams: [(&str, Vec<Event>); 4] = [
            ("s_axis_context", contexts.copied().map(Event::Context).collect()),
            (
                "s_axis_report",
                self.reports.iter().map(|(_, report)| Event::Report(*report)).collect(),
            ),
            (
                "s_axis_probe",
                self.probes.iter().map(|(_, packet)| Event::Probe(*packet)).collect(),
            ),
            (
                "s_axis_answer",
                self.answers.iter().map(|(_, answer)| Event::Answer(*answer)).collect(),
            ),
        ];
        let mut events: Vec<(u64, Event)> = streams
            .into_iter()
            .flat_map(|(stream, events)| {
                let cycles = outcome.accepted(stream).iter().map(|timing| timing.last_cycle);
                cycles.zip(events).collect::<Vec<_>>()
            })
            .collect();
        events.sort_by_key(|(cycle, _)| *cycle);
        events
    }

    /// Compares every packet and counter with the golden model, and the timer with its bound; gives the packets.
    pub(super) fn judge(&self, outcome: &Outcome) -> Result<Vec<Given>, String> {
        let events = self.events(outcome);
        let sent =
            self.opened.len() + self.contexts.len() + self.reports.len() + self.probes.len() + self.answers.len();
        if events.len() != sent {
            return Err(format!("{} of {sent} were accepted", events.len()));
        }
        if let Some(pair) = events.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("two were accepted in cycle {}", pair[0].0));
        }
        let mut run = Run {
            scenario: self,
            model: AckEngine::new(Config::from(&config())),
            rtl: outcome
                .received("m_axis")
                .iter()
                .map(|frame| (frame.last_cycle, PacketDescriptor::unpack(&frame.data)))
                .collect(),
            given: vec![],
        };
        for (cycle, event) in events {
            while run.timer_fits(cycle)? {}
            run.nothing_is_late(cycle)?;
            let packets = match event {
                Event::Context(context) => {
                    run.model.write_context(&context);
                    vec![]
                }
                Event::Report(report) => run.model.report(&report, &self.pacing, self.time_at(cycle)),
                Event::Probe(packet) => run.model.probe(&packet),
                Event::Answer(answer) => run.model.answer(&answer).into_iter().collect(),
            };
            for packet in packets {
                run.expect(cycle, packet)?;
            }
        }
        while run.timer_fits(u64::MAX)? {}
        if let Some((cycle, packet)) = run.rtl.get(run.given.len()) {
            return Err(format!("cycle {cycle}: the model has no such packet: {packet:?}"));
        }
        if let Some((qpn, space)) = run.unreported().next() {
            return Err(format!("queue pair {qpn}, {space:?}: something is unreported for ever"));
        }
        let golden = run.model.counters();
        let named = [
            ("acks", golden.acks),
            ("naks", golden.naks),
            ("sacks", golden.sacks),
            ("timer_sacks", golden.timer_sacks),
            ("nacks", golden.nacks),
            ("cnps", golden.cnps),
            ("cnps_spared", golden.cnps_spared),
            ("drop_request", golden.drop_request),
        ];
        let expected: BTreeMap<String, u64> = named.map(|(name, value)| (name.to_owned(), value.into())).into();
        if outcome.counters != expected {
            return Err(format!("counters {:?}, of the model {expected:?}", outcome.counters));
        }
        Ok(run.given)
    }
}

/// The model in step with what came out.
struct Run<'s> {
    scenario: &'s Scenario,
    model: AckEngine,
    rtl: Vec<(u64, PacketDescriptor)>,
    given: Vec<Given>,
}

impl Run<'_> {
    fn expect(&mut self, accepted: u64, packet: PacketDescriptor) -> Result<(), String> {
        let index = self.given.len();
        let Some((cycle, rtl)) = self.rtl.get(index) else {
            return Err(format!("cycle {accepted}: packet {index} is missing: {packet:?}"));
        };
        if *rtl != packet {
            return Err(format!(
                "packet {index}, of cycle {accepted}: {rtl:?}\nof the model: {packet:?}"
            ));
        }
        if *cycle < accepted + LATENCY {
            return Err(format!(
                "packet {index} came {} clocks behind its cause",
                cycle - accepted
            ));
        }
        self.given.push(Given {
            packet,
            cycle: *cycle,
            late: None,
        });
        Ok(())
    }

    /// Spaces with something unreported.
    fn unreported(&self) -> impl Iterator<Item = (u32, Space)> + '_ {
        let spaces = (0..QUEUE_PAIRS).flat_map(|qpn| Space::ALL.map(|space| (qpn, space)));
        spaces.filter(|(qpn, space)| self.model.due_ns(*qpn, *space).is_some())
    }

    /// The first cycle with this time.
    fn cycle_of(&self, ns: u64) -> u64 {
        let (mut early, mut late) = (0, 1 << 40);
        while early < late {
            let middle = (early + late) / 2;
            if self.scenario.time_at(middle) < ns {
                early = middle + 1;
            } else {
                late = middle;
            }
        }
        early
    }

    /// The bound on a port that takes a packet in each clock: every kind is offered, each may make two packets, the queue may be full of
    /// such, and context writes go first.
    fn bound(&self) -> Option<u64> {
        let contexts = 2 * self.scenario.contexts.len() as u64;
        let always = self.scenario.patterns[3] == Pattern::Always;
        always.then(|| 2 * timer_bound(2 * u64::from(QUEUE_PAIRS), 3) + 30 + contexts)
    }

    /// Whether the next packet is the SACK of a timer that entered before `cycle`; the model follows.
    fn timer_fits(&mut self, cycle: u64) -> Result<bool, String> {
        let Some((out, rtl)) = self.rtl.get(self.given.len()) else {
            return Ok(false);
        };
        let Some(space) = Space::ALL
            .into_iter()
            .find(|space| *space as u8 == rtl.extension.0[0] >> 4)
        else {
            return Ok(false);
        };
        let Some(due) = self.model.due_ns(rtl.qpn, space) else {
            return Ok(false);
        };
        // It entered before `cycle`, and it took the pipeline's clocks.
        let now = self.scenario.time_at((cycle - 1).min(out - LATENCY));
        let mut model = self.model.clone();
        if model.expire(rtl.qpn, space, now).as_ref() != Ok(rtl) {
            return Ok(false);
        }
        let late = out - self.cycle_of(due);
        if self.bound().is_some_and(|bound| late > bound) {
            return Err(format!("cycle {out}: the timer's SACK is {late} clocks late: {rtl:?}"));
        }
        self.given.push(Given {
            packet: *rtl,
            cycle: *out,
            late: Some(late),
        });
        self.model = model;
        Ok(true)
    }

    /// No timer should have come before `cycle` but has not.
    fn nothing_is_late(&self, cycle: u64) -> Result<(), String> {
        let Some(bound) = self.bound() else { return Ok(()) };
        for (qpn, space) in self.unreported() {
            let due = self.model.due_ns(qpn, space).map_or(cycle, |due| self.cycle_of(due));
            if cycle > due + bound {
                return Err(format!(
                    "cycle {cycle}: queue pair {qpn}, {space:?} was due in cycle {due}"
                ));
            }
        }
        Ok(())
    }
}
