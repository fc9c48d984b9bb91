//! The printed forms of the register map, read by programs that are not ours: the C header by compilers, SystemRDL by systemrdl-compiler.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spraynic_config::descriptor::{Descriptor, HeaderTemplate, c_header};
use spraynic_config::registers::{Access, CounterPort, REGISTER_BYTES, RegisterMap, TARGETS};
use spraynic_config::{NicConfig, Preset};

fn map(preset: Preset) -> RegisterMap {
    let counters: Vec<CounterPort> = (0..40)
        .map(|number| CounterPort {
            name: format!("block_{number}_packets"),
            doc: format!("packets of block {number}; with \"quotes\" and a \\ in it"),
        })
        .collect();
    RegisterMap::new(&NicConfig::preset(preset), &counters)
}

/// Where CI is set, a tool that is missing is a failure.
fn missing(what: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{what}");
    eprintln!("skipped: {what}");
}

fn compiler(names: &[&'static str]) -> Option<&'static str> {
    let found = names.iter().copied().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        missing("no C or C++ compiler: install one (apt install g++)");
    }
    found
}

fn headers() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("spraynic_registers.h"),
        map(Preset::G100).c_header(),
    )
    .unwrap();
    std::fs::write(directory.path().join("spraynic_descriptors.h"), c_header()).unwrap();
    directory
}

/// What a driver does, on an array in the place of the NIC: the array is printed afterwards.
const DRIVER: &str = r#"
#include "spraynic_registers.h"
#include "spraynic_descriptors.h"
#include <stdio.h>
#include <string.h>

static uint32_t nic[0x10000 / 4];
#define PRINT(name, offset) printf("counter %s %x\n", #name, offset);

int main(void)
{
    struct spraynic_header_template header;
    const int absent = spraynic_is_present(nic);
    nic[SPRAYNIC_REGISTER_MAGIC / 4] = SPRAYNIC_REGISTER_MAGIC_RESET;
    nic[SPRAYNIC_REGISTER_TIME_NS_LOW / 4] = 0x89abcdefu;
    nic[SPRAYNIC_REGISTER_TIME_NS_HIGH / 4] = 0x01234567u;
    printf("present %d %d\n", absent, spraynic_is_present(nic));
    printf("time %llx\n", (unsigned long long)spraynic_time_ns(nic));
    SPRAYNIC_FOR_EACH_COUNTER(PRINT)
    uint32_t weight = SPRAYNIC_REGISTER_CLASS_WEIGHT_RESET;
    weight = SPRAYNIC_FIELD_SET(weight, SPRAYNIC_REGISTER_CLASS_WEIGHT_STORAGE, 0x1a5);
    printf("weight %x %x\n", weight, SPRAYNIC_FIELD_GET(weight, SPRAYNIC_REGISTER_CLASS_WEIGHT_STORAGE));
    spraynic_register_write(nic, SPRAYNIC_REGISTER_SCRATCH, 0xdeadbeefu);
    printf("scratch %x\n", nic[SPRAYNIC_REGISTER_SCRATCH / 4]);

    if (fread(&header, 1, sizeof header, stdin) != sizeof header) return 1;
    printf("wrong length %d\n", spraynic_write_descriptor(nic, SPRAYNIC_TARGET_HEADER_TEMPLATE, &header, 3));
    nic[SPRAYNIC_REGISTER_DESCRIPTOR_STATUS / 4] = 1;
    printf("busy %d\n", spraynic_write_descriptor(nic, SPRAYNIC_TARGET_HEADER_TEMPLATE, &header, sizeof header));
    printf("untouched %x\n", nic[SPRAYNIC_REGISTER_DESCRIPTOR_0 / 4] | nic[SPRAYNIC_REGISTER_DESCRIPTOR_COMMIT / 4]);
    nic[SPRAYNIC_REGISTER_DESCRIPTOR_STATUS / 4] = 0;
    printf("sent %d\n", spraynic_write_descriptor(nic, SPRAYNIC_TARGET_HEADER_TEMPLATE, &header, sizeof header));
    printf("target %x\nwords", nic[SPRAYNIC_REGISTER_DESCRIPTOR_COMMIT / 4]);
    for (unsigned i = 0; i < SPRAYNIC_HEADER_TEMPLATE_BYTES; i++)
        printf(" %02x", (nic[SPRAYNIC_REGISTER_DESCRIPTOR_0 / 4 + i / 4] >> (8 * (i % 4))) & 0xff);
    printf("\n");
    return 0;
}
"#;

