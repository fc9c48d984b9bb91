//! The clocks that the block takes are those of docs/src/blocks/work_queue.md.

use spraynic_config::descriptor::{
    Descriptor, QueuePairState, Resend, SendContext, SendProgress, WorkOpcode, WorkRequest,
};
use spraynic_cosim::{Agent, Answer, Bench, Frame, Outcome, Pattern, Received, SinkChecks, Stimulus};

use crate::peer::{CLOCK_NS, given};
use crate::{LIMITS, common, simulation};

/// Grants all, so many clocks behind the request: 1 at least.
struct Grants {
    clocks: u64,
}

impl Agent for Grants {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, _: &Received) -> Result<(), String> {
        if stream != "m_axis_rate_request" {
            return Ok(());
        }
        let mut frame = Frame::new(vec![0]);
        frame.not_before = answer.cycle + self.clocks;
        answer
            .send("s_axis_rate_grant", frame)
            .map_err(|error| error.to_string())
    }
}

/// What goes in, each with its clock.
#[derive(Default)]
struct Events {
    contexts: Vec<SendContext>,
    requests: Vec<(WorkRequest, u64)>,
    resends: Vec<(Resend, u64)>,
    progress: Vec<(SendProgress, u64)>,
    /// Clocks behind its request in which a grant comes.
    grant: u64,
    /// Until this clock no slice leaves.
    blocked: u32,
}

fn frames<D: Descriptor>(events: &[(D, u64)]) -> Vec<Frame> {
    let frames = events.iter().map(|(event, cycle)| {
        let mut frame = Frame::new(event.pack());
        frame.not_before = *cycle;
        frame
    });
    frames.collect()
}

fn run(events: &Events) -> Outcome {
    let contexts = events.contexts.iter().map(|context| Frame::new(context.pack()));
    let mut stimulus = Stimulus::default()
        .source("s_axis_context", Pattern::Always, contexts)
        .source("s_axis_work_request", Pattern::Always, frames(&events.requests))
        .source("s_axis_resend", Pattern::Always, frames(&events.resends))
        .source("s_axis_progress", Pattern::Always, frames(&events.progress))
        .source("s_axis_response_done", Pattern::Always, [])
        .source("s_axis_rate_grant", Pattern::Always, []);
    for stream in ["m_axis", "m_axis_rate_request", "m_axis_completion"] {
        let pattern = match stream {
            "m_axis" => Pattern::After { clocks: events.blocked },
            _ => Pattern::Always,
        };
        stimulus = stimulus.sink(stream, pattern, SinkChecks::default());
    }
    let stimulus = stimulus
        .input("class_strict", 0)
        .input("class_weight", 0x0101_0101)
        .input_at("time_ns", 0, 0, CLOCK_NS);
    let mut simulation = simulation(false);
    let mut bench = Bench::new(&mut simulation, &stimulus, LIMITS).unwrap_or_else(|error| panic!("{error}"));
    let mut grants = Grants { clocks: events.grant };
    bench.run(&mut grants).unwrap_or_else(|error| panic!("{error}"))
}

fn open(qpn: u32, weight: u8) -> SendContext {
    SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: 1,
        mtu: 5,
        window: 128,
        weight,
        ..SendContext::default()
    }
}

fn write(qpn: u32, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: WorkOpcode::Write as u8,
        segments: 1,
        qpn,
        length,
        ..WorkRequest::default()
    }
}

/// Clocks from the acceptance of the first request to its slice, and from slice to slice at the end, of 64 slices.
fn of_slices(queue_pairs: u32, weight: u8, length: u32, grant: u64) -> (u64, f64) {
    let requests = if length > 4096 { 8 } else { 64 };
    let events = Events {
        contexts: (0..queue_pairs).map(|qpn| open(qpn, weight)).collect(),
        // The first one comes alone: it finds the block idle.
        requests: (0..requests)
            .map(|number| (write(number % queue_pairs, length), if number == 0 { 100 } else { 200 }))
            .collect(),
        grant,
        ..Events::default()
    };
    let outcome = run(&events);
    let slices = outcome.received("m_axis");
    let posted = outcome.accepted("s_axis_work_request");
    let first = slices[0].last_cycle - posted[0].last_cycle;
    let last = slices.len() - 1;
    (
        first,
        (slices[last].last_cycle - slices[last - 24].last_cycle) as f64 / 24.0,
    )
}

/// The block alone takes these; a grant comes so many clocks behind its request: 5 from `rate_limiter`.
const GRANTS: [u64; 2] = [1, 5];

