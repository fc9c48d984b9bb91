use std::collections::BTreeSet;

use spraynic_config::registers::TARGETS;
use spraynic_config::{NicConfig, Preset};
use spraynic_rtl::Context;

use super::*;
use crate::spraynic_nic::{parts, register_map};

/// A block whose counters were no registers would count for nobody.
#[test]
fn every_counter_of_the_nic_is_a_register_and_a_port() {
    for preset in Preset::ALL {
        let config = NicConfig::preset(*preset);
        let context = Context::new();
        let map = register_map(&config);
        let file = register_file(&context, &map);
        let ports = file.ports();
        let mut expected = BTreeSet::new();
        for (prefix, block) in parts(&context, &config) {
            for port in block.ports().into_iter().filter(|port| port.name.starts_with("count_")) {
                let name = port.name.trim_start_matches("count_");
                let mine = ports.iter().find(|mine| mine.name == format!("count_{prefix}_{name}"));
                let mine = mine.unwrap_or_else(|| panic!("no port for {name} of {prefix}"));
                assert_eq!((mine.width, mine.output), (port.width, false), "{name} of {prefix}");
                let register = map.find(&format!("{prefix}_{name}")).unwrap();
                assert_eq!((register.role, &register.doc), (Role::Counter, &port.doc));
                expected.insert(mine.name.clone());
            }
        }
        let given: BTreeSet<String> = ports
            .iter()
            .filter(|port| port.name.starts_with("count_") && !port.output)
            .map(|port| port.name.clone())
            .collect();
        assert_eq!(given, expected, "and no others");
        assert!(expected.len() > 150, "{} counters", expected.len());
    }
}

/// What receives a setting has a port of its width: the table and the blocks cannot drift apart.
#[test]
fn settings_have_the_widths_of_the_ports_that_they_go_to() {
    let config = NicConfig::preset(Preset::G100);
    let context = Context::new();
    let file = register_file(&context, &register_map(&config)).ports();
    let mut met = BTreeSet::new();
    for (_, block) in parts(&context, &config) {
        let ports = block.ports();
        for port in &ports {
            let setting = file.iter().find(|mine| mine.output && mine.name == port.name);
            if let (Some(setting), false) = (setting, port.output) {
                assert_eq!(setting.width, port.width, "{}", port.name);
                met.insert(port.name.clone());
            }
        }
    }
    let known = [
        "bad_after",
        "class_strict",
        "class_weight",
        "cnp_interval_ns",
        "delivered_clears",
        "identification",
        "identification_load",
        "probe_interval_ns",
        "sack_bytes",
        "sack_every",
        "sack_timer_ns",
        "trimmed_dscp",
        "trimmed_last_hop_dscp",
    ];
    assert_eq!(met.iter().map(String::as_str).collect::<Vec<_>>(), known);
}

#[test]
fn each_target_has_a_stream_as_wide_as_its_descriptor() {
    let context = Context::new();
    let ports = register_file(&context, &register_map(&NicConfig::preset(Preset::Lab))).ports();
    for target in TARGETS {
        let data = ports
            .iter()
            .find(|port| port.name == format!("{}_tdata", target.stream()));
        assert_eq!(
            data.map(|port| port.width),
            Some(8 * target.layout.bytes()),
            "{}",
            target.name
        );
    }
}

/// The page is that of the default preset; `UPDATE_DOCS=1` writes it.
#[test]
fn the_documented_registers_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/registers.md");
    let printed = register_map(&NicConfig::preset(Preset::G100)).markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &printed).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == printed,
        "{path} is out of date: run `UPDATE_DOCS=1 cargo test -p spraynic-hdl register_file` and commit it"
    );
}
