//! `spraynic_nic`: the whole NIC: Ethernet ports, memory by AXI4, registers by AXI4-Lite, requests and completions by streams.
//!
//! It joins the blocks and adds no rule of its own but those of its golden model: which of several sources a port serves, by which port a peer is
//! answered, and how a probe of a path is asked and recognised. Theory of operation: `docs/src/blocks/spraynic_nic.md`.

mod host;
mod memory;
mod merge;
mod probe;
mod send;
mod transmit;

use std::collections::BTreeMap;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, Descriptor};
use spraynic_config::registers::{CounterPort, RegisterMap};
use spraynic_rtl::{AxiStream, Context, Definition, InstanceHandle, Module, Signal, Stream};

use crate::axi_read_master::{self, axi_read_master};
use crate::axi_write_master::{self, axi_write_master};
use crate::frame_fifo::frame_fifo;
use crate::header_builder::header_builder;
use crate::held;
use crate::icrc::{Icrc, icrc};
use crate::joints::{drain, from, has_port, has_stream, into, join, pass_out};
use crate::packet_multiplexer::packet_multiplexer;
use crate::packet_slicer::packet_slicer_slices;
use crate::path_monitor::path_monitor;
use crate::payload_writer::payload_writer;
use crate::port_multiplexer::{PortMultiplexer, port_multiplexer};
use crate::rate_limiter::rate_limiter;
use crate::receive_pipeline::receive_pipeline;
use crate::register_file::{counters_of, register_file};
use crate::request_ring::{self, request_ring};
use crate::requester::requester;
use crate::response_engine;
use crate::response_queue::response_queue;
use crate::retransmit_engine::retransmit_engine;
use crate::spray_scheduler::spray_scheduler;
use crate::work_queue::work_queue;

/// Name of the block.
pub const NAME: &str = "spraynic_nic";

/// Where frames of each port wait until they are whole, where there are several ports.
const RECEIVE_FIFOS: [&str; 8] = [
    "receive_fifo_0",
    "receive_fifo_1",
    "receive_fifo_2",
    "receive_fifo_3",
    "receive_fifo_4",
    "receive_fifo_5",
    "receive_fifo_6",
    "receive_fifo_7",
];

/// Where frames for the host do.
const SLOW_PATH_FIFO: &str = "slow_path_fifo";

/// Those of [`RECEIVE_FIFOS`] that the NIC has.
fn receive_fifos(config: &NicConfig) -> impl Iterator<Item = &'static str> {
    let count = match config.paths.ports {
        1 => 0,
        ports => ports as usize,
    };
    RECEIVE_FIFOS.into_iter().take(count)
}

/// A block inside: its place, which is the first part of its counters' names, and its module.
pub(crate) type Part<'a> = (&'static str, Definition<'a>);

/// The blocks inside but `register_file`, which shows the counters of all.
pub(crate) fn parts<'a>(context: &'a Context, config: &NicConfig) -> Vec<Part<'a>> {
    let icrc = icrc(context, &Icrc::from(config)).expect("a valid configuration has an icrc");
    let ports = port_multiplexer(context, &PortMultiplexer::from(config));
    let receive = receive_pipeline(context, config);
    let has_atomics = receive
        .ports()
        .iter()
        .any(|port| port.name == "m_axis_atomic_read_tdata");
    let mut parts = vec![
        ("receive", receive),
        ("send_request_ring", request_ring(context, config)),
        ("send_work_queue", work_queue(context, config)),
        ("send_rate_limiter", rate_limiter(context, config)),
        ("send_packet_slicer", packet_slicer_slices(context, config)),
        ("send_spray_scheduler", spray_scheduler(context, config)),
        ("send_path_monitor", path_monitor(context, config)),
        ("send_retransmit_engine", retransmit_engine(context, config)),
        ("send_requester", requester(context, config)),
        ("response_writer", payload_writer(context, config)),
        ("transmit_header_builder", header_builder(context, config)),
        ("transmit_icrc", icrc),
        ("transmit_port_multiplexer", ports),
        ("memory_read", axi_read_master(context, config)),
        ("memory_write", axi_write_master(context, config)),
        (
            "ring_read",
            axi_read_master::build(context, request_ring::BUS_BITS, request_ring::READS),
        ),
    ];
    let whole_frames = || frame_fifo(context, config.datapath.width_bits, 1, config.frame_fifo_beats());
    parts.push((SLOW_PATH_FIFO, whole_frames()));
    parts.extend(receive_fifos(config).map(|path| (path, whole_frames())));
    if response_engine::gives_messages(config) {
        parts.push(("send_response_queue", response_queue(context, config)));
    }
    if has_atomics {
        let (bits, atomics) = (memory::ATOMIC_BITS, memory::ATOMICS);
        parts.push(("atomic_read", axi_read_master::build(context, bits, atomics)));
        parts.push(("atomic_write", axi_write_master::build(context, bits, atomics)));
    }
    parts
}

