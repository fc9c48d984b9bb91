//! The register map as SystemRDL 2.0: one addrmap, a reg for each register.

use std::fmt::Write as _;

use super::{Access, BitField, REGISTER_BYTES, Register, RegisterMap, Role};

/// A string literal; those of SystemRDL know two escapes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What hardware may do with a field, and how it changes.
fn hardware(register: &Register) -> &'static str {
    match (register.access(), register.role) {
        (Access::ReadWrite, _) => "sw = rw; hw = r;",
        (Access::ReadOnly, Role::Constant(_)) => "sw = r; hw = na;",
        (Access::ReadOnly, _) => "sw = r; hw = w;",
    }
}

fn field(register: &Register, field: &BitField) -> String {
    let mask = u32::MAX >> (32 - field.width);
    let reset = register
        .reset
        .map(|reset| format!(" reset = {}'h{:x};", field.width, reset >> field.lsb & mask))
        .unwrap_or_default();
    format!(
        "        field {{\n            desc = {};\n            {}{reset}\n        }} {}[{}:{}];\n",
        quoted(&field.doc),
        hardware(register),
        field.name,
        field.lsb + field.width - 1,
        field.lsb
    )
}

impl RegisterMap {
    /// The map as SystemRDL 2.0.
    #[must_use]
    pub fn system_rdl(&self) -> String {
        let mut text = format!(
            "// Registers of the spraynic NIC {}. Generated; do not edit.\n\n\
             addrmap spraynic {{\n    name = {};\n    default regwidth = {};\n    default accesswidth = {};\n    littleendian;\n",
            self.name,
            quoted(&format!("spraynic {}", self.name)),
            8 * REGISTER_BYTES,
            8 * REGISTER_BYTES,
        );
        for register in &self.registers {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n    reg {{\n        desc = {};\n{}    }} {} @ 0x{:04x};\n",
                quoted(&register.doc),
                register
                    .fields
                    .iter()
                    .map(|one| field(register, one))
                    .collect::<String>(),
                register.name,
                register.offset
            );
        }
        text.push_str("};\n");
        text
    }
}
