//! The parts of a Verilated NIC's surroundings, each on the block of the NIC that it stands before.

use spraynic_config::descriptor::{Descriptor, MemoryWrite, PathEntry, PayloadRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_hdl::{axi_read_master, axi_write_master, frame_fifo, register_file, spraynic_nic};
use spraynic_rtl::Context;

use super::memory::{MemoryPort, MemoryTiming};
use super::registers::Registers;
use super::streams::{DescriptorSink, DescriptorSource, FrameSink, FrameSource};
use crate::model::ModelSource;
use crate::property::SharedModel;
use crate::simulation::Simulation;

fn lab() -> NicConfig {
    NicConfig::preset(Preset::Lab)
}

static REGISTERS: SharedModel = SharedModel::new(|| {
    let context = Context::new();
    let map = spraynic_nic::register_map(&lab());
    ModelSource::from_definition(register_file::register_file(&context, &map))
});

static READS: SharedModel = SharedModel::new(|| {
    let context = Context::new();
    ModelSource::from_definition(axi_read_master::axi_read_master(&context, &lab()))
});

static WRITES: SharedModel = SharedModel::new(|| {
    let context = Context::new();
    ModelSource::from_definition(axi_write_master::axi_write_master(&context, &lab()))
});

static FRAMES: SharedModel = SharedModel::new(|| {
    let context = Context::new();
    ModelSource::from_definition(frame_fifo::frame_fifo(&context, 64, 1, 256))
});

/// A running model after reset; `None`: there is no Verilator.
fn simulation(model: &SharedModel) -> Option<Simulation> {
    let model = model.get().unwrap_or_else(|error| panic!("{error}"))?;
    let mut simulation = Simulation::new(&model, 1);
    simulation.reset(4).unwrap_or_else(|error| panic!("{error}"));
    Some(simulation)
}

fn step(simulation: &mut Simulation) {
    simulation.step().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn descriptors_go_through_registers_and_registers_are_read() {
    let Some(mut simulation) = simulation(&REGISTERS) else {
        return;
    };
    let map = spraynic_nic::register_map(&lab());
    let mut registers = Registers::new(&mut simulation, &map).unwrap();
    let entries: Vec<PathEntry> = (0..5)
        .map(|path| PathEntry {
            set: 3,
            path,
            valid: true,
            entropy: 0xC000 + u32::from(path),
            ..PathEntry::default()
        })
        .collect();
    for entry in &entries {
        assert!(registers.send("path_entry", &entry.pack()));
    }
    assert!(!registers.send("no_such_table", &[0]));
    let offset = |name: &str| map.find(name).unwrap().offset;
    registers.write(offset("scratch"), 0x1234_5678);
    registers.read(offset("scratch"));
    registers.read(offset("magic"));

    let stream = DescriptorSink::new(&mut simulation, "m_axis_path_entry").unwrap();
    let ready = simulation.input("m_axis_path_entry_tready").unwrap();
    let mut taken = Vec::new();
    for clock in 0..1_000 {
        // The table takes one in 16 clocks, so that the driver has to wait.
        let takes = clock % 16 == 0;
        simulation.set(ready, takes.into());
        registers.drive(&mut simulation);
        step(&mut simulation);
        if takes {
            taken.extend(stream.observe(&simulation).map(PathEntry::unpack));
        }
        registers.observe(&mut simulation).unwrap();
    }
    assert!(registers.is_idle());
    assert_eq!(taken, entries);
    assert_eq!(registers.value(), Some(0x1234_5678));
    assert_eq!(registers.value(), Some(u32::from_le_bytes(*b"SPRY")));
    assert_eq!(registers.value(), None);

    registers.write(offset("magic"), 0);
    let refused = (0..100).find_map(|_| {
        registers.drive(&mut simulation);
        step(&mut simulation);
        registers.observe(&mut simulation).err()
    });
    assert!(refused.unwrap().contains("refused"));
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place * 7 + place / 251) as u8).collect()
}

#[test]
fn memory_is_read_late_and_with_pauses_and_refuses_what_is_beyond_it() {
    let Some(mut simulation) = simulation(&READS) else {
        return;
    };
    let memory = bytes(10_000);
    let timing = MemoryTiming {
        latency: 20,
        pauses: 100,
        outstanding: 3,
    };
    let mut port = MemoryPort::new(&simulation, "m_axi", timing, 5).unwrap();
    let mut requests = DescriptorSource::new(&simulation, "s_axis_payload_request").unwrap();
    let mut payload = FrameSink::new(&simulation, "m_axis_payload", usize::MAX).unwrap();
    let places = [
        (0u64, 1u16),
        (7, 1024),
        (4090, 300),
        (9_000, 1_000),
        (3, 8),
        (8_192, 1_024),
    ];
    for (address, length) in places {
        requests.push(
            PayloadRequest {
                address,
                length,
                ..PayloadRequest::default()
            }
            .pack(),
        );
    }
    // Beyond the last page.
    requests.push(
        PayloadRequest {
            address: 12_288,
            length: 16,
            ..PayloadRequest::default()
        }
        .pack(),
    );
    let mut copy = memory.clone();
    let mut first = None;
    for clock in 0..3_000 {
        requests.drive(&mut simulation);
        payload.drive(&mut simulation);
        port.drive(&mut simulation, &copy, clock);
        step(&mut simulation);
        requests.observe(&simulation);
        if payload.observe(&simulation, clock) {
            first = first.or(Some(clock));
        }
        port.observe(&simulation, &mut copy, clock).unwrap();
    }
    assert!(port.is_idle() && requests.is_idle());
    assert!(first > Some(20), "{first:?}");
    for (address, length) in places {
        let at = address as usize;
        let (frame, _) = payload.pop().unwrap();
        assert_eq!(frame, memory[at..at + usize::from(length)], "{address} {length}");
    }
    assert_eq!((payload.pop(), payload.bad), (None, 1));
    assert_eq!(copy, memory);
}

