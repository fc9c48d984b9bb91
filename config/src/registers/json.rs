//! The register map as JSON, for tools that are not written in C.

use serde::Serialize;

use super::{ADDRESS_BITS, Access, RegisterMap, TARGETS};

#[derive(Serialize)]
struct Map<'a> {
    name: &'a str,
    address_bits: u32,
    registers: Vec<Register<'a>>,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct Register<'a> {
    name: &'a str,
    offset: u32,
    access: &'static str,
    /// Left out where it depends on what is outside the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<u32>,
    counter: bool,
    doc: &'a str,
    fields: Vec<Field<'a>>,
}

#[derive(Serialize)]
struct Field<'a> {
    name: &'a str,
    lsb: u32,
    width: u32,
    doc: &'a str,
}

#[derive(Serialize)]
struct Target {
    name: &'static str,
    code: u32,
    descriptor: &'static str,
    words: u32,
    fields: Vec<Field<'static>>,
}

impl RegisterMap {
    /// The map as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let registers = self.registers.iter().map(|register| Register {
            name: &register.name,
            offset: register.offset,
            access: match register.access() {
                Access::ReadOnly => "r",
                Access::ReadWrite => "rw",
            },
            reset: register.reset,
            counter: register.is_counter(),
            doc: &register.doc,
            fields: register
                .fields
                .iter()
                .map(|field| Field {
                    name: &field.name,
                    lsb: field.lsb,
                    width: field.width,
                    doc: &field.doc,
                })
                .collect(),
        });
        let targets = TARGETS.iter().map(|target| Target {
            name: target.name,
            code: target.code,
            descriptor: target.layout.name,
            words: target.words(),
            fields: target
                .layout
                .placed()
                .map(|(lsb, field)| Field {
                    name: field.name,
                    lsb,
                    width: field.width,
                    doc: field.doc,
                })
                .collect(),
        });
        let map = Map {
            name: &self.name,
            address_bits: ADDRESS_BITS,
            registers: registers.collect(),
            targets: targets.collect(),
        };
        // Strings and numbers under names that are strings: nothing that JSON does not have.
        let mut text = serde_json::to_string_pretty(&map).expect("a map has a JSON form");
        text.push('\n');
        text
    }
}
