//! The ring of payload beats of `packet_buffer`: written as payload comes, claimed packet by packet, read where the packet passes.
//!
//! Four marks go round, each behind the one before: where the next beat goes, where the packet that comes in begins, up to where
//! packets have been claimed, up to where beats are free again. Discarding moves the first one back to the second; a packet that does not
//! pass only moves the third, and costs the reader nothing.

use spraynic_rtl::{AxiStream, Context, Definition, MemoryHandle, Module, Signal, Stream, cat_lsb_first};

use super::{NAME, PacketBuffer};
use crate::stream_fifo::{stream_fifo, style};

/// `packet_buffer_ring`: `s_axis` in, `m_axis` out; `claim` takes the oldest whole payload away, which `claim_passes` sends to `m_axis`.
/// `whole`: there is one to claim.
pub(super) fn payload_ring<'a>(context: &'a Context, size: &PacketBuffer) -> Definition<'a> {
    let (width, beats) = (size.data_width, size.beats());
    let m = context.module(&format!("{NAME}_ring_w{width}_d{beats}"));
    m.doc(&format!(
        "A ring of {beats} beats in RAM. Payload comes in, whole packets are claimed in order, and those that pass go out."
    ));
    let input = AxiStream::slave(m, "s_axis", width, 1, "payload; tuser of the last beat: discard it");
    let output = AxiStream::master(m, "m_axis", width, 1, "payload of claims that pass");
    let claim = m.input("claim", 1).doc("take the oldest whole payload away");
    let length = m.input("claim_length", 13).doc("its bytes");
    let claim_passes = m.input("claim_passes", 1).doc("it goes to m_axis");

    let memory = m.memory("beats", beats, width).style(style(beats));
    // One bit above the address tells a full ring from an empty one.
    let mark = |name, doc| m.reg(name, memory.address_width() + 1).reset(0).doc(doc);
    let write = mark("write_mark", "where the next beat goes");
    let begin = mark("payload_start", "first beat of the payload that comes in");
    let claimed = mark("claimed_mark", "first beat that was not claimed");
    let free = mark("free_mark", "first beat that is not free");
    let whole = mark("whole_payloads", "payloads that can be claimed");

    let taken = input.fires().named("taken");
    let ends = (taken & input.last).named("ends");
    let discards = ends & input.user;
    let commits = (ends & !input.user).named("commits");
    let behind = (write + write.lit(1)).named("behind");
    let next_write = discards.mux(begin, taken.mux(behind, write)).named("next_write");
    memory.write(taken, address(memory, write), input.data);
    write.set(next_write);
    m.when(commits, || begin.set(behind));
    let ready = m.reg("ready", 1).reset(0).doc("there is room");
    ready.set(next_write.ne(free + free.lit(beats)));
    input.ready.set(ready);
    input.keep.ignore();

    m.when(commits & !claim, || whole.set(whole + whole.lit(1)));
    m.when(claim & !commits, || whole.set(whole - whole.lit(1)));
    let is_whole = whole.any().named("is_whole");
    m.output_of("whole", is_whole).doc("a payload can be claimed").ignore();
    m.output_of("discards", discards).doc("a payload is discarded").ignore();

    // A claim that passes becomes a read: from `claimed` to where the next payload begins.
    let count = beats_of(length, size.beat_bytes()).resize(claimed.width());
    let next_claimed = (claimed + count).named("next_claimed");
    m.when(claim, || claimed.set(next_claimed));
    let tail_bits = size.beat_bytes().trailing_zeros();
    let read = cat_lsb_first(&[claimed, next_claimed, length.part(0, tail_bits)]);
    let reads = m.instance("u_reads", stream_fifo(context, read.width(), beats));
    let push = Stream::into_instance(reads, "s_axis");
    push.data.set(read);
    push.valid.set(claim & claim_passes);
    let pending = reads.output("count").any().named("pending");
    let read = Stream::from_instance(reads, "m_axis");

    let freed = give(m, memory, read, output);
    m.when(freed.0, || free.set(freed.1))
        .else_when(!pending, || free.set(claimed));

    m.assert(
        "a_payload_is_shorter_than_the_ring",
        !(taken & !input.last) | behind.ne(begin + begin.lit(beats)),
    );
    m.assert("only_whole_payloads_are_claimed", !claim | is_whole);
    m.assert("payloads_have_the_length_that_is_claimed", is_whole | claimed.eq(begin));
    m.assert("reads_have_room", !push.valid | push.ready);
    m.finish()
}

