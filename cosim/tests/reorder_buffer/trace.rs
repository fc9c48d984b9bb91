//! Traces of arrivals for the reorder buffer: windows of PSNs in disorder, some lost, sent twice or trimmed, and what the host does meanwhile.

use proptest::prelude::*;
use spraynic_config::descriptor::{
    Descriptor, Extension, PacketContext, QueuePairContext, QueuePairState, ReceivedPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_golden::reorder_buffer;

/// A packet of route 0 with its payload.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) packet: ReceivedPacket,
    pub(crate) context: PacketContext,
    pub(crate) payload: Vec<u8>,
    pub(crate) not_before: u64,
}

impl Arrival {
    pub(crate) fn descriptor(&self) -> Vec<u8> {
        [self.packet.pack(), self.context.pack()].concat()
    }

    pub(crate) fn of_model(&self) -> reorder_buffer::Arrival {
        reorder_buffer::Arrival {
            packet: self.packet,
            context: self.context,
            payload: self.payload.clone(),
        }
    }
}

/// What a trace is made from.
#[derive(Debug, Clone)]
pub(crate) struct Knobs {
    pub(crate) seed: u64,
    /// Packets in all, about.
    pub(crate) packets: u32,
    /// PSNs that are sent in disorder.
    pub(crate) block: u32,
    /// Of 256: lost at first, sent twice, trimmed.
    pub(crate) lost: u32,
    pub(crate) twice: u32,
    pub(crate) trimmed: u32,
    /// Context writes on the way.
    pub(crate) writes: u32,
    /// Of 256: credits per packet.
    pub(crate) credits: u32,
    /// The most bytes of payload.
    pub(crate) longest: u32,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 300,
            block: 24,
            lost: 40,
            twice: 20,
            trimmed: 6,
            writes: 4,
            credits: 60,
            longest: 200,
        }
    }
}

impl Knobs {
    pub(crate) fn strategy() -> impl Strategy<Value = Self> {
        let block = prop_oneof![Just(1u32), 2..20u32, 20..150u32];
        let longest = prop_oneof![Just(0u32), 1..130u32, Just(1024u32)];
        (
            any::<u64>(),
            1..600u32,
            block,
            0..100u32,
            0..60u32,
            0..12u32,
            0..8u32,
            0..200u32,
            longest,
        )
            .prop_map(
                |(seed, packets, block, lost, twice, trimmed, writes, credits, longest)| Self {
                    seed,
                    packets,
                    block,
                    lost,
                    twice,
                    trimmed,
                    writes,
                    credits,
                    longest,
                },
            )
    }
}

/// Random numbers (xorshift64*).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15 | 1)
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as u32 % limit.max(1)
    }

    fn chance(&mut self, of_256: u32) -> bool {
        self.below(256) < of_256
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// Everything that goes into the block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) contexts: Vec<(u64, QueuePairContext)>,
    pub(crate) credits: Vec<(u64, u32)>,
    pub(crate) arrivals: Vec<Arrival>,
}

pub(crate) fn context(qpn: u32, profile: Profile, state: QueuePairState, psn: u32) -> QueuePairContext {
    QueuePairContext {
        qpn,
        state: state as u8,
        profile: profile.code(),
        mtu: 1,
        psn: psn & 0xFF_FFFF,
        response_psn: (psn ^ 0x55_5555) & 0xFF_FFFF,
        ..QueuePairContext::default()
    }
}

/// A packet with these bytes.
pub(crate) fn arrival(qpn: u32, profile: Profile, space: bool, psn: u32, opcode: u8, payload: Vec<u8>) -> Arrival {
    Arrival {
        packet: ReceivedPacket {
            qpn,
            opcode,
            psn: psn & 0xFF_FFFF,
            payload_length: payload.len() as u16,
            ..ReceivedPacket::default()
        },
        context: PacketContext {
            space,
            profile: profile.code(),
            mtu: 1,
            ..PacketContext::default()
        },
        payload,
        not_before: 0,
    }
}

/// When all tables are clear and the first context writes are done.
pub(crate) const OPEN: u64 = 700;

