//! `register_file`: what software reads and writes over AXI4-Lite: identification, settings, counters, and descriptors for the tables.
//!
//! Addresses, widths and reset values come from `spraynic_config::registers`. It never decides what a setting means. Theory of operation:
//! `docs/src/blocks/register_file.md`.

mod descriptors;
mod read;
mod write;

use std::collections::BTreeMap;

use spraynic_config::registers::{ADDRESS_BITS, CounterPort, OwnCounter, REGISTER_BYTES, RegisterMap, Role};
use spraynic_rtl::{Context, Definition, Module, Signal};

use descriptors::Descriptors;
use write::Write;

/// Name of the block.
pub const NAME: &str = "register_file";

/// Bits of a register.
const WORD_BITS: u32 = 8 * REGISTER_BYTES;

/// Bits of a register's address that count.
const INDEX_BITS: u32 = ADDRESS_BITS - REGISTER_BYTES.trailing_zeros();

/// RRESP and BRESP [AMBA AXI, A3.4.4].
const OKAY: u8 = 0;
const SLAVE_ERROR: u8 = 2;

/// The counters of a block, each with `prefix_` before its name: what [`RegisterMap::new`] wants.
#[must_use]
pub fn counters_of(prefix: &str, block: Definition<'_>) -> Vec<CounterPort> {
    let ports = block.ports().into_iter().filter(|port| port.output);
    ports
        .filter_map(|port| {
            let name = format!("{prefix}_{}", port.name.strip_prefix("count_")?);
            Some(CounterPort { name, doc: port.doc })
        })
        .collect()
}

/// The block for these registers.
#[must_use]
pub fn register_file<'a>(context: &'a Context, map: &RegisterMap) -> Definition<'a> {
    let m = context.module(NAME);
    m.doc(
        "Registers of 32 bits behind AXI4-Lite: one read and one write at a time, each independent of the other.\n\
         What is not there or not allowed is answered by SLVERR and has no effect.",
    );
    let write = Write::port(m);
    let time = m.input("time_ns", 64).doc("time in nanoseconds");
    let kept_time = m
        .reg("kept_time", 32)
        .reset(0)
        .doc("upper half of the time when the lower one was last read");
    let descriptors = Descriptors::new(m, map, &write);

    let mut words = BTreeMap::new();
    let mut settings = vec![descriptors.writes()];
    let mut own = BTreeMap::new();
    for register in &map.registers {
        let (name, width) = (register.name.as_str(), register.width());
        let value = match register.role {
            Role::Constant(value) => m.lit(value, WORD_BITS),
            Role::Input => m.input(name, width).doc(&register.doc),
            Role::Counter => m.input(&format!("count_{name}"), width).doc(&register.doc),
            Role::Setting | Role::Load => {
                let hit = write.hits(register);
                settings.push(write::Allowed { hit, allowed: m.high() });
                write::setting(m, register, &write, hit)
            }
            Role::TimeLow => time.part(0, WORD_BITS),
            Role::TimeHigh => kept_time,
            Role::Descriptor(word) => descriptors.word(word),
            Role::Commit => descriptors.target(),
            Role::CommitStatus => descriptors.busy(),
            Role::OwnCounter(counter) => {
                let count = m.reg(&format!("counted_{}", counter.name()), WORD_BITS).reset(0);
                let _ = m
                    .output_of(&format!("count_{}", counter.name()), count)
                    .doc(counter.doc());
                own.insert(counter, count);
                count
            }
        };
        words.insert(register.offset / REGISTER_BYTES, value.zero_extend(WORD_BITS));
    }

    let read = read::port(m, &words);
    for low in map.registers.iter().filter(|register| register.role == Role::TimeLow) {
        let reads = read.samples & read.index.eq_lit(low.offset / REGISTER_BYTES);
        m.when(reads, || kept_time.set(time.slice(63, WORD_BITS)));
    }
    let refused_write = write.respond(m, &settings);
    for (counter, count) in own {
        let event: Signal<'a> = match counter {
            OwnCounter::Descriptors => descriptors.taken(),
            OwnCounter::RefusedWrites => refused_write,
            OwnCounter::RefusedReads => read.refused,
        };
        m.when(event, || count.set(count + count.lit(1)));
    }
    m.finish()
}

/// The response to what is allowed or not.
fn response<'a>(m: Module<'a>, allowed: Signal<'a>) -> Signal<'a> {
    allowed.mux(m.lit(OKAY, 2), m.lit(SLAVE_ERROR, 2))
}

#[cfg(test)]
mod tests;
