//! The register map as a page of the documentation.

use std::fmt::Write as _;

use super::{
    Access, COUNTERS_OFFSET, DESCRIPTOR_OFFSET, PARAMETERS_OFFSET, Register, RegisterMap, Role, TARGETS, Target,
};

/// A part of the page.
struct Part {
    title: &'static str,
    text: &'static str,
    holds: fn(&Register) -> bool,
}

static PARTS: [Part; 5] = [
    Part {
        title: "Identification",
        text: "What is there, before anything else is read.",
        holds: |register| register.offset < PARAMETERS_OFFSET,
    },
    Part {
        title: "Parameters",
        text: "The configuration with which the NIC was generated. A set is a bit for each of its names, true is 1.",
        holds: |register| register.name.starts_with("parameter_"),
    },
    Part {
        title: "Settings and state",
        text: "Settings take effect in the clock after their write, for what the block in question decides from then on. There is no reset by \
               register: `rst` alone resets the NIC.\n\n\
               `time_ns`: read `time_ns_low` first. That read keeps the upper half, which `time_ns_high` then gives, so both belong to the same \
               nanosecond. Two readers take turns by a lock.",
        holds: |register| {
            (0x200..DESCRIPTOR_OFFSET).contains(&register.offset)
                && !matches!(register.role, Role::Commit | Role::CommitStatus)
        },
    },
    Part {
        title: "Writing descriptors",
        text: "Tables are written, and requests are posted, by descriptors. Software waits until `busy` of `descriptor_status` is 0, writes the words of the \
               descriptor to `descriptor_0` and those behind it, and writes the code of the target to `descriptor_commit`. The layouts are those of the descriptors (`spraynic_descriptors.h`). The words stay as they are: \
               of a second descriptor only those that differ are to be written.\n\n\
               There is one set of words for all targets. A window for each target would take nearly 2,000 flip-flops more, and no driver would be quicker: \
               the words cost one write each in any case, and choosing the target is the same write that sends. While a descriptor waits \
               (its block is busy with packets before it), writes of the words and of `descriptor_commit` are answered by SLVERR and change nothing, and \
               `register_file_refused_writes` counts them: a bus that posts writes and loses the answer (PCIe) can still be asked.",
        holds: |register| matches!(register.role, Role::Commit | Role::CommitStatus | Role::Descriptor(_)),
    },
    Part {
        title: "Counters",
        text: "32 bits, 0 after reset, wrapping, never cleared by reading. A read gives the counter in one clock, whole; two counters are read in two clocks, so their \
               sum may be of no single moment. Software that wants 64 bits adds differences: at 100 Gb/s and the smallest packets one that counts packets wraps after \
               28 seconds.\n\n\
               They fill a page of 4 KiB and those behind it, with nothing else in them: it can be mapped read-only for monitoring. Their offsets depend on the \
               configuration (blocks that are left out have no counters): take them from the C header or the JSON of the NIC.",
        holds: Register::is_counter,
    },
];

fn bits(lsb: u32, width: u32) -> String {
    match width {
        1 => lsb.to_string(),
        _ => format!("{}:{lsb}", lsb + width - 1),
    }
}

fn row(text: &mut String, register: &Register) -> std::fmt::Result {
    let access = match register.access() {
        Access::ReadOnly => "r",
        Access::ReadWrite => "rw",
    };
    let reset = register
        .reset
        .map_or_else(|| "-".to_owned(), |reset| format!("{reset:#x}"));
    let whole = register.fields.len() == 1 && register.fields[0].doc == register.doc;
    let fields: Vec<String> = register
        .fields
        .iter()
        .filter(|_| !whole)
        .map(|field| format!("{}: `{}`, {}", bits(field.lsb, field.width), field.name, field.doc))
        .collect();
    writeln!(
        text,
        "| {:#06x} | `{}` | {access} | {reset} | {}{}{} |",
        register.offset,
        register.name,
        register.doc,
        if fields.is_empty() { "" } else { ". " },
        fields.join("; ")
    )
}

fn target(text: &mut String, target: &Target) -> std::fmt::Result {
    writeln!(
        text,
        "| {} | `{}` | `{}` | {} | `{}` |",
        target.code,
        target.name,
        target.layout.name,
        target.words(),
        target.stream()
    )
}

impl RegisterMap {
    /// The map as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# Registers\n\n\
             Of the NIC `{}`, printed from the table in `config/src/registers.rs`. SystemRDL, a C header and JSON come from the same table: \
             `spraynic generate` writes them.\n\n\
             Registers have 32 bits and are reached by AXI4-Lite, whose address has {} bits (64 KiB, offsets of bytes). Bits that no field has read as 0 and ignore \
             writes. Byte strobes are obeyed. What is not there or not allowed is answered by SLVERR and has no effect: reading where there is no register, writing \
             there or to a register that is only read. `r`: software reads, `rw`: reads and writes; `-`: the value \
             after reset depends on what is outside.\n",
            self.name,
            super::ADDRESS_BITS
        );
        for part in &PARTS {
            let _ = write!(
                text,
                "\n## {}\n\n{}\n\n| offset | register | access | reset | meaning |\n|---|---|---|---|---|\n",
                part.title, part.text
            );
            for register in self.registers.iter().filter(|register| (part.holds)(register)) {
                // Writing to a String cannot fail.
                let _ = row(&mut text, register);
            }
            if (part.holds)(&self.registers[self.place_of_commit()]) {
                text.push_str("\n| code | target | descriptor | words | stream |\n|---|---|---|---|---|\n");
                for one in TARGETS {
                    let _ = target(&mut text, one);
                }
            }
        }
        let _ = writeln!(text, "\nThe first counter stands at {COUNTERS_OFFSET:#06x}.");
        text
    }

    fn place_of_commit(&self) -> usize {
        let found = self.registers.iter().position(|register| register.role == Role::Commit);
        found.unwrap_or(0)
    }
}
