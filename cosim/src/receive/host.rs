//! What stands around the receive pipeline: memory that carries out writes and atomics, and a host that does more when its context writes have
//! come through. It records what leaves, and refuses writes that are none.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    AtomicWrite, Completion, Descriptor, MemoryWrite, PacketDescriptor, ResponseMessage,
};
use spraynic_golden::response_engine::Packets;
use spraynic_hdl::receive_pipeline::taken;

use super::judge::bits_of;
use super::{Batch, Given, Result, Scenario};
use crate::bench::{Agent, Answer, Outcome};
use crate::stream::{Frame, Received};

/// Memory, the record of what leaves, and what the host does later.
pub(super) struct Host {
    latency: u64,
    beat_bytes: usize,
    begin: u64,
    result: Result,
    writes: VecDeque<MemoryWrite>,
    data: VecDeque<Vec<u8>>,
    /// Context writes that have come to `responder`.
    contexts: usize,
    batches: VecDeque<Batch>,
}

impl Host {
    pub(super) fn new(scenario: &Scenario, config: &NicConfig, begin: u64) -> Self {
        let later = scenario.batches.iter().filter(|batch| batch.after_contexts > 0);
        Self {
            latency: scenario.memory_latency,
            beat_bytes: config.datapath.width_bits as usize / 8,
            begin,
            result: Result {
                memory: scenario.memory.clone(),
                ..Result::default()
            },
            writes: VecDeque::new(),
            data: VecDeque::new(),
            contexts: 0,
            batches: later.cloned().collect(),
        }
    }

    /// What came out, when all has been done.
    pub(super) fn finish(self, outcome: Outcome) -> std::result::Result<Result, String> {
        if let Some(batch) = self.batches.front() {
            return Err(format!(
                "{} context writes have come to responder, {} were waited for",
                self.contexts, batch.after_contexts
            ));
        }
        Ok(Result { outcome, ..self.result })
    }

    /// Begins what waits for a context write.
    fn context_has_come(&mut self, answer: &mut Answer<'_>) -> std::result::Result<(), String> {
        self.contexts += 1;
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.after_contexts <= self.contexts) {
            let streams = ["s_axis_context", "s_axis_region", "s_axis_receive_request", "s_axis"];
            for (stream, frames) in streams.into_iter().zip(batch.frames_from(answer.cycle)) {
                for frame in frames {
                    answer.send(stream, frame).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Carries out the next write of which address and data are there.
    fn write(&mut self, answer: &mut Answer<'_>) -> std::result::Result<(), String> {
        while let (Some(write), Some(_)) = (self.writes.front(), self.data.front()) {
            let write = *write;
            let data = self.data.pop_front().unwrap_or_default();
            self.writes.pop_front();
            self.apply(&write, &data)?;
            let done = Frame {
                not_before: answer.cycle + self.latency,
                ..Frame::new([0])
            };
            answer.send("s_axis_written", done).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The strobed bytes must be those from `address` on, `length` of them, and no others.
    fn apply(&mut self, write: &MemoryWrite, data: &[u8]) -> std::result::Result<(), String> {
        self.result.writes += 1;
        let base = write.address - write.address % self.beat_bytes as u64;
        let wanted = write.address..write.address + u64::from(write.length);
        let mut written = 0;
        for (index, beat) in data.chunks(self.beat_bytes + self.beat_bytes / 8).enumerate() {
            let (bytes, strobes) = beat.split_at(self.beat_bytes);
            for (lane, byte) in bytes.iter().enumerate() {
                if strobes[lane / 8] >> (lane % 8) & 1 == 0 {
                    continue;
                }
                let address = base + (index * self.beat_bytes + lane) as u64;
                if !wanted.contains(&address) {
                    return Err(format!("a strobe at {address:#x}, outside of {wanted:x?}"));
                }
                let place = self
                    .result
                    .memory
                    .get_mut(address as usize)
                    .ok_or_else(|| format!("a write at {address:#x}, where there is no memory"))?;
                *place = *byte;
                written += 1;
            }
        }
        if written != u64::from(write.length) {
            return Err(format!("{written} bytes written at {wanted:x?}"));
        }
        Ok(())
    }

    fn eight_bytes(&mut self, address: u64) -> std::result::Result<&mut [u8], String> {
        let start = address as usize;
        self.result
            .memory
            .get_mut(start..start + 8)
            .filter(|_| address.is_multiple_of(8))
            .ok_or_else(|| format!("an atomic at {address:#x}"))
    }

    fn given(&self, packet: PacketDescriptor, frame: &Received) -> Given {
        let start = packet.local_address as usize;
        let payload = self
            .result
            .memory
            .get(start..start + usize::from(packet.payload_length))
            .unwrap_or_default()
            .to_vec();
        Given {
            packet,
            payload,
            cycle: frame.first_cycle.saturating_sub(self.begin),
        }
    }
}

impl Agent for Host {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> std::result::Result<(), String> {
        let later = |answer: &Answer<'_>, bytes: Vec<u8>, latency: u64| Frame {
            not_before: answer.cycle + latency,
            ..Frame::new(bytes)
        };
        match stream {
            "m_axis_write" => self.writes.push_back(MemoryWrite::unpack(&frame.data)),
            "m_axis_write_data" => self.data.push_back(frame.data.clone()),
            "m_axis_atomic_read" => {
                let mut address = [0; 8];
                address.copy_from_slice(&frame.data[..8]);
                let value = self.eight_bytes(u64::from_le_bytes(address))?.to_vec();
                let frame = later(answer, value, self.latency);
                return answer
                    .send("s_axis_atomic_data", frame)
                    .map_err(|error| error.to_string());
            }
            "m_axis_atomic_write" => {
                let write = AtomicWrite::unpack(&frame.data);
                self.eight_bytes(write.address)?
                    .copy_from_slice(&write.data.to_le_bytes());
                let frame = later(answer, vec![0], self.latency);
                return answer
                    .send("s_axis_atomic_written", frame)
                    .map_err(|error| error.to_string());
            }
            "m_axis_control" => {
                let given = self.given(PacketDescriptor::unpack(&frame.data), frame);
                self.result.control.push(given);
            }
            "m_axis_response" => {
                let given = self.given(PacketDescriptor::unpack(&frame.data), frame);
                self.result.responses.push(given);
            }
            "m_axis_message" => {
                for packet in Packets::of_message(&ResponseMessage::unpack(&frame.data)) {
                    let given = self.given(packet, frame);
                    self.result.responses.push(given);
                }
            }
            "m_axis_taken" if bits_of(&frame.data) >> taken::RESPONDER_CONTEXT & 1 == 1 => {
                self.context_has_come(answer)?;
            }
            "m_axis_completion" => self.result.completions.push(Completion::unpack(&frame.data)),
            _ => {}
        }
        self.write(answer)
    }
}
