//! The golden `ack_engine` in step with the RTL's: it is given the same at the same time, and must give the same control packets, in their order.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::QueuePairContext;
use spraynic_golden::ack_engine::{AckEngine, Config, Counters, Pacing};
use spraynic_golden::reorder_buffer::Space;
use spraynic_hdl::ack_engine::observed;

use super::super::{NANOSECONDS_A_CLOCK, Result as Run, Scenario};
use super::back::Back;
use super::front::Front;
use super::lives::Lives;
use super::order::bits_of;
use super::{Difference, differs};
use crate::stream::Pattern;

/// The model, and how far the RTL's packets have been compared.
pub(super) struct Acks {
    model: AckEngine,
    pacing: Pacing,
    queue_pairs: u32,
    /// Nanoseconds by which the SACK of a timer may be late; `None`: control packets may have to wait.
    most_late: Option<u64>,
    compared: usize,
    lives: Lives,
}

impl Acks {
    pub(super) fn new(config: &NicConfig, scenario: &Scenario) -> Self {
        // docs/src/blocks/ack_engine.md: each space of the ring waits for two looks of the ring, and for a packet of each kind of input; each of
        // those may make two control packets; context writes go first.
        let spaces = 2 * u64::from(config.queue_pairs.count);
        let clocks = 2 * (5 * spaces + 16) + 30 + 2 * scenario.context_writes().count() as u64;
        let at_once = *scenario.patterns.of("m_axis_control") == Pattern::Always;
        Self {
            model: AckEngine::new(Config::from(config)),
            pacing: scenario.pacing,
            queue_pairs: config.queue_pairs.count,
            most_late: at_once.then_some(clocks * NANOSECONDS_A_CLOCK),
            compared: 0,
            lives: Lives::default(),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.model.counters()
    }

    pub(super) fn follow(&mut self, run: &Run, front: &mut Front<'_>, back: &mut Back) -> Result<(), Difference> {
        let mut contexts: VecDeque<QueuePairContext> = front.written.iter().copied().collect();
        let events = run.outcome.received("m_axis_control_event");
        for (index, event) in events.iter().enumerate() {
            let fail = |problem: String| Difference::Event {
                block: "ack_engine",
                index,
                problem,
            };
            let bits = bits_of(&event.data);
            let is = |bit: u32| bits >> bit & 1 == 1;
            let (now_ns, qpn) = (bits as u64, (bits >> 64) as u32 & 0xFF_FFFF);
            let space = Space::ALL[usize::from(is(observed::SPACE))];
            let now = self.lives.of(qpn);
            let of_now = |life: usize| match life == now {
                true => Ok(()),
                false => Err(fail(format!(
                    "a packet of life {life} of queue pair {qpn} is acknowledged in life {now}"
                ))),
            };
            let packets = if is(observed::REPORT) {
                let report = front.reports.pop_front().filter(|(_, report)| report.qpn == qpn);
                let (life, report) = report.ok_or_else(|| fail(format!("no report of queue pair {qpn} is next")))?;
                of_now(life)?;
                self.model.report(&report, &self.pacing, now_ns)
            } else if is(observed::PROBE) {
                let probe = front.probes.pop_front().filter(|probe| probe.qpn == qpn);
                let probe = probe.ok_or_else(|| fail(format!("no probe of queue pair {qpn} is next")))?;
                self.model.probe(&probe)
            } else if is(observed::ANSWER) {
                let answer = back.answers.get_mut(&qpn).and_then(VecDeque::pop_front);
                let (life, answer) = answer.ok_or_else(|| fail(format!("no answer of queue pair {qpn} is left")))?;
                of_now(life)?;
                self.model.answer(&answer).into_iter().collect()
            } else if is(observed::CONTEXT) {
                let context = contexts.pop_front().filter(|context| context.qpn == qpn);
                let context = context.ok_or_else(|| fail(format!("no context of queue pair {qpn} is next")))?;
                self.lives.write(&context);
                self.model.write_context(&context);
                Vec::new()
            } else {
                let due_ns = self.model.due_ns(qpn, space);
                let late = due_ns.map_or(0, |due| now_ns.saturating_sub(due));
                if self.most_late.is_some_and(|most| late > most) {
                    return Err(fail(format!(
                        "the timer of queue pair {qpn}, {space:?}, is {late} ns late"
                    )));
                }
                let sack = self.model.expire(qpn, space, now_ns);
                vec![sack.map_err(|not_due| fail(format!("the timer of queue pair {qpn}, {space:?}: {not_due}")))?]
            };
            for packet in packets {
                let rtl = run.control.get(self.compared).map(|given| &given.packet);
                if rtl != Some(&packet) {
                    return Err(differs("m_axis_control", self.compared, &rtl, &packet));
                }
                self.compared += 1;
            }
        }
        self.nothing_is_left(run, front, back, contexts.len())
    }

    fn nothing_is_left(&self, run: &Run, front: &Front<'_>, back: &Back, contexts: usize) -> Result<(), Difference> {
        if let Some(more) = run.control.get(self.compared) {
            return Err(differs("m_axis_control", self.compared, &more.packet, &"nothing"));
        }
        let answers: usize = back.answers.values().map(VecDeque::len).sum();
        let left = front.reports.len() + front.probes.len() + answers + contexts;
        let spaces = (0..self.queue_pairs).flat_map(|qpn| Space::ALL.map(|space| (qpn, space)));
        let unreported = spaces
            .clone()
            .filter(|(qpn, space)| self.model.due_ns(*qpn, *space).is_some());
        let unreported: Vec<_> = unreported.collect();
        if left > 0 || !unreported.is_empty() {
            return Err(Difference::Event {
                block: "ack_engine",
                index: run.outcome.received("m_axis_control_event").len(),
                problem: format!("{left} things were not taken; never reported: {unreported:?}"),
            });
        }
        Ok(())
    }
}
