//! `port_multiplexer`: each frame goes into the queue of its port and leaves there whole, unless the link of the port is down.
//!
//! One stream in, one out a port; each port has a `frame_fifo`, so that a frame leaves without a gap. It never changes a frame, and the frames of a
//! port keep their order. Theory of operation: `docs/src/blocks/port_multiplexer.md`.

use spraynic_config::NicConfig;
use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal, cat_lsb_first, index_width};

use crate::counter::{Counter, count_when};
use crate::frame_fifo::frame_fifo;

/// Name of the block.
pub const NAME: &str = "port_multiplexer";

/// Bits of `s_axis_tuser`: bad, and the port above it.
pub const USER: u32 = 4;

/// Size of the block.
#[derive(Debug, Clone, Copy)]
pub struct PortMultiplexer {
    /// Data bits.
    pub width: u32,
    /// Ports, 1 to 8.
    pub ports: u32,
    /// Beats of the queue of a port.
    pub depth: u32,
    /// Beats of the longest frame.
    pub longest: u32,
}

impl From<&NicConfig> for PortMultiplexer {
    fn from(config: &NicConfig) -> Self {
        Self {
            width: config.datapath.width_bits,
            ports: config.paths.ports,
            depth: config.frame_fifo_beats(),
            longest: config.max_frame_bytes().div_ceil(config.beat_bytes()),
        }
    }
}

/// The block of this size.
#[must_use]
pub fn port_multiplexer<'a>(context: &'a Context, size: &PortMultiplexer) -> Definition<'a> {
    let PortMultiplexer {
        width,
        ports,
        depth,
        longest,
    } = *size;
    let m = context.module(&format!("{NAME}_p{ports}_w{width}_d{depth}_l{longest}"));
    m.doc("Frames by their port: into the queue of the port, and out of it whole. A port that is down drops what comes and what waits.");
    let input = AxiStream::slave(
        m,
        "s_axis",
        width,
        USER,
        "frames; tuser[0] of the last beat: bad; tuser[3:1]: the port, constant over a frame",
    );
    let up = m
        .input("port_up", ports)
        .doc("the link of each port is up")
        .delayed("port_up_now");
    let pause = m
        .input("port_pause", ports)
        .doc("no frame begins on the port")
        .delayed("port_pause_now");
    let room = m
        .output("port_room", ports)
        .doc("the longest frame fits into the queue of each port, beside one that comes in");

    // What comes in: whether it is dropped is decided with the first beat.
    let port = input.user.part(1, 3);
    let in_frame = m.reg("in_frame", 1).reset(0).doc("a frame is coming in");
    let dropping = m.reg("dropping", 1).reset(0).doc("it is dropped");
    let queues: Vec<Signal<'a>> = (0..ports).map(|number| port.eq_lit(number)).collect();
    let is_up = queues
        .iter()
        .zip(up.to_bits())
        .fold(m.low(), |any, (mine, up)| any | (*mine & up));
    let drops = in_frame.mux(dropping, !is_up).named("drops_beat");

    let beat_bits = index_width(u64::from(depth) + 2);
    let beats = m
        .reg("frame_beats", beat_bits)
        .reset(0)
        .doc("beats of the frame that came before, one more than the queue has at most");
    let beats_now = beats.eq_lit(depth + 1).mux(beats, beats + beats.lit(1));
    let (moves, ends) = (input.fires(), input.fires() & input.last);
    m.when(moves, || {
        in_frame.set(!input.last);
        dropping.set(drops);
        beats.set(beats_now.gate(!input.last));
    });
    let too_long = beats_now.gt(m.lit(depth, beat_bits)).named("frame_is_too_long");
    let bad = input.user.bit(0);
    let stored = (ends & !drops & !bad & !too_long).named("stored");

    let mut ready = drops;
    let mut rooms = vec![];
    let (mut given, mut dropped) = (vec![], vec![]);
    for (number, mine) in (0..ports).zip(&queues) {
        let queue = Queue {
            number,
            size: *size,
            up: up.bit(number),
            pause: pause.bit(number),
            commits: stored & *mine,
            beats: beats_now,
        };
        let into = AxiStream::wires(m, &format!("into_{number}"), width, 1);
        into.data.set(input.data);
        into.keep.set(input.keep);
        into.last.set(input.last);
        into.user.set(bad);
        into.valid.set(input.valid & !drops & *mine);
        ready = ready | (*mine & into.ready);
        let of = queue.build(m, into);
        rooms.push(of.room);
        given.push(of.given);
        dropped.push(of.dropped);
    }
    input.ready.set(ready);
    room.set(cat_lsb_first(&rooms));

    for (name, doc, event) in [
        (
            "drop_down",
            "frames dropped when they came: the link of their port is down, or there is no such port",
            ends & drops,
        ),
        (
            "drop_bad",
            "frames dropped because their last beat said bad",
            ends & !drops & bad & !too_long,
        ),
        (
            "drop_too_long",
            "frames dropped because they have more beats than a queue",
            ends & !drops & too_long,
        ),
    ] {
        count_when(m, Counter(name, doc), event);
    }
    count_all(m, Counter("forwarded", "frames given, by all ports together"), &given);
    count_all(
        m,
        Counter(
            "drop_stored",
            "frames dropped when their turn to leave came: the link had gone down",
        ),
        &dropped,
    );
    m.finish()
}

