//! `retransmit_engine`: knows of each packet on its way whether it has arrived, and says what must be sent again, and when.
//!
//! Context writes, feedback, packets that were sent and timers take turns at one engine, which works on one sequence space at a time; the plain next
//! packet of that space passes by in one clock. It never holds payload, and never chooses a path. Theory of operation:
//! `docs/src/blocks/retransmit_engine.md`.

mod acknowledged;
mod arrivals;
mod bits;
mod engine;
mod evidence;
mod head;
mod layout;
mod operation;
mod others;
mod output;
mod registers;
mod roce;
mod step;
mod tables;
mod turn;

use spraynic_config::descriptor::{
    Descriptor, PacketContext, PacketDescriptor, PathEvent, ReceivedPacket, Resend, SendContext, SendProgress,
    SentPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Context, Definition, Stream};

use crate::counter::{Counter, count_when};
use crate::sweep;
use engine::Engine;
use layout::Sizes;
use step::Step;

/// Name of the block.
pub const NAME: &str = "retransmit_engine";

/// Bits of `m_axis_timeout`: sequence space (bit 0: the responses), queue pair above it, time above that.
pub const TIMEOUT_BITS: u32 = 1 + 23 + 64;

/// What is taken, and the outputs.
#[derive(Clone, Copy)]
struct Ports<'a> {
    contexts: Stream<'a>,
    feedback: Stream<'a>,
    sent: Stream<'a>,
    progress: Stream<'a>,
    resends: Stream<'a>,
    events: Stream<'a>,
    control: Stream<'a>,
    timeouts: Stream<'a>,
}

/// Tells apart what differs by the profiles.
fn suffix(config: &NicConfig) -> String {
    let mut suffix = String::new();
    for (profile, name) in [
        (Profile::Roce, "roce"),
        (Profile::Solar, "solar"),
        (Profile::Mrc, "mrc"),
    ] {
        if config.has_profile(profile) {
            suffix.push('_');
            suffix.push_str(name);
        }
    }
    suffix
}

/// The block for this configuration.
#[must_use]
pub fn retransmit_engine<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let sizes = Sizes::of(config);
    let m = context.module(&format!(
        "{NAME}_qp{}_window{}_paths{}{}",
        sizes.queue_pairs,
        sizes.window,
        sizes.paths,
        suffix(config)
    ));
    m.doc(
        "Knows of each packet on its way whether it has arrived, and says what must be sent again, and when. Owns a window with a\n\
         record for each PSN for each sequence space that sends, and its timer.",
    );
    let slave = |name: &str, width: u32, doc: &str| Stream::slave(m, name, width, doc);
    let master = |name: &str, width: u32, doc: &str| Stream::master(m, name, width, doc);
    let ports = Ports {
        contexts: slave(
            "s_axis_context",
            SendContext::width(),
            "SendContext: writes a queue pair's context",
        ),
        feedback: slave(
            "s_axis_feedback",
            ReceivedPacket::width() + PacketContext::width(),
            "ReceivedPacket with PacketContext above it: route 1 of qp_lookup",
        ),
        sent: slave("s_axis_sent", SentPacket::width(), "SentPacket: a packet that leaves"),
        progress: master(
            "m_axis_progress",
            SendProgress::width(),
            "SendProgress: how far a sequence space has come",
        ),
        resends: master("m_axis_resend", Resend::width(), "Resend: what is to be sent again"),
        events: master(
            "m_axis_path",
            PathEvent::width(),
            "PathEvent: what was learnt of a path",
        ),
        control: master("m_axis_control", PacketDescriptor::width(), "PacketDescriptor: probes"),
        timeouts: master(
            "m_axis_timeout",
            TIMEOUT_BITS,
            "a timer fired: sequence space at bit 0, queue pair from bit 1, time in nanoseconds from bit 24. For event logs and monitors: never waits for `tready`",
        ),
    };
    let time = m.input("time_ns", 64).doc("time in nanoseconds, from 0");

    let sweep = sweep::after_reset(m, sizes.space_bits());
    let engine = Engine::new(m, sizes);
    let room = output::outputs(&engine, ports);
    let may_go = (room.any & !sweep.active).named("may_go");

    engine.store.valid.set_lit(0);
    engine.storing();
    m.when(sweep.active, || {
        engine
            .tables
            .spaces
            .write(sweep.index, m.lit(0, engine.tables.spaces.word.width()));
        engine
            .tables
            .deadlines
            .write(sweep.index, m.lit(0, engine.tables.deadlines.word.width()));
        let qpn = sweep.index.part(0, sizes.queue_pair_bits);
        engine
            .tables
            .queue_pairs
            .write(qpn, m.lit(0, engine.tables.queue_pairs.word.width()));
    });
    let due = turn::timers(&engine, time, sweep.active);
    m.when(may_go, || {
        let stalls = engine.acknowledged();
        engine.move_base();
        m.switch(engine.step, |switch| {
            for step in Step::ALL
                .into_iter()
                .filter(|step| *step != Step::Idle && (sizes.roce || !step.is_roce()))
            {
                switch.case(step as u8, || match step {
                    Step::Idle => {}
                    Step::Swap => engine.swap(&engine.op, engine.op.space),
                    Step::Load => engine.load(),
                    Step::Begin => engine.begin(),
                    Step::Check => engine.check(),
                    Step::WordRead => engine.word_read(),
                    Step::Word => engine.asks.found.set_lit(1),
                    Step::Pick => engine.pick(stalls),
                    Step::Advance => engine.advance(),
                    Step::HeadRead => engine.head_read(stalls),
                    Step::HeadWord => engine.head_word(),
                    Step::HeadMove => engine.head_move(),
                    Step::HeadJudge => engine.head_judge(),
                    Step::HeadOld => engine.head_old(),
                    Step::Lose => engine.lose(),
                    Step::Refused => engine.refused(),
                    Step::Sent => engine.sent(),
                    Step::Again => engine.again(),
                    Step::Fire => engine.fire(),
                    Step::Probe => engine.probe(),
                    Step::Context => engine.context(),
                    Step::Clear => engine.clear(),
                    Step::Second => engine.second(),
                    Step::RoceSent => engine.roce_sent(),
                    Step::RoceAnswer => engine.roce_answer(),
                    Step::RoceJudge => engine.roce_judge(),
                    Step::RoceRewind => engine.roce_rewind(),
                    Step::Delay => engine.delay(),
                    Step::Settle => {
                        engine.settle();
                        engine.go(Step::Idle);
                    }
                });
            }
        });
        m.when(engine.asks.word, || engine.ask_word());
        m.when(engine.asks.found, || engine.word_found());
        m.when(engine.asks.delay, || engine.work_out_delay());
        m.when(engine.asks.settle, || engine.end_operation());
    });
    turn::turn(&engine, ports, &due, time, may_go, room.resends);
    m.assert(
        "between_operations_no_packet_is_in_a_stage",
        engine.step.ne_lit(Step::Idle as u8) | engine.stages.rest(),
    );
    for (name, doc, event) in engine.counts.all() {
        count_when(m, Counter(name, doc), *event);
    }
    count_when(m, Counter("probes", "probes given"), engine.out.probe);
    m.finish()
}
