//! What follows from a configuration: header lengths, frame sizes, line rate, and the pages printed from the tables.

use std::collections::BTreeSet;

use spraynic_config::{LineRate, NicConfig, Operation, Preset, Profile, parameters_markdown};

fn narrow() -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.wire.profiles = BTreeSet::from([Profile::Roce]);
    config.wire.operations = BTreeSet::from([Operation::Write]);
    config.wire.control = false;
    config.wire.ipv6 = false;
    config.wire.vlan = false;
    config.validate().unwrap();
    config
}

#[test]
fn write_over_ipv4_has_two_header_lengths() {
    // 14 + 20 + 8 + 12, then nothing (middle, last) or a RETH (first, only).
    assert_eq!(narrow().header_lengths(), BTreeSet::from([54, 70]));
    assert_eq!(narrow().max_frame_bytes(), 70 + 4096 + 4);
}

#[test]
fn each_option_adds_its_lengths() {
    let lengths = |change: fn(&mut NicConfig)| {
        let mut config = narrow();
        change(&mut config);
        config.validate().unwrap();
        config.header_lengths().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(lengths(|c| c.wire.vlan = true), [54, 58, 70, 74]);
    assert_eq!(lengths(|c| c.wire.ipv6 = true), [54, 70, 74, 90]);
    // ACK: AETH 4. CNP: 16 zero bytes.
    assert_eq!(lengths(|c| c.wire.control = true), [54, 58, 70]);
    assert_eq!(
        lengths(|c| {
            c.wire.operations.insert(Operation::WriteImmediate);
        }),
        [54, 58, 70, 74]
    );
    // AtomicETH 28; atomic ACK 4 + 8.
    assert_eq!(
        lengths(|c| {
            c.wire.operations.insert(Operation::Atomic);
        }),
        [54, 66, 70, 82]
    );
    // Solar's control packets: SETH with CC_STATE 36, NETH 20, PETH and ERTH 16, EETH 36.
    assert_eq!(
        lengths(|c| {
            c.wire.control = true;
            c.wire.profiles.insert(Profile::Solar);
        }),
        [54, 58, 70, 74, 90]
    );
    // METH 4, TSETH 4 or not, RETH 16.
    assert_eq!(lengths(|c| c.wire.profiles = BTreeSet::from([Profile::Mrc])), [74, 78]);
}

#[test]
fn presets_cover_every_extension_length_in_use() {
    for preset in Preset::ALL {
        let config = NicConfig::preset(*preset);
        assert_eq!(
            config.extension_lengths().into_iter().collect::<Vec<_>>(),
            [0, 4, 12, 16, 20, 24, 28, 36]
        );
        assert!(config.header_lengths().iter().all(|length| length % 4 == 2));
        assert_eq!(config.header_lengths().first(), Some(&54));
        assert_eq!(config.header_lengths().last(), Some(&(14 + 4 + 40 + 8 + 12 + 36)));
    }
}

#[test]
fn widths_follow() {
    let config = NicConfig::preset(Preset::G100);
    assert_eq!(config.beat_bytes(), 64);
    assert_eq!(config.qpn_bits(), 10);
    assert_eq!(config.frame_fifo_beats(), 256);
    for (mtu, code) in [(256, 1), (512, 2), (1024, 3), (2048, 4), (4096, 5)] {
        let mut config = narrow();
        config.wire.max_mtu = mtu;
        assert_eq!(config.max_mtu_code(), code);
    }
}

#[test]
fn hundred_gigabit_on_512_bits_misses_65_to_75_bytes() {
    let rate = NicConfig::preset(Preset::G100).line_rate();
    assert_eq!(
        rate,
        LineRate {
            width_bits: 512,
            clock_khz: 250_000,
            port_mbps: 100_000
        }
    );
    assert_eq!(rate.uncarried(60..=9000), [65..=75]);
}

#[test]
fn line_rate_agrees_with_exact_time() {
    // Independent of `carries`: femtoseconds of the bus and of the wire.
    for (width_bits, clock_khz, port_mbps) in [(64, 156_250, 10_000), (512, 322_266, 100_000), (1024, 425_000, 400_000)]
    {
        let rate = LineRate {
            width_bits,
            clock_khz,
            port_mbps,
        };
        for size in 60..4300u32 {
            let mut beats = 0;
            let mut left = i64::from(size);
            while left > 0 {
                left -= i64::from(width_bits / 8);
                beats += 1;
            }
            let bus = f64::from(beats) * 1e12 / f64::from(clock_khz);
            let wire = f64::from((size + 24) * 8) * 1e9 / f64::from(port_mbps);
            if (bus - wire).abs() > 1e-3 {
                assert_eq!(rate.carries(size), bus < wire, "{rate:?} {size}: {bus} {wire}");
            }
        }
    }
}

#[test]
fn statements_say_what_each_preset_carries() {
    let statement = |preset| NicConfig::preset(preset).line_rate_statement();
    assert_eq!(
        statement(Preset::Lab),
        "A 64-bit bus at 156.25 MHz moves 10.0 Gb/s. Of 10 Gb/s Ethernet (preamble, FCS and gap counted) it carries \
         frames of every size from 60 to 1134 bytes (without FCS) back to back."
    );
    assert_eq!(
        statement(Preset::G100),
        "A 512-bit bus at 250 MHz moves 128.0 Gb/s. Of 100 Gb/s Ethernet (preamble, FCS and gap counted) it carries \
         frames of every size from 60 to 4206 bytes (without FCS) back to back, except 65 to 75 bytes."
    );
    let mut half = NicConfig::preset(Preset::G100);
    half.datapath.width_bits = 256;
    assert!(half.line_rate_statement().contains("moves 64.0 Gb/s"));
    assert!(half.line_rate_statement().ends_with("the port is faster than the bus."));
}

#[test]
fn the_documented_parameters_are_those_of_the_table() {
    compare(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/parameters.md"),
        &parameters_markdown(),
    );
}

#[test]
fn the_documented_descriptors_are_those_of_the_tables() {
    compare(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/descriptors.md"),
        &spraynic_config::descriptor::markdown(),
    );
}

/// Compares a committed page with what is printed; `UPDATE_DOCS=1` writes it.
#[track_caller]
fn compare(path: &str, printed: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, printed).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == printed,
        "{path} is out of date: run `UPDATE_DOCS=1 cargo test -p spraynic-config` and commit it"
    );
}
