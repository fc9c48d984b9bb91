//! The tables of the block: block RAMs, one word for each queue pair or each sequence space.
//!
//! A word is read when its operation enters, judged two clocks later, and written back in the clock behind that. An operation one, two
//! or three clocks behind on the same word gets it by a bypass. What the words mean is the judge's business.

use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, bundle};

use crate::sweep::Sweep;

bundle! {
    /// What a queue pair is.
    pub(crate) struct QueuePair {
        receives: 1, "it receives";
        profile: 2, "wire profile";
        peer: 16, "low bits of the peer's queue pair number";
        rnr_timer: 5, "timer code of RNR NAKs";
    }
}

bundle! {
    /// The last acknowledgement of a queue pair.
    pub(crate) struct LastAck {
        given: 1, "there was one";
        psn: 24, "PSN";
        msn: 24, "MSN of the last answer";
        entropy: 20, "entropy value";
    }
}

bundle! {
    /// What SACKs of a space have not said yet.
    pub(crate) struct Space {
        packets: 8, "packets that no SACK has reported";
        bytes: 21, "their bytes of payload: fewer than 255 times 2^13";
        received: 32, "bytes of payload received, each packet once";
        in_ring: 1, "the space stands in the timer's ring";
        epoch: 3, "counts the times at which something began to be unreported";
    }
}

bundle! {
    /// The window of a space as the last report has it.
    pub(crate) struct Window {
        cumulative: 24, "the PSN before the first gap";
        near: 64, "the 64 PSNs behind it";
        beyond_gap: 11, "packets beyond the first gap";
    }
}

bundle! {
    /// The last packet of a space that was coalesced.
    pub(crate) struct LastPacket {
        psn: 24, "PSN";
        entropy: 20, "entropy value";
        time_stamp: 16, "time stamp to echo";
    }
}

bundle! {
    /// From when on a queue pair may send a CNP.
    pub(crate) struct NextCnp {
        from_ns: 64, "time in nanoseconds";
    }
}

/// Where a table is read and written.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    enters: Signal<'a>,
    read: Signal<'a>,
    valid: Signal<'a>,
    write: Signal<'a>,
    /// The operation one clock before judgement is of the same word as the one that so many clocks ago, less one, stood where it stands.
    behind: [Signal<'a>; 3],
}

impl<'a> Access<'a> {
    /// Whether there is an operation at entry, one clock before judgement and in judgement, and the words that they concern.
    pub(super) fn new(m: Module<'a>, name: &str, valid: [Signal<'a>; 3], word: [Signal<'a>; 3]) -> Self {
        // Compared in the clock of entry, so that the choice of the word waits for the RAM alone.
        let written = m.reg(&format!("{name}_written"), 1).reset(0);
        written.set(valid[2]);
        let index = word[2].delayed(&format!("{name}_index"));
        let earlier = [
            ("one", valid[1], word[1]),
            ("two", valid[2], word[2]),
            ("three", written, index),
        ];
        Self {
            enters: valid[0],
            read: word[0],
            valid: valid[2],
            write: word[2],
            behind: earlier
                .map(|(clocks, valid, other)| (valid & word[0].eq(other)).delayed(&format!("{name}_{clocks}_behind"))),
        }
    }
}

/// A table with the word of the operation in judgement.
pub(super) struct Table<B> {
    /// The word.
    pub(super) word: B,
    /// What it becomes: wires to drive, to the word itself where it stays.
    pub(super) next: B,
}

impl<B> Table<B> {
    /// A table of `depth` words; `sweep` clears it.
    pub(super) fn new<'a>(m: Module<'a>, name: &str, depth: u32, access: Access<'a>, sweep: Option<Sweep<'a>>) -> Self
    where
        B: Bundle<'a>,
    {
        let memory = m
            .memory(name, depth, B::packed_width())
            .read_during_write(ReadDuringWrite::DontCare);
        let next = B::wires(m, &format!("next_{name}"));
        let read = memory.read(access.enters, access.read);
        // The write leaves from registers: the RAM is far, and judgement is long.
        let (enable, address, data) = match sweep {
            None => (access.valid, access.write, next.pack()),
            Some(sweep) => {
                let bits = access.write.width();
                let index = sweep.index.part(sweep.index.width() - bits, bits);
                (
                    access.valid | sweep.active,
                    sweep.active.mux(index, access.write),
                    next.pack().gate(!sweep.active),
                )
            }
        };
        let writes = m.reg(&format!("{name}_writes"), 1).reset(0);
        writes.set(enable);
        let index = address.delayed(&format!("{name}_index"));
        let written = data.delayed(&format!("{name}_written"));
        memory.write(writes, index, written);
        let before = written.delayed(&format!("{name}_written_before"));
        let word = m.reg(&format!("{name}_2"), B::packed_width());
        let [one, two, three] = access.behind;
        let in_registers = two.mux(written, before).named(&format!("{name}_in_registers"));
        word.set(one.mux(next.pack(), (two | three).mux(in_registers, read)));
        Self {
            word: B::unpack(word).named(name),
            next,
        }
    }
}