#[test]
fn memory_is_written_where_strobes_say_and_refuses_what_is_beyond_it() {
    let Some(mut simulation) = simulation(&WRITES) else {
        return;
    };
    let mut memory = vec![0u8; 8_200];
    let timing = MemoryTiming {
        latency: 9,
        pauses: 80,
        outstanding: 2,
    };
    let mut port = MemoryPort::new(&simulation, "m_axi", timing, 6).unwrap();
    let mut writes = DescriptorSource::new(&simulation, "s_axis_write").unwrap();
    let written = DescriptorSink::new(&mut simulation, "m_axis_written").unwrap();
    let [data, strobes, last, valid] = ["tdata", "tstrb", "tlast", "tvalid"]
        .map(|name| simulation.input(&format!("s_axis_write_data_{name}")).unwrap());
    let ready = simulation.output("s_axis_write_data_tready").unwrap();
    let places = [(5u64, 1usize), (4_000, 200), (17, 63), (8_190, 12)];
    let mut beats = Vec::new();
    let mut expected = memory.clone();
    for (number, (address, length)) in places.into_iter().enumerate() {
        let write = MemoryWrite {
            address,
            length: length as u16,
            ..MemoryWrite::default()
        };
        writes.push(write.pack());
        let base = address & !7;
        for at in (base..address + length as u64).step_by(8) {
            let lanes: Vec<u64> = (0..8)
                .filter(|lane| (address..address + length as u64).contains(&(at + lane)))
                .collect();
            let strobe = lanes.iter().fold(0u64, |sum, lane| sum | 1 << lane);
            for lane in lanes {
                if let Some(place) = expected.get_mut((at + lane) as usize) {
                    *place = number as u8 + 1;
                }
            }
            let is_last = at + 8 >= address + length as u64;
            beats.push(([number as u8 + 1; 8], strobe, is_last));
        }
    }
    let mut beats = beats.into_iter().peekable();
    let mut answers = Vec::new();
    for clock in 0..2_000 {
        writes.drive(&mut simulation);
        port.drive(&mut simulation, &memory, clock);
        simulation.set(valid, beats.peek().is_some().into());
        if let Some((bytes, strobe, is_last)) = beats.peek() {
            simulation.set_bytes(data, bytes);
            simulation.set(strobes, *strobe);
            simulation.set(last, (*is_last).into());
        }
        step(&mut simulation);
        writes.observe(&simulation);
        if simulation.get(ready) == 1 {
            beats.next();
        }
        answers.extend(written.observe(&simulation).map(|bytes| bytes[0]));
        port.observe(&simulation, &mut memory, clock).unwrap();
    }
    assert!(port.is_idle() && writes.is_idle() && beats.peek().is_none());
    assert_eq!(answers, [0, 0, 0, 1]);
    assert_eq!(
        port.written(),
        1 + 200 + 63 + 12,
        "bytes, those that were refused among them"
    );
    assert_eq!(memory, expected);
}

#[test]
fn frames_come_out_as_they_go_in_and_wait_while_the_wire_is_busy() {
    let Some(mut simulation) = simulation(&FRAMES) else {
        return;
    };
    let mut source = FrameSource::new(&simulation, "s_axis").unwrap();
    let mut sink = FrameSink::new(&simulation, "m_axis", 1).unwrap();
    let frames: Vec<Vec<u8>> = [60, 61, 64, 1_000, 63].map(bytes).to_vec();
    for frame in &frames {
        source.push(frame.clone());
    }
    source.push(Vec::new());
    let mut out = Vec::new();
    let mut whole = Vec::new();
    for clock in 0..2_000 {
        source.drive(&mut simulation);
        sink.drive(&mut simulation);
        step(&mut simulation);
        whole.extend(source.observe(&simulation).1);
        sink.observe(&simulation, clock);
        // A wire that is busy for 200 clocks with each frame.
        if clock % 200 == 199 {
            out.extend(sink.pop().map(|(frame, _)| frame));
            assert!(sink.pop().is_none(), "only one frame is taken ahead");
        }
    }
    assert_eq!(out, frames);
    assert_eq!(whole, frames);
    assert_eq!((source.taken, source.deepest()), (5, 60 + 61 + 64 + 1_000 + 63));

    // The link is down: what comes is thrown away.
    source.push(bytes(100));
    sink.set_discards(true);
    for clock in 0..200 {
        source.drive(&mut simulation);
        sink.drive(&mut simulation);
        step(&mut simulation);
        source.observe(&simulation);
        sink.observe(&simulation, clock);
    }
    assert_eq!((sink.pop(), sink.discarded), (None, 1));
}
