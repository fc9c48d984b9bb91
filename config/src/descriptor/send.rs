//! Descriptors of the send side: what the blocks between a work request and its last acknowledgement hand to each other, and what the host
//! writes into their tables.

use bitvec::prelude::*;

use super::{Descriptor, Field, FieldValue};

descriptor! {
    /// Context of a queue pair for the send side: written when the queue pair changes its state.
    SendContext {
        qpn: u32 = 24, "queue pair to write";
        state: u8 = 3, "state: see QueuePairState. Only RTS sends";
        profile: u8 = 2, "wire profile: 0 roce, 1 solar, 2 mrc; read when the queue pair goes to RTS";
        mtu: u8 = 3, "path MTU code: 1 is 256 bytes, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096; read when the queue pair goes to RTS";
        class: u8 = 2, "traffic class: 0 control, 1 training, 2 storage, 3 management; read when the queue pair goes to RTS";
        timestamps: bool = 1, "mrc: put a TSETH into each packet";
        reads: u8 = 5, "READs and atomics that may be outstanding: what the peer agreed to hold, 0 to 16";
        policy: u8 = 3, "how paths are chosen: see SprayPolicy";
        path_set: u16 = 12, "set of paths";
        reserved_0: u8 = 1, "zero";
        window: u16 = 11, "PSNs of a sequence space that may be outstanding, 1 to send.window";
        retry_limit: u8 = 3, "timeouts without progress before the queue pair fails, 0 to 7";
        rnr_retry: u8 = 3, "roce: RNR NAKs without progress before the queue pair fails; 7: without end";
        reserved_1: u16 = 15, "zero";
        weight: u8 = 8, "share among the queue pairs of its class, 1 to 255; 0 counts as 1";
        psn: u32 = 24, "PSN of the first request; read when the queue pair goes to RTS";
        sent_response_psn: u32 = 24, "solar: PSN of the first response to send; read when the queue pair begins to receive";
        reserved_2: u8 = 8, "zero";
        peer_qpn: u32 = 24, "queue pair number of the peer: probes name its low 16 bits";
        ooo_threshold: u16 = 10, "a hole is a loss when more than this many packets beyond it were acknowledged, and it was sent at least one base_rtt_ns ago";
        reserved_3: u8 = 6, "zero";
        base_rtt_ns: u32 = 24, "round trip of an idle fabric, in nanoseconds";
        reserved_4: u8 = 8, "zero";
        timeout_ns: u32 = 32, "retransmission timeout, in nanoseconds: it doubles with each timeout in a row, seven times at most";
        entropy: u32 = 32, "entropy value (EV) of policy `fixed`; roce: UDP source port in the low 16 bits";
    }
}

descriptor! {
    /// A ring of work requests in memory: written by the host. No entry is asked for and none has been read when it is written: its first one is
    /// entry 0.
    RequestRing {
        qpn: u32 = 24, "queue pair that the ring is of";
        entries_log2: u8 = 4, "entries of 64 bytes (a packed WorkRequest each): 2^entries_log2, 1 to 32,768";
        valid: bool = 1, "there is a ring; 0 takes it away";
        reserved_0: u8 = 3, "zero";
        base: u64 = 64, "byte address of entry 0, a multiple of 64";
    }
}

descriptor! {
    /// The host has written entries of a request ring.
    Doorbell {
        qpn: u32 = 24, "queue pair whose ring it is";
        reserved_0: u8 = 8, "zero";
        producer: u16 = 16, "entries written since the ring was, modulo 2^16: those before this one are there";
        reserved_1: u16 = 16, "zero";
    }
}

descriptor! {
    /// An entry of a request ring has been read and given on as a work request: its place may be written again.
    RingProgress {
        qpn: u32 = 24, "queue pair whose ring it is";
        reserved_0: u8 = 8, "zero";
        consumer: u16 = 16, "entries given since the ring was written, modulo 2^16";
        reserved_1: u16 = 16, "zero";
    }
}

descriptor! {
    /// What `work_queue` adds to a `WorkRequest`: which of its packets are to be made, and with which numbers. It stands above it.
    WorkSlice {
        index: u32 = 24, "number of the first packet in its message";
        packets: u8 = 8, "packets to make, 1 to 16";
        psn: u32 = 24, "PSN of that packet";
        slot: u8 = 8, "place of the request in the send queue of its queue pair";
        msn: u16 = 16, "mrc: message sequence number";
        rqmsn: u16 = 16, "mrc: receive-queue message sequence number";
        entropy: u32 = 32, "entropy value (EV), where no path is chosen";
        profile: u8 = 2, "wire profile";
        mtu: u8 = 3, "path MTU code";
        timestamps: bool = 1, "mrc: put a TSETH into each packet";
        class: u8 = 2, "traffic class";
        retransmission: bool = 1, "these packets were sent before";
        ask: bool = 1, "the last of them asks for an acknowledgement, because the window is full behind it";
        reserved_0: u8 = 6, "zero";
    }
}