impl Trace {
    /// A trace for a configuration with this profile for the queue pairs that have it.
    pub(crate) fn new(config: &NicConfig, knobs: &Knobs) -> Self {
        let mut random = Random::new(knobs.seed);
        let profiles: Vec<Profile> = Profile::ALL
            .iter()
            .copied()
            .filter(|profile| config.has_profile(*profile))
            .collect();
        let reorder = config.reorder_queue_pairs();
        let of = |qpn: u32| {
            let able: Vec<_> = profiles
                .iter()
                .filter(|profile| **profile != Profile::Solar || qpn < reorder)
                .collect();
            able.get(qpn as usize % able.len().max(1))
                .map_or(profiles[0], |profile| **profile)
        };
        let queue_pairs = 1 + random.below(config.queue_pairs.count);
        let mut trace = Self::default();
        let mut windows = vec![];
        for qpn in 0..queue_pairs {
            let psn = random.pick(&[0u32, 0xFF_FFF0, 0x7F_FFE0, 0x12_3456]);
            let opened = context(qpn, of(qpn), QueuePairState::ReadyToSend, psn);
            trace.contexts.push((0, opened));
            windows.push((qpn, of(qpn), false, opened.psn));
            if of(qpn) == Profile::Solar {
                windows.push((qpn, of(qpn), true, opened.response_psn));
            }
        }
        let per_window = knobs.packets / windows.len() as u32 + 1;
        let mut sequences: Vec<Vec<Arrival>> = windows
            .iter()
            .map(|(qpn, profile, space, start)| {
                sequence(config, knobs, &mut random, per_window, (*qpn, *profile, *space, *start))
            })
            .collect();
        sequences.iter_mut().for_each(|sequence| sequence.reverse());
        let bursts = 1 + random.below(12);
        while !sequences.is_empty() {
            let which = random.below(sequences.len() as u32) as usize;
            for _ in 0..=random.below(bursts) {
                trace.arrivals.extend(sequences[which].pop());
            }
            if sequences[which].is_empty() {
                sequences.swap_remove(which);
            }
        }
        if let Some(first) = trace.arrivals.first_mut() {
            first.not_before = OPEN;
        }
        let length = trace.arrivals.len() as u64;
        for _ in 0..length * u64::from(knobs.credits) / 256 {
            let at = u64::from(random.below(OPEN as u32 + 2 * length as u32));
            let qpn = if random.chance(4) {
                100 + random.below(1 << 23)
            } else {
                random.below(queue_pairs)
            };
            trace.credits.push((at, qpn));
        }
        trace.credits.sort_unstable();
        for _ in 0..knobs.writes {
            let at = OPEN + u64::from(random.below(3 * length as u32 + 1));
            let qpn = if random.chance(10) {
                5000
            } else {
                random.below(queue_pairs)
            };
            let state = random.pick(&QueuePairState::ALL);
            let psn = random.pick(&[0u32, 0xFF_FFF0, 0x7F_FFE0, 0x12_3456]) + random.below(40);
            let profile = if random.chance(30) {
                random.pick(&profiles)
            } else {
                of(qpn % 8)
            };
            trace.contexts.push((at, context(qpn, profile, state, psn)));
        }
        trace.contexts.sort_by_key(|(at, _)| *at);
        trace
    }
}

fn sequence(
    config: &NicConfig,
    knobs: &Knobs,
    random: &mut Random,
    count: u32,
    (qpn, profile, space, start): (u32, Profile, bool, u32),
) -> Vec<Arrival> {
    let opcodes: &[u8] = match (profile, space) {
        (Profile::Mrc, _) => &[0xC6, 0xC7, 0xC7, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB],
        (_, true) => &[0x0D, 0x0E, 0x0F, 0x10, 0x12],
        _ => &[
            0x00, 0x01, 0x01, 0x01, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x13, 0x17,
        ],
    };
    let bus = config.beat_bytes();
    let longest = knobs.longest.min(config.wire.max_mtu);
    let packets: Vec<Arrival> = (0..count)
        .map(|step| {
            let opcode = random.pick(opcodes);
            let has_payload = spraynic_wire::Opcode(opcode)
                .info()
                .is_some_and(|info| info.has_payload);
            let length = match random.below(4) {
                0 => random.pick(&[0, 1, bus - 1, bus, bus + 1]),
                _ => random.below(longest + 1),
            };
            let length = if has_payload { length.min(longest) } else { 0 };
            let payload = (0..length).map(|_| random.below(256) as u8).collect();
            let mut packet = arrival(qpn, profile, space, start.wrapping_add(step), opcode, payload);
            let mut extension = Extension::default();
            extension.0.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            // The DMA length of READ requests is short, or anything.
            if random.chance(200) {
                extension.0[12..16].copy_from_slice(&random.below(600).to_be_bytes());
            }
            packet.packet = ReceivedPacket {
                solicited: random.chance(128),
                ack_request: random.chance(128),
                retransmission: random.chance(128),
                timestamped: random.chance(128),
                ecn: random.below(4) as u8,
                extension_words: random.below(10) as u8,
                udp_source_port: random.below(1 << 16) as u16,
                flow_label: random.below(1 << 20),
                partition_key: random.below(1 << 16) as u16,
                extension,
                ..packet.packet
            };
            packet.context = PacketContext {
                mtu: random.below(8) as u8,
                remote_write: random.chance(128),
                remote_read: random.chance(128),
                remote_atomic: random.chance(128),
                protection_domain: random.below(1 << 24),
                ..packet.context
            };
            packet
        })
        .collect();
    let mut sent = vec![];
    let mut lost: Vec<Arrival> = vec![];
    for block in packets.chunks(knobs.block as usize) {
        let mut order: Vec<Arrival> = block.to_vec();
        random.shuffle(&mut order);
        let missing = std::mem::take(&mut lost);
        for packet in order {
            if random.chance(knobs.lost) {
                lost.push(packet);
                continue;
            }
            if random.chance(knobs.trimmed) {
                let mut trimmed = packet.clone();
                trimmed.packet.trimmed = 1 + random.below(2) as u8;
                trimmed.packet.payload_length = 0;
                trimmed.payload.clear();
                sent.push(trimmed);
            }
            if random.chance(knobs.twice) {
                sent.push(packet.clone());
            }
            sent.push(packet);
        }
        sent.extend(missing);
    }
    sent.extend(lost);
    // A PSN from anywhere, and all that may have been refused once more.
    if random.chance(60) {
        let mut stray = packets[0].clone();
        stray.packet.psn = random.below(1 << 24);
        sent.push(stray);
    }
    sent.extend(packets);
    sent
}
