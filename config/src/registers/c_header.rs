//! The register map as a C header: offsets and fields as constants, and what a driver does with them as functions.

use std::fmt::Write as _;

use super::{Register, RegisterMap, TARGETS};

const HEAD: &str = "\
/* Registers of a spraynic NIC. Generated; do not edit.
 *
 * SPRAYNIC_REGISTER_NAME is the byte offset of a register; with _RESET behind it its value after reset, and with the name of a
 * field and _LSB, _WIDTH where the field stands. The functions reach the registers by `base`, where the NIC's 64 KiB are mapped so that an
 * access of 32 bits gives the register's number (on machines of other byte order the bus has to see to that).
 */
#ifndef SPRAYNIC_REGISTERS_H
#define SPRAYNIC_REGISTERS_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

static inline uint32_t spraynic_register_read(const volatile void *base, uint32_t offset)
{
    return *(const volatile uint32_t *)((const volatile uint8_t *)base + offset);
}

static inline void spraynic_register_write(volatile void *base, uint32_t offset, uint32_t value)
{
    *(volatile uint32_t *)((volatile uint8_t *)base + offset) = value;
}

/* A field of a register's value. */
#define SPRAYNIC_FIELD_GET(value, field) \\
    (((uint32_t)(value) >> field##_LSB) & (0xffffffffu >> (32u - field##_WIDTH)))

/* The same with the field replaced. */
#define SPRAYNIC_FIELD_SET(value, field, to) \\
    (((uint32_t)(value) & ~((0xffffffffu >> (32u - field##_WIDTH)) << field##_LSB)) | \\
     (((uint32_t)(to) & (0xffffffffu >> (32u - field##_WIDTH))) << field##_LSB))
";

const FUNCTIONS: &str = "
/* Whether there is a NIC of spraynic. */
static inline int spraynic_is_present(const volatile void *base)
{
    return spraynic_register_read(base, SPRAYNIC_REGISTER_MAGIC) == SPRAYNIC_REGISTER_MAGIC_RESET;
}

/* The NIC's time in nanoseconds. Callers take turns: the low half is read first and keeps the upper one. */
static inline uint64_t spraynic_time_ns(const volatile void *base)
{
    const uint32_t low = spraynic_register_read(base, SPRAYNIC_REGISTER_TIME_NS_LOW);
    return (uint64_t)spraynic_register_read(base, SPRAYNIC_REGISTER_TIME_NS_HIGH) << 32 | low;
}

/* Whether the last descriptor still waits: spraynic_write_descriptor does nothing then. */
static inline int spraynic_is_busy(const volatile void *base)
{
    return (int)SPRAYNIC_FIELD_GET(spraynic_register_read(base, SPRAYNIC_REGISTER_DESCRIPTOR_STATUS),
                                   SPRAYNIC_REGISTER_DESCRIPTOR_STATUS_BUSY);
}

/* Writes a descriptor of so many bytes (see spraynic_descriptors.h) to a target. Returns 0, or -1 while the last one still waits or where
 * `length` is not the target's. Callers take turns. */
static inline int spraynic_write_descriptor(volatile void *base, enum spraynic_target target, const void *bytes, uint32_t length)
{
    const uint8_t *from = (const uint8_t *)bytes;
    uint32_t at;
    if (length != spraynic_target_bytes(target) || spraynic_is_busy(base))
        return -1;
    for (at = 0; at < length; at += 4u) {
        uint32_t word = 0;
        uint32_t byte;
        for (byte = 0; byte < 4u && at + byte < length; byte++)
            word |= (uint32_t)from[at + byte] << (8u * byte);
        spraynic_register_write(base, SPRAYNIC_REGISTER_DESCRIPTOR_0 + at, word);
    }
    spraynic_register_write(base, SPRAYNIC_REGISTER_DESCRIPTOR_COMMIT, (uint32_t)target);
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
";

fn register(text: &mut String, register: &Register) -> std::fmt::Result {
    let name = format!("SPRAYNIC_REGISTER_{}", register.name.to_uppercase());
    writeln!(
        text,
        "\n/* {} */\n#define {name} {:#06x}u",
        register.doc, register.offset
    )?;
    if let (Some(reset), false) = (register.reset, register.is_counter()) {
        writeln!(text, "#define {name}_RESET {reset:#010x}u")?;
    }
    let whole = register.fields.len() == 1 && register.fields[0].width == 32;
    for field in register.fields.iter().filter(|_| !whole) {
        let name = format!("{name}_{}", field.name.to_uppercase());
        writeln!(text, "/* {} */", field.doc)?;
        writeln!(
            text,
            "#define {name}_LSB {}u\n#define {name}_WIDTH {}u",
            field.lsb, field.width
        )?;
    }
    Ok(())
}

fn targets(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "\n/* Where a descriptor goes: what is written to descriptor_commit. */\nenum spraynic_target {{"
    )?;
    for target in TARGETS {
        writeln!(
            text,
            "    SPRAYNIC_TARGET_{} = {},",
            target.name.to_uppercase(),
            target.code
        )?;
    }
    writeln!(
        text,
        "}};\n\n/* Bytes of a target's descriptor; 0: there is no such target. */\n\
         static inline uint32_t spraynic_target_bytes(enum spraynic_target target)\n{{\n    switch (target) {{"
    )?;
    for target in TARGETS {
        writeln!(
            text,
            "    case SPRAYNIC_TARGET_{}: return {}u;",
            target.name.to_uppercase(),
            target.layout.bytes()
        )?;
    }
    writeln!(text, "    }}\n    return 0;\n}}")
}

/// `X(name, offset)` for each counter, as one macro.
fn counters(text: &mut String, map: &RegisterMap) -> std::fmt::Result {
    write!(
        text,
        "\n/* X(name, offset) for each counter: a table, a loop or an enum of them is one line. */\n\
         #define SPRAYNIC_FOR_EACH_COUNTER(X)"
    )?;
    for counter in map.registers.iter().filter(|register| register.is_counter()) {
        write!(text, " \\\n    X({}, {:#06x}u)", counter.name, counter.offset)?;
    }
    writeln!(text)
}

impl RegisterMap {
    /// The map as a C header: C99, also accepted by C++ compilers.
    #[must_use]
    pub fn c_header(&self) -> String {
        let mut text = HEAD.to_owned();
        // Writing to a String cannot fail.
        for one in &self.registers {
            let _ = register(&mut text, one);
        }
        let _ = targets(&mut text);
        let _ = counters(&mut text, self);
        text.push_str(FUNCTIONS);
        text
    }
}
