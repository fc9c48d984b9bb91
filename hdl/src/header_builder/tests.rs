//! Every configuration builds; `cosim/tests/header_builder.rs` shows that what is built does what the golden model does.

use super::*;
use spraynic_config::{Operation, Preset, Profile};

/// Configurations of all widths with and without each thing that the wire may lack.
fn configs() -> Vec<NicConfig> {
    let mut configs = vec![];
    for width in [64, 128, 256, 512, 1024] {
        for (ipv4, ipv6, vlan) in [
            (true, true, true),
            (true, false, false),
            (false, true, true),
            (false, true, false),
        ] {
            for control in [false, true] {
                let profiles: [&[Profile]; 3] = [Profile::ALL, &[Profile::Roce], &[Profile::Mrc]];
                for profiles in profiles {
                    let mut config = NicConfig::preset(Preset::G100);
                    config.datapath.width_bits = width;
                    config.wire.profiles = profiles.iter().copied().collect();
                    config.wire.operations = [Operation::Write].into();
                    (config.wire.ipv4, config.wire.ipv6, config.wire.vlan) = (ipv4, ipv6, vlan);
                    config.wire.control = control;
                    configs.push(config);
                }
            }
        }
    }
    let mut atomics = NicConfig::preset(Preset::Lab);
    atomics.wire.profiles = [Profile::Roce].into();
    atomics.wire.operations = [Operation::Atomic].into();
    configs.push(atomics);
    configs
}

#[test]
fn every_configuration_builds() {
    for config in configs() {
        config.validate().unwrap();
        let context = Context::new();
        let definition = header_builder(&context, &config);
        let ports: Vec<String> = definition.ports().into_iter().map(|port| port.name).collect();
        assert_eq!(
            ports.iter().any(|port| port.starts_with("s_axis_control")),
            config.wire.control
        );
        assert!(ports.contains(&"count_drop_descriptor".to_owned()));
    }
}
