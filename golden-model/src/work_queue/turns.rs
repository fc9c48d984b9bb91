//! Whose turn it is: strict and weighted classes, deficit round robin over the queue pairs of each, and who waits for tokens.
//! A queue pair is listed at most once: in the list of a class, or among those that wait.

use std::collections::VecDeque;

use crate::rate_limiter::CLASSES;

/// A queue pair or a class whose bucket refused is asked for again so many nanoseconds later.
pub const RETRY_NS: u64 = 1024;

/// Bytes of one unit of weight.
const QUANTUM: i64 = 4096;

const NONE: u32 = u32::MAX;

/// How the classes share the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes {
    /// Bit *n*: class *n* goes before all that are not strict, and before strict ones of higher number.
    pub strict: u8,
    /// Share of each class among those that are not strict; 0 counts as 1.
    pub weight: [u8; CLASSES],
}

impl Default for Classes {
    fn default() -> Self {
        Self {
            strict: 0,
            weight: [1; CLASSES],
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Seat {
    next: u32,
    listed: bool,
    deficit: i64,
}

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    deficit: i64,
    rests_until: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Turns {
    pub(super) classes: Classes,
    seats: Vec<Seat>,
    lists: [List; CLASSES],
    /// The weighted class whose turn it is, and whether the turn has begun.
    turn: usize,
    begun: bool,
    /// No class has a member or rests, and the turn has gone around since: [`Self::class`] would change nothing.
    idle: bool,
    /// Those without tokens, with the time to ask again: in the order of that time.
    waiting: VecDeque<(u64, u32)>,
}

impl Turns {
    pub(super) fn new(queue_pairs: u32) -> Self {
        let seat = Seat {
            next: NONE,
            listed: false,
            deficit: 0,
        };
        let list = List {
            head: NONE,
            tail: NONE,
            deficit: 0,
            rests_until: None,
        };
        Self {
            classes: Classes::default(),
            seats: vec![seat; queue_pairs as usize],
            lists: [list; CLASSES],
            turn: 0,
            begun: false,
            idle: false,
            waiting: VecDeque::new(),
        }
    }

    /// Nobody has or waits for a turn, and no turn is to be passed on.
    pub(super) fn is_idle(&self) -> bool {
        self.idle && self.waiting.is_empty()
    }

    /// In a list, or among those that wait.
    pub(super) fn listed(&self, qpn: u32) -> bool {
        self.seats[qpn as usize].listed
    }

    pub(super) fn list(&mut self, qpn: u32, class: u8) {
        self.idle = false;
        let list = &mut self.lists[usize::from(class) % CLASSES];
        let seat = &mut self.seats[qpn as usize];
        seat.listed = true;
        seat.next = NONE;
        match list.tail {
            NONE => list.head = qpn,
            tail => self.seats[tail as usize].next = qpn,
        }
        list.tail = qpn;
    }

    fn pop(&mut self, class: usize) -> u32 {
        let list = &mut self.lists[class];
        let qpn = list.head;
        list.head = self.seats[qpn as usize].next;
        if list.head == NONE {
            list.tail = NONE;
        }
        qpn
    }

    /// Takes a queue pair off, wherever it is, with what it saved and owes: it was reset, failed or opened. Such are rare, so the lists are searched.
    pub(super) fn remove(&mut self, qpn: u32) {
        if self.seats[qpn as usize].listed {
            self.waiting.retain(|(_, waits)| *waits != qpn);
            for class in 0..CLASSES {
                let mut members = vec![];
                while self.lists[class].head != NONE {
                    members.push(self.pop(class));
                }
                members.retain(|member| *member != qpn);
                members.into_iter().for_each(|member| self.list(member, class as u8));
            }
        }
        let seat = &mut self.seats[qpn as usize];
        seat.listed = false;
        seat.deficit = 0;
    }

    /// Takes the first one off the list: it has nothing to send. What it saved is lost, what it owes is not.
    pub(super) fn unlist(&mut self, class: usize) {
        let qpn = self.pop(class);
        let seat = &mut self.seats[qpn as usize];
        seat.listed = false;
        seat.deficit = seat.deficit.min(0);
    }

    pub(super) fn head(&self, class: usize) -> Option<u32> {
        Some(self.lists[class].head).filter(|head| *head != NONE)
    }

    /// Whether the first one may send; if not even with what its turn brings, the next one is first.
    pub(super) fn has_credit(&mut self, class: usize, weight: u8) -> bool {
        let seat = &mut self.seats[self.lists[class].head as usize];
        if seat.deficit > 0 {
            return true;
        }
        seat.deficit += QUANTUM * i64::from(weight.max(1));
        let enough = seat.deficit > 0;
        if !enough {
            self.rotate(class);
        }
        enough
    }

    fn rotate(&mut self, class: usize) {
        let qpn = self.pop(class);
        self.list(qpn, class as u8);
    }

    /// The first one has sent.
    pub(super) fn charge(&mut self, class: usize, cost: u32) {
        let seat = &mut self.seats[self.lists[class].head as usize];
        seat.deficit -= i64::from(cost);
        if seat.deficit <= 0 {
            self.rotate(class);
        }
        if !self.strict(class) {
            self.lists[class].deficit -= i64::from(cost);
        }
    }

    /// The first one has no tokens.
    pub(super) fn park(&mut self, class: usize, now_ns: u64) {
        let qpn = self.pop(class);
        let due = now_ns.saturating_add(RETRY_NS);
        self.waiting.push_back((due, qpn));
    }

    /// The class has no tokens.
    pub(super) fn rest(&mut self, class: usize, now_ns: u64) {
        self.lists[class].rests_until = Some(now_ns.saturating_add(RETRY_NS));
    }

    /// One that has waited long enough, off the list.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<u32> {
        let (_, qpn) = *self.waiting.front().filter(|(due, _)| *due <= now_ns)?;
        self.waiting.pop_front();
        self.seats[qpn as usize].listed = false;
        Some(qpn)
    }

    pub(super) fn wakes_at(&self) -> Option<u64> {
        let classes = self.lists.iter().filter(|list| list.head != NONE);
        let classes = classes.filter_map(|list| list.rests_until);
        classes.chain(self.waiting.front().map(|(due, _)| *due)).min()
    }

    fn strict(&self, class: usize) -> bool {
        self.classes.strict >> class & 1 == 1
    }

    fn may(&mut self, class: usize, now_ns: u64) -> bool {
        let list = &mut self.lists[class];
        if list.rests_until.is_some_and(|until| until <= now_ns) {
            list.rests_until = None;
        }
        list.head != NONE && list.rests_until.is_none()
    }

    /// The class that sends next; `idle` counts weighted classes in a row with nothing to give.
    pub(super) fn class(&mut self, idle: &mut usize, now_ns: u64) -> Option<usize> {
        if self.idle {
            return None;
        }
        if let Some(class) = (0..CLASSES).find(|class| self.strict(*class) && self.may(*class, now_ns)) {
            return Some(class);
        }
        while *idle < CLASSES {
            let class = self.turn;
            if !self.strict(class) && self.may(class, now_ns) {
                if !self.begun {
                    self.begun = true;
                    let weight = self.classes.weight[class].max(1);
                    self.lists[class].deficit += QUANTUM * i64::from(weight);
                }
                if self.lists[class].deficit > 0 {
                    return Some(class);
                }
                *idle = 0;
                self.next_turn();
            } else {
                self.lists[class].deficit = self.lists[class].deficit.min(0);
                *idle += 1;
                self.next_turn();
            }
        }
        let is_idle = |list: &List| list.head == NONE && list.rests_until.is_none();
        self.idle = self.lists.iter().all(is_idle);
        None
    }

    /// The class that was given the turn had nothing to send after all, or no tokens.
    pub(super) fn pass(&mut self, class: usize, idle: &mut usize) {
        if !self.strict(class) {
            self.lists[class].deficit = self.lists[class].deficit.min(0);
            *idle += 1;
            self.next_turn();
        }
    }

    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % CLASSES;
        self.begun = false;
    }
}