#[test]
fn a_driver_in_c_finds_registers_and_writes_descriptors() {
    let Some(compiler) = compiler(&["cc", "gcc", "clang"]) else {
        return;
    };
    let directory = headers();
    let (source, binary) = (directory.path().join("driver.c"), directory.path().join("driver"));
    std::fs::write(&source, DRIVER).unwrap();
    let output = Command::new(compiler)
        .args([
            "-std=c99",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wconversion",
            "-Wcast-qual",
            "-Werror",
            "-o",
        ])
        .args([&binary, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let bytes: Vec<u8> = (0..HeaderTemplate::width() / 8)
        .map(|byte| (byte * 37 + 11) as u8)
        .collect();
    let mut child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let mut expected = String::from("present 0 1\ntime 123456789abcdef\n");
    let map = map(Preset::G100);
    for counter in map.registers.iter().filter(|register| register.is_counter()) {
        expected += &format!("counter {} {:x}\n", counter.name, counter.offset);
    }
    let weight = map.find("class_weight").unwrap().reset.unwrap() & !0x00ff_0000 | 0x00a5_0000;
    expected += &format!("weight {weight:x} a5\nscratch deadbeef\nwrong length -1\nbusy -1\nuntouched 0\nsent 0\n");
    let target = TARGETS.iter().find(|target| target.name == "header_template").unwrap();
    expected += &format!("target {:x}\nwords", target.code);
    expected += &bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
    expected.push('\n');
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

/// Each constant of the header is that of the table, as the compiler sees it.
#[test]
fn c_and_cpp_compilers_see_the_offsets_fields_and_reset_values() {
    let directory = headers();
    let map = map(Preset::G100);
    let mut text = String::from("#include \"spraynic_registers.h\"\n");
    let mut check = |constant: &str, value: u32| {
        text += &format!("typedef char check_{constant}[{constant} == {value}u ? 1 : -1];\n");
    };
    for register in &map.registers {
        let name = format!("SPRAYNIC_REGISTER_{}", register.name.to_uppercase());
        check(&name, register.offset);
        if let (Some(reset), false) = (register.reset, register.is_counter()) {
            check(&format!("{name}_RESET"), reset);
        }
        let whole = register.fields.len() == 1 && register.fields[0].width == 32;
        for field in register.fields.iter().filter(|_| !whole) {
            let name = format!("{name}_{}", field.name.to_uppercase());
            check(&format!("{name}_LSB"), field.lsb);
            check(&format!("{name}_WIDTH"), field.width);
        }
    }
    for (file, names, standard) in [
        ("constants.c", &["cc", "gcc", "clang"][..], "-std=c99"),
        ("constants.cpp", &["c++", "g++", "clang++"], "-std=c++11"),
    ] {
        let Some(compiler) = compiler(names) else { continue };
        let source = directory.path().join(file);
        std::fs::write(&source, &text).unwrap();
        let output = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .arg(&source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A Python with systemrdl-compiler: `SPRAYNIC_PYTHON`, that of `SPRAYNIC_VENV`, of `.venv`, or `python3`.
fn python() -> Option<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let candidates = [
        std::env::var_os("SPRAYNIC_PYTHON").map(PathBuf::from),
        std::env::var_os("SPRAYNIC_VENV").map(|venv| PathBuf::from(venv).join("bin/python")),
        Some(project.join(".venv/bin/python")),
        Some("python3".into()),
    ];
    let found = candidates.into_iter().flatten().find(|python| {
        let probe = Command::new(python).args(["-c", "import systemrdl"]).output();
        probe.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        missing("no Python with systemrdl-compiler: scripts/test --install-only installs it into .venv");
    }
    found
}

#[test]
fn systemrdl_compiler_elaborates_the_same_map() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    for preset in Preset::ALL {
        let map = map(*preset);
        let file = directory.path().join("registers.rdl");
        std::fs::write(&file, map.system_rdl()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system_rdl.py");
        let output = Command::new(&python).arg(script).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("warning"), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let registers = json["registers"].as_array().unwrap();
        assert_eq!(registers.len(), map.registers.len());
        for (json, register) in registers.iter().zip(&map.registers) {
            let name = &register.name;
            assert_eq!(json["name"], *name);
            assert_eq!(json["offset"], register.offset, "{name}");
            assert_eq!(json["bytes"], REGISTER_BYTES, "{name}");
            assert_eq!(json["doc"], register.doc, "{name}");
            let fields = json["fields"].as_array().unwrap();
            assert_eq!(fields.len(), register.fields.len(), "{name}");
            for (json, field) in fields.iter().zip(&register.fields) {
                assert_eq!(json["name"], field.name, "{name}");
                assert_eq!(
                    (&json["lsb"], &json["width"]),
                    (&field.lsb.into(), &field.width.into()),
                    "{name}"
                );
                let access = match register.access() {
                    Access::ReadOnly => "r",
                    Access::ReadWrite => "rw",
                };
                assert_eq!(json["access"], access, "{name}");
                let reset = register
                    .reset
                    .map(|reset| u64::from(reset) >> field.lsb & ((1 << field.width) - 1));
                assert_eq!(json["reset"].as_u64(), reset, "{name}.{}", field.name);
            }
        }
    }
}
