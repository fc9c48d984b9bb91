//! Properties of the send queue's model: whatever the order of events, what may be sent has its turn, and in the end all is sent and complete.

use proptest::prelude::*;
use spraynic_config::Profile;
use spraynic_config::descriptor::WorkOpcode;

use super::tests::{config, context, request};
use super::*;

const QUEUE_PAIRS: u32 = 4;

#[derive(Debug, Clone)]
enum Step {
    Post {
        qpn: u32,
        opcode: usize,
        length: u32,
        fence: bool,
        wrong: bool,
    },
    /// Gives slices until there is none, or so many; bits of `tokens` say which requests are granted.
    Send {
        slices: usize,
        tokens: u32,
        nanoseconds: u64,
    },
    /// So many of the PSNs outstanding are acknowledged, and so many of them done.
    Progress {
        qpn: u32,
        received: f64,
        done: f64,
    },
    /// A PSN outstanding is lost.
    Resend {
        qpn: u32,
        at: f64,
    },
    /// The response of a READ or atomic.
    Respond {
        qpn: u32,
        which: usize,
    },
    Context {
        qpn: u32,
        window: u16,
        reads: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let qpn = 0..QUEUE_PAIRS;
    prop_oneof![
        6 => (qpn.clone(), 0..6usize, prop_oneof![0..3_000u32, 0..40_000u32], prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(qpn, opcode, length, fence, wrong)| Step::Post { qpn, opcode, length, fence, wrong }),
        6 => (1..12usize, any::<u32>(), 0..2_000u64)
            .prop_map(|(slices, tokens, nanoseconds)| Step::Send { slices, tokens, nanoseconds }),
        4 => (qpn.clone(), 0.0..=1.0, 0.0..=1.0).prop_map(|(qpn, received, done)| Step::Progress { qpn, received, done }),
        4 => (qpn.clone(), 0.0..1.0).prop_map(|(qpn, at)| Step::Resend { qpn, at }),
        3 => (qpn.clone(), 0..4usize).prop_map(|(qpn, which)| Step::Respond { qpn, which }),
        1 => (qpn, 1..=64u16, 1..=4u8).prop_map(|(qpn, window, reads)| Step::Context { qpn, window, reads }),
    ]
}

/// What the outside knows of a queue pair.
#[derive(Debug, Clone, Default)]
struct Peer {
    base: u32,
    done: u32,
    sent: u32,
    window: u32,
    reads_allowed: u32,
    /// Slots of READs and atomics sent and not answered.
    reads: Vec<u8>,
    posted: Vec<u64>,
    completed: Vec<u64>,
    /// Each PSN that was asked for again is sent again before the end, unless it was acknowledged.
    lost: std::collections::BTreeSet<u32>,
}

fn psns(request: &WorkRequest, index: u32, packets: u32, roce: bool) -> u32 {
    if has_payload(request) {
        packets
    } else if request.opcode == WorkOpcode::Read as u8 && roce {
        request.length.div_ceil(1024).max(1) - index
    } else {
        1
    }
}

struct World {
    block: WorkQueue,
    peers: Vec<Peer>,
    profile: Profile,
    now: u64,
    cookie: u64,
}

impl World {
    fn new(profile: Profile) -> Self {
        let mut world = Self {
            block: WorkQueue::new(config()),
            peers: vec![],
            profile,
            now: 0,
            cookie: 0,
        };
        for qpn in 0..QUEUE_PAIRS {
            world.block.write_context(&SendContext {
                psn: 0,
                class: (qpn % 2) as u8,
                ..context(qpn, profile)
            });
            world.peers.push(Peer {
                window: 64,
                reads_allowed: 4,
                ..Peer::default()
            });
        }
        world
    }

    /// Sends up to `slices` slices; every rule of a slice is checked. Returns how many there were.
    fn send(&mut self, slices: usize, mut tokens: impl FnMut() -> bool) -> Result<usize, TestCaseError> {
        for given in 0..slices {
            let ask = |_: &RateRequest| if tokens() { Grant::Granted } else { Grant::QueuePair };
            let Some((request, slice)) = self.block.next_slice(self.now, ask) else {
                return Ok(given);
            };
            let peer = &mut self.peers[request.qpn as usize];
            let roce = self.profile == Profile::Roce;
            let taken = psns(&request, slice.index, u32::from(slice.packets), roce);
            let end = slice.psn + taken;
            if slice.retransmission {
                prop_assert!(
                    slice.psn >= peer.base && end <= peer.sent,
                    "sent again what was never sent"
                );
                (slice.psn..end).for_each(|psn| {
                    peer.lost.remove(&psn);
                });
            } else {
                prop_assert_eq!(slice.psn, peer.sent, "PSNs without a gap");
                prop_assert!(
                    end - peer.base <= peer.window || peer.sent == peer.base,
                    "the window is exceeded"
                );
                if !roce {
                    prop_assert!(peer.lost.is_empty(), "lost packets go first");
                }
                if slice.index == 0 && request.fence {
                    prop_assert!(peer.reads.is_empty(), "the fence waits");
                }
                if !has_payload(&request) {
                    prop_assert!((peer.reads.len() as u32) < peer.reads_allowed, "the limit of READs");
                    peer.reads.push(slice.slot);
                }
                peer.sent = end;
            }
        }
        Ok(slices)
    }