/// A counter of events that may come in the same clock.
fn count_all<'a>(m: Module<'a>, Counter(name, doc): Counter, events: &[Signal<'a>]) {
    let count = m.reg(&format!("counted_{name}"), 32).reset(0);
    let sum = events
        .iter()
        .fold(m.lit(0, 4), |sum, event| sum + event.zero_extend(4))
        .delayed(&format!("{name}_now"));
    let counting = m.reg(&format!("{name}_counts"), 1).reset(0);
    counting.set_lit(1);
    count.set(count + sum.gate(counting).zero_extend(32));
    let _ = m.output_of(&format!("count_{name}"), count).doc(doc);
}

/// The queue of a port.
struct Queue<'a> {
    number: u32,
    size: PortMultiplexer,
    up: Signal<'a>,
    pause: Signal<'a>,
    /// A frame is whole.
    commits: Signal<'a>,
    /// Its beats.
    beats: Signal<'a>,
}

/// What a queue says.
struct Said<'a> {
    room: Signal<'a>,
    given: Signal<'a>,
    dropped: Signal<'a>,
}

impl<'a> Queue<'a> {
    /// Builds the queue between `into` and its port.
    fn build(&self, m: Module<'a>, into: AxiStream<'a>) -> Said<'a> {
        let PortMultiplexer {
            width, depth, longest, ..
        } = self.size;
        let number = self.number;
        let name = |name: &str| format!("{name}_{number}");
        let fifo = m.instance(&name("u_queue"), frame_fifo(m.context(), width, 1, depth));
        into.connect(AxiStream::into_instance(fifo, "s_axis"));
        // What it counts is counted here by reasons that name the ports.
        for port in ["count_forwarded", "count_drop_bad", "count_drop_too_long"] {
            fifo.output(port).ignore();
        }
        let out = AxiStream::from_instance(fifo, "m_axis");
        let output = AxiStream::master(m, &name("m_axis"), width, 1, &format!("frames of port {number}"));

        // A frame that was offered leaves, whatever its port does then; one that is being dropped is dropped whole.
        let flag = |what: &str, doc: &str| m.reg(&name(what), 1).reset(0).doc(doc);
        let leaving = flag("leaving", "a frame was offered and is not through");
        let discarding = flag("discarding", "a frame is being dropped");
        let offers = (out.valid & !discarding & (leaving | (self.up & !self.pause))).named(&name("offers"));
        let discards = (out.valid & (discarding | (!leaving & !self.up))).named(&name("discards"));
        let through = output.ready & out.last;
        leaving.set((leaving | offers) & !(offers & through));
        discarding.set((discarding | discards) & !(discards & out.last));
        output.valid.set(offers);
        output.data.set(out.data);
        output.keep.set(out.keep);
        output.last.set(out.last);
        output.user.set(out.user);
        out.ready.set((offers & output.ready) | discards);

        // Beats of whole frames in the queue.
        let bits = index_width(2 * u64::from(depth));
        let used = m
            .reg(&name("used_beats"), bits)
            .reset(0)
            .doc("beats of whole frames in the queue");
        let leaves = out.fires();
        let come = self.beats.resize(bits).gate(self.commits);
        used.set(used + come - leaves.zero_extend(bits));
        let has_room = m.reg(&name("has_room"), 1).reset(0);
        let limit = depth.saturating_sub(2 * longest);
        has_room.set(used.le(m.lit(limit, bits)));
        Said {
            room: has_room,
            given: offers & through,
            dropped: discards & out.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use spraynic_rtl::Evaluator;

    use super::*;

    /// `port_room` of two ports after so many single-beat frames for port 0 that nobody takes, and again when all are taken.
    #[test]
    fn room_is_for_the_longest_frame_beside_one_that_comes() {
        let size = PortMultiplexer {
            width: 32,
            ports: 2,
            depth: 16,
            longest: 5,
        };
        // 16 beats, two frames of 5: room as long as at most 6 wait.
        for (frames, room) in [(0, 0b11), (6, 0b11), (7, 0b10), (12, 0b10)] {
            let context = Context::new();
            let mut sim = Evaluator::new(port_multiplexer(&context, &size));
            sim.reset();
            for (port, value) in [
                ("port_up", 0b11u64),
                ("port_pause", 0),
                ("s_axis_tkeep", 0xF),
                ("s_axis_tlast", 1),
                ("s_axis_tuser", 0),
                ("s_axis_tdata", 7),
                ("m_axis_0_tready", 0),
                ("m_axis_1_tready", 1),
                ("s_axis_tvalid", 0),
            ] {
                sim.set(port, value);
            }
            (0..3).for_each(|_| sim.clock());
            sim.set("s_axis_tvalid", 1);
            for _ in 0..frames {
                assert_eq!(sim.get_u64("s_axis_tready"), 1);
                sim.clock();
            }
            sim.set("s_axis_tvalid", 0);
            (0..3).for_each(|_| sim.clock());
            assert_eq!(sim.get_u64("port_room"), room, "{frames} frames wait");
            sim.set("m_axis_0_tready", 1);
            (0..frames + 4).for_each(|_| sim.clock());
            assert_eq!(sim.get_u64("port_room"), 0b11);
            assert_eq!(sim.get_u64("count_forwarded"), frames);
        }
    }
}
