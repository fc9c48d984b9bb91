//! What the responder is given: messages of all kinds cut into packets, some of them wrong, receive requests and context writes, interleaved.

use spraynic_config::descriptor::{
    MemoryRegion, QueuePairContext, QueuePairState, ReceiveRequest, RequestExtension, SequencedPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{AtomicEth, Header, Ieth, ImmDt, Meth, Opcode, Reth, Tseth};

use super::events::{Event, Fault, What};

pub(crate) const MTU: usize = 256;
pub(crate) const KEY: u32 = 0x0000_015A;
/// A key that one SEND can invalidate, and then no more.
pub(crate) const FLEETING_KEY: u32 = 0x0000_025A;
pub(crate) const BASE: u64 = 0x10_0000;
const MEMORY: u64 = 0x7000_0000;
pub(crate) const LENGTH: u64 = 0x1_0000;
const DOMAIN: u32 = 7;

/// What is given to the block, in this order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Packet(SequencedPacket),
    Request(ReceiveRequest),
    Context(QueuePairContext),
}

pub(crate) fn regions() -> [MemoryRegion; 3] {
    let region = MemoryRegion {
        generation: 0x5A,
        index: 1,
        valid: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        protection_domain: DOMAIN,
        base: BASE,
        length: LENGTH,
        address: MEMORY,
        ..MemoryRegion::default()
    };
    [
        region,
        MemoryRegion { index: 2, ..region },
        MemoryRegion {
            index: 3,
            protection_domain: DOMAIN + 1,
            ..region
        },
    ]
}

pub(crate) fn context(qpn: u32, state: QueuePairState) -> Step {
    Step::Context(QueuePairContext {
        qpn,
        state: state as u8,
        peer_ip: u128::MAX,
        ..QueuePairContext::default()
    })
}

pub(crate) fn request(qpn: u32, length: u32, cookie: u64) -> Step {
    Step::Request(ReceiveRequest {
        qpn,
        length,
        address: cookie << 20,
        local_key: u32::MAX,
        cookie,
        ..ReceiveRequest::default()
    })
}

/// The profile of a queue pair, so that all are there.
pub(crate) fn profile_of(config: &NicConfig, qpn: u32) -> Profile {
    let profiles: Vec<Profile> = config.wire.profiles.iter().copied().collect();
    profiles[qpn as usize % profiles.len()]
}

