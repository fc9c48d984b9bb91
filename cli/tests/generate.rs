//! `spraynic generate`: what it writes, that it writes the same again, and that it spares what is not its own.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use spraynic_config::NicConfig;
use spraynic_cosim::Verilator;
use support::{spraynic, spraynic_in, tree};

/// A block that every preset has.
const BLOCK: &str = "packet_slicer";

#[track_caller]
fn generate(directory: &Path, more: &[&str]) -> String {
    let arguments = [&["generate", "--out", "out", "--block", BLOCK], more].concat();
    spraynic_in(directory, &arguments).good()
}

#[test]
fn writes_everything_that_it_says() {
    let place = tempfile::tempdir().unwrap();
    let text = generate(place.path(), &["--preset", "100g"]);
    let files = tree(&place.path().join("out"));
    let names: BTreeSet<&str> = files.keys().map(|path| path.to_str().unwrap()).collect();
    for name in [
        "README.md",
        "config.toml",
        "spraynic.f",
        "include/spraynic_descriptors.h",
        "constraints/spraynic.xdc",
        "constraints/spraynic.sdc",
        "constraints/spraynic.lpf",
        "spraynic.manifest",
    ] {
        assert!(names.contains(name), "{name}");
    }
    for (path, content) in &files {
        let name = path.to_str().unwrap();
        if name != "spraynic.manifest" {
            let row = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words[2], content.len().to_string(), "{row}");
        }
    }
    assert!(text.contains("except 65 to 75 bytes"), "{text}");
    assert!(
        text.contains("  Cuts work requests into packet descriptors, one a clock\n"),
        "{text}"
    );
    // The file list names each Verilog file once, and no other file.
    let list = String::from_utf8(files[Path::new("spraynic.f")].clone()).unwrap();
    let listed: BTreeSet<&str> = list.lines().collect();
    let verilog: BTreeSet<&str> = names.iter().copied().filter(|name| name.ends_with(".v")).collect();
    assert_eq!(listed, verilog);
    assert_eq!(list.lines().count(), verilog.len());
    // One module a file, of the file's name.
    for name in verilog {
        let text = String::from_utf8(files[Path::new(name)].clone()).unwrap();
        let modules: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("module "))
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
            .collect();
        assert_eq!(modules, [Path::new(name).file_stem().unwrap().to_str().unwrap()]);
    }
    let readme = String::from_utf8(files[Path::new("README.md")].clone()).unwrap();
    assert!(readme.contains("belong to whoever generated them"), "{readme}");
    assert!(readme.contains("except 65 to 75 bytes"), "{readme}");
}

/// What has registers comes with them in four forms, and they are those of the Verilog beside them.
#[test]
fn registers_come_with_the_verilog() {
    let place = tempfile::tempdir().unwrap();
    spraynic_in(
        place.path(),
        &[
            "generate",
            "--out",
            "out",
            "--block",
            "register_file",
            "--preset",
            "lab",
        ],
    )
    .good();
    let files = tree(&place.path().join("out"));
    let text = |name: &str| String::from_utf8(files[Path::new(name)].clone()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text("registers.json")).unwrap();
    let (header, rdl, page) = (
        text("include/spraynic_registers.h"),
        text("registers.rdl"),
        text("registers.md"),
    );
    let verilog = text("rtl/register_file.v");
    let registers = json["registers"].as_array().unwrap();
    assert!(registers.len() > 150);
    for register in registers {
        let (name, offset) = (register["name"].as_str().unwrap(), register["offset"].as_u64().unwrap());
        let define = format!("#define SPRAYNIC_REGISTER_{} {offset:#06x}u\n", name.to_uppercase());
        assert!(header.contains(&define), "{define}");
        assert!(rdl.contains(&format!("}} {name} @ {offset:#06x};\n")), "{name}");
        assert!(page.contains(&format!("| {offset:#06x} | `{name}` |")), "{name}");
        if register["counter"] == true && !name.starts_with("register_file_") {
            assert!(verilog.contains(&format!("count_{name}")), "{name}");
        }
    }
    // The checksum by which software knows the configuration is that of the manifest.
    let manifest = text("spraynic.manifest");
    let line = manifest.lines().find(|line| line.ends_with(" config.toml")).unwrap();
    let checksum = u32::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let configuration = registers
        .iter()
        .find(|register| register["name"] == "configuration")
        .unwrap();
    assert_eq!(configuration["reset"], checksum);
    // A block without registers has none of these files.
    generate(place.path(), &["--preset", "lab"]);
    let names = tree(&place.path().join("out"));
    assert!(names.keys().all(|path| !path.to_str().unwrap().contains("registers")));
}

