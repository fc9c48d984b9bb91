//! What comes to a NIC beside RDMA: pauses of its ports, frames of its host and for it, frames that a MAC marks bad.

use spraynic_cosim::nic::{Kind, NicModel, Nics, VerilatedDevice};
use spraynic_network::check::{Good, Property, check};
use spraynic_network::scenario::{Action, Operation, Policy, QueuePairSpec, Step};
use spraynic_network::{
    Device as _, PathSpec, Picoseconds, Scenario, Spreading, Wiring, World, equal_paths, mac_address,
};

use super::{message, model, small};

/// Ports of [`super::SMALL`].
const PORTS: u8 = 2;

/// Both sides send 100,000 bytes at once, which two ports do in 90 us; NIC 0's `ports` are paused for a time.
fn paused(ports: &[u8], from_ns: u64, to_ns: u64) -> Scenario {
    let steps = ports.iter().flat_map(|port| {
        [(from_ns, true), (to_ns, false)].map(|(at_ns, paused)| Step {
            at_ns,
            action: Action::Pause {
                nic: 0,
                port: *port,
                paused,
            },
        })
    });
    let mut messages = vec![message(Operation::Write, 20_000); 10];
    for (place, message) in messages.iter_mut().enumerate() {
        message.side = place % 2;
    }
    Scenario {
        queue_pairs: vec![QueuePairSpec {
            policy: Policy::Adaptive,
            ooo_threshold: 16,
            ..QueuePairSpec::default()
        }],
        messages,
        script: steps.collect(),
        ..small()
    }
}

fn hold(scenario: &Scenario, property: Property, model: &NicModel) -> Good {
    let nics = Nics::new(&[Kind::Verilated], Some(model.clone()));
    let make = |nic: usize, config: &_, memory| nics.make(nic, config, memory);
    check(scenario, property, make, None).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Requests, and acknowledgements of what is received, go by the other port. What stood in the queue of the paused one is sent again.
#[test]
fn one_port_is_paused_for_long_and_all_goes_on_by_the_other() {
    let Some(model) = model() else { return };
    for port in 0..PORTS {
        let good = hold(&paused(&[port], 10_000, 5_000_000), Property::Delivery, model);
        let finished_ns = good.report.finished_ns;
        println!("port {port} paused: done after {finished_ns} ns");
        assert!(finished_ns < 500_000, "port {port}: {finished_ns} ns");
    }
}

#[test]
fn all_ports_are_paused_for_long_and_nothing_is_lost() {
    let Some(model) = model() else { return };
    let ports: Vec<u8> = (0..PORTS).collect();
    let mut scenario = paused(&ports, 10_000, 500_000);
    for queue_pair in &mut scenario.queue_pairs {
        queue_pair.timeout_ns = 2_000_000;
    }
    let good = hold(&scenario, Property::NothingTwice, model);
    assert!(good.report.finished_ns > 500_000, "the pause was not felt");
    assert!(good.report.finished_ns < 800_000, "{}", good.report.finished_ns);
}

/// Two Verilated NICs without any queue pair.
fn world(model: &NicModel) -> World<VerilatedDevice> {
    let nics = Nics::new(&[Kind::Verilated], Some(model.clone()));
    let devices = (0..2).map(|nic| nics.verilated(model, nic, 4096));
    let wiring = Wiring {
        paths: vec![equal_paths(1, &PathSpec::default()); usize::from(PORTS)],
        port_mbps: 5_000,
        downlink: PathSpec {
            delay_ns: 0,
            mbps: 5_000,
            ..PathSpec::default()
        },
        spreading: Spreading::default(),
        seed: 1,
    };
    World::new(devices.collect(), &wiring)
}

/// Runs so long, and gives what the host of NIC 1 got.
fn frames_of_host(world: &mut World<VerilatedDevice>, until_ns: u64) -> Vec<Vec<u8>> {
    let mut frames = vec![];
    while world.step(Picoseconds::of_ns(until_ns)).is_some() {
        frames.extend(std::iter::from_fn(|| world.device(1).slow_path()));
    }
    frames
}

/// An ARP frame of NIC 0 for NIC 1.
fn arp(bytes: usize, number: u8) -> Vec<u8> {
    let mac = |nic: usize| mac_address(nic).to_be_bytes()[2..].to_vec();
    let mut frame = [mac(1), mac(0), vec![0x08, 0x06]].concat();
    frame.resize(bytes, number);
    frame
}

#[test]
fn frames_of_a_host_reach_the_host_of_the_other_as_they_are_though_a_port_is_paused() {
    let Some(model) = model() else { return };
    for paused in [None, Some(0), Some(1)] {
        let mut world = world(model);
        if let Some(port) = paused {
            world.set_pause(0, port, true);
        }
        world.pass(Picoseconds::of_ns(1_000));
        let sent: Vec<Vec<u8>> = [60, 61, 64, 1_000, 63]
            .into_iter()
            .zip(1..)
            .map(|(bytes, n)| arp(bytes, n))
            .collect();
        for frame in &sent {
            world.device(0).send_frame(frame.clone(), 1_000);
        }
        world.touch(0);
        assert_eq!(frames_of_host(&mut world, 100_000), sent, "paused: {paused:?}");
    }
}

#[test]
fn bad_frames_and_frames_that_are_too_long_end_in_a_counter() {
    let Some(model) = model() else { return };
    let mut world = world(model);
    let longest = model.config().transmit.frame_fifo_bytes as usize;
    let good = arp(100, 9);
    for port in 0..PORTS {
        let device = world.device(1);
        device.receive_bad(port, arp(200, port), 0);
        device.receive(port, arp(longest + 8, port), 0);
        device.receive(port, good.clone(), 0);
    }
    world.touch(1);
    assert_eq!(frames_of_host(&mut world, 100_000), vec![good; usize::from(PORTS)]);
    for port in 0..PORTS {
        for reason in ["drop_bad", "drop_too_long"] {
            let name = format!("receive_fifo_{port}_{reason}");
            let register = model
                .registers()
                .find(&name)
                .unwrap_or_else(|| panic!("no register {name}"));
            assert_eq!(world.device(1).read_register(register.offset), 1, "{name}");
        }
    }
}
