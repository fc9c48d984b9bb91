//! `stream_fifo`: a queue of words (beats, descriptors); one in and one out a clock, in order.
//!
//! It never drops: a full FIFO withholds `tready`. Up to 32 words are in distributed RAM, more in block RAM.
//! Theory of operation: `docs/src/blocks/stream_fifo.md`.

mod falling_through;

use spraynic_rtl::{AxiStream, Context, Definition, MemoryHandle, MemoryStyle, Module, Signal, Stream, index_width};

pub use falling_through::{falling_through, falling_through_fifo};

/// Name of the block.
pub const NAME: &str = "stream_fifo";

/// Deepest FIFO that is kept in distributed RAM, in words: what one 7-series LUT holds of a bit.
pub const MAX_DISTRIBUTED_DEPTH: u32 = 32;

/// The FIFO for `depth` packed words of `width` bits: ports `s_axis_…`, `m_axis_…` and `count`.
///
/// # Panics
/// When `width` is 0 or `depth` less than 2.
#[must_use]
pub fn stream_fifo(context: &Context, width: u32, depth: u32) -> Definition<'_> {
    let m = context.module(&format!("{NAME}_w{width}_d{depth}"));
    let input = Stream::slave(m, "s_axis", width, "word to store");
    let output = Stream::master(m, "m_axis", width, "oldest word, registered");
    let word = logic(
        m,
        depth,
        (input.data, input.valid, input.ready),
        (output.valid, output.ready),
    );
    output.data.set(word);
    m.finish()
}

/// The FIFO for `depth` beats of `width` data bits and `user` sideband bits: ports `s_axis_…`, `m_axis_…` and `count`.
///
/// # Panics
/// When `width` is no multiple of 8, `width` or `user` is 0, or `depth` less than 2.
#[must_use]
pub fn axi_stream_fifo(context: &Context, width: u32, user: u32, depth: u32) -> Definition<'_> {
    let m = context.module(&format!("axi_{NAME}_w{width}_u{user}_d{depth}"));
    let input = AxiStream::slave(m, "s_axis", width, user, "beat to store");
    let output = AxiStream::master(m, "m_axis", width, user, "oldest beat, registered");
    let word = logic(
        m,
        depth,
        (input.pack(), input.valid, input.ready),
        (output.valid, output.ready),
    );
    output.set_packed(word);
    m.finish()
}

/// Puts a [`stream_fifo`] named `name` behind `stream` and returns its output, whose `ready` is to be driven. Who needs
/// `count` makes the instance itself.
#[must_use]
#[track_caller]
pub fn buffer<'a>(m: Module<'a>, name: &str, stream: Stream<'a>, depth: u32) -> Stream<'a> {
    let instance = m.instance(name, stream_fifo(m.context(), stream.data.width(), depth));
    stream.connect(Stream::into_instance(instance, "s_axis"));
    instance.output("count").ignore();
    Stream::from_instance(instance, "m_axis")
}

/// As [`buffer`], with the count of words inside.
#[track_caller]
pub(crate) fn buffer_counted<'a>(
    m: Module<'a>,
    name: &str,
    stream: Stream<'a>,
    depth: u32,
) -> (Stream<'a>, Signal<'a>) {
    let instance = m.instance(name, stream_fifo(m.context(), stream.data.width(), depth));
    stream.connect(Stream::into_instance(instance, "s_axis"));
    (Stream::from_instance(instance, "m_axis"), instance.output("count"))
}

/// Puts an [`axi_stream_fifo`] named `name` behind `stream` and returns its output, whose `ready` is to be driven.
#[must_use]
#[track_caller]
pub fn buffer_axi<'a>(m: Module<'a>, name: &str, stream: AxiStream<'a>, depth: u32) -> AxiStream<'a> {
    let definition = axi_stream_fifo(m.context(), stream.data.width(), stream.user.width(), depth);
    let instance = m.instance(name, definition);
    stream.connect(AxiStream::into_instance(instance, "s_axis"));
    instance.output("count").ignore();
    AxiStream::from_instance(instance, "m_axis")
}

/// The index after `index` in a ring of `depth` words.
#[must_use]
pub(crate) fn next_index<'a>(index: Signal<'a>, depth: u32) -> Signal<'a> {
    let next = index + index.lit(1);
    if depth.is_power_of_two() {
        next
    } else {
        index.eq_lit(depth - 1).mux(index.lit(0), next)
    }
}

