//! What must have come of the messages in the end, whatever the network did.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{CompletionStatus, Descriptor, SequencedPacket};
use spraynic_config::{NicConfig, Profile};

use super::super::Result as Run;
use super::{Faults, UNTOUCHED, profile_of};

/// What must come of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Memory at the end; of what is loose, as it is where it was written.
    pub memory: Vec<u8>,
    /// Cookies of the completions of each queue pair, in order; of a closed one those since it was opened again.
    pub completions: BTreeMap<u32, Vec<u64>>,
    /// READs and atomics of each queue pair.
    pub executed: BTreeMap<u32, usize>,
    /// solar: payload of the responses that come to the requester, by queue pair.
    pub responses: BTreeMap<u32, Vec<u8>>,
    /// Regions that SENDs invalidate.
    pub invalidated: u64,
    /// What the network did.
    pub faults: Faults,
    /// A queue pair that was closed meanwhile.
    pub closed: Option<Closed>,
    pub(super) end: u64,
    pub(super) written: Vec<(u64, Vec<u8>)>,
}

/// What may have come of the messages of a queue pair that was closed while they were under way.
#[derive(Debug, Clone, Default)]
pub struct Closed {
    /// Queue pair.
    pub qpn: u32,
    /// It went to ERROR: each receive request is given back.
    pub error: bool,
    /// A request was wrong.
    pub refused: bool,
    /// Cookies of its receive requests.
    pub posted: Vec<u64>,
    /// Where bytes may have been written, or not: address and length.
    pub loose: Vec<(u64, usize)>,
}

/// Fails unless `left` equals `right`.
macro_rules! equal {
    ($left:expr, $right:expr, $($what:tt)*) => {
        match (&$left, &$right) {
            (left, right) if left == right => {}
            (left, right) => return Err(format!("{}: {left:?}, expected {right:?}", format!($($what)*))),
        }
    };
}

impl Expected {
    /// Fills memory with what was written.
    pub(super) fn memory_end(&mut self) {
        self.memory = vec![UNTOUCHED; self.end as usize];
        for (address, bytes) in &self.written {
            self.memory[*address as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Compares a run with what was sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, config: &NicConfig, run: &Run) -> Result<(), String> {
        self.check_memory(run)?;
        self.check_completions(run)?;
        for (qpn, executed) in &self.executed {
            let responses = run.responses.iter().filter(|given| {
                // First or only packet of a READ response, atomic ACK.
                given.packet.qpn == *qpn && matches!(given.packet.opcode, 0x0D | 0x10 | 0x12)
            });
            let responses = responses.count();
            let again = profile_of(config, *qpn) == Profile::Roce && responses > *executed;
            if responses != *executed && !again {
                return Err(format!("queue pair {qpn}: {responses} executed, not {executed}"));
            }
        }
        self.check_requester(run)?;
        let counters = &run.outcome.counters;
        let counter = |name: &str| counters.get(name).copied().unwrap_or(u64::MAX);
        let refused = counters
            .iter()
            .filter(|(name, _)| name.starts_with("responder_refused_"));
        let refused: u64 = refused.map(|(_, count)| count).sum();
        if refused > u64::from(self.closed.as_ref().is_some_and(|closed| closed.refused)) {
            return Err(format!("{refused} requests refused"));
        }
        equal!(
            counter("memory_regions_invalidated"),
            self.invalidated,
            "regions invalidated"
        );
        equal!(
            counter("reorder_buffer_stored"),
            counter("reorder_buffer_released") + counter("reorder_buffer_flushed"),
            "slots that never came free"
        );
        Ok(())
    }

    fn check_memory(&self, run: &Run) -> Result<(), String> {
        let mut memory = run.memory.clone();
        for (address, length) in self.closed.iter().flat_map(|closed| &closed.loose) {
            let place = *address as usize..*address as usize + length;
            for (byte, sent) in memory[place.clone()].iter_mut().zip(&self.memory[place]) {
                if *byte == UNTOUCHED {
                    *byte = *sent;
                }
            }
        }
        let differs = memory.iter().zip(&self.memory).position(|(rtl, sent)| rtl != sent);
        match differs {
            Some(address) => Err(format!(
                "memory differs from what was sent from address {address:#x} on"
            )),
            None => Ok(()),
        }
    }

    fn check_completions(&self, run: &Run) -> Result<(), String> {
        let mut completions: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut before = vec![];
        for completion in &run.completions {
            let closed = self.closed.as_ref().filter(|closed| closed.qpn == completion.qpn);
            if closed.is_some_and(|closed| closed.posted.contains(&completion.cookie)) {
                before.push(completion);
                continue;
            }
            equal!(completion.status, CompletionStatus::Success as u8, "{completion:?}");
            completions.entry(completion.qpn).or_default().push(completion.cookie);
        }
        equal!(completions, self.completions, "completions, in their order");
        let Some(closed) = &self.closed else { return Ok(()) };
        let cookies: Vec<u64> = before.iter().map(|completion| completion.cookie).collect();
        let given_back = before
            .iter()
            .skip_while(|completion| completion.status == CompletionStatus::Success as u8);
        let mut given_back = given_back.map(|completion| completion.status);
        if given_back.any(|status| status == CompletionStatus::Success as u8) {
            return Err(format!(
                "a receive request was used behind one that was given back: {before:?}"
            ));
        }
        if closed.error {
            equal!(cookies, closed.posted, "completions until ERROR");
        } else if !closed.posted.starts_with(&cookies) {
            return Err(format!("completions until RESET {cookies:?} of {:?}", closed.posted));
        }
        Ok(())
    }

    fn check_requester(&self, run: &Run) -> Result<(), String> {
        let mut payloads = run.outcome.received("m_axis_requester_payload").iter();
        let mut responses: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for frame in run.outcome.received("m_axis_requester") {
            let packet = SequencedPacket::unpack(&frame.data);
            let response = responses.entry(packet.qpn).or_default();
            if packet.payload_length > 0 {
                response.extend(payloads.next().map_or(&[][..], |payload| &payload.data));
            }
        }
        responses.retain(|_, bytes| !bytes.is_empty());
        for (qpn, sent) in &self.responses {
            let came = responses.get(qpn).map_or(&[][..], Vec::as_slice);
            if came != sent.as_slice() {
                return Err(format!(
                    "queue pair {qpn}: {} bytes of responses came, {} were sent, or they differ",
                    came.len(),
                    sent.len()
                ));
            }
        }
        Ok(())
    }
}
