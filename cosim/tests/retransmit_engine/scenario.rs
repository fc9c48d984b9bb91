//! What is given to the block and when, and the judgement of what came out: the golden model is given the same in the order in which the RTL
//! accepted it. Which timer fires when is the RTL's choice: it says so (`m_axis_timeout`), and it must be legal.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{
    Descriptor, PacketContext, PacketDescriptor, PathEvent, ReceivedPacket, Resend, SendContext, SendProgress,
    SentPacket,
};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Frame, Outcome, Pattern, SinkChecks, Stimulus};
use spraynic_golden::reorder_buffer::Space;
use spraynic_golden::retransmit_engine::{Config, RetransmitEngine};

pub(super) const QUEUE_PAIRS: u32 = 4;
/// PSNs of a window, where nothing else is said.
pub(super) const WINDOW: u32 = 128;
/// Cycle from which on the tables are swept and the first contexts written.
pub(super) const BEGIN: u64 = 100;
/// Nanoseconds in a clock.
pub(super) const CLOCK_NS: u64 = 4;
/// Latest clocks from the time of a timer to its turn, where outputs are always taken: a sweep, and the longest operations before it.
pub(super) const TIMER_BOUND: u64 = 2_000;
/// Time of cycle 0.
pub(super) const START_NS: u64 = 1_000_000;

pub(super) fn config(window: u32) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = 8;
    config.send.queue_pairs = QUEUE_PAIRS;
    config.send.window = window;
    config.paths.entries = 16;
    config.wire.profiles = [Profile::Roce, Profile::Solar, Profile::Mrc].into();
    config
}

pub(super) fn time_at(cycle: u64) -> u64 {
    START_NS + CLOCK_NS * cycle
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Context(SendContext),
    Sent(SentPacket),
    Feedback(ReceivedPacket),
    /// A timer fired: never given, the block says so.
    Timer(u32, Space),
}

/// Everything that goes in, each with the cycle before which it is not offered, from [`BEGIN`] on.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    /// PSNs of a window.
    pub(super) window: u32,
    pub(super) events: Vec<(u64, Event)>,
    /// When contexts, packets sent and feedback are offered; when progress, resends, path events and probes are taken.
    pub(super) patterns: [Pattern; 7],
}

/// What came out, in its order, with the cycle of its last beat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) progress: Vec<SendProgress>,
    pub(super) resends: Vec<Resend>,
    pub(super) events: Vec<PathEvent>,
    pub(super) probes: Vec<PacketDescriptor>,
}

impl Scenario {
    pub(super) fn stimulus(&self) -> Stimulus {
        let frames = |choose: fn(&Event) -> Option<Vec<u8>>| {
            let mut frames = vec![];
            for (cycle, event) in &self.events {
                if let Some(data) = choose(event) {
                    let mut frame = Frame::new(data);
                    frame.not_before = BEGIN + cycle;
                    frames.push(frame);
                }
            }
            frames
        };
        let contexts = frames(|event| match event {
            Event::Context(context) => Some(context.pack()),
            _ => None,
        });
        let sent = frames(|event| match event {
            Event::Sent(packet) => Some(packet.pack()),
            _ => None,
        });
        let feedback = frames(|event| match event {
            Event::Feedback(packet) => Some([packet.pack(), PacketContext::default().pack()].concat()),
            _ => None,
        });
        let [of_context, of_sent, of_feedback, progress, resends, events, probes] = self.patterns.clone();
        Stimulus::default()
            .input_at("time_ns", 0, START_NS, CLOCK_NS)
            .source("s_axis_context", of_context, contexts)
            .source("s_axis_sent", of_sent, sent)
            .source("s_axis_feedback", of_feedback, feedback)
            .sink("m_axis_progress", progress, SinkChecks::default())
            .sink("m_axis_resend", resends, SinkChecks::default())
            .sink("m_axis_path", events, SinkChecks::default())
            .sink("m_axis_control", probes, SinkChecks::default())
            .sink("m_axis_timeout", Pattern::Always, SinkChecks::default())
    }

