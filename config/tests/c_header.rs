//! The C header, compiled: sizes and places of the fields are those of the Rust tables.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use spraynic_config::descriptor::{
    Answer, AtomicWrite, Completion, Descriptor, Doorbell, ExpectedResponse, HeaderTemplate, LAYOUTS, Layout,
    MemoryAccess, MemoryRegion, MemoryTranslation, MemoryWrite, PacketContext, PacketDescriptor, PacketOrigin,
    PathEntry, PathEvent, PathUpdate, PayloadRequest, PayloadWrite, QueuePairContext, RateLimit, RateRequest,
    ReceiveRequest, ReceivedPacket, RequestRing, Resend, ResponseDone, ResponseMessage, RingProgress, SendContext,
    SendProgress, SentPacket, SequenceReport, SequencedPacket, SliceContext, WorkRequest, WorkSlice, c_header,
};

/// The C compiler, if there is one; CI must have it.
fn compiler() -> Option<&'static str> {
    let found = ["cc", "gcc", "clang"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
    });
    assert!(
        found.is_some() || std::env::var_os("CI").is_none_or(|ci| ci.is_empty()),
        "no C compiler: install one (apt install gcc)"
    );
    found
}

fn snake(name: &str) -> String {
    name.char_indices()
        .flat_map(|(i, c)| {
            let underscore = (c.is_uppercase() && i > 0).then_some('_');
            underscore.into_iter().chain(c.to_lowercase())
        })
        .collect()
}

/// Reads a descriptor from standard input, prints each field in hex, copies it field by field and prints the copy.
fn program(layout: &Layout) -> String {
    let name = snake(layout.name);
    let mut text = format!(
        "#include \"descriptors.h\"\n#include <stdio.h>\n#include <inttypes.h>\n\
         int main(void)\n{{\n    struct spraynic_{name} in, out = {{{{0}}}};\n\
         _Static_assert(sizeof in == SPRAYNIC_{}_BYTES, \"size\");\n\
         if (fread(&in, 1, sizeof in, stdin) != sizeof in) return 1;\n",
        name.to_uppercase()
    );
    for (_, field) in layout.placed().filter(|(_, field)| !field.name.starts_with("reserved")) {
        let field_name = field.name;
        if field.width <= 64 {
            writeln!(
                text,
                "{{ uint64_t v = spraynic_{name}_get_{field_name}(&in); printf(\"%\" PRIx64 \"\\n\", v);\n\
                 spraynic_{name}_set_{field_name}(&out, v | ({:#x}ull)); spraynic_{name}_set_{field_name}(&out, v); }}",
                // Bits beyond the field: the setter must cut them.
                if field.width == 64 { 0 } else { u64::MAX << field.width }
            )
            .unwrap();
        } else {
            let bytes = field.width / 8;
            writeln!(
                text,
                "{{ uint8_t v[{bytes}]; spraynic_{name}_get_{field_name}(&in, v);\n\
                 for (int i = {bytes} - 1; i >= 0; i--) printf(\"%02x\", v[i]);\nprintf(\"\\n\");\n\
                 spraynic_{name}_set_{field_name}(&out, v); }}"
            )
            .unwrap();
        }
    }
    text.push_str(
        "for (unsigned i = 0; i < sizeof out; i++) printf(\"%02x\", out.bytes[i]);\nprintf(\"\\n\");\nreturn 0;\n}\n",
    );
    text
}

