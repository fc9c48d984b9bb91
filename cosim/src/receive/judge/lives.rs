//! The lives of queue pairs: each begins when the queue pair begins to receive. What is taken of a packet belongs to the life in which the packet came.

use std::collections::{BTreeMap, BTreeSet};

use spraynic_config::descriptor::QueuePairContext;

/// How often each queue pair has begun to receive, as one block has been told.
#[derive(Debug, Default)]
pub(super) struct Lives {
    receiving: BTreeSet<u32>,
    begun: BTreeMap<u32, usize>,
}

impl Lives {
    /// The block is told of a context write.
    pub(super) fn write(&mut self, context: &QueuePairContext) {
        if !context.receives() {
            self.receiving.remove(&context.qpn);
        } else if self.receiving.insert(context.qpn) {
            *self.begun.entry(context.qpn).or_default() += 1;
        }
    }

    /// The life that a queue pair is in, or was in last; 0: it has never received.
    pub(super) fn of(&self, qpn: u32) -> usize {
        self.begun.get(&qpn).copied().unwrap_or_default()
    }
}
