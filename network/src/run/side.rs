//! One side of a queue pair as its host sees it: what it posts, and what completions it must get.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, ReceiveRequest, WorkRequest};

use super::buffers::{Buffers, Place};
use super::{REMOTE_BASE, REMOTE_KEY, is_success, qpn_of, status_name};
use crate::scenario::{MessageSpec, Operation, Scenario};

/// Cookies of receive requests have this bit; the rest is the number of the message, as in those of work requests.
pub(crate) const RECEIVE: u64 = 1 << 63;

/// A message of this side, or one that comes to it.
#[derive(Debug, Clone, Copy)]
struct Message {
    number: usize,
    spec: MessageSpec,
    place: Place,
    signalled: bool,
}

/// The host's side of a queue pair.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) nic: usize,
    pub(crate) qpn: u32,
    queue_pair: usize,
    side: usize,
    /// Not posted yet.
    to_post: VecDeque<Message>,
    /// Posted and not known to be done.
    posted: VecDeque<Message>,
    depth: usize,
    /// Messages that take a receive request, not posted yet.
    to_receive: VecDeque<Message>,
    receiving: VecDeque<Message>,
    /// Since when there is room for a receive request, the oldest first.
    room_since: VecDeque<u64>,
    done: usize,
    all: usize,
}

/// Bytes of a message.
pub(crate) fn bytes_of(message: &MessageSpec) -> u64 {
    if message.operation.is_atomic() {
        8
    } else {
        message.length.into()
    }
}

fn takes_receive(message: &MessageSpec) -> bool {
    message.operation == Operation::Send || (message.operation == Operation::Write && message.immediate)
}

impl Side {
    pub(crate) fn new(
        scenario: &Scenario,
        config: &NicConfig,
        buffers: &Buffers,
        queue_pair: usize,
        side: usize,
    ) -> Self {
        let depth = config.send.work_requests as usize;
        let of = |wanted: usize| {
            let messages = scenario.messages.iter().enumerate();
            messages
                .filter(move |(_, message)| message.queue_pair == queue_pair && message.side == wanted)
                .map(|(number, spec)| Message {
                    number,
                    spec: *spec,
                    place: buffers.place(number),
                    signalled: true,
                })
        };
        let mut to_post: VecDeque<Message> = of(side).collect();
        let last = to_post.len().saturating_sub(1);
        // The queue must be heard of often enough to go on.
        let often = (depth / 2).max(1);
        for (place, message) in to_post.iter_mut().enumerate() {
            message.signalled = !message.spec.unsignalled || place == last || (place + 1) % often == 0;
        }
        let to_receive: VecDeque<Message> = of(1 - side).filter(|message| takes_receive(&message.spec)).collect();
        Self {
            nic: scenario.queue_pairs[queue_pair].nics[side],
            qpn: qpn_of(scenario, queue_pair, side, config),
            queue_pair,
            side,
            all: to_post.len() + to_receive.len(),
            to_post,
            posted: VecDeque::new(),
            depth,
            to_receive,
            receiving: VecDeque::new(),
            room_since: vec![0; config.receive.receive_requests as usize].into(),
            done: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.all
    }

    /// The next work request, if there is one and room for it.
    pub(crate) fn next_request(&mut self, now_ns: u64) -> Option<WorkRequest> {
        let message = *self.to_post.front().filter(|message| message.spec.at_ns <= now_ns)?;
        if self.posted.len() == self.depth {
            return None;
        }
        self.to_post.pop_front();
        self.posted.push_back(message);
        let Message {
            number, spec, place, ..
        } = message;
        Some(WorkRequest {
            opcode: spec.operation.opcode() as u8,
            signalled: message.signalled,
            fence: spec.fence,
            solicited: number % 2 == 1,
            inline_immediate: spec.immediate && matches!(spec.operation, Operation::Send | Operation::Write),
            segments: 1,
            qpn: self.qpn,
            local_address: place.local as u64,
            length: place.length as u32,
            remote_address: REMOTE_BASE + place.remote as u64,
            remote_key: REMOTE_KEY,
            immediate: immediate_of(number),
            compare: place.compare,
            swap_add: place.swap_add,
            cookie: number as u64,
            ..WorkRequest::default()
        })
    }

    /// The next receive request, if there is room since `ready_ns` or earlier.
    pub(crate) fn next_receive(&mut self, ready_ns: u64) -> Option<ReceiveRequest> {
        self.room_since.front().filter(|since| **since <= ready_ns)?;
        let message = self.to_receive.pop_front()?;
        self.room_since.pop_front();
        self.receiving.push_back(message);
        let is_send = message.spec.operation == Operation::Send;
        Some(ReceiveRequest {
            qpn: self.qpn,
            length: if is_send { message.place.length as u32 } else { 0 },
            address: message.place.remote as u64,
            cookie: RECEIVE | message.number as u64,
            ..ReceiveRequest::default()
        })
    }

    /// When something can be posted that cannot now.
    pub(crate) fn later(&self, now_ns: u64, receive_delay_ns: u64) -> Option<u64> {
        let request = self.to_post.front().map(|message| message.spec.at_ns);
        let receive = self.room_since.front().map(|since| since + receive_delay_ns);
        let receive = receive.filter(|_| !self.to_receive.is_empty());
        [request, receive].into_iter().flatten().filter(|at| *at > now_ns).min()
    }

    /// Takes a completion, and says which messages it ends.
    pub(crate) fn complete(
        &mut self,
        completion: &Completion,
        now_ns: u64,
        mut ended: impl FnMut(usize),
    ) -> Result<(), String> {
        let (queue_pair, side) = (self.queue_pair, self.side);
        let whose = || format!("queue pair {queue_pair} side {side}");
        if !is_success(completion.status) {
            return Err(format!(
                "{}: the completion of message {} says {}",
                whose(),
                completion.cookie & !RECEIVE,
                status_name(completion.status)
            ));
        }
        if completion.cookie & RECEIVE != 0 {
            let Some(message) = self.receiving.pop_front() else {
                return Err(format!(
                    "{}: completion of a receive request that is not there: {completion:?}",
                    whose()
                ));
            };
            self.room_since.push_back(now_ns);
            self.done += 1;
            let immediate = message.spec.immediate.then(|| immediate_of(message.number));
            let given = completion.has_immediate.then_some(completion.immediate);
            let expected = (RECEIVE | message.number as u64, message.place.length as u32, immediate);
            if (completion.cookie, completion.byte_count, given) != expected {
                let whose = whose();
                return Err(format!("{whose}: completion {completion:?}, expected {expected:?}"));
            }
            return Ok(());
        }
        while let Some(message) = self.posted.pop_front() {
            self.done += 1;
            ended(message.number);
            if message.signalled {
                return if completion.cookie == message.number as u64 {
                    Ok(())
                } else {
                    Err(format!(
                        "{}: completion of message {}, expected {}",
                        whose(),
                        completion.cookie,
                        message.number
                    ))
                };
            }
        }
        Err(format!(
            "{}: completion of a request that is not posted: {completion:?}",
            whose()
        ))
    }

    /// What is not done.
    pub(crate) fn missing(&self) -> Option<String> {
        (!self.is_done()).then(|| {
            let oldest = self.posted.front().map(|message| message.number);
            format!(
                "queue pair {} side {}: {} of {} done, {} posted (the oldest is message {oldest:?}), {} receive requests wait",
                self.queue_pair,
                self.side,
                self.done,
                self.all,
                self.posted.len(),
                self.receiving.len(),
            )
        })
    }
}

fn immediate_of(number: usize) -> u32 {
    0xA000_0000 | number as u32
}
