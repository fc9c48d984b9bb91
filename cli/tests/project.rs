//! The project around the code: pages that exist, dependencies that are listed, header lengths that two crates agree on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_wire::opcode::{OPCODES, Operation as WireOperation, Profile as WireProfile};
use spraynic_wire::{HeaderKind, OpcodeInfo};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_dependency_has_its_line() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let listed: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split(" |").next())
        .flat_map(|names| names.split(", "))
        .collect();
    let mut found = 0;
    for line in manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
    {
        if line.starts_with('[') {
            break;
        }
        let Some((name, _)) = line.split_once(" = ") else {
            continue;
        };
        if !name.starts_with("spraynic-") {
            found += 1;
            assert!(listed.contains(name), "{name} has no line in docs/dependencies.md");
        }
    }
    assert!(found > 5);
}

/// The local targets of Markdown links.
fn links(text: &str) -> Vec<&str> {
    text.match_indices("](")
        .filter_map(|(at, _)| text[at + 2..].split(')').next())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with('#'))
        .map(|target| target.split('#').next().unwrap_or(target))
        .collect()
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut pages = vec![root().join("README.md")];
    let mut waiting = vec![root().join("docs/src")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let mut found = 0;
    for page in &pages {
        for link in links(&std::fs::read_to_string(page).unwrap()) {
            found += 1;
            assert!(page.parent().unwrap().join(link).exists(), "{}: {link}", page.display());
        }
    }
    assert!(found > 5);
}

#[test]
fn every_page_is_in_the_summary() {
    let docs = root().join("docs/src");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(PathBuf::from).collect();
    let mut waiting = vec![docs.clone()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(&docs).unwrap().to_owned();
            if path.is_dir() {
                waiting.push(path);
            } else if relative != Path::new("SUMMARY.md") && path.extension().is_some_and(|e| e == "md") {
                assert!(
                    listed.contains(&relative),
                    "{} is not in SUMMARY.md",
                    relative.display()
                );
            }
        }
    }
}

/// Whether a configuration can send this opcode: an independent reading of the table of opcodes.
fn sends(config: &NicConfig, info: &OpcodeInfo) -> bool {
    let in_profile = config.wire.profiles.iter().any(|profile| {
        info.is_in(match profile {
            Profile::Roce => WireProfile::Roce,
            Profile::Solar => WireProfile::Solar,
            Profile::Mrc => WireProfile::Mrc,
        })
    });
    let has = |operation| config.wire.operations.contains(&operation);
    let immediate = info.has(HeaderKind::ImmDt);
    in_profile
        && match info.operation {
            WireOperation::Send if info.has(HeaderKind::Ieth) => has(Operation::SendInvalidate),
            WireOperation::Send if immediate => has(Operation::SendImmediate),
            WireOperation::Send => has(Operation::Send),
            WireOperation::Write if immediate => has(Operation::WriteImmediate),
            WireOperation::Write => has(Operation::Write),
            WireOperation::ReadRequest | WireOperation::ReadResponse => has(Operation::Read),
            WireOperation::CompareSwap | WireOperation::FetchAdd | WireOperation::AtomicAcknowledge => {
                has(Operation::Atomic)
            }
            _ => config.wire.control,
        }
}

#[test]
fn extension_lengths_are_those_of_the_opcodes() {
    let mut compared = 0;
    for profiles in 1..1u32 << Profile::ALL.len() {
        for operations in 1..1u32 << Operation::ALL.len() {
            for control in [false, true] {
                let mut config = NicConfig::preset(Preset::G100);
                let pick = |bits: u32, index: usize| bits >> index & 1 == 1;
                config.wire.profiles = (0..Profile::ALL.len())
                    .filter(|i| pick(profiles, *i))
                    .map(|i| Profile::ALL[i])
                    .collect();
                config.wire.operations = (0..Operation::ALL.len())
                    .filter(|i| pick(operations, *i))
                    .map(|i| Operation::ALL[i])
                    .collect();
                config.wire.control = control;
                if config.validate().is_err() {
                    continue;
                }
                compared += 1;
                let lengths = |payload_only: bool| -> BTreeSet<u32> {
                    OPCODES
                        .iter()
                        .filter(|info| sends(&config, info) && (info.has_payload || !payload_only))
                        .flat_map(|info| [false, true].map(|stamped| info.header_bytes(stamped) as u32))
                        .collect()
                };
                assert_eq!(config.extension_lengths(), lengths(false), "{:?}", config.wire);
                assert_eq!(config.payload_extension_lengths(), lengths(true), "{:?}", config.wire);
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