#[test]
fn the_same_configuration_gives_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    for preset in ["lab", "400g"] {
        let (first, again) = (format!("{preset}-1"), format!("{preset}/2"));
        let run = |out: &str, more: &[&str]| {
            spraynic_in(
                place.path(),
                &[&["generate", "--block", BLOCK, "--out", out], more].concat(),
            )
            .good();
        };
        run(&first, &["--preset", preset]);
        // From what the first run wrote, and over a directory that holds something else.
        run(&again, &["--preset", "25g"]);
        run(&again, &["--config", &format!("{first}/config.toml")]);
        assert_eq!(tree(&place.path().join(&first)), tree(&place.path().join(&again)));
    }
}

#[test]
fn json_says_what_was_written() {
    let place = tempfile::tempdir().unwrap();
    let json: serde_json::Value = serde_json::from_str(&generate(place.path(), &["--json"])).unwrap();
    assert_eq!(json["out"], "out");
    let files = tree(&place.path().join("out"));
    let listed = json["files"].as_array().unwrap();
    assert_eq!(listed.len(), files.len() - 1, "all but the manifest");
    for file in listed {
        let content = &files[Path::new(file["path"].as_str().unwrap())];
        assert_eq!(file["bytes"], content.len());
    }
    assert!(json["top"].as_str().unwrap().starts_with(BLOCK));
}

#[test]
fn config_toml_is_the_configuration() {
    let place = tempfile::tempdir().unwrap();
    generate(place.path(), &["--preset", "25g", "--set", "queue_pairs.count=64"]);
    let text = fs::read_to_string(place.path().join("out/config.toml")).unwrap();
    let config: NicConfig = toml::from_str(&text).unwrap();
    assert_eq!(config.queue_pairs.count, 64);
    assert_eq!(config.name, "25g");
}

#[test]
fn a_directory_that_is_not_its_own_is_spared() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.txt"), "ten years").unwrap();
    let arguments = ["generate", "--out", "out", "--block", BLOCK];
    spraynic_in(place.path(), &arguments).refused_with(1, &["not overwritten", "it was not generated", "--force"]);
    assert_eq!(tree(&out).len(), 1);
    let text = generate(place.path(), &["--force"]);
    assert!(text.contains("out.before-1"), "{text}");
    assert_eq!(
        fs::read_to_string(place.path().join("out.before-1/thesis.txt")).unwrap(),
        "ten years"
    );
    // An edit is somebody's work too.
    let file = out.join("spraynic.f");
    fs::write(&file, "edited").unwrap();
    spraynic_in(place.path(), &arguments).refused_with(1, &["spraynic.f in it was changed"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited");
}

#[test]
fn wrong_places_and_names_are_refused() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    let run = |arguments: &[&str]| spraynic_in(place.path(), &[&["generate"], arguments].concat());
    run(&["--out", "file", "--block", BLOCK]).refused_with(1, &["file: is a file; give a directory as --out"]);
    run(&["--out", "file/out", "--block", BLOCK]).refused_with(1, &["file/out: cannot look at the output directory"]);
    run(&["--out", "out", "--block", "packet_slice"]).refused_with(2, &["packet_slice", BLOCK]);
    run(&["--block", BLOCK]).refused_with(2, &["--out <DIR>"]);
    run(&["--out", "out", "--set", "datapath.width_bits=96"]).refused_with(2, &["one of 64, 128, 256, 512, 1024"]);
    run(&["--out", "/proc/nic", "--block", BLOCK]).refused_with(1, &["/proc", "cannot write into the directory"]);
    assert_eq!(tree(place.path()).len(), 1, "nothing was left behind");
}

/// Root may write anywhere, so this runs as somebody else.
#[cfg(unix)]
#[test]
fn a_directory_without_write_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let locked = place.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        // Running as root: the file system of /proc, in the test above, is the unwritable place.
        eprintln!("skipped: permissions do not bind this user");
        return;
    }
    spraynic_in(place.path(), &["generate", "--out", "locked/out", "--block", BLOCK]).refused_with(
        1,
        &["locked", "Permission denied", "choose a place that you may write to"],
    );
    assert!(tree(&locked).is_empty());
}

#[test]
fn blocks_are_listed() {
    let text = spraynic(&["generate", "--list-blocks"]).good();
    assert!(
        text.lines().any(|line| line.starts_with(&format!("{BLOCK} "))),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&spraynic(&["generate", "--list-blocks", "--json"]).good()).unwrap();
    assert_eq!(json.as_array().unwrap().len(), text.lines().count());
}

/// Verilator finds nothing to complain about in what the file list names.
#[test]
fn verilator_takes_the_file_list() {
    let verilator = match Verilator::find() {
        Ok(verilator) => verilator,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{error}");
            eprintln!("skipped: {error}");
            return;
        }
    };
    let place = tempfile::tempdir().unwrap();
    let json: serde_json::Value = serde_json::from_str(&generate(place.path(), &["--json"])).unwrap();
    let output = verilator
        .command()
        .args([
            "--lint-only",
            "-Wall",
            "--top-module",
            json["top"].as_str().unwrap(),
            "-f",
            "spraynic.f",
        ])
        .current_dir(place.path().join("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