    fn progress(&mut self, qpn: u32, base: u32, done: u32) {
        let peer = &mut self.peers[qpn as usize];
        peer.base = base;
        peer.done = done;
        peer.lost = peer.lost.split_off(&base);
        self.block.progress(&SendProgress {
            qpn,
            base,
            done,
            ..SendProgress::default()
        });
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Post {
                qpn,
                opcode,
                length,
                fence,
                wrong,
            } => {
                let opcode = if self.profile == Profile::Mrc {
                    WorkOpcode::Write
                } else {
                    WorkOpcode::ALL[opcode]
                };
                let atomic = matches!(opcode, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
                let request = request(qpn, opcode, if atomic { 8 } else { length }, self.cookie);
                let full = self.block.waiting(qpn) == 8;
                self.block.post(&WorkRequest {
                    fence,
                    segments: 1 + u8::from(wrong),
                    ..request
                });
                if full {
                    // Out of order by contract; taken out here.
                    let refused = self.block.completions.pop_back().map(|completion| completion.status);
                    prop_assert_eq!(refused, Some(CompletionStatus::QueueFull as u8));
                } else {
                    self.peers[qpn as usize].posted.push(self.cookie);
                }
                self.cookie += 1;
            }
            Step::Send {
                slices,
                mut tokens,
                nanoseconds,
            } => {
                self.now += nanoseconds;
                let _ = self.send(slices, || {
                    tokens = tokens.rotate_right(1);
                    tokens & 1 == 1
                })?;
            }
            Step::Progress { qpn, received, done } => {
                let peer = &self.peers[qpn as usize];
                let base = peer.base + (f64::from(peer.sent - peer.base) * received) as u32;
                let done = peer.done + (f64::from(base - peer.done) * done) as u32;
                self.progress(qpn, base, done);
            }
            Step::Resend { qpn, at } => {
                let peer = &mut self.peers[qpn as usize];
                let psn = peer.base + (f64::from(peer.sent - peer.base) * at) as u32;
                if psn < peer.sent {
                    peer.lost.insert(psn);
                }
                self.block.resend(&Resend {
                    qpn,
                    psn,
                    rewind: self.profile == Profile::Roce,
                    ..Resend::default()
                });
            }
            Step::Respond { qpn, which } => self.respond(qpn, which),
            Step::Context { qpn, window, reads } => {
                let peer = &mut self.peers[qpn as usize];
                (peer.window, peer.reads_allowed) = (u32::from(window), u32::from(reads));
                let context = context(qpn, self.profile);
                self.block.write_context(&SendContext {
                    window,
                    reads,
                    ..context
                });
            }
        }
        self.drain()?;
        for qpn in 0..QUEUE_PAIRS {
            let ready = self.block.offer(qpn).is_some();
            prop_assert!(
                !ready || self.block.turns.listed(qpn),
                "queue pair {} may send and has no turn",
                qpn
            );
        }
        Ok(())
    }

    fn respond(&mut self, qpn: u32, which: usize) {
        let reads = &mut self.peers[qpn as usize].reads;
        if which < reads.len() {
            let slot = reads.remove(which);
            self.block.response_done(&ResponseDone { qpn, slot, status: 0 });
        }
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        while let Some(completion) = self.block.pop_completion() {
            self.peers[completion.qpn as usize].completed.push(completion.cookie);
        }
        Ok(())
    }
}

fn run(profile: Profile, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(profile);
    for step in steps {
        world.step(step)?;
    }
    // Nothing blocks any more: tokens are there, and what is sent is acknowledged and answered.
    for _ in 0..400 {
        world.now += RETRY_NS;
        while world.send(100, || true)? > 0 {}
        for qpn in 0..QUEUE_PAIRS {
            let peer = &world.peers[qpn as usize];
            prop_assert!(peer.lost.is_empty(), "a lost packet was not sent again");
            let sent = peer.sent;
            world.progress(qpn, sent, sent);
            while !world.peers[qpn as usize].reads.is_empty() {
                world.respond(qpn, 0);
            }
        }
        world.drain()?;
    }
    for (qpn, peer) in world.peers.iter().enumerate() {
        prop_assert_eq!(
            world.block.waiting(qpn as u32),
            0,
            "queue pair {} has requests left",
            qpn
        );
        prop_assert_eq!(&peer.completed, &peer.posted, "each request completes once, in order");
    }
    prop_assert_eq!(world.block.counters().drop_progress, 0);
    prop_assert_eq!(world.block.counters().drop_response, 0);
    Ok(())
}

proptest! {
    #[test]
    fn everything_is_sent_and_completes_solar(steps in prop::collection::vec(step(), 1..150)) {
        run(Profile::Solar, &steps)?;
    }

    #[test]
    fn everything_is_sent_and_completes_roce(steps in prop::collection::vec(step(), 1..150)) {
        run(Profile::Roce, &steps)?;
    }

    #[test]
    fn everything_is_sent_and_completes_mrc(steps in prop::collection::vec(step(), 1..150)) {
        run(Profile::Mrc, &steps)?;
    }
}