/// The registers of the NIC: its blocks are asked which counters they have.
#[must_use]
pub fn register_map(config: &NicConfig) -> RegisterMap {
    let context = Context::new();
    RegisterMap::new(config, &counters(&parts(&context, config)))
}

fn counters(parts: &[Part<'_>]) -> Vec<CounterPort> {
    let counters = parts.iter().flat_map(|(path, part)| counters_of(path, *part));
    counters.collect()
}

/// The instances by their places.
struct Blocks<'a> {
    instances: Vec<(&'static str, InstanceHandle<'a>)>,
    counters: BTreeMap<String, Signal<'a>>,
}

impl<'a> Blocks<'a> {
    fn new(m: Module<'a>, config: &NicConfig) -> Self {
        let parts = parts(m.context(), config);
        let map = RegisterMap::new(config, &counters(&parts));
        let all = parts
            .into_iter()
            .chain([("register_file", register_file(m.context(), &map))]);
        let mut instances = vec![];
        let mut counters = BTreeMap::new();
        for (path, definition) in all {
            let instance = m.instance(&format!("u_{path}"), definition);
            for port in definition.ports() {
                if let (Some(name), true) = (port.name.strip_prefix("count_"), port.output) {
                    counters.insert(format!("{path}_{name}"), instance.output(&port.name));
                }
            }
            instances.push((path, instance));
        }
        Self { instances, counters }
    }

    fn find(&self, path: &str) -> Option<InstanceHandle<'a>> {
        let found = self.instances.iter().find(|(place, _)| *place == path);
        found.map(|(_, instance)| *instance)
    }

    /// The instance at a place that every NIC has.
    fn at(&self, path: &str) -> InstanceHandle<'a> {
        self.find(path).unwrap_or_else(|| panic!("{NAME} has no {path}"))
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, InstanceHandle<'a>)> {
        self.instances.iter().copied()
    }

    /// The counter that a register shows.
    fn counter(&self, name: &str) -> Signal<'a> {
        self.counters
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("{NAME} does not count {name}"))
    }
}

/// What is known of the Ethernet ports.
struct Ports<'a> {
    /// A bit a port: its link is up.
    up: Signal<'a>,
    /// A bit a port: frames may leave by it now, for its link is up and it is not paused.
    open: Signal<'a>,
    /// The lowest one of these; where there is none, the lowest one whose link is up, or 0.
    lowest_open: Signal<'a>,
}

impl<'a> Ports<'a> {
    fn new(m: Module<'a>, config: &NicConfig, up: Signal<'a>, pause: Signal<'a>) -> Self {
        let [up, pause] = [(up, "port_up_now"), (pause, "port_pause_now")].map(|(ports, name)| ports.delayed(name));
        let open = (up & !pause).named("port_open");
        // Where there are no control packets, one port is always the lowest.
        [up, open].iter().for_each(|ports| ports.ignore());
        let lowest = |of: Signal<'a>, otherwise: Signal<'a>| {
            let ports = (0..config.paths.ports).rev();
            ports.fold(otherwise, |lowest, port| of.bit(port).mux(m.lit(port, 3), lowest))
        };
        let lowest_up = lowest(up, m.lit(0, 3)).named("lowest_port_up");
        Self {
            up,
            open,
            lowest_open: lowest(open, lowest_up).named("lowest_port_open"),
        }
    }
}