/// The FIFO between (data, valid, ready) and (valid, ready); returns the word that it offers.
fn logic<'a>(
    m: Module<'a>,
    depth: u32,
    (data, valid, ready_port): (Signal<'a>, Signal<'a>, Signal<'a>),
    (valid_port, taken): (Signal<'a>, Signal<'a>),
) -> Signal<'a> {
    m.doc(&format!(
        "FIFO of {depth} words, one in and one out a clock. Every word passes through the RAM and leaves from a register.\n\
         All words inside count, those in the registers behind the RAM too, so the FIFO holds {depth} words exactly."
    ));
    let count_port = m
        .output("count", index_width(u64::from(depth) + 1))
        .doc("words inside, 0 to the depth");
    let count = m.reg("words", count_port.width()).reset(0).doc("words inside");
    let ready = m.reg("ready", 1).reset(0).doc("there is room");

    let push = (valid & ready).named("push");
    let pop = (valid_port & taken).named("pop");
    m.when(push & !pop, || count.set(count + count.lit(1)))
        .else_when(pop & !push, || count.set(count - count.lit(1)));
    let full = count.eq_lit(depth).named("full");
    let one_left = count.eq_lit(depth - 1).named("one_left");
    ready.set(pop | !(full | (push & one_left)));

    // `stored` is a register, so that no comparison stands before the RAM. Equal indices mean an empty RAM: a word leaves
    // it in the clock after the first write, so that it never holds `depth` words.
    let memory = m.memory("words_stored", depth, data.width()).style(style(depth));
    let write_index = m.reg("write_index", memory.address_width()).reset(0);
    let read_index = m.reg("read_index", memory.address_width()).reset(0);
    let stored = m.reg("stored", 1).reset(0).doc("the RAM holds a word");
    memory.write(push, write_index, data);
    m.when(push, || write_index.set(next_index(write_index, depth)));
    let outlet = outlet(m, memory, depth, stored, read_index, taken);
    let next_read_index = next_index(read_index, depth).named("next_read_index");
    m.when(outlet.read, || read_index.set(next_read_index));
    let last_one = next_read_index.eq(write_index).named("last_one");
    stored.set(push | (stored & !(outlet.read & last_one)));

    ready_port.set(ready);
    valid_port.set(outlet.offered);
    count_port.set(count);
    m.assert("count_is_at_most_the_depth", count.le(count.lit(depth)));
    m.assert("ready_means_room", !(ready & full));
    m.assert("empty_means_no_word_anywhere", (stored | outlet.holds).eq(count.any()));
    outlet.word
}

/// The way from a RAM to a registered output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlet<'a> {
    /// A word leaves the RAM at the next clock edge.
    pub(crate) read: Signal<'a>,
    /// The word that is offered, a register.
    pub(crate) word: Signal<'a>,
    /// It is valid.
    pub(crate) offered: Signal<'a>,
    /// A word is behind the RAM.
    pub(crate) holds: Signal<'a>,
}

/// The resource for a FIFO of this depth.
pub(crate) fn style(depth: u32) -> MemoryStyle {
    if depth <= MAX_DISTRIBUTED_DEPTH {
        MemoryStyle::Distributed
    } else {
        MemoryStyle::Block
    }
}

