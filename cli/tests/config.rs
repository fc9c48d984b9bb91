//! `spraynic config`: what it prints, and what it refuses.

mod support;

use support::{spraynic, spraynic_in};

#[test]
fn prints_toml_that_it_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nic.toml");
    for preset in ["lab", "25g", "100g", "400g"] {
        let text = spraynic(&["config", "--preset", preset]).good();
        assert!(text.contains(&format!("name = \"{preset}\"")), "{text}");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(spraynic(&["config", "--config", file.to_str().unwrap()]).good(), text);
    }
}

#[test]
fn every_key_has_a_comment() {
    let text = spraynic(&["config"]).good();
    let lines: Vec<&str> = text.lines().collect();
    let mut keys = 0;
    for (above, line) in lines.iter().zip(&lines[1..]) {
        if line.contains(" = ") && !line.starts_with('#') {
            keys += 1;
            assert!(above.starts_with("# "), "{line}");
        }
    }
    assert_eq!(keys, spraynic_config::PARAMETERS.len());
}

#[test]
fn overrides_win_over_the_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("nic.toml"),
        "preset = \"25g\"\n[datapath]\nwidth_bits = 256\nclock_khz = 322266\n",
    )
    .unwrap();
    let arguments = [
        "config",
        "--config",
        "nic.toml",
        "--set",
        "datapath.width_bits=512",
        "--json",
    ];
    let json: serde_json::Value = serde_json::from_str(&spraynic_in(directory.path(), &arguments).good()).unwrap();
    assert_eq!(json["preset"], "25g");
    assert_eq!(json["config"]["datapath"]["width_bits"], 512);
    assert_eq!(json["config"]["datapath"]["clock_khz"], 322_266);
    assert_eq!(json["config"]["datapath"]["port_mbps"], 25_000);
    assert_eq!(json["derived"]["beat_bytes"], 64);
}

#[test]
fn json_says_which_frame_sizes_are_not_carried() {
    let text = spraynic(&["config", "--preset", "100g", "--json"]).good();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["derived"]["uncarried_frame_bytes"], serde_json::json!([[65, 75]]));
}

#[test]
fn wrong_configurations_end_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nic.toml");
    std::fs::write(&file, "[wire]\nipv4 = false\nipv7 = true\n").unwrap();
    spraynic_in(directory.path(), &["config", "--config", "nic.toml"])
        .refused(2, "nic.toml:3: unknown key `wire.ipv7`: did you mean `wire.ipv4`?");
    std::fs::write(&file, "[wire]\nipv4 = false\n").unwrap();
    spraynic_in(
        directory.path(),
        &["config", "--config", "nic.toml", "--set", "wire.ipv6=false"],
    )
    .refused(
        2,
        "wire.ipv4 = false (nic.toml:2) and wire.ipv6 = false (--set wire.ipv6=false): no IP version is left to send \
         with; set one of them to true",
    );
    spraynic(&["config", "--set", "queue_pairs.count=100"]).refused(
        2,
        "--set queue_pairs.count=100: queue_pairs.count = 100 is not allowed: it must be a power of two from 2 to \
         65536 (queue pairs)",
    );
    spraynic_in(directory.path(), &["config", "--config", "missing.toml"])
        .refused_with(2, &["missing.toml: cannot read the configuration: ", "No such file"]);
    std::fs::write(&file, b"name = \"\xff\"\n").unwrap();
    spraynic_in(directory.path(), &["config", "--config", "nic.toml"])
        .refused_with(2, &["nic.toml: cannot read the configuration: ", "UTF-8"]);
}

#[test]
fn wrong_usage_ends_with_status_2() {
    spraynic(&["config", "--preset", "1g"]).refused_with(2, &["1g", "lab", "25g", "100g", "400g"]);
    spraynic(&["configure"]).refused_with(2, &["configure", "config"]);
    spraynic(&[]).refused_with(2, &["Usage"]);
    spraynic(&["config", "--set"]).refused_with(2, &["--set <KEY=VALUE>"]);
}