/// The NIC of this configuration.
#[must_use]
pub fn spraynic_nic<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    nic(context, config, false)
}

/// The same NIC with what a test bench wants to see in each clock, which hardware reads from registers: all counters on ports `count_…` of the names
/// of their registers; `free_slots`; and what the queues hold for a queue pair, whenever that is stored: `…_holding_stored`, `…_holding_qpn`, `…_holding_count`.
#[must_use]
pub fn observed<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    nic(context, config, true)
}

fn nic<'a>(context: &'a Context, config: &NicConfig, observed: bool) -> Definition<'a> {
    let (width, number) = (config.datapath.width_bits, config.paths.ports);
    let suffix = if observed { "_observed" } else { "" };
    let m = context.module(&format!("{NAME}_w{width}_p{number}{suffix}"));
    m.doc("The whole NIC: frames of its ports, memory by AXI4, registers by AXI4-Lite, requests and completions by streams.");
    let time_ns = m.input("time_ns", 64).doc("time in nanoseconds: never goes back");
    let up = m.input("port_up", number).doc("the link of each port is up");
    let pause = m
        .input("port_pause", number)
        .doc("no frame begins on the port, as its MAC says");
    let ports = Ports::new(m, config, up, pause);
    let blocks = Blocks::new(m, config);
    let outside = BTreeMap::from([("time_ns", time_ns), ("port_up", up), ("port_pause", pause)]);
    host::settings(m, &blocks, &outside);
    pass_lite(m, blocks.at("register_file"));
    let contexts = host::descriptors(m, &blocks);

    let receive = blocks.at("receive");
    frames_in(m, config, &blocks);
    let answers = send::feedback(m, config, &blocks, contexts);
    send::slices(m, &blocks);
    send::rates(m, &blocks);
    send::verdicts(m, &blocks, answers);

    let direct = transmit::untracked(m, "response_of_roce", from(receive, "m_axis_response"));
    let mut packets = vec![from(blocks.at("send_packet_slicer"), "m_axis"), direct];
    if let Some(responses) = blocks.find("send_response_queue") {
        join(receive, "m_axis_message", responses, "s_axis");
        packets.push(from(responses, "m_axis"));
    }
    transmit::packets(m, config, &blocks, &packets);
    let probes = probe::probes(m, from(blocks.at("send_path_monitor"), "m_axis_probe"));
    let control = ["receive", "send_retransmit_engine"].map(|path| blocks.at(path));
    let control = [
        transmit::answers(m, &ports, from(control[0], "m_axis_control")),
        from(control[1], "m_axis_control"),
        probes,
    ];
    transmit::control(m, config, &blocks, &ports, &control);
    transmit::frames(m, config, &blocks, &ports);

    memory::pass_axi(m, blocks.at("memory_read"), "m_axi");
    memory::pass_axi(m, blocks.at("memory_write"), "m_axi");
    let writers = [receive, blocks.at("response_writer")];
    memory::share_writes(m, config, blocks.at("memory_write"), writers);
    memory::pass_axi(m, blocks.at("ring_read"), "m_axi_ring");
    memory::rings(blocks.at("send_request_ring"), blocks.at("ring_read"));
    if let (Some(reader), Some(writer)) = (blocks.find("atomic_read"), blocks.find("atomic_write")) {
        memory::pass_axi(m, reader, "m_axi_atomic");
        memory::pass_axi(m, writer, "m_axi_atomic");
        memory::atomics(m, receive, reader, writer);
    }

    let done = [
        from(blocks.at("send_work_queue"), "m_axis_completion"),
        from(receive, "m_axis_completion"),
    ];
    merge::merge(m, "completion", &done).connect(Stream::master(
        m,
        "m_axis_completion",
        Completion::width(),
        "Completion of a work request or a receive request",
    ));
    events(m, &blocks);
    if observed {
        for (name, count) in &blocks.counters {
            m.output_of(&format!("count_{name}"), *count);
        }
        if has_port(receive, "free_slots") {
            m.output_of("free_slots", receive.output("free_slots"));
        }
    }
    tell_what_is_held(m, &blocks, observed);
    drain(from(blocks.at("send_request_ring"), "m_axis_turn"));
    // For models that follow the order, and for path management, which this NIC does not have.
    for unread in [
        "m_axis_event",
        "m_axis_control_event",
        "m_axis_taken",
        "m_axis_endpoint",
    ] {
        if has_stream(receive, unread) {
            drain(from(receive, unread));
        }
    }
    m.finish()
}