/// Reads ahead from `memory` as long as `stored` says that there is a word at `read_index`, which the caller moves on with `read`.
/// Distributed RAM needs one register, block RAM another one in itself. One word a clock.
pub(crate) fn outlet<'a>(
    m: Module<'a>,
    memory: MemoryHandle<'a>,
    depth: u32,
    stored: Signal<'a>,
    read_index: Signal<'a>,
    taken: Signal<'a>,
) -> Outlet<'a> {
    let offered = m.reg("offered", 1).reset(0).doc("`word` is valid");
    let word_free = (!offered | taken).named("word_free");
    let (read, next_word, next_valid, holds) = if style(depth) == MemoryStyle::Distributed {
        let read = (stored & word_free).named("read");
        (read, memory.read_now(read_index), stored, offered)
    } else {
        let fetched = m
            .reg("fetched", 1)
            .reset(0)
            .doc("the RAM's output register holds a word");
        let fetched_free = (!fetched | word_free).named("fetched_free");
        let read = (stored & fetched_free).named("read");
        m.when(fetched_free, || fetched.set(stored));
        (read, memory.read(read, read_index), fetched, offered | fetched)
    };
    let word = m.reg("word", next_word.width()).doc("oldest word");
    m.when(word_free, || {
        word.set(next_word);
        offered.set(next_valid);
    });
    Outlet {
        read,
        word,
        offered,
        holds,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use spraynic_rtl::Evaluator;

    use super::*;

    const DEPTHS: [u32; 8] = [2, 3, 8, 31, 32, 33, 48, 64];

    /// A FIFO and its queue, in step; `offer` and `take` say in which of 32 clocks each side is willing.
    struct Run {
        sim: Evaluator,
        depth: u64,
        queue: VecDeque<u64>,
        next: u64,
        received: u64,
    }

    impl Run {
        fn new(depth: u32) -> Self {
            let context = Context::new();
            let mut sim = Evaluator::new(stream_fifo(&context, 24, depth));
            sim.reset();
            sim.clock();
            Self {
                sim,
                depth: u64::from(depth),
                queue: VecDeque::new(),
                next: 0,
                received: 0,
            }
        }

        fn clock(&mut self, offer: bool, take: bool) {
            let Self { sim, queue, .. } = self;
            sim.set("s_axis_tvalid", u64::from(offer));
            sim.set("s_axis_tdata", self.next);
            sim.set("m_axis_tready", u64::from(take));
            assert_eq!(sim.get_u64("count"), queue.len() as u64);
            let ready = sim.get_u64("s_axis_tready") == 1;
            assert_eq!(
                ready,
                (queue.len() as u64) < self.depth,
                "ready with {} words",
                queue.len()
            );
            if take && sim.get_u64("m_axis_tvalid") == 1 {
                assert_eq!(queue.pop_front(), Some(sim.get_u64("m_axis_tdata")));
                self.received += 1;
            }
            if offer && ready {
                queue.push_back(self.next);
                self.next += 1;
            }
            sim.clock();
        }
    }

    #[test]
    fn words_and_count_are_those_of_a_queue() {
        for depth in DEPTHS {
            for (offer, take) in [
                (!0u32, 0x5555_5555u32),
                (!0, 0x8000_0001),
                (0x8421_1248, !0),
                (0x3333_9999, 0x1e1e_7171),
            ] {
                let mut run = Run::new(depth);
                for clock in 0..400 {
                    run.clock(offer >> (clock % 32) & 1 == 1, take >> (clock % 29) & 1 == 1);
                }
                assert!(run.received > 10, "depth {depth}: {} words only", run.received);
            }
        }
    }

    #[test]
    fn it_holds_exactly_its_depth() {
        for depth in DEPTHS {
            let mut run = Run::new(depth);
            (0..depth + 5).for_each(|_| run.clock(true, false));
            assert_eq!(run.next, u64::from(depth));
        }
    }

    #[test]
    fn one_word_a_clock_at_every_fill() {
        for depth in DEPTHS {
            let latency = if depth <= MAX_DISTRIBUTED_DEPTH { 2 } else { 3 };
            let mut run = Run::new(depth);
            (0..200).for_each(|_| run.clock(true, true));
            if u64::from(depth) > latency {
                assert_eq!(run.received, 200 - latency, "depth {depth}, from empty");
            }
            // Full, then both sides at full speed: what is written into the freed place comes out without a gap.
            let mut run = Run::new(depth);
            (0..depth + 1).for_each(|_| run.clock(true, false));
            if u64::from(depth) > latency {
                let before = run.received;
                (0..100).for_each(|_| run.clock(true, true));
                assert_eq!(run.received - before, 100, "depth {depth}, from full");
            }
        }
    }

    #[test]
    fn the_helpers_make_streams_of_the_same_width() {
        let context = Context::new();
        let m = context.module("helpers");
        let words = buffer(m, "u_words", Stream::slave(m, "s_axis_words", 40, "in"), 4);
        words.connect(Stream::master(m, "m_axis_words", 40, "out"));
        let beats = buffer_axi(m, "u_beats", AxiStream::slave(m, "s_axis", 64, 2, "in"), 64);
        beats.connect(AxiStream::master(m, "m_axis", 64, 2, "out"));
        let names: Vec<String> = m.finish().verilog().into_iter().map(|file| file.name).collect();
        assert!(names.contains(&"ram_block_dont_care.v".to_owned()), "{names:?}");
        assert!(names.contains(&"ram_distributed_now.v".to_owned()), "{names:?}");
    }
}