    /// What was accepted, and timers that fired, in their order.
    fn steps(&self, outcome: &Outcome) -> Result<Vec<(u64, Event)>, String> {
        let mut steps = vec![];
        for (stream, kind) in [("s_axis_context", 0), ("s_axis_sent", 1), ("s_axis_feedback", 2)] {
            let of_kind = |event: &&Event| match event {
                Event::Context(_) => kind == 0,
                Event::Sent(_) => kind == 1,
                Event::Feedback(_) => kind == 2,
                Event::Timer(..) => false,
            };
            let given: Vec<_> = self.events.iter().map(|(_, event)| event).filter(of_kind).collect();
            let accepted = outcome.accepted(stream);
            if accepted.len() != given.len() {
                return Err(format!("{stream}: {} of {} were accepted", accepted.len(), given.len()));
            }
            for (timing, event) in accepted.iter().zip(given) {
                steps.push((timing.last_cycle, event.clone()));
            }
        }
        for frame in outcome.received("m_axis_timeout") {
            let mut bytes = [0; 16];
            bytes[..frame.data.len()].copy_from_slice(&frame.data);
            let word = u128::from_le_bytes(bytes);
            let (space, qpn, now) = (word & 1, (word >> 1) as u32 & 0x7F_FFFF, (word >> 24) as u64);
            let cycle = (now - START_NS) / CLOCK_NS;
            steps.push((cycle, Event::Timer(qpn, Space::ALL[space as usize])));
        }
        steps.sort_by_key(|(cycle, ..)| *cycle);
        match steps.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("two began in cycle {}", pair[0].0)),
            None => Ok(steps),
        }
    }

    /// Compares everything that came out, and all counters, with the golden model.
    pub(super) fn judge(&self, outcome: &Outcome) -> Result<Given, String> {
        let mut model = RetransmitEngine::new(Config::from(&config(self.window)));
        let mut expected = Given::default();
        let always = self.patterns.iter().all(|pattern| *pattern == Pattern::Always);
        for (cycle, event) in self.steps(outcome)? {
            let now = time_at(cycle);
            if let Some(due) = model.next_deadline_ns().filter(|_| always)
                && now > due + TIMER_BOUND * CLOCK_NS
            {
                return Err(format!("cycle {cycle}: a timer was due at {due} ns, it is {now} ns"));
            }
            match event {
                Event::Context(context) => model.write_context(&context),
                Event::Sent(packet) => model.sent(&packet, now),
                Event::Feedback(packet) => model.feedback(&packet, &PacketContext::default(), now),
                Event::Timer(qpn, space) => model
                    .expire(qpn, space, now)
                    .map_err(|error| format!("cycle {cycle}, queue pair {qpn}, {space:?}: {error}"))?,
            }
            expected.progress.extend(std::iter::from_fn(|| model.next_progress()));
            expected.resends.extend(std::iter::from_fn(|| model.next_resend()));
            expected.events.extend(std::iter::from_fn(|| model.next_path_event()));
            expected.probes.extend(std::iter::from_fn(|| model.next_control()));
        }
        compare::<SendProgress>(outcome, "m_axis_progress", &expected.progress)?;
        compare::<Resend>(outcome, "m_axis_resend", &expected.resends)?;
        compare::<PathEvent>(outcome, "m_axis_path", &expected.events)?;
        compare::<PacketDescriptor>(outcome, "m_axis_control", &expected.probes)?;
        let golden = model.counters();
        let named = [
            ("sent", golden.sent),
            ("sent_again", golden.sent_again),
            ("sent_ignored", golden.sent_ignored),
            ("sacks", golden.sacks),
            ("acks", golden.acks),
            ("nacks", golden.nacks),
            ("naks", golden.naks),
            ("drop_incredible", golden.drop_incredible),
            ("drop_stale", golden.drop_stale),
            ("lost_sack", golden.lost_sack),
            ("lost_nack", golden.lost_nack),
            ("lost_timer", golden.lost_timer),
            ("responses", golden.responses),
            ("rewinds", golden.rewinds),
            ("timeouts", golden.timeouts),
            ("probes", golden.probes),
            ("failures", golden.failures),
        ];
        let counters: BTreeMap<String, u64> = named.map(|(name, value)| (name.to_owned(), value.into())).into();
        if outcome.counters != counters {
            return Err(format!("counters {:?}, of the model {counters:?}", outcome.counters));
        }
        Ok(expected)
    }
}

fn compare<D: Descriptor + PartialEq + std::fmt::Debug>(
    outcome: &Outcome,
    stream: &str,
    expected: &[D],
) -> Result<(), String> {
    let given = outcome.received(stream);
    for (index, frame) in given.iter().enumerate() {
        let one = D::unpack(&frame.data);
        match expected.get(index) {
            Some(right) if *right == one => {}
            Some(right) => {
                return Err(format!(
                    "{stream} {index}, cycle {}: {one:?}\nof the model: {right:?}",
                    frame.last_cycle
                ));
            }
            None => {
                return Err(format!(
                    "{stream} {index}, cycle {}: the model has none: {one:?}",
                    frame.last_cycle
                ));
            }
        }
    }
    match expected.get(given.len()) {
        Some(missing) => Err(format!("{stream} {} is missing: {missing:?}", given.len())),
        None => Ok(()),
    }
}
