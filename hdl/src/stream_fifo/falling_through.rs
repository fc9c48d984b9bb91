//! A FIFO without latency where it is empty: a word that the taker takes at once never enters it.
//!
//! Words that wait are read from distributed RAM in the clock in which they are offered, so a word that was not taken stands at the output in
//! the next clock. A deep FIFO has a [`stream_fifo`](super::stream_fifo) behind its first words. `tready` is a register.

use spraynic_rtl::{Context, Definition, MemoryStyle, Module, Signal, Stream, index_width};

use super::{MAX_DISTRIBUTED_DEPTH, buffer_counted, next_index};

/// Words before a deep FIFO: they last while the first word passes its RAM.
const FRONT_DEPTH: u32 = 16;

/// The FIFO for `depth` packed words of `width` bits at least: ports `s_axis_…` and `m_axis_…`.
///
/// # Panics
/// When `width` is 0 or `depth` less than 2.
#[must_use]
pub fn falling_through_fifo(context: &Context, width: u32, depth: u32) -> Definition<'_> {
    let m = context.module(&format!("falling_through_fifo_w{width}_d{depth}"));
    m.doc(&format!(
        "FIFO of {depth} words, one in and one out a clock. Where it is empty a word is offered in the clock in which it comes."
    ));
    let input = Stream::slave(m, "s_axis", width, "word to store");
    let output = Stream::master(m, "m_axis", width, "oldest word; that of s_axis where none is stored");
    if depth <= MAX_DISTRIBUTED_DEPTH {
        input.ready.set(front(m, depth, (input.data, input.valid), output));
    } else {
        // What finds words waiting behind the front queue waits there too.
        let back = Stream::wires(m, "back", width);
        let (behind, waiting) = buffer_counted(m, "u_back", back, depth);
        let waits = waiting.any().named("words_wait_behind");
        let offered = Stream::wires(m, "front", width);
        offered
            .ready
            .set(front(m, FRONT_DEPTH, (offered.data, offered.valid), output));
        offered.data.set(waits.mux(behind.data, input.data));
        offered.valid.set(waits.mux(behind.valid, input.valid & back.ready));
        behind.ready.set(waits & offered.ready);
        back.data.set(input.data);
        back.valid.set(input.valid & (waits | !offered.ready));
        input.ready.set(back.ready);
    }
    m.finish()
}

/// Puts a [`falling_through_fifo`] named `name` behind `stream` and returns its output, whose `ready` is to be driven.
#[must_use]
#[track_caller]
pub fn falling_through<'a>(m: Module<'a>, name: &str, stream: Stream<'a>, depth: u32) -> Stream<'a> {
    let instance = m.instance(name, falling_through_fifo(m.context(), stream.data.width(), depth));
    stream.connect(Stream::into_instance(instance, "s_axis"));
    Stream::from_instance(instance, "m_axis")
}