/// The part of a mark that addresses the RAM.
fn address<'a>(memory: MemoryHandle<'a>, mark: Signal<'a>) -> Signal<'a> {
    mark.part(0, memory.address_width())
}

/// Beats of so many bytes.
fn beats_of(length: Signal<'_>, beat_bytes: u32) -> Signal<'_> {
    let bits = beat_bytes.trailing_zeros();
    let sum = length.add_wide(length.lit(beat_bytes - 1));
    sum.slice(length.width(), bits).named("count")
}

/// Carries out one read after the other, a beat a clock, through the RAM's register and another one. Returns when a beat has been read,
/// and the mark behind it.
fn give<'a>(
    m: Module<'a>,
    memory: MemoryHandle<'a>,
    read: Stream<'a>,
    output: AxiStream<'a>,
) -> (Signal<'a>, Signal<'a>) {
    let mark_width = memory.address_width() + 1;
    let start = read.data.part(0, mark_width);
    let end = read.data.part(mark_width, mark_width);
    let tail = read.data.part(2 * mark_width, read.data.width() - 2 * mark_width);
    let fetched = m.reg("fetched", 1).reset(0).doc("the RAM's register holds a beat");
    let fetched_last = m.reg("fetched_last", 1);
    let fetched_tail = m.reg("fetched_tail", tail.width()).doc("bytes of a last beat; 0: all");
    let offered = m.reg("offered", 1).reset(0).doc("a beat is offered");
    let offered_free = (!offered | output.ready).named("offered_free");
    let fetched_free = (!fetched | offered_free).named("fetched_free");

    let within = m.reg("half_read", 1).reset(0).doc("a payload is half read");
    let at = m.reg("half_read_at", mark_width).doc("its next beat");
    let this = within.mux(at, start).named("this_beat");
    let next = (this + this.lit(1)).named("next_beat");
    let is_last = next.eq(end).named("is_last");
    let fetch = (read.valid & fetched_free).named("fetch");
    read.ready.set(fetched_free & is_last);
    m.when(fetch, || {
        within.set(!is_last);
        at.set(next);
        fetched_last.set(is_last);
        fetched_tail.set(tail);
    });
    m.when(fetched_free, || fetched.set(read.valid));
    let data = memory.read(fetch, address(memory, this));

    let out_data = m.reg("m_data", data.width());
    let out_keep = m.reg("m_keep", data.width() / 8);
    let out_last = m.reg("m_last", 1);
    m.when(offered_free, || {
        offered.set(fetched);
        out_data.set(data);
        out_keep.set(keep(fetched_last, fetched_tail, out_keep.width()));
        out_last.set(fetched_last);
    });
    output.data.set(out_data);
    output.keep.set(out_keep);
    output.last.set(out_last);
    output.user.set(m.low());
    output.valid.set(offered);
    (fetch, next)
}

/// `tkeep` of a beat: all ones unless it is the last one, then as many as `tail` says, 0 for all.
fn keep<'a>(last: Signal<'a>, tail: Signal<'a>, bytes: u32) -> Signal<'a> {
    let whole = !last | !tail.any();
    let bits = (0..bytes).map(|byte| whole | tail.gt(tail.lit(byte)));
    cat_lsb_first(&bits.collect::<Vec<_>>())
}
