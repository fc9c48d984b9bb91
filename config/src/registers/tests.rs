use super::*;
use crate::{Operation, Preset, Profile};

fn counters() -> Vec<CounterPort> {
    ["transmit_packet_slicer_packets", "receive_icrc_wrong"]
        .map(|name| CounterPort {
            name: name.to_owned(),
            doc: format!("what {name} counts: \"quoted\", with a \\ and a \n in it"),
        })
        .into()
}

fn map(config: &NicConfig) -> RegisterMap {
    RegisterMap::new(config, &counters())
}

/// Fields stand beside each other within 32 bits, and a reset value has no bit that no field has.
#[test]
fn registers_are_whole_and_apart() {
    for preset in Preset::ALL {
        let map = map(&NicConfig::preset(*preset));
        let mut next = 0;
        for register in &map.registers {
            let name = &register.name;
            assert!(
                register.offset >= next && register.offset % REGISTER_BYTES == 0,
                "{name}"
            );
            next = register.offset + REGISTER_BYTES;
            let mut end = 0;
            for field in &register.fields {
                assert!(field.lsb >= end && field.width > 0, "{name}.{}", field.name);
                end = field.lsb + field.width;
            }
            assert!(end <= 32 && end == register.width(), "{name}");
            assert_eq!(register.reset.unwrap_or(0) & !register.mask(), 0, "{name}");
            assert_eq!(map.find(name), Some(register));
            for byte in 0..REGISTER_BYTES {
                assert_eq!(map.at(register.offset + byte), Some(register), "{name}");
            }
        }
        assert_eq!(map.at(0x0fc), None);
        assert_eq!(map.at(next), None);
    }
}

#[test]
fn every_parameter_but_the_name_is_readable() {
    let mut config = NicConfig::preset(Preset::G100);
    config.wire.profiles = [Profile::Roce, Profile::Mrc].into();
    config.wire.operations = [Operation::Write, Operation::WriteImmediate].into();
    config.wire.ipv6 = false;
    let map = map(&config);
    let value = |name: &str| match map.find(&format!("parameter_{name}")).unwrap().role {
        Role::Constant(value) => value,
        other => panic!("{name}: {other:?}"),
    };
    for row in PARAMETERS.iter().filter(|row| row.allowed != Allowed::Name) {
        value(&row.key.replace('.', "_"));
    }
    assert_eq!(value("datapath_width_bits"), 512);
    assert_eq!(value("queue_pairs_count"), 1024);
    assert_eq!(value("wire_profiles"), 0b101);
    assert_eq!(value("wire_operations"), 0b1_1000);
    assert_eq!((value("wire_ipv6"), value("wire_vlan")), (0, 1));
    // The last parameter ends before the settings begin.
    let mut registers = map.registers.iter();
    let last = registers.rfind(|register| register.name.starts_with("parameter_"));
    assert!(last.unwrap().offset < map.find("scratch").unwrap().offset);
}

#[test]
fn the_name_is_text_and_the_configuration_is_told_by_its_checksum() {
    let mut config = NicConfig::preset(Preset::Lab);
    let first = map(&config);
    config.name = "a-name-of-32-letters-and-digits_".to_owned();
    let map = map(&config);
    let name: Vec<u8> = (0..NAME_WORDS)
        .flat_map(|word| match map.find(&format!("name_{word}")).unwrap().role {
            Role::Constant(value) => value.to_le_bytes(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(String::from_utf8(name).unwrap(), config.name);
    assert_ne!(first.find("configuration"), map.find("configuration"));
    assert_eq!(map.find("magic").unwrap().reset, Some(0x5952_5053));
}

/// A driver keeps the code of a target: one that is given to another would write the wrong table.
#[test]
fn targets_have_codes_of_their_own_and_fit_the_words() {
    let codes: Vec<u32> = TARGETS.iter().map(|target| target.code).collect();
    assert!(codes.is_sorted_by(|one, next| one < next), "{codes:?}");
    assert!(codes.iter().all(|code| (1..16).contains(code)), "{codes:?}");
    let map = map(&NicConfig::preset(Preset::Lab));
    let words = map
        .registers
        .iter()
        .filter(|register| matches!(register.role, Role::Descriptor(_)));
    assert_eq!(words.count() as u32, map.descriptor_words());
    assert!(TARGETS.iter().all(|target| target.words() <= map.descriptor_words()));
    for target in TARGETS {
        let snake: String = target
            .layout
            .name
            .char_indices()
            .flat_map(|(at, letter)| {
                let gap = (letter.is_uppercase() && at > 0).then_some('_');
                gap.into_iter().chain(letter.to_lowercase())
            })
            .collect();
        assert_eq!(snake, target.name);
    }
}

#[test]
fn what_a_configuration_has_not_has_no_register() {
    let mut config = NicConfig::preset(Preset::G100);
    assert_eq!(map(&config).find("free_slots").map(Register::width), Some(16));
    assert_eq!(map(&config).find("port_up").map(Register::width), Some(2));
    config.wire.profiles = [Profile::Roce].into();
    config.paths.ports = 1;
    assert_eq!(map(&config).find("free_slots"), None);
    assert_eq!(map(&config).find("port_up").map(Register::width), Some(1));
}

#[test]
#[should_panic(expected = "two registers have the same name")]
fn two_counters_of_one_name_are_refused() {
    let twice = [counters(), counters()].concat();
    let _ = RegisterMap::new(&NicConfig::preset(Preset::Lab), &twice);
}

/// JSON is read back by a parser that is not ours.
#[test]
fn json_has_every_register() {
    let map = map(&NicConfig::preset(Preset::G100));
    let json: serde_json::Value = serde_json::from_str(&map.json()).unwrap();
    let registers = json["registers"].as_array().unwrap();
    assert_eq!(registers.len(), map.registers.len());
    for (json, register) in registers.iter().zip(&map.registers) {
        assert_eq!(json["name"], register.name);
        assert_eq!(json["doc"], register.doc);
        assert_eq!(json["offset"], register.offset);
        assert_eq!(json["reset"].as_u64(), register.reset.map(u64::from));
        assert_eq!(json["counter"], register.is_counter());
        assert_eq!(json["fields"].as_array().unwrap().len(), register.fields.len());
    }
    assert_eq!(json["targets"].as_array().unwrap().len(), TARGETS.len());
    assert_eq!(json["targets"][2]["name"], "header_template");
}

#[test]
fn markdown_names_every_register_once() {
    let map = map(&NicConfig::preset(Preset::G100));
    let text = map.markdown();
    for register in &map.registers {
        let cell = format!("| `{}` | r", register.name);
        assert_eq!(text.matches(&cell).count(), 1, "{cell}");
    }
}
