//! The tables of the block: block RAMs, one word for each queue pair or each sequence space.
//!
//! A word is read when its operation enters, judged two clocks later, and written back in the clock behind that. An operation one or two clocks
//! behind on the same word gets it by a bypass, three clocks behind by the RAM's own. What the words mean is the judge's business.

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
    /// An operation enters: its word is read.
    pub(super) enters: Signal<'a>,
    /// Word to read.
    pub(super) read: Signal<'a>,
    /// Word of the operation one clock before judgement.
    pub(super) ahead: Signal<'a>,
    /// There is an operation in judgement.
    pub(super) valid: Signal<'a>,
    /// Word of the operation in judgement.
    pub(super) write: Signal<'a>,
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
            .read_during_write(ReadDuringWrite::New);
        let next = B::wires(m, &format!("next_{name}"));
        let read = memory.read(access.enters, access.read);
        let same = (access.valid & access.ahead.eq(access.write)).named(&format!("same_{name}_behind"));
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
        let same_before = (writes & access.ahead.eq(index)).named(&format!("same_{name}_two_behind"));
        let word = m.reg(&format!("{name}_2"), B::packed_width());
        word.set(same.mux(next.pack(), same_before.mux(written, read)));
        Self {
            word: B::unpack(word).named(name),
            next,
        }
    }
}