/// The queue in distributed RAM between a word and `output`. Returns a register that says that there is room; a word is valid only
/// then.
fn front<'a>(m: Module<'a>, depth: u32, (data, valid): (Signal<'a>, Signal<'a>), output: Stream<'a>) -> Signal<'a> {
    let ready = m.reg("ready", 1).reset(0).doc("there is room");
    let words = m
        .reg("words", index_width(u64::from(depth) + 1))
        .reset(0)
        .doc("words stored");
    let stored = m.reg("stored", 1).reset(0).doc("a word is stored");
    let comes = (valid & ready).named("comes");
    let push = (comes & (stored | !output.ready)).named("push");
    let pop = (stored & output.ready).named("pop");
    let memory = m
        .memory("words_stored", depth, data.width())
        .style(MemoryStyle::Distributed);
    let index = |name: &str, step: Signal<'a>| {
        let index = m.reg(name, memory.address_width()).reset(0);
        m.when(step, || index.set(next_index(index, depth)));
        index
    };
    memory.write(push, index("write_index", push), data);
    let oldest = memory.read_now(index("read_index", pop));
    m.when(push & !pop, || words.set(words + words.lit(1)))
        .else_when(pop & !push, || words.set(words - words.lit(1)));
    stored.set(push | (stored & !(pop & words.eq_lit(1))));
    let full = words.eq_lit(depth);
    ready.set(!(full & !pop) & !(words.eq_lit(depth - 1) & push & !pop));
    output.data.set(stored.mux(oldest, data));
    output.valid.set(stored | comes);
    m.assert("stored_says_whether_there_are_words", stored.eq(words.any()));
    m.assert("ready_means_room", !(ready & full));
    ready
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use spraynic_rtl::Evaluator;

    use super::*;

    const DEPTHS: [u32; 5] = [2, 3, 16, 32, 64];

    /// A FIFO and its queue in step: `offer` and `take` say in which of 32 clocks each side is willing, a word that waits stays. Returns the
    /// clocks in which words were given.
    fn run(depth: u32, words: u64, offer: u32, take: u32) -> Vec<u32> {
        let context = Context::new();
        let mut sim = Evaluator::new(falling_through_fifo(&context, 24, depth));
        sim.reset();
        sim.clock();
        let (mut queue, mut next, mut received, mut offering) = (VecDeque::new(), 0u64, 0u64, false);
        let (mut given, mut waits) = (vec![], None);
        for clock in 0u32.. {
            let willing = |pattern: u32| pattern >> (clock % 32) & 1 == 1;
            offering = next < words && (offering || willing(offer));
            sim.set("s_axis_tvalid", u64::from(offering));
            sim.set("s_axis_tdata", next);
            sim.set("m_axis_tready", u64::from(willing(take)));
            let ready = sim.get_u64("s_axis_tready") == 1;
            assert!(
                ready || queue.len() >= depth as usize,
                "depth {depth}: full with {}",
                queue.len()
            );
            let valid = sim.get_u64("m_axis_tvalid") == 1;
            // No latency: what comes into an empty FIFO is offered at once.
            if queue.is_empty() {
                assert_eq!(valid, offering && ready, "depth {depth}");
            }
            if offering && ready {
                queue.push_back(next);
                next += 1;
                offering = false;
            }
            let word = valid.then(|| sim.get_u64("m_axis_tdata"));
            if waits.is_some() {
                assert_eq!(word, waits, "depth {depth}: a word that waits stays");
            }
            waits = word.filter(|_| !willing(take));
            if let Some(word) = word.filter(|_| willing(take)) {
                assert_eq!(queue.pop_front(), Some(word), "depth {depth}");
                received += 1;
                given.push(clock);
            }
            sim.clock();
            if received == words {
                break;
            }
            assert!(clock < 10_000, "depth {depth}: stuck");
        }
        given
    }

    #[test]
    fn words_are_those_of_a_queue() {
        for depth in DEPTHS {
            for (offer, take) in [
                (!0, 0x5555_5555),
                (0x8421_1248, !0),
                (0x3333_9999, 0x1e1e_7171),
                (!0, 1),
                (1, !0),
            ] {
                run(depth, 200, offer, take);
            }
        }
    }

    #[test]
    fn one_word_a_clock_from_empty_and_from_full() {
        for depth in DEPTHS {
            let given = run(depth, 100, !0, !0);
            assert_eq!(given, (0..100).collect::<Vec<_>>(), "depth {depth}");
            // Stopped for some clocks in 32, so that words wait at every fill; then a word leaves in every clock again.
            for stop in [1, 2, 3, 8, 20] {
                let take = !0 << stop;
                let given = run(depth, 300, !0, take);
                let free = (0u32..).filter(|clock| take >> (clock % 32) & 1 == 1);
                let full_speed: Vec<u32> = free.take(300).collect();
                assert_eq!(given, full_speed, "depth {depth}, stopped for {stop}");
            }
        }
    }

    #[test]
    fn the_helper_passes_a_stream_on() {
        let context = Context::new();
        let m = context.module("behind");
        let input = Stream::slave(m, "s_axis", 8, "in");
        falling_through(m, "u_fifo", input, 4).connect(Stream::master(m, "m_axis", 8, "out"));
        let mut sim = Evaluator::new(m.finish());
        sim.reset();
        sim.clock();
        sim.set("s_axis_tvalid", 1u64);
        sim.set("s_axis_tdata", 0x5Au64);
        assert_eq!((sim.get_u64("m_axis_tvalid"), sim.get_u64("m_axis_tdata")), (1, 0x5A));
    }
}