#[test]
fn clocks_of_a_slice_are_as_documented() {
    if !common::have_verilator() {
        return;
    }
    // Of one queue pair, whose slices follow each other; of two and of eight, each of which has the turn for one slice or for many. One queue
    // pair is held in the registers already when its request comes.
    for (queue_pairs, weight, before, each) in [(1, 1, 11, 7.0), (2, 1, 12, 8.0), (8, 1, 12, 8.5), (8, 255, 12, 7.5)] {
        for grant in GRANTS {
            let (first, clocks) = of_slices(queue_pairs, weight, 32_768, grant);
            let what = format!("{queue_pairs} queue pairs of weight {weight}, a grant in {grant} clocks");
            assert_eq!(first, before + grant, "clocks from a request to its slice, {what}");
            assert!((7.0..=each).contains(&clocks), "{clocks} clocks a slice, {what}");
        }
    }
    // Even grants that come late cost no clocks of a slice.
    let (_, late) = of_slices(1, 1, 32_768, 11);
    assert!(
        late <= 7.0,
        "{late} clocks a slice of one queue pair, a grant in 11 clocks"
    );
}

#[test]
fn clocks_of_a_retransmission_are_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let resend = |psn: u32, slot: u8| Resend {
        psn,
        slot,
        ..Resend::default()
    };
    for grant in GRANTS {
        let events = Events {
            contexts: vec![open(0, 1), open(1, 1)],
            requests: vec![(write(0, 32_768), 100), (write(0, 32_768), 100)],
            resends: vec![
                (resend(3, 0), 2_000),
                (resend(9, 1), 2_100),
                // These name a wrong slot.
                (resend(3, 1), 2_200),
                (resend(9, 0), 2_300),
            ],
            grant,
            ..Events::default()
        };
        let outcome = run(&events);
        let slices = &outcome.received("m_axis")[16..];
        let resends = outcome.accepted("s_axis_resend");
        let clocks = [8, 8, 15, 17].map(|clocks| clocks + grant);
        assert_eq!(slices.len(), clocks.len());
        for (((slice, accepted), (resend, _)), clocks) in slices.iter().zip(resends).zip(&events.resends).zip(clocks) {
            let slice_given = given(&slice.data).1;
            assert_eq!(slice_given.psn, resend.psn);
            assert_eq!(slice_given.slot, (resend.psn / 8) as u8);
            let took = slice.last_cycle - accepted.last_cycle;
            assert_eq!(
                took, clocks,
                "clocks from {resend:?} to its slice, a grant in {grant} clocks"
            );
        }
    }
}

#[test]
fn clocks_of_events_are_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let between = |outcome: &Outcome, stream: &str| -> Vec<u64> {
        let accepted = outcome.accepted(stream);
        accepted
            .windows(2)
            .map(|pair| pair[1].last_cycle - pair[0].last_cycle)
            .collect()
    };
    // Of one queue pair, which stays in the registers, and of two in turn. Four slices wait for the port, so that no other one is begun.
    for (queue_pairs, request, progress) in [(1, 4, 5), (2, 5, 6)] {
        let first = (0..4).map(|_| (write(7, 4096), 100));
        let more = (0..8).map(|number| (write(number % queue_pairs, 4096), 400));
        let at = |cycle: u64| (0..6).map(move |number: u32| (number % queue_pairs, cycle));
        // Nothing is outstanding of these.
        let resend = |(qpn, cycle)| {
            let resend = Resend {
                qpn,
                ..Resend::default()
            };
            (resend, cycle)
        };
        let reached = |(qpn, cycle)| {
            let progress = SendProgress {
                qpn,
                ..SendProgress::default()
            };
            (progress, cycle)
        };
        let events = Events {
            contexts: [0, 1, 7].map(|qpn| open(qpn, 1)).to_vec(),
            requests: first.chain(more).collect(),
            resends: at(600).map(resend).collect(),
            progress: at(800).map(reached).collect(),
            grant: 1,
            blocked: 1_000,
        };
        let outcome = run(&events);
        let requests = between(&outcome, "s_axis_work_request");
        // The first ones of each queue pair list it.
        assert_eq!(requests[6..], [request; 5], "clocks of a request");
        assert_eq!(between(&outcome, "s_axis_resend"), [5; 5], "clocks of a resend");
        assert_eq!(
            between(&outcome, "s_axis_progress"),
            [progress; 5],
            "clocks of progress"
        );
    }
}