descriptor! {
    /// What goes with a `PacketDescriptor` up to `spray_scheduler`, above it: where the packet comes from.
    PacketOrigin {
        slot: u8 = 8, "place of the request in the send queue of its queue pair";
        psns: u32 = 24, "PSNs that it takes: 1, but for a READ request of roce";
        class: u8 = 2, "traffic class";
        profile: u8 = 2, "wire profile";
        space: bool = 1, "sequence space: 0 requests, 1 responses (solar)";
        last: bool = 1, "last packet of its message";
        retransmission: bool = 1, "it was sent before";
        tracked: bool = 1, "it takes a place in the window: `retransmit_engine` hears of it";
    }
}

descriptor! {
    /// A packet that got its path and leaves now: what `spray_scheduler` tells `retransmit_engine`.
    SentPacket {
        qpn: u32 = 24, "queue pair number of this side";
        psn: u32 = 24, "BTH PSN";
        psns: u32 = 24, "PSNs that it takes";
        slot: u8 = 8, "place of the request in the send queue";
        path: u8 = 8, "place of its path in the set";
        port: u8 = 3, "port by which it leaves";
        class: u8 = 2, "traffic class";
        space: bool = 1, "sequence space: 0 requests, 1 responses (solar)";
        last: bool = 1, "last packet of its message";
        retransmission: bool = 1, "it was sent before";
        response: bool = 1, "a READ request or an atomic, by its opcode: its response ends it, no ACK is due";
        reserved_0: u8 = 7, "zero";
        entropy: u16 = 16, "entropy value (EV) of the packet, low 16 bits (its UDP source port): by it a SACK or NACK tells which copy it speaks of";
    }
}

descriptor! {
    /// What `retransmit_engine` wants to be sent again.
    Resend {
        qpn: u32 = 24, "queue pair number of this side";
        psn: u32 = 24, "first PSN";
        slot: u8 = 8, "place of its request in the send queue";
        rewind: bool = 1, "roce: this PSN and all behind it; otherwise this one alone";
        space: bool = 1, "sequence space: 0 to work_queue, 1 (solar) to response_queue";
        reserved_0: u8 = 6, "zero";
    }
}

descriptor! {
    /// How far a queue pair has come: `retransmit_engine` to `work_queue` (space 0) and `response_queue` (space 1).
    SendProgress {
        qpn: u32 = 24, "queue pair number of this side";
        base: u32 = 24, "oldest PSN that has not been acknowledged as received: the window begins here";
        done: u32 = 24, "all requests whose last PSN stands before this one are done (but READs and atomics, which end with their response)";
        space: bool = 1, "sequence space";
        failed: bool = 1, "the queue pair fails: the request at PSN `done` ends with `status`, those behind it are flushed";
        wait: bool = 1, "roce: the peer has no receive request (RNR NAK). What is sent before the Resend that ends the wait is sent in vain";
        reserved_0: u8 = 5, "zero";
        status: u8 = 8, "see CompletionStatus";
    }
}

descriptor! {
    /// A response of solar as one message: `response_engine` to `response_queue`, which cuts it into packets, again where packets are lost.
    ResponseMessage {
        qpn: u32 = 24, "queue pair number of this side";
        atomic: bool = 1, "an atomic ACK, one packet without payload; otherwise READ responses";
        mtu: u8 = 3, "path MTU code";
        entropy: u32 = 20, "entropy value of the request";
        psn: u32 = 24, "PSN of the first packet, in the space of responses";
        packets: u32 = 24, "packets, 1 to 2^23";
        msn: u32 = 24, "message sequence number of the AETH";
        byte_count: u32 = 32, "bytes of the READ, 0 for an atomic";
        value: u64 = 64, "READ: byte address in memory of the first byte; atomic: what stood in memory before";
    }
}

descriptor! {
    /// A READ or an atomic that was sent for the first time: what `requester` has to expect.
    ExpectedResponse {
        qpn: u32 = 24, "queue pair number of this side";
        slot: u8 = 8, "place of the request in the send queue";
        psn: u32 = 24, "roce: PSN of the first packet of the response";
        atomic: bool = 1, "an atomic: 8 bytes, in one packet without payload";
        reserved_0: u8 = 7, "zero";
        address: u64 = 64, "byte address in memory for the first byte";
        length: u32 = 32, "bytes";
    }
}

