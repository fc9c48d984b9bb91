//! A queue pair with a hole at its head and a full window, of which more and more packets come: what the others get meanwhile, from wire to memory.

use spraynic_config::Preset;
use spraynic_config::descriptor::{Descriptor, MemoryWrite};
use spraynic_cosim::receive::judge::judge;
use spraynic_cosim::receive::patterns::Patterns;
use spraynic_cosim::receive::traffic::strategy::QUEUE_PAIRS;
use spraynic_cosim::receive::traffic::{Kind, Message, Traffic, scenario};
use spraynic_cosim::receive::{Result, Scenario, small};
use spraynic_cosim::{Frame, Simulation};
use spraynic_wire::Packet;

use super::{LIMITS, model};

/// Queue pair with the hole: solar, so that its packets take slots. The others are one of each profile, solar too.
const STUCK: u32 = 1;
const OTHERS: [u32; 3] = [3, 4, 5];
/// Packets of the stuck queue pair: as many again as its window has.
const OF_STUCK: usize = 256;
/// Messages of each of the others, one packet each.
const OF_OTHERS: usize = 100;
/// Clocks by which the last byte of the others may come later for the hole: the replies on the way at that moment.
const MOST_LATER: u64 = 24;

fn frames_of(scenario: &Scenario, wanted: impl Fn(u32) -> bool) -> Vec<Frame> {
    let of = |frame: &&Frame| {
        let packet = Packet::parse(&frame.data, None).unwrap_or_else(|error| panic!("{error}"));
        wanted(packet.bth.destination_qpn)
    };
    scenario.frames.iter().filter(of).cloned().collect()
}

/// Clocks from the first frame of the others on the wire to their last byte in memory, and in which the MAC had to wait.
fn clocks(run: &Result, mixed: usize, boundary: u64) -> (u64, u64) {
    let accepted = run.outcome.accepted("s_axis");
    let begin = accepted[accepted.len() - mixed].first_cycle;
    let writes = run
        .outcome
        .received("m_axis_write")
        .iter()
        .zip(run.outcome.received("m_axis_write_data"));
    let of_others = writes.filter(|(write, _)| MemoryWrite::unpack(&write.data).address >= boundary);
    let end = of_others.map(|(_, data)| data.last_cycle).max().unwrap_or_default();
    let last = accepted[accepted.len() - 1].last_cycle;
    (end - begin, last - begin)
}

#[test]
fn a_hole_in_a_full_window_takes_nothing_from_the_other_queue_pairs() {
    for preset in [Preset::G100, Preset::Lab] {
        let Some(model) = model(preset) else { return };
        let config = small(preset);
        let stuck = (0..OF_STUCK).map(|_| Message {
            qpn: STUCK,
            kind: Kind::Write,
            length: 256,
            offset: 0,
        });
        let others = (0..OF_OTHERS).flat_map(|index| {
            OTHERS.map(|qpn| Message {
                qpn,
                kind: Kind::Write,
                length: 200 + index as u32 % 56,
                offset: index as u32,
            })
        });
        let messages: Vec<Message> = stuck.chain(others).collect();
        let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &Traffic::quiet(messages), Patterns::default());
        let of_stuck = frames_of(&scenario, |qpn| qpn == STUCK);
        assert_eq!(of_stuck.len(), OF_STUCK, "a packet a message");
        let of_others = frames_of(&scenario, |qpn| qpn != STUCK);
        let window = config.receive.window as usize;
        let measure = |hole: bool| {
            // The window is full, but for its first packet or with it; then packets of all in turn.
            let first = if hole {
                &of_stuck[1..window]
            } else {
                &of_stuck[..window]
            };
            let mut frames = first.to_vec();
            let mixed = of_others.chunks(3).zip(of_stuck[window..].iter().cycle());
            for (others, stuck) in mixed {
                frames.extend(others.iter().cloned());
                frames.push(stuck.clone());
            }
            let mixed = frames.len() - first.len();
            let scenario = Scenario {
                frames,
                ..scenario.clone()
            };
            let run = scenario
                .run(&mut Simulation::new(&model, 1), &config, LIMITS)
                .unwrap_or_else(|error| panic!("{error}"));
            judge(&config, &scenario, &run).unwrap_or_else(|difference| panic!("{difference}"));
            let refused = run.outcome.counters["reorder_buffer_drop_out_of_window"];
            assert_eq!(refused > 0, hole, "packets beyond the window");
            if hole {
                assert_eq!(
                    run.outcome.counters["reorder_buffer_stored"],
                    window as u64 - 1,
                    "the window is full"
                );
            }
            (clocks(&run, mixed, boundary(&of_others)), run)
        };
        let ((with_hole, wire_with_hole), run) = measure(true);
        let ((without, wire_without), _) = measure(false);
        println!(
            "{preset:?}: {with_hole} clocks from wire to memory with the hole, {without} without; the wire {wire_with_hole} and {wire_without}"
        );
        let start = boundary(&of_others) as usize;
        assert!(
            run.memory[start..] == expected.memory[start..],
            "all of the others is in memory"
        );
        assert!(
            wire_with_hole <= wire_without,
            "{preset:?}: the MAC waited for the hole"
        );
        assert!(
            with_hole <= without + MOST_LATER,
            "{preset:?}: {with_hole} clocks, {without} without the hole"
        );
    }
}

/// Where the buffers of the others begin: they were placed behind those of the stuck one.
fn boundary(of_others: &[Frame]) -> u64 {
    let addresses = of_others.iter().map(|frame| {
        let packet = Packet::parse(&frame.data, None).unwrap_or_else(|error| panic!("{error}"));
        let address = packet.extensions.iter().find_map(|extension| match extension {
            spraynic_wire::Extension::Reth(reth) => Some(reth.virtual_address),
            _ => None,
        });
        address.expect("a WRITE of one packet") - 0xFFFF_FFFF_0000_0000
    });
    addresses.min().unwrap_or_default()
}