/// Makes the steps of events, queue pair by queue pair.
pub(crate) struct Traffic<'a> {
    config: &'a NicConfig,
    psn: u32,
    rqmsn: [u16; 4],
    fault: Option<Fault>,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(config: &'a NicConfig) -> Self {
        Self {
            config,
            psn: 0xFF_FFF0,
            rqmsn: [0; 4],
            fault: None,
        }
    }

    /// All events: each queue pair in its order, their packets interleaved by `seed`.
    pub(crate) fn steps(&mut self, events: &[Event], seed: u64) -> Vec<Step> {
        let mut queues: Vec<std::collections::VecDeque<Step>> = vec![Default::default(); 5];
        for event in events {
            let steps = self.event(event);
            queues[(event.qpn as usize).min(4)].extend(steps);
        }
        let mut state = seed | 1;
        let mut merged = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Runs of one queue pair are as common as changes.
            let (queue, run) = ((state >> 40) as usize % 5, 1 + (state >> 50) as usize % 4);
            let run = run.min(queues[queue].len());
            merged.extend(queues[queue].drain(..run));
        }
        merged
    }

    fn event(&mut self, event: &Event) -> Vec<Step> {
        let Event { qpn, what, number } = *event;
        let profile = profile_of(self.config, qpn);
        let mrc = profile == Profile::Mrc;
        let fault = match what {
            What::Fault(fault) => {
                self.fault = Some(fault);
                return vec![];
            }
            What::Request { .. } | What::State(_) => None,
            _ => self.fault.take(),
        };
        match what {
            What::Request { length } => vec![request(qpn, length.into(), number.into())],
            What::State(state) => {
                let mut steps = vec![context(qpn, state)];
                // Most often it receives again at once.
                if number % 4 != 0 {
                    steps.push(context(qpn, QueuePairState::ReadyToSend));
                    self.rqmsn[qpn as usize % 4] = 0;
                }
                steps
            }
            What::Send {
                length,
                immediate,
                invalidate,
            } if !mrc => {
                let last = match (immediate, invalidate) {
                    (true, _) => ImmDt {
                        immediate: number.into(),
                    }
                    .to_bytes(),
                    (_, true) => Ieth {
                        remote_key: if number % 2 == 0 { FLEETING_KEY } else { KEY + 7 },
                    }
                    .to_bytes(),
                    _ => vec![],
                };
                let opcodes = match (immediate, invalidate) {
                    (true, _) => [Opcode::SEND_LAST_IMMEDIATE, Opcode::SEND_ONLY_IMMEDIATE],
                    (_, true) => [Opcode::SEND_LAST_INVALIDATE, Opcode::SEND_ONLY_INVALIDATE],
                    _ => [Opcode::SEND_LAST, Opcode::SEND_ONLY],
                };
                let opcodes = [Opcode::SEND_FIRST, Opcode::SEND_MIDDLE, opcodes[0], opcodes[1]];
                self.message(event, fault, length, opcodes, &|_, ends| {
                    if ends { last.clone() } else { vec![] }
                })
            }
            What::Send { length, immediate, .. } | What::Write { length, immediate } => {
                self.write(event, fault, length, immediate, mrc)
            }
            What::Read { .. } | What::Atomic if mrc => self.write(event, fault, 0, false, true),
            What::Read { length } => {
                let headers = self.reth(fault, 64 * u64::from(number % 64), length, number);
                let steps = self.finish(event, fault, vec![(Opcode::READ_REQUEST, 0, headers)]);
                self.perhaps_again(event, steps)
            }
            What::Atomic => {
                let opcode = if number % 2 == 0 {
                    Opcode::COMPARE_SWAP
                } else {
                    Opcode::FETCH_ADD
                };
                let reth = Reth::parse(&self.reth(fault, 8 * u64::from(number % 64), 8, number)).expect("16 bytes");
                let headers = AtomicEth {
                    virtual_address: reth.virtual_address,
                    remote_key: reth.remote_key,
                    swap_add: u64::from(number) << 40,
                    compare: u64::from(number) << 8,
                };
                let steps = self.finish(event, fault, vec![(opcode, 0, headers.to_bytes())]);
                self.perhaps_again(event, steps)
            }
            What::Response { length } => {
                let length = length.min(1024);
                let steps = self.finish(
                    event,
                    None,
                    vec![(Opcode::READ_RESPONSE_ONLY, length, vec![1, 2, 3, 4])],
                );
                let response = |step| match step {
                    Step::Packet(packet) => Step::Packet(SequencedPacket { space: true, ..packet }),
                    other => other,
                };
                steps.into_iter().map(response).collect()
            }
            What::Anything {
                opcode,
                payload,
                length,
                flags,
            } => {
                let mut headers = vec![];
                if mrc {
                    headers.extend(
                        Meth {
                            rqmsn: number % 32,
                            msn: 0,
                        }
                        .to_bytes(),
                    );
                }
                headers.extend(self.reth(fault, 8 * u64::from(number % 64), length, number));
                let steps = self.finish(event, fault, vec![(Opcode(opcode), payload, headers)]);
                // Another profile of the configuration, or none; those that are not generated never come.
                let other = match number % 2 {
                    0 => profile_of(self.config, qpn.wrapping_add(1)).code(),
                    _ => 3,
                };
                let bit = |bit: u8| flags >> bit & 1 == 1;
                let change = |step| match step {
                    Step::Packet(packet) => Step::Packet(SequencedPacket {
                        duplicate: bit(0) && bit(1),
                        retired: bit(2) && bit(3) && self.config.has_profile(Profile::Mrc),
                        timestamped: bit(4),
                        profile: if bit(5) && bit(6) { other } else { packet.profile },
                        remote_write: !(bit(0) && bit(7)),
                        ..packet
                    }),
                    other => other,
                };
                steps.into_iter().map(change).collect()
            }
            What::Fault(_) => vec![],
        }
    }

    /// roce: the peer did not get the response.
    fn perhaps_again(&self, event: &Event, mut steps: Vec<Step>) -> Vec<Step> {
        let roce = profile_of(self.config, event.qpn) == Profile::Roce;
        if let Some(Step::Packet(packet)) = steps.first().filter(|_| roce && event.number >> 15 == 1) {
            let again = Step::Packet(SequencedPacket {
                duplicate: true,
                ..*packet
            });
            steps.push(again);
        }
        steps
    }

    fn reth(&self, fault: Option<Fault>, offset: u64, length: u32, number: u16) -> Vec<u8> {
        let key = if number.is_multiple_of(5) { FLEETING_KEY } else { KEY };
        Reth {
            virtual_address: BASE.wrapping_add(match fault {
                Some(Fault::Offset(offset)) => offset,
                _ => offset,
            }),
            remote_key: match fault {
                Some(Fault::Key(key)) => key,
                _ => key,
            },
            length: match fault {
                Some(Fault::Length(length)) => length,
                _ => length,
            },
        }
        .to_bytes()
    }

    fn write(&mut self, event: &Event, fault: Option<Fault>, length: u16, immediate: bool, mrc: bool) -> Vec<Step> {
        let Event { qpn, number, .. } = *event;
        let first = if mrc {
            Opcode::MRC_WRITE_FIRST.0
        } else {
            Opcode::WRITE_FIRST.0
        };
        let immediate_code = u8::from(immediate);
        let opcodes = [first, first + 1, first + 2 + immediate_code, first + 4 + immediate_code].map(Opcode);
        let offset = u64::from(number);
        let rqmsn = self.rqmsn[qpn as usize % 4];
        if mrc && immediate {
            self.rqmsn[qpn as usize % 4] = rqmsn.wrapping_add(1);
        }
        let rqmsn = match fault {
            Some(Fault::Rqmsn(other)) => other,
            _ => rqmsn,
        };
        let stamped = number % 2 == 1;
        let header = |this: &Self, before: u64, ends: bool| {
            let mut bytes = vec![];
            if mrc {
                bytes.extend(Meth { rqmsn, msn: number }.to_bytes());
                if stamped {
                    bytes.extend(Tseth::default().to_bytes());
                }
            }
            if mrc || before == 0 {
                bytes.extend(this.reth(fault, offset + before, length.into(), number));
            }
            if ends && immediate {
                bytes.extend(
                    ImmDt {
                        immediate: u32::from(number) << 8,
                    }
                    .to_bytes(),
                );
            }
            bytes
        };
        let this = &*self;
        let headers: Vec<Vec<u8>> = (0..=u64::from(length) / MTU as u64)
            .flat_map(|packet| [false, true].map(|ends| header(this, packet * MTU as u64, ends)))
            .collect();
        let mut steps = self.message(event, fault, length, opcodes, &|packet, ends| {
            headers[2 * packet + usize::from(ends)].clone()
        });
        if mrc {
            for step in &mut steps {
                if let Step::Packet(packet) = step {
                    packet.timestamped = stamped;
                }
            }
            // As they come over several paths.
            if number.is_multiple_of(3) {
                steps.reverse();
            }
            let opcode = if immediate {
                Opcode::MRC_WRITE_LAST_IMMEDIATE
            } else {
                Opcode::MRC_WRITE_LAST
            };
            let marker = self.finish(event, None, vec![(opcode, 0, vec![])]);
            steps.extend(marker.into_iter().map(|step| match step {
                Step::Packet(packet) => Step::Packet(SequencedPacket {
                    retired: true,
                    ..packet
                }),
                other => other,
            }));
        }
        steps
    }

    /// First, middle, last and only: packets of one MTU, and the rest.
    fn message(
        &mut self,
        event: &Event,
        fault: Option<Fault>,
        length: u16,
        opcodes: [Opcode; 4],
        headers: &dyn Fn(usize, bool) -> Vec<u8>,
    ) -> Vec<Step> {
        let count = usize::from(length).div_ceil(MTU).max(1);
        let packets = (0..count).map(|packet| {
            let ends = packet + 1 == count;
            let opcode = match (packet, ends) {
                (0, true) => opcodes[3],
                (0, false) => opcodes[0],
                (_, true) => opcodes[2],
                _ => opcodes[1],
            };
            let payload = if ends { usize::from(length) - packet * MTU } else { MTU };
            (opcode, payload as u16, headers(packet, ends))
        });
        let packets = packets.collect();
        self.finish(event, fault, packets)
    }

    fn finish(&mut self, event: &Event, fault: Option<Fault>, mut packets: Vec<(Opcode, u16, Vec<u8>)>) -> Vec<Step> {
        match fault {
            Some(Fault::MissingLast) => drop(packets.pop()),
            Some(Fault::MissingFirst) => drop(packets.remove(0)),
            _ => {}
        }
        let count = packets.len();
        let steps = packets
            .into_iter()
            .enumerate()
            .map(|(place, (opcode, payload, headers))| {
                self.psn = (self.psn + 1) & 0xFF_FFFF;
                let mut extension = RequestExtension::default();
                extension.0[..headers.len()].copy_from_slice(&headers);
                let hit = place == usize::from(event.number) % count;
                let rights = !(hit && fault == Some(Fault::Rights));
                let profile = profile_of(self.config, event.qpn);
                Step::Packet(SequencedPacket {
                    qpn: event.qpn,
                    opcode: match fault {
                        Some(Fault::Opcode(opcode)) if hit => opcode,
                        _ => opcode.0,
                    },
                    psn: self.psn,
                    profile: if hit && fault == Some(Fault::Profile) {
                        3
                    } else {
                        profile.code()
                    },
                    duplicate: hit && fault == Some(Fault::Duplicate),
                    solicited: event.number & 4 != 0,
                    ack_request: event.number & 8 != 0,
                    protection_domain: if fault == Some(Fault::Domain) {
                        DOMAIN + 1
                    } else {
                        DOMAIN
                    },
                    mtu: 1,
                    remote_write: rights,
                    remote_read: rights,
                    remote_atomic: rights,
                    payload_length: match fault {
                        Some(Fault::Payload(payload)) if hit => payload,
                        _ => payload,
                    },
                    entropy: u32::from(event.number) << 4,
                    extension,
                    ..SequencedPacket::default()
                })
            });
        steps.collect()
    }
}
