//! The register map as JSON, for tools that are not written in C. The form is fixed and small, so it is printed as it is: a test reads it by serde.

use super::{ADDRESS_BITS, Access, BitField, Register, RegisterMap, TARGETS, Target};

/// A string literal.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|letter| match letter {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            control if control < ' ' => format!("\\u{:04x}", u32::from(control)),
            other => other.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// An array with an item a line.
fn array(items: impl Iterator<Item = String>, indent: &str) -> String {
    let items: Vec<String> = items.map(|item| format!("{indent}  {item}")).collect();
    format!("[\n{}\n{indent}]", items.join(",\n"))
}

fn field(name: &str, lsb: u32, width: u32, doc: &str) -> String {
    format!(
        "{{\"name\": {}, \"lsb\": {lsb}, \"width\": {width}, \"doc\": {}}}",
        quoted(name),
        quoted(doc)
    )
}

fn register(register: &Register) -> String {
    let access = match register.access() {
        Access::ReadOnly => "r",
        Access::ReadWrite => "rw",
    };
    // Left out where it depends on what is outside the NIC.
    let reset = register
        .reset
        .map(|reset| format!("\"reset\": {reset}, "))
        .unwrap_or_default();
    let one = |one: &BitField| field(&one.name, one.lsb, one.width, &one.doc);
    format!(
        "{{\"name\": {}, \"offset\": {}, \"access\": \"{access}\", {reset}\"counter\": {}, \"doc\": {}, \"fields\": {}}}",
        quoted(&register.name),
        register.offset,
        register.is_counter(),
        quoted(&register.doc),
        array(register.fields.iter().map(one), "    ")
    )
}

fn target(target: &Target) -> String {
    let fields = target.layout.placed();
    let fields = fields.map(|(lsb, one)| field(one.name, lsb, one.width, one.doc));
    format!(
        "{{\"name\": {}, \"code\": {}, \"descriptor\": {}, \"words\": {}, \"fields\": {}}}",
        quoted(target.name),
        target.code,
        quoted(target.layout.name),
        target.words(),
        array(fields, "    ")
    )
}

impl RegisterMap {
    /// The map as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        format!(
            "{{\n  \"name\": {},\n  \"address_bits\": {ADDRESS_BITS},\n  \"registers\": {},\n  \"targets\": {}\n}}\n",
            quoted(&self.name),
            array(self.registers.iter().map(register), "  "),
            array(TARGETS.iter().map(target), "  ")
        )
    }
}
