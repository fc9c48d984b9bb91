//! The tables of the block in RAM, each with the wires of its one read and its one write port.
//!
//! A read asked for in a clock is there in the next, and stays until the next read. What is read while it is written is what is written.

use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, cat};

use super::layout::{Deadline, Marks, ORDER_BITS, QueuePair, Read, Record, Sending, Sizes, Space, WORD};

/// A table: wires to drive, and the word that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    reads: Signal<'a>,
    read_address: Signal<'a>,
    writes: Signal<'a>,
    write_address: Signal<'a>,
    write_data: Signal<'a>,
    /// The word.
    pub(super) word: Signal<'a>,
}

impl<'a> Table<'a> {
    fn new(m: Module<'a>, name: &str, depth: u32, width: u32) -> Self {
        let memory = m.memory(name, depth, width).read_during_write(ReadDuringWrite::New);
        let bits = memory.address_width();
        let wire = |what: &str, width| m.wire(&format!("{name}_{what}"), width);
        let (reads, writes) = (wire("reads", 1), wire("writes", 1));
        let (read_address, write_address) = (wire("read_address", bits), wire("write_address", bits));
        let write_data = wire("write_word", width);
        reads.set_lit(0);
        writes.set_lit(0);
        read_address.set_lit(0);
        write_address.set_lit(0);
        write_data.set_lit(0);
        memory.write(writes, write_address, write_data);
        Self {
            reads,
            read_address,
            writes,
            write_address,
            write_data,
            word: memory.read(reads, read_address),
        }
    }

    /// Asks for a word.
    pub(super) fn read(&self, address: Signal<'a>) {
        self.reads.set_lit(1);
        self.read_address.set(address);
    }

    /// Writes a word.
    pub(super) fn write(&self, address: Signal<'a>, word: Signal<'a>) {
        self.writes.set_lit(1);
        self.write_address.set(address);
        self.write_data.set(word);
    }
}

/// All tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) queue_pairs: Table<'a>,
    pub(super) spaces: Table<'a>,
    pub(super) deadlines: Table<'a>,
    pub(super) records: Table<'a>,
    pub(super) log: Table<'a>,
    pub(super) marks: Table<'a>,
    pub(super) paths: Table<'a>,
    pub(super) acked: Table<'a>,
    pub(super) lost: Table<'a>,
    pub(super) suspect: Table<'a>,
    /// Only with roce.
    pub(super) reads: Option<Table<'a>>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(m: Module<'a>, sizes: &Sizes) -> Self {
        let spaces = sizes.spaces();
        let bitmap = |name| Table::new(m, name, spaces * (sizes.window / WORD), WORD);
        Self {
            queue_pairs: Table::new(m, "queue_pairs", sizes.queue_pairs, QueuePair::packed_width()),
            spaces: Table::new(m, "spaces", spaces, Space::packed_width()),
            deadlines: Table::new(m, "deadlines", spaces, Deadline::packed_width()),
            records: Table::new(m, "records", spaces * sizes.window, Record::packed_width()),
            log: Table::new(m, "log", spaces * sizes.window, Sending::packed_width()),
            marks: Table::new(m, "marks", spaces * (sizes.window / WORD), Marks::packed_width()),
            paths: Table::new(m, "paths", spaces * sizes.paths, ORDER_BITS),
            acked: bitmap("acked"),
            lost: bitmap("lost"),
            suspect: bitmap("suspect"),
            reads: sizes.roce.then(|| {
                Table::new(
                    m,
                    "reads",
                    sizes.queue_pairs * sizes.read_places(),
                    Read::packed_width(),
                )
            }),
        }
    }
}

/// Address in a table with a word for each PSN or order of a window.
pub(super) fn in_window<'a>(sizes: &Sizes, space: Signal<'a>, number: Signal<'a>) -> Signal<'a> {
    cat(&[space, number.part(0, sizes.window_bits())])
}