/// What the blocks that own requests and responses hold; nobody but a test bench looks.
fn tell_what_is_held<'a>(m: Module<'a>, blocks: &Blocks<'a>, observed: bool) {
    for path in ["send_work_queue", "send_requester", "send_response_queue"] {
        let Some(block) = blocks.find(path) else { continue };
        for port in held::PORTS {
            let value = block.output(port);
            if observed {
                m.output_of(&format!("{path}_{port}"), value);
            } else {
                value.ignore();
            }
        }
    }
}

/// What happened, for logs and monitors: streams that never wait.
fn events<'a>(m: Module<'a>, blocks: &Blocks<'a>) {
    let engine = blocks.at("send_retransmit_engine");
    pass_out(m, engine, "m_axis_timeout", "m_axis_timeout");
    let event = |name: &str, doc: &str, seen: Stream<'a>| {
        let doc = format!("event: {doc}; tready is not looked at");
        let event = Stream::master(m, name, seen.data.width(), &doc);
        event.data.set(seen.data);
        event.valid.set(seen.fires());
        event.ready.ignore();
    };
    event(
        "m_axis_sent",
        "SentPacket of a packet that takes a place in a window",
        into(engine, "s_axis_sent"),
    );
    let of_rings = from(blocks.at("send_request_ring"), "m_axis_progress");
    of_rings.ready.set_lit(1);
    event(
        "m_axis_ring_progress",
        "RingProgress, an entry of a request ring has been read",
        of_rings,
    );
    event(
        "m_axis_progress",
        "SendProgress, how far a sequence space of a queue pair has come",
        from(engine, "m_axis_progress"),
    );
}

/// Frames of all ports come to the receive path one behind the other. Where there are several, a frame waits until it is whole.
fn frames_in<'a>(m: Module<'a>, config: &NicConfig, blocks: &Blocks<'a>) {
    let receive = blocks.at("receive");
    let (width, number) = (config.datapath.width_bits, config.paths.ports);
    let taker = AxiStream::into_instance(receive, "s_axis");
    let of_port = |port: u32| {
        let doc = format!("frames from the MAC of port {port}; tuser of the last beat: bad");
        AxiStream::slave(m, &format!("s_axis_{port}"), width, 1, &doc)
    };
    if number == 1 {
        of_port(0).connect(taker);
    } else {
        let multiplexer = m.instance(
            "u_receive_multiplexer",
            packet_multiplexer(m.context(), number, width, 1),
        );
        for (port, path) in (0..number).zip(receive_fifos(config)) {
            let whole = through(blocks.at(path), of_port(port));
            whole.connect(AxiStream::into_instance(multiplexer, &format!("s_axis_{port}")));
        }
        AxiStream::from_instance(multiplexer, "m_axis").connect(taker);
    }
    let to_host = AxiStream::from_instance(receive, "m_axis_slow_path");
    let doc = "frames for the host, as they came";
    through(blocks.at(SLOW_PATH_FIFO), to_host).connect(AxiStream::master(m, "m_axis_slow_path", width, 1, doc));
}

/// Whole frames alone: the FIFO drops those that are bad or longer than itself, and counts them.
fn through<'a>(fifo: InstanceHandle<'a>, frames: AxiStream<'a>) -> AxiStream<'a> {
    frames.connect(AxiStream::into_instance(fifo, "s_axis"));
    AxiStream::from_instance(fifo, "m_axis")
}

/// Passes the AXI4-Lite port on.
fn pass_lite<'a>(m: Module<'a>, registers: InstanceHandle<'a>) {
    for port in registers.definition().ports() {
        if !port.name.starts_with("s_axil_") {
            continue;
        }
        if port.output {
            let _ = m.output_of(&port.name, registers.output(&port.name)).doc(&port.doc);
        } else {
            registers.connect(&port.name, m.input(&port.name, port.width).doc(&port.doc));
        }
    }
}
