//! The descriptors as a page of the documentation.

use std::fmt::Write as _;

use super::{LAYOUTS, WorkOpcode};

/// The page `docs/src/descriptors.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Descriptors\n\n\
         Printed from the tables in `config/src/descriptor.rs`; a test compares. The C header that `spraynic generate` \
         writes comes from the same tables.\n\n\
         Bit 0 is bit 0 of byte 0 in memory and of `tdata`; numbers are little-endian. Reserved bits are zero when \
         written and ignored when read.\n",
    );
    for layout in &LAYOUTS {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\n{} {} bytes.\n\n| bits | width | field | meaning |\n|---|---|---|---|\n",
            layout.name,
            layout.doc.trim(),
            layout.bytes()
        );
        for (lsb, field) in layout.placed() {
            let msb = lsb + field.width - 1;
            let bits = if msb == lsb {
                format!("{lsb}")
            } else {
                format!("{msb}:{lsb}")
            };
            let _ = writeln!(text, "| {bits} | {} | `{}` | {} |", field.width, field.name, field.doc);
        }
    }
    text.push_str("\n## Operations of a work request\n\n| code | operation |\n|---|---|\n");
    for opcode in WorkOpcode::ALL {
        let _ = writeln!(text, "| {} | {opcode:?} |", opcode as u8);
    }
    text
}
