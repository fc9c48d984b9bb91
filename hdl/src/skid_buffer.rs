//! `skid_buffer`: registers a stream in both directions; one item a clock.
//!
//! It never drops, changes or reorders. No path leads from an input to an output without a register between, `tready` included.
//! Theory of operation: `docs/src/blocks/skid_buffer.md`.

use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal, Stream};

/// Name of the block.
pub const NAME: &str = "skid_buffer";

/// The buffer for packed words of `width` bits: ports `s_axis_…` and `m_axis_…`.
///
/// # Panics
/// When `width` is 0.
#[must_use]
pub fn skid_buffer(context: &Context, width: u32) -> Definition<'_> {
    let m = context.module(&format!("{NAME}_w{width}"));
    document(m);
    let input = Stream::slave(m, "s_axis", width, "word to register");
    let output = Stream::master(m, "m_axis", width, "the same word, registered");
    let word = logic(m, input.data, input.valid, input.ready, output.valid, output.ready);
    output.data.set(word);
    m.finish()
}

/// The buffer for frames of `width` data bits and `user` sideband bits: ports `s_axis_…` and `m_axis_…`.
///
/// # Panics
/// When `width` is no multiple of 8, or one of both is 0.
#[must_use]
pub fn axi_skid_buffer(context: &Context, width: u32, user: u32) -> Definition<'_> {
    let m = context.module(&format!("axi_{NAME}_w{width}_u{user}"));
    document(m);
    let input = AxiStream::slave(m, "s_axis", width, user, "beat to register");
    let output = AxiStream::master(m, "m_axis", width, user, "the same beat, registered");
    let word = logic(m, input.pack(), input.valid, input.ready, output.valid, output.ready);
    output.set_packed(word);
    m.finish()
}

/// Puts a [`skid_buffer`] named `name` behind `stream` and returns the registered stream, whose `ready` is to be driven.
#[must_use]
#[track_caller]
pub fn register<'a>(m: Module<'a>, name: &str, stream: Stream<'a>) -> Stream<'a> {
    let instance = m.instance(name, skid_buffer(m.context(), stream.data.width()));
    stream.connect(Stream::into_instance(instance, "s_axis"));
    Stream::from_instance(instance, "m_axis")
}

/// Puts an [`axi_skid_buffer`] named `name` behind `stream` and returns the registered stream, whose `ready` is to be driven.
#[must_use]
#[track_caller]
pub fn register_axi<'a>(m: Module<'a>, name: &str, stream: AxiStream<'a>) -> AxiStream<'a> {
    let definition = axi_skid_buffer(m.context(), stream.data.width(), stream.user.width());
    let instance = m.instance(name, definition);
    stream.connect(AxiStream::into_instance(instance, "s_axis"));
    AxiStream::from_instance(instance, "m_axis")
}

fn document(m: Module<'_>) {
    m.doc(
        "Registers a stream in both directions: outputs depend on registers only.\n\
         Two words fit: `word` is offered, `skid` is what came in the clock in which the taker stopped.",
    );
}

/// The two registers of a word and their control; returns the word that is offered.
///
/// Two bits of state suffice: `ready` low with `offered` high means that `skid` is taken, `ready` low with `offered` low is
/// the clock of the reset.
fn logic<'a>(
    m: Module<'a>,
    data: Signal<'a>,
    valid: Signal<'a>,
    ready_port: Signal<'a>,
    valid_port: Signal<'a>,
    taken: Signal<'a>,
) -> Signal<'a> {
    let width = data.width();
    let ready = m.reg("ready", 1).reset(0).doc("`skid` is free");
    let offered = m.reg("offered", 1).reset(0).doc("`word` is valid");
    let word = m.reg("word", width).doc("what the taker sees");
    let skid = m.reg("skid", width).doc("what came while the taker stopped");

    let word_free = (!offered | taken).named("word_free");
    m.when(word_free, || {
        word.set(ready.mux(data, skid));
        offered.set(ready.mux(valid, offered));
    });
    m.when(ready, || skid.set(data));
    ready.set(word_free | (ready & !valid));

    ready_port.set(ready);
    valid_port.set(offered);
    word
}