descriptor! {
    /// The response of a READ or an atomic has reached memory, or it failed: `requester` to `work_queue`.
    ResponseDone {
        qpn: u32 = 24, "queue pair number of this side";
        slot: u8 = 8, "place of the request in the send queue";
        status: u8 = 8, "see CompletionStatus";
    }
}

descriptor! {
    /// A question to `rate_limiter`: may a queue pair send so many bytes now? If so, they are taken from its bucket and that of its class.
    RateRequest {
        qpn: u32 = 24, "queue pair number of this side";
        class: u8 = 2, "traffic class";
        follows: bool = 1, "refused if the last request of this asker was: it was made before that one was decided";
        responses: bool = 1, "asked by `response_queue`, not by `work_queue`";
        reserved_0: u8 = 4, "zero";
        bytes: u32 = 24, "bytes";
    }
}

descriptor! {
    /// A bucket of `rate_limiter`: written by the host or by congestion control.
    RateLimit {
        index: u32 = 24, "queue pair number, or traffic class";
        class: bool = 1, "the bucket of a class";
        limited: bool = 1, "there is a limit";
        reserved_0: u8 = 6, "zero";
        rate: u64 = 40, "bytes in a nanosecond, in units of 2^-32: 536,871 is 1 Mb/s";
        burst: u32 = 24, "bytes that the bucket holds; a request of more is never granted";
    }
}

descriptor! {
    /// A path of a set: written by the host.
    PathEntry {
        set: u16 = 12, "set of paths";
        reserved_0: u8 = 4, "zero";
        path: u8 = 8, "place in the set; its low bits, as many as paths.ports needs, are the port";
        valid: bool = 1, "there is a path";
        backup: bool = 1, "it is used only in place of another one of its port";
        denied: bool = 1, "the administrator forbids it";
        port: u8 = 3, "port by which it leaves: its plane, as the place says";
        reserved_1: u8 = 2, "zero";
        entropy: u32 = 32, "entropy value (EV)";
    }
}

descriptor! {
    /// What is known of a path: `retransmit_engine` to `path_monitor`.
    PathEvent {
        set: u16 = 12, "set of paths";
        kind: u8 = 4, "see PathEventKind";
        path: u8 = 8, "place in the set";
        qpn: u32 = 24, "queue pair that saw it";
    }
}

descriptor! {
    /// A change of a path: `path_monitor` to `spray_scheduler`.
    PathUpdate {
        set: u16 = 12, "set of paths";
        state: u8 = 3, "see PathState";
        reserved_0: bool = 1, "zero";
        path: u8 = 8, "place in the set";
        port: u8 = 3, "port by which it leaves";
        reserved_1: u8 = 5, "zero";
        entropy: u32 = 32, "entropy value (EV)";
        qpn: u32 = 24, "probes: queue pair that sent last by a path of the set, which is to send the probe; otherwise 0";
    }
}

macro_rules! coded {
    ($(#[doc = $doc:literal])* $name:ident { $($variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $text] $variant = $code,)*
        }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The one with this code.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| *one as u8 == code)
            }
        }
    };
}

coded! {
    /// How `spray_scheduler` chooses the path of a packet: [`SendContext::policy`].
    SprayPolicy {
        Fixed = 0, "No path set: the entropy value of the context, by port 0 (roce with a peer that knows nothing else).";
        Single = 1, "One path of the set for the queue pair, by a hash of its number, as ECMP does.";
        RoundRobin = 2, "One after the other.";
        Random = 3, "Oblivious spraying: a random one for each packet.";
        Adaptive = 4, "One after the other, but for those to be skipped and those that are bad.";
        Reps = 5, "The paths of packets that came back unmarked are used again, before new ones are tried.";
    }
}

coded! {
    /// State of a path: [`PathUpdate::state`].
    PathState {
        Absent = 0, "There is no such path.";
        Good = 1, "It is used.";
        Skip = 2, "It is left out once, in the next rotation.";
        AssumedBad = 3, "It is not used but for probes.";
        Denied = 4, "It is not used.";
        Backup = 5, "It is used when it takes the place of another one.";
    }
}

coded! {
    /// What happened on a path: [`PathEvent::kind`].
    PathEventKind {
        Acknowledged = 0, "A packet arrived unmarked (it asked for the SACK).";
        Marked = 1, "A packet arrived with ECN CE: skip once.";
        SkipAlways = 2, "The peer says that the path must not be used.";
        Trimmed = 3, "A switch trimmed a packet.";
        TrimmedLastHop = 4, "The last switch trimmed it: not the path's fault.";
        Lost = 5, "A packet was declared lost without a trim.";
        ProbeAnswered = 6, "An answer to a probe of the path came.";
        Sent = 7, "A packet was sent by it.";
        Delivered = 8, "A packet arrived, as a SACK says in its bitmap or by its cumulative PSN.";
    }
}
