//! Presets, files and overrides: what wins, what is refused, and what the refusal says.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spraynic_config::{Allowed, ConfigError, NicConfig, Operation, Origin, PARAMETERS, Preset, Profile, Source, Value};

fn with_file(text: &str) -> Result<NicConfig, ConfigError> {
    with_both(text, &[])
}

fn with_both(text: &str, overrides: &[&str]) -> Result<NicConfig, ConfigError> {
    let source = Source {
        overrides: overrides.iter().map(ToString::to_string).collect(),
        ..Source::default()
    };
    source
        .resolve_text(Some((Path::new("nic.toml"), text)))
        .map(|resolved| resolved.config)
}

fn with_overrides(overrides: &[&str]) -> Result<NicConfig, ConfigError> {
    with_both("", overrides)
}

/// The whole message, and nothing else.
#[track_caller]
fn refused(result: Result<NicConfig, ConfigError>, message: &str) {
    match result {
        Ok(_) => panic!("accepted, but expected: {message}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

#[test]
fn presets_are_valid_and_have_their_widths() {
    let widths: Vec<u32> = Preset::ALL
        .iter()
        .map(|preset| {
            let config = NicConfig::preset(*preset);
            config.validate().unwrap();
            assert_eq!(config.name, preset.name());
            config.datapath.width_bits
        })
        .collect();
    assert_eq!(widths, [64, 128, 512, 1024]);
}

#[test]
fn the_table_and_the_struct_agree() {
    for preset in Preset::ALL {
        let values = NicConfig::preset(*preset).values();
        let keys: Vec<_> = values.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, PARAMETERS.iter().map(|p| p.key).collect::<Vec<_>>());
        for (parameter, (_, value)) in PARAMETERS.iter().zip(&values) {
            assert_eq!(parameter.default(*preset), *value, "{}", parameter.key);
        }
        // serde sees the same keys.
        let json = serde_json::to_value(NicConfig::preset(*preset)).unwrap();
        let mut seen = 0;
        for (key, value) in json.as_object().unwrap() {
            match value.as_object() {
                None => {
                    seen += 1;
                    assert!(keys.contains(&key.as_str()), "{key}");
                }
                Some(section) => {
                    for name in section.keys() {
                        seen += 1;
                        assert!(keys.contains(&format!("{key}.{name}").as_str()), "{key}.{name}");
                    }
                }
            }
        }
        assert_eq!(seen, keys.len());
    }
}

#[test]
fn every_parameter_is_documented() {
    for parameter in PARAMETERS {
        assert!(parameter.effect.len() > 20, "{}", parameter.key);
        assert!(parameter.effect.ends_with('.'), "{}", parameter.key);
        let number = matches!(
            parameter.allowed,
            Allowed::Choice(_) | Allowed::PowerOfTwo { .. } | Allowed::Range { .. }
        );
        assert_eq!(
            number,
            !parameter.unit.is_empty(),
            "{}: a number has a unit",
            parameter.key
        );
    }
}

#[test]
fn later_sources_win() {
    let file = "preset = \"25g\"\n[datapath]\nwidth_bits = 256\n[queue_pairs]\ncount = 64\n";
    let config = with_both(
        file,
        &[
            "queue_pairs.count=32",
            "queue_pairs.count=8",
            "wire.operations=write,send",
        ],
    )
    .unwrap();
    assert_eq!(config.datapath.port_mbps, 25_000, "preset");
    assert_eq!(config.datapath.width_bits, 256, "file");
    assert_eq!(config.queue_pairs.count, 8, "last override");
    assert_eq!(
        config.wire.operations.into_iter().collect::<Vec<_>>(),
        [Operation::Send, Operation::Write]
    );
}

#[test]
fn origins_are_kept() {
    let source = Source {
        overrides: vec!["queue_pairs.count=8".into()],
        ..Source::default()
    };
    let resolved = source
        .resolve_text(Some((Path::new("a.toml"), "\n\n[datapath]\nclock_khz = 200000\n")))
        .unwrap();
    assert_eq!(
        resolved.origins["queue_pairs.count"],
        Origin::Override("queue_pairs.count=8".into())
    );
    assert_eq!(
        resolved.origins["datapath.clock_khz"],
        Origin::File {
            path: "a.toml".into(),
            line: 4
        }
    );
    assert_eq!(resolved.origins["wire.vlan"], Origin::Preset("100g"));
}

#[test]
fn overrides_take_toml_and_bare_words() {
    for list in [
        "wire.profiles=[\"solar\", \"roce\"]",
        "wire.profiles=solar,roce,solar",
        " wire.profiles = roce, solar ",
    ] {
        let config = with_overrides(&[list]).unwrap();
        assert_eq!(
            config.wire.profiles.into_iter().collect::<Vec<_>>(),
            [Profile::Roce, Profile::Solar],
            "{list}"
        );
    }
    assert_eq!(with_overrides(&["name=my-nic"]).unwrap().name, "my-nic");
    assert_eq!(with_overrides(&["name=\"25\""]).unwrap().name, "25");
    assert_eq!(with_overrides(&["name=25"]).unwrap().name, "25");
    assert_eq!(
        with_overrides(&["datapath.clock_khz=0x3d090"])
            .unwrap()
            .datapath
            .clock_khz,
        250_000
    );
    assert_eq!(
        with_overrides(&["datapath.clock_khz=250_000"])
            .unwrap()
            .datapath
            .clock_khz,
        250_000
    );
}

#[test]
fn unknown_keys_are_refused_with_line_and_nearest_key() {
    refused(
        with_file("[datapath]\n# a comment\nwidth_bit = 512\n"),
        "nic.toml:3: unknown key `datapath.width_bit`: did you mean `datapath.width_bits`?",
    );
    refused(
        with_file("width_bits = 512\n"),
        "nic.toml:1: unknown key `width_bits`: did you mean `datapath.width_bits`?",
    );
    refused(
        with_file("[transmit]\nspeed_of_light = 3\n"),
        "nic.toml:2: unknown key `transmit.speed_of_light`: section [transmit] has descriptor_fifo_depth, payload_ahead_bytes, \
         control_fifo_depth, frame_fifo_bytes",
    );
    refused(
        with_file("[colours]\nred = 1\n"),
        "nic.toml:1: unknown key `colours`: the sections are datapath, queue_pairs, wire, transmit, receive, send, paths; `spraynic config` \
         prints every key",
    );
    refused(
        with_overrides(&["wire.mtu=1024"]),
        "--set wire.mtu=1024: unknown key `wire.mtu`: section [wire] has profiles, operations, control, ipv4, ipv6, \
         vlan, max_mtu",
    );
}

#[test]
fn wrong_values_are_refused_with_the_range() {
    refused(
        with_file("[datapath]\nwidth_bits = 96\n"),
        "nic.toml:2: datapath.width_bits = 96 is not allowed: it must be one of 64, 128, 256, 512, 1024 (bits)",
    );
    refused(
        with_overrides(&["queue_pairs.count=100"]),
        "--set queue_pairs.count=100: queue_pairs.count = 100 is not allowed: it must be a power of two from 2 to \
         65536 (queue pairs)",
    );
    refused(
        with_overrides(&["queue_pairs.count=-8"]),
        "--set queue_pairs.count=-8: queue_pairs.count = -8 is not allowed: it must be a power of two from 2 to 65536 \
         (queue pairs)",
    );
    refused(
        with_file("[datapath]\nclock_khz = 999999999999999999999999999999999999999999999\n"),
        "nic.toml:2: datapath.clock_khz = 999999999999999999999999999999999999999999999 is not allowed: it must be a \
         whole number from 1000 to 1000000 (kHz)",
    );
    refused(
        with_file("[datapath]\nclock_khz = 250.5\n"),
        "nic.toml:2: datapath.clock_khz = 250.5 is a number with a fraction: it must be a whole number from 1000 to \
         1000000 (kHz)",
    );
    refused(
        with_file("[wire]\nipv4 = 1\n"),
        "nic.toml:2: wire.ipv4 = 1 is a whole number: it must be true or false",
    );
    refused(
        with_overrides(&["wire.vlan=yes"]),
        "--set wire.vlan=yes: wire.vlan = \"yes\" is text: it must be true or false",
    );
    refused(
        with_file("[wire]\nprofiles = [\"roce\", \"iwarp\"]\n"),
        "nic.toml:2: wire.profiles = [\"roce\", \"iwarp\"] is not allowed: it must be one or more of roce, solar, mrc",
    );
    refused(
        with_file("[wire]\nprofiles = []\n"),
        "nic.toml:2: wire.profiles = [] is not allowed: it must be one or more of roce, solar, mrc",
    );
    refused(
        with_file("[wire]\nprofiles = [1]\n"),
        "nic.toml:2: wire.profiles = […] is a list of something else than text: it must be one or more of roce, \
         solar, mrc",
    );
    refused(
        with_file("wire = 3\n"),
        "nic.toml:1: unknown key `wire`: it is a section, [wire], with profiles, operations, control, ipv4, ipv6, vlan, max_mtu",
    );
    refused(
        with_file("name = \"../../etc\"\n"),
        "nic.toml:1: name = \"../../etc\" is not allowed: it must be 1 to 32 lower-case letters, digits, `-` and `_`, \
         first a letter or a digit",
    );
    refused(
        with_overrides(&["datapath.width_bits"]),
        "--set datapath.width_bits: an override is written key=value, for example --set datapath.width_bits=256",
    );
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    let error = with_file("[datapath]\nwidth_bits = 512\nclock_khz =\n").unwrap_err();
    assert!(error.to_string().starts_with("nic.toml:3: not valid TOML: "), "{error}");
    let error = with_file("[datapath]\nwidth_bits = 512\nwidth_bits = 512\n").unwrap_err();
    assert!(error.to_string().starts_with("nic.toml:3: not valid TOML: "), "{error}");
}

#[test]
fn presets_are_named_once() {
    refused(
        with_file("preset = \"1g\"\n"),
        "nic.toml:1: unknown preset `1g`: the presets are lab, 25g, 100g, 400g",
    );
    let source = Source {
        preset: Some(Preset::Lab),
        ..Source::default()
    };
    let error = source
        .resolve_text(Some((Path::new("nic.toml"), "preset = \"100g\"\n")))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "nic.toml:1: preset `100g` contradicts preset `lab` of the command line: name the same in both, or only one"
    );
}

#[test]
fn contradictions_are_refused_with_both_sides() {
    refused(
        with_both("[wire]\nipv4 = false\n", &["wire.ipv6=false"]),
        "wire.ipv4 = false (nic.toml:2) and wire.ipv6 = false (--set wire.ipv6=false): no IP version is left to send \
         with; set one of them to true",
    );
    refused(
        with_overrides(&["wire.operations=send"]),
        "wire.profiles = [\"roce\", \"solar\", \"mrc\"] (preset 100g) and wire.operations = [\"send\"] (--set \
         wire.operations=send): the mrc profile has RDMA WRITE alone, and it is not among the operations; add \
         \"write\" to wire.operations or take \"mrc\" out of wire.profiles",
    );
    refused(
        with_overrides(&["wire.operations=write,send_immediate"]),
        "wire.operations = [\"send_immediate\", \"write\"] (--set wire.operations=write,send_immediate): \
         `send_immediate` needs `send` for all packets but the last; add \"send\" to wire.operations",
    );
    refused(
        with_overrides(&["wire.operations=write,read", "wire.profiles=mrc"]),
        "wire.profiles = [\"mrc\"] (--set wire.profiles=mrc) and wire.operations = [\"write\", \"read\"] (--set \
         wire.operations=write,read): no profile that is chosen has `read`; take \"read\" out of wire.operations or \
         add \"roce\" or \"solar\" to wire.profiles",
    );
    refused(
        with_overrides(&["transmit.frame_fifo_bytes=8192"]),
        "transmit.frame_fifo_bytes = 8192 (--set transmit.frame_fifo_bytes=8192) and wire.max_mtu = 4096 (preset \
         100g) and datapath.width_bits = 512 (preset 100g): the largest frame takes 4224 bytes of the FIFO, and two \
         of them must fit; set transmit.frame_fifo_bytes to 16384 or more, or wire.max_mtu lower",
    );
}

#[test]
fn pools_and_windows_that_do_not_fit_are_refused() {
    refused(
        with_overrides(&["receive.window=64"]),
        "receive.window = 64 (--set receive.window=64) and wire.profiles = [\"roce\", \"solar\", \"mrc\"] (preset 100g): \
         the mrc profile counts its window in units of 128 packets; set receive.window to 128 or more, or take \"mrc\" \
         out of wire.profiles",
    );
    assert!(with_overrides(&["receive.window=64", "wire.profiles=roce,solar"]).is_ok());
    refused(
        with_overrides(&["receive.pool_slots=256", "receive.window=128"]),
        "receive.pool_slots = 256 (--set receive.pool_slots=256) and receive.guaranteed_slots = 2 (preset 100g) and \
         receive.reorder_queue_pairs = 128 (preset 100g) and receive.window = 128 (--set receive.window=128): 128 queue \
         pairs with 2 slots each and one window of 128 take 384 slots; set receive.pool_slots to 512 or more, or one of \
         the others lower",
    );
    // Exactly enough.
    assert!(
        with_overrides(&[
            "receive.pool_slots=256",
            "receive.window=128",
            "receive.guaranteed_slots=1"
        ])
        .is_ok()
    );
    assert!(with_overrides(&["receive.pool_slots=256", "receive.window=128", "queue_pairs.count=64"]).is_ok());
    refused(
        with_overrides(&["receive.pool_slots=4096"]),
        "receive.pool_slots = 4096 (--set receive.pool_slots=4096) and wire.max_mtu = 4096 (preset 100g): the pool takes \
         16777216 bytes, and 8388608 are possible; set receive.pool_slots to 2048 or less, or wire.max_mtu lower",
    );
    // Without solar there is no pool.
    assert!(with_overrides(&["receive.pool_slots=4096", "wire.profiles=roce,mrc"]).is_ok());
}

#[test]
fn fields_changed_by_a_program_are_checked_too() {
    let mut config = NicConfig::preset(Preset::G100);
    config.datapath.width_bits = 100;
    refused(
        config.validate().map(|()| config),
        "field: datapath.width_bits = 100 is not allowed: it must be one of 64, 128, 256, 512, 1024 (bits)",
    );
}

#[test]
fn a_missing_file_is_named() {
    let source = Source {
        file: Some("no/such/nic.toml".into()),
        ..Source::default()
    };
    let message = source.resolve().unwrap_err().to_string();
    assert!(
        message.starts_with("no/such/nic.toml: cannot read the configuration: "),
        "{message}"
    );
}

#[test]
fn serde_refuses_unknown_keys() {
    let mut json = serde_json::to_value(NicConfig::preset(Preset::Lab)).unwrap();
    assert!(serde_json::from_value::<NicConfig>(json.clone()).is_ok());
    json["wire"]["colour"] = 1.into();
    assert!(serde_json::from_value::<NicConfig>(json).is_err());
}

/// A value the parameter allows.
fn allowed_value(allowed: Allowed) -> BoxedStrategy<Value> {
    let number = |n: u32| Value::Integer(i128::from(n));
    match allowed {
        Allowed::Choice(choices) => proptest::sample::select(choices).prop_map(number).boxed(),
        Allowed::PowerOfTwo { min, max } => (min.trailing_zeros()..=max.trailing_zeros())
            .prop_map(move |bit| number(1 << bit))
            .boxed(),
        Allowed::Range { min, max } => (min..=max).prop_map(number).boxed(),
        Allowed::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Allowed::Name => "[a-z0-9][a-z0-9_-]{0,31}".prop_map(Value::Text).boxed(),
        Allowed::Set(names) => proptest::sample::subsequence(names, 1..=names.len())
            .prop_map(|names| Value::Set(names.into_iter().map(str::to_owned).collect()))
            .boxed(),
    }
}

/// Each parameter or not: with all of them at random, most configurations contradict themselves.
fn any_overrides() -> impl Strategy<Value = Vec<String>> {
    PARAMETERS
        .iter()
        .map(|parameter| {
            let set = allowed_value(parameter.allowed).prop_map(|value| format!("{}={value}", parameter.key));
            proptest::option::weighted(0.15, set)
        })
        .collect::<Vec<_>>()
        .prop_map(|overrides| overrides.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/resolve.txt"
        )))),
        ..ProptestConfig::default()
    })]

    /// What is printed reads back as the same configuration, and prints the same bytes again.
    #[test]
    fn printed_toml_reads_back(overrides in any_overrides()) {
        let source = Source { overrides, ..Source::default() };
        // Contradictions are refused; all else must be accepted.
        let resolved = match source.resolve() {
            Ok(resolved) => resolved,
            Err(ConfigError::Contradiction { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let text = resolved.config.to_commented_toml();
        let again = with_file(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&again, &resolved.config);
        prop_assert_eq!(again.to_commented_toml(), text);
        let plain: NicConfig = toml::from_str(&resolved.config.to_commented_toml()).unwrap();
        prop_assert_eq!(plain, resolved.config);
    }

    /// No text makes the reader panic, and every refusal names the file.
    #[test]
    fn any_text_is_read_or_refused(text in "(\\[(datapath|wire|x)\\]\n|[a-z_]{1,8} = (-?[0-9]{1,40}|true|\"[a-z]*\"|\\[1, 2\\]|\\{a=1\\}|1979-05-27)\n|[^\n]{0,6}\n){0,6}") {
        if let Err(error) = with_file(&text) {
            prop_assert!(error.to_string().contains("nic.toml"), "{}", error);
        }
    }

    /// No override makes the reader panic.
    #[test]
    fn any_override_is_read_or_refused(text in "\\PC{0,24}", key in 0..PARAMETERS.len(), value in "\\PC{0,12}") {
        let _ = with_overrides(&[&text]);
        let _ = with_overrides(&[&format!("{}={value}", PARAMETERS[key].key)]);
    }
}
