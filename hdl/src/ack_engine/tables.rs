//! The words of the block's tables, one for each queue pair or each sequence space. What becomes of them is the judge's business.

use spraynic_rtl::bundle;

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
    /// What a queue pair says again when it is asked: its last ACK, in solar and mrc its last NAK too.
    pub(crate) struct LastAnswer {
        given: 1, "there was one";
        psn: 24, "PSN";
        syndrome: 8, "syndrome";
        msn: 24, "MSN of the last answer of any kind";
    }
}

bundle! {
    /// What SACKs of a space have not said yet.
    pub(crate) struct Space {
        packets: 8, "packets that no SACK has reported, unless `reported`";
        bytes: 21, "their bytes of payload: fewer than 255 times 2^13";
        reported: 1, "all have been reported, so that there are none; known too late to make the counts 0";
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