#[cfg(test)]
mod tests {
    use spraynic_rtl::Evaluator;

    use super::*;

    /// Moves `count` numbers through, the patterns saying when each side is willing; returns what came out and the clocks
    /// it took.
    fn run(offer: u32, take: u32, count: u64) -> (Vec<u64>, u32) {
        let context = Context::new();
        let mut sim = Evaluator::new(skid_buffer(&context, 16));
        sim.reset();
        let (mut sent, mut received, mut clocks, mut offering) = (0, vec![], 0, false);
        while (received.len() as u64) < count {
            let bit = |pattern: u32| pattern >> (clocks % 32) & 1 == 1;
            offering = (offering || bit(offer)) && sent < count;
            sim.set("s_axis_tvalid", u64::from(offering));
            sim.set("s_axis_tdata", sent);
            sim.set("m_axis_tready", u64::from(bit(take)));
            if sim.get_u64("m_axis_tvalid") == 1 && bit(take) {
                received.push(sim.get_u64("m_axis_tdata"));
            }
            if offering && sim.get_u64("s_axis_tready") == 1 {
                sent += 1;
                offering = false;
            }
            sim.clock();
            clocks += 1;
            assert!(clocks < 10_000, "stuck after {received:?}");
        }
        (received, clocks)
    }

    #[test]
    fn one_word_a_clock() {
        let (received, clocks) = run(!0, !0, 100);
        assert_eq!(received, (0..100).collect::<Vec<_>>());
        // The clock after reset, in which `tready` is still low, and one of latency.
        assert_eq!(clocks, 102);
    }

    #[test]
    fn nothing_is_lost_whatever_the_pattern() {
        for (offer, take) in [
            (!0, 0x5555_5555),
            (!0, 0x0000_0001),
            (0x8421_1248, !0),
            (0x3333_9999, 0x1e1e_7171),
        ] {
            let (received, _) = run(offer, take, 200);
            assert_eq!(received, (0..200).collect::<Vec<_>>(), "{offer:#x} {take:#x}");
        }
    }

    #[test]
    fn a_taker_that_pauses_once_costs_its_own_clock_only() {
        let (_, clocks) = run(!0, !0x0000_0400, 100);
        assert_eq!(clocks, 102 + 100 / 32);
    }

    #[test]
    fn outputs_do_not_follow_inputs_within_a_clock() {
        let context = Context::new();
        let mut sim = Evaluator::new(axi_skid_buffer(&context, 64, 1));
        sim.reset();
        sim.clock();
        for step in 0..40u64 {
            let outputs = |sim: &mut Evaluator| {
                ["s_axis_tready", "m_axis_tvalid", "m_axis_tdata", "m_axis_tlast"].map(|port| sim.get(port))
            };
            let before = outputs(&mut sim);
            sim.set("s_axis_tvalid", step >> 1 & 1);
            sim.set("m_axis_tready", step >> 2 & 1);
            sim.set("s_axis_tdata", step);
            sim.set("s_axis_tlast", step & 1);
            assert_eq!(before, outputs(&mut sim), "step {step}");
            sim.clock();
        }
    }

    #[test]
    fn the_helpers_keep_the_width_and_share_the_module() {
        let context = Context::new();
        let m = context.module("two_stages");
        let input = AxiStream::slave(m, "s_axis", 128, 3, "in");
        let output = AxiStream::master(m, "m_axis", 128, 3, "out");
        let first = register_axi(m, "u_first", input);
        register_axi(m, "u_second", first).connect(output);
        let files = m.finish().verilog();
        assert_eq!(files.len(), 2, "one module for both instances");
    }
}
