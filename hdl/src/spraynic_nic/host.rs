//! What the host says: descriptors of the register file and requests go to who takes them, settings to who wants them.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{Descriptor, Doorbell, ReceiveRequest, WorkRequest};
use spraynic_rtl::{InstanceHandle, Module, Signal, Stream};

use super::Blocks;
use super::merge::merge;
use crate::joints::{from, has_port, has_stream, into, join};
use crate::stream_fork::fork;

/// Leads the descriptors that software writes to their tables. Returns the SendContexts for those who look at path sets.
pub(super) fn descriptors<'a>(m: Module<'a>, blocks: &Blocks<'a>) -> Stream<'a> {
    let registers = blocks.at("register_file");
    let receive = blocks.at("receive");
    join(
        registers,
        "m_axis_header_template",
        blocks.at("transmit_header_builder"),
        "s_axis_template",
    );
    join(registers, "m_axis_memory_region", receive, "s_axis_region");
    join(
        registers,
        "m_axis_rate_limit",
        blocks.at("send_rate_limiter"),
        "s_axis_limit",
    );
    join(
        registers,
        "m_axis_path_entry",
        blocks.at("send_path_monitor"),
        "s_axis_entry",
    );

    let takers = ["receive", "response_writer"].map(|path| blocks.at(path));
    let copies = fork(
        m,
        from(registers, "m_axis_queue_pair_context"),
        &["receive_context", "response_writer_context"],
    );
    for (copy, taker) in copies.iter().zip(takers) {
        copy.connect(into(taker, "s_axis_context"));
    }
    let contexts = send_contexts(m, blocks);

    let requests = Stream::slave(
        m,
        "s_axis_work_request",
        WorkRequest::width(),
        "WorkRequest: work to do",
    );
    let rings = blocks.at("send_request_ring");
    let sources = [from(registers, "m_axis_work_request"), requests, from(rings, "m_axis")];
    merge(m, "work_request", &sources).connect(into(blocks.at("send_work_queue"), "s_axis_work_request"));
    join(registers, "m_axis_request_ring", rings, "s_axis_ring");
    let doorbells = Stream::slave(
        m,
        "s_axis_doorbell",
        Doorbell::width(),
        "Doorbell: entries of a request ring were written",
    );
    merge(m, "doorbell", &[from(registers, "m_axis_doorbell"), doorbells]).connect(into(rings, "s_axis_doorbell"));
    let buffers = Stream::slave(
        m,
        "s_axis_receive_request",
        ReceiveRequest::width(),
        "ReceiveRequest: a buffer for a message that will come",
    );
    merge(
        m,
        "receive_request",
        &[from(registers, "m_axis_receive_request"), buffers],
    )
    .connect(into(receive, "s_axis_receive_request"));
    contexts
}

/// A SendContext goes to all who keep something of a queue pair; to `work_queue` when the others have it, so that no packet goes before it.
fn send_contexts<'a>(m: Module<'a>, blocks: &Blocks<'a>) -> Stream<'a> {
    let keepers: Vec<(&str, InstanceHandle<'a>)> = [
        "send_spray_scheduler",
        "send_retransmit_engine",
        "send_requester",
        "send_response_queue",
    ]
    .into_iter()
    .filter_map(|path| blocks.find(path).map(|block| (path, block)))
    .filter(|(_, block)| has_stream(*block, "s_axis_context"))
    .collect();
    let [of_keepers, of_work] = {
        let contexts = from(blocks.at("register_file"), "m_axis_send_context");
        let [first, second] =
            ["send_context", "send_context_of_work"].map(|name| Stream::wires(m, name, contexts.data.width()));
        let kept = m
            .reg("send_context_is_kept", 1)
            .reset(0)
            .doc("all but work_queue have the SendContext that stands");
        first.data.set(contexts.data);
        second.data.set(contexts.data);
        first.valid.set(contexts.valid & !kept);
        second.valid.set(contexts.valid & kept);
        contexts.ready.set(kept & second.ready);
        kept.set(kept.mux(!second.fires(), first.fires()));
        [first, second]
    };
    of_work.connect(into(blocks.at("send_work_queue"), "s_axis_context"));
    let mut names: Vec<String> = keepers.iter().map(|(path, _)| format!("{path}_context")).collect();
    names.push("probe_context".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let copies = fork(m, of_keepers, &names);
    for (copy, (_, block)) in copies.iter().zip(&keepers) {
        copy.connect(into(*block, "s_axis_context"));
    }
    *copies.last().expect("there is one for probes")
}

/// Connects all that is no stream: time, ports, settings, what the registers show.
pub(super) fn settings<'a>(m: Module<'a>, blocks: &Blocks<'a>, outside: &BTreeMap<&'static str, Signal<'a>>) {
    let registers = blocks.at("register_file");
    let receive = blocks.at("receive");
    let own: Vec<String> = registers
        .definition()
        .ports()
        .into_iter()
        .filter(|port| port.output && !is_stream(&port.name))
        .map(|port| port.name)
        .collect();
    let mut unread = own.clone();
    for (path, block) in blocks.all() {
        for port in block.definition().ports() {
            if port.output || is_stream(&port.name) || ["clk", "rst"].contains(&port.name.as_str()) {
                continue;
            }
            let name = port.name.as_str();
            let value = if let Some(value) = outside.get(name) {
                *value
            } else if own.iter().any(|setting| setting == name) && path != "register_file" {
                unread.retain(|setting| setting != name);
                registers.output(name)
            } else if name == "free_slots" {
                match has_port(receive, "free_slots") {
                    true => receive.output("free_slots").resize(port.width),
                    false => m.lit(0, port.width),
                }
            } else if let Some(counter) = name.strip_prefix("count_") {
                blocks.counter(counter)
            } else {
                continue;
            };
            block.connect(name, value);
        }
    }
    // What nobody in this configuration wants.
    for setting in unread {
        registers.output(&setting).ignore();
    }
}

fn is_stream(port: &str) -> bool {
    ["s_axis", "m_axis", "s_axil", "m_axi_"]
        .iter()
        .any(|prefix| port.starts_with(prefix))
}
