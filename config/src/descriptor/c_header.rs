//! The descriptors as a C header: a struct of bytes each, with accessors that work on any byte order and alignment.
//!
//! Bit fields of C are never used: their order belongs to the compiler.

use std::fmt::Write as _;

use super::{LAYOUTS, Layout, WorkOpcode, snake_case};

const HEAD: &str = "\
/* Descriptors of a spraynic NIC. Generated; do not edit.
 *
 * Each descriptor is a struct of bytes as they stand in memory and in `tdata` (bit 0 is bit 0 of byte 0, numbers are
 * little-endian). Fields are read and written by the functions below, on machines of any byte order. Fields of more
 * than 64 bits are arrays of bytes; there, numbers have their lowest byte first.
 */
#ifndef SPRAYNIC_DESCRIPTORS_H
#define SPRAYNIC_DESCRIPTORS_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* Bits [lsb + width - 1 : lsb] of a descriptor; width is 1 to 64. */
static inline uint64_t spraynic_get_bits(const uint8_t *bytes, unsigned lsb, unsigned width)
{
    uint64_t value = 0;
    unsigned done = 0;
    while (done < width) {
        const unsigned bit = lsb + done;
        const unsigned room = 8u - bit % 8u;
        const unsigned take = width - done < room ? width - done : room;
        const uint64_t part = (uint64_t)(bytes[bit / 8u] >> (bit % 8u)) & ((1u << take) - 1u);
        value |= part << done;
        done += take;
    }
    return value;
}

/* Sets bits [lsb + width - 1 : lsb] and no others; a value too wide is cut. */
static inline void spraynic_set_bits(uint8_t *bytes, unsigned lsb, unsigned width, uint64_t value)
{
    unsigned done = 0;
    while (done < width) {
        const unsigned bit = lsb + done;
        const unsigned room = 8u - bit % 8u;
        const unsigned take = width - done < room ? width - done : room;
        const unsigned mask = ((1u << take) - 1u) << (bit % 8u);
        const unsigned part = ((unsigned)((value >> done) & 0xffu) << (bit % 8u)) & mask;
        bytes[bit / 8u] = (uint8_t)((bytes[bit / 8u] & ~mask) | part);
        done += take;
    }
}
";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn accessors(text: &mut String, layout: &Layout) -> std::fmt::Result {
    let name = snake_case(layout.name);
    let upper = name.to_uppercase();
    writeln!(text, "\n/* {} */", layout.doc.trim())?;
    writeln!(text, "#define SPRAYNIC_{upper}_BYTES {}u", layout.bytes())?;
    writeln!(
        text,
        "struct spraynic_{name} {{\n    uint8_t bytes[{}];\n}};",
        layout.bytes()
    )?;
    for (lsb, field) in layout.placed() {
        let (field_name, width) = (field.name, field.width);
        let prefix = format!("SPRAYNIC_{upper}_{}", field_name.to_uppercase());
        writeln!(text, "\n/* {} */", field.doc)?;
        writeln!(text, "#define {prefix}_LSB {lsb}u\n#define {prefix}_WIDTH {width}u")?;
        if field_name.starts_with("reserved") {
            continue;
        }
        if width <= 64 {
            write!(
                text,
                "static inline uint64_t spraynic_{name}_get_{field_name}(const struct spraynic_{name} *d)\n\
                 {{\n    return spraynic_get_bits(d->bytes, {lsb}u, {width}u);\n}}\n\
                 static inline void spraynic_{name}_set_{field_name}(struct spraynic_{name} *d, uint64_t value)\n\
                 {{\n    spraynic_set_bits(d->bytes, {lsb}u, {width}u, value);\n}}\n"
            )?;
        } else {
            let bytes = width.div_ceil(8);
            write!(
                text,
                "static inline void spraynic_{name}_get_{field_name}(const struct spraynic_{name} *d, uint8_t value[{bytes}])\n\
                 {{\n    for (unsigned i = 0; i < {bytes}u; i++)\n        \
                 value[i] = (uint8_t)spraynic_get_bits(d->bytes, {lsb}u + 8u * i, 8u);\n}}\n\
                 static inline void spraynic_{name}_set_{field_name}(struct spraynic_{name} *d, const uint8_t value[{bytes}])\n\
                 {{\n    for (unsigned i = 0; i < {bytes}u; i++)\n        \
                 spraynic_set_bits(d->bytes, {lsb}u + 8u * i, 8u, value[i]);\n}}\n"
            )?;
        }
    }
    Ok(())
}

fn opcodes(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "\n/* Operation of a work request. */\nenum spraynic_work_opcode {{"
    )?;
    for opcode in WorkOpcode::ALL {
        let name = snake_case(&format!("{opcode:?}")).to_uppercase();
        writeln!(text, "    SPRAYNIC_WORK_OPCODE_{name} = {},", opcode as u8)?;
    }
    writeln!(text, "}};")
}

/// The C header of all descriptors: C99, also accepted by C++ compilers.
#[must_use]
pub fn c_header() -> String {
    let mut text = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = opcodes(&mut text);
    for layout in &LAYOUTS {
        let _ = accessors(&mut text, layout);
    }
    text.push_str(TAIL);
    text
}