/// The bits [lsb + width - 1 : lsb] as hex, most significant digit first, without leading zeros.
fn bits_as_hex(bytes: &[u8], lsb: u32, width: u32) -> String {
    let bit = |index: u32| bytes[(index / 8) as usize] >> (index % 8) & 1;
    let digits: String = (0..width.div_ceil(4))
        .rev()
        .map(|digit| {
            let value = (0..4.min(width - 4 * digit)).fold(0, |sum, i| sum | u32::from(bit(lsb + 4 * digit + i)) << i);
            char::from_digit(value, 16).unwrap()
        })
        .collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

/// What the Rust type makes of the same bytes: its reserved fields are cleared by the caller.
fn repack(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name {
        WorkRequest::NAME => WorkRequest::unpack(bytes).pack(),
        Completion::NAME => Completion::unpack(bytes).pack(),
        SliceContext::NAME => SliceContext::unpack(bytes).pack(),
        PacketDescriptor::NAME => PacketDescriptor::unpack(bytes).pack(),
        HeaderTemplate::NAME => HeaderTemplate::unpack(bytes).pack(),
        PayloadRequest::NAME => PayloadRequest::unpack(bytes).pack(),
        ReceivedPacket::NAME => ReceivedPacket::unpack(bytes).pack(),
        QueuePairContext::NAME => QueuePairContext::unpack(bytes).pack(),
        PacketContext::NAME => PacketContext::unpack(bytes).pack(),
        MemoryRegion::NAME => MemoryRegion::unpack(bytes).pack(),
        SequencedPacket::NAME => SequencedPacket::unpack(bytes).pack(),
        SequenceReport::NAME => SequenceReport::unpack(bytes).pack(),
        Answer::NAME => Answer::unpack(bytes).pack(),
        ReceiveRequest::NAME => ReceiveRequest::unpack(bytes).pack(),
        MemoryAccess::NAME => MemoryAccess::unpack(bytes).pack(),
        MemoryTranslation::NAME => MemoryTranslation::unpack(bytes).pack(),
        PayloadWrite::NAME => PayloadWrite::unpack(bytes).pack(),
        MemoryWrite::NAME => MemoryWrite::unpack(bytes).pack(),
        AtomicWrite::NAME => AtomicWrite::unpack(bytes).pack(),
        SendContext::NAME => SendContext::unpack(bytes).pack(),
        WorkSlice::NAME => WorkSlice::unpack(bytes).pack(),
        PacketOrigin::NAME => PacketOrigin::unpack(bytes).pack(),
        SentPacket::NAME => SentPacket::unpack(bytes).pack(),
        Resend::NAME => Resend::unpack(bytes).pack(),
        RequestRing::NAME => RequestRing::unpack(bytes).pack(),
        Doorbell::NAME => Doorbell::unpack(bytes).pack(),
        RingProgress::NAME => RingProgress::unpack(bytes).pack(),
        SendProgress::NAME => SendProgress::unpack(bytes).pack(),
        ResponseMessage::NAME => ResponseMessage::unpack(bytes).pack(),
        ExpectedResponse::NAME => ExpectedResponse::unpack(bytes).pack(),
        ResponseDone::NAME => ResponseDone::unpack(bytes).pack(),
        RateRequest::NAME => RateRequest::unpack(bytes).pack(),
        RateLimit::NAME => RateLimit::unpack(bytes).pack(),
        PathEntry::NAME => PathEntry::unpack(bytes).pack(),
        PathEvent::NAME => PathEvent::unpack(bytes).pack(),
        PathUpdate::NAME => PathUpdate::unpack(bytes).pack(),
        other => panic!("add {other} here"),
    }
}

#[test]
fn c_accessors_agree_with_the_tables() {
    let Some(compiler) = compiler() else {
        eprintln!("skipped: no C compiler (apt install gcc)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("descriptors.h"), c_header()).unwrap();
    for layout in &LAYOUTS {
        let source = directory.path().join("test.c");
        std::fs::write(&source, program(layout)).unwrap();
        let binary = directory.path().join(snake(layout.name));
        let output = Command::new(compiler)
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o"])
            .arg(&binary)
            .arg(&source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let bytes = proptest::collection::vec(any::<u8>(), layout.bytes() as usize);
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(16)
        });
        runner
            .run(&bytes, |bytes| {
                let mut child = Command::new(&binary)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                child.stdin.take().unwrap().write_all(&bytes).unwrap();
                let output = child.wait_with_output().unwrap();
                prop_assert!(output.status.success());
                let text = String::from_utf8(output.stdout).unwrap();
                let mut lines = text.lines();
                let mut kept = bytes.clone();
                for (lsb, field) in layout.placed() {
                    if field.name.starts_with("reserved") {
                        for bit in lsb..lsb + field.width {
                            kept[(bit / 8) as usize] &= !(1 << (bit % 8));
                        }
                    } else {
                        let printed = lines.next().unwrap().trim_start_matches('0');
                        let printed = if printed.is_empty() { "0" } else { printed };
                        prop_assert_eq!(printed, bits_as_hex(&bytes, lsb, field.width), "{}", field.name);
                    }
                }
                let copy: String = kept.iter().map(|byte| format!("{byte:02x}")).collect();
                prop_assert_eq!(lines.next().unwrap(), copy);
                prop_assert_eq!(repack(layout.name, &bytes), bytes);
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn cpp_compilers_take_the_header() {
    if Command::new("c++").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci.is_empty()),
            "no C++ compiler: apt install g++"
        );
        eprintln!("skipped: no C++ compiler (apt install g++)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let header = directory.path().join("descriptors.hpp");
    std::fs::write(&header, c_header()).unwrap();
    let output = Command::new("c++")
        .args([
            "-std=c++11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c++",
        ])
        .arg(&header)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
