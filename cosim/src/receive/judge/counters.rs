//! Every counter of the receive path, by its name in the Verilog.

use std::collections::BTreeMap;

use spraynic_golden::{
    ack_engine, icrc, memory_regions, packet_parser, payload_writer, qp_lookup, reorder_buffer, responder,
    response_engine,
};

use super::Difference;
use super::back::Back;
use super::front::Front;

/// Names and values of a block's counters; all of them, or it does not compile.
macro_rules! counters {
    ($block:literal, $type:path, $counters:expr, [$($name:ident),* $(,)?]) => {{
        let $type { $($name),* } = $counters;
        [$((concat!($block, "_", stringify!($name)), u64::from($name))),*]
    }};
}

/// The only counter without a model here: how many payloads of dropped frames came out of the parser before it knew.
const UNJUDGED: &str = "packet_buffer_discarded";

pub(super) fn compare(
    rtl: &BTreeMap<String, u64>,
    front: &Front<'_>,
    back: &Back,
    acks: &ack_engine::Counters,
) -> Result<(), Difference> {
    let golden = golden(front, back, acks);
    let names = rtl.keys().map(String::as_str).chain(golden.keys().copied());
    for name in names.filter(|name| *name != UNJUDGED) {
        let (rtl, golden) = (rtl.get(name).copied(), golden.get(name).copied());
        if rtl != golden {
            let name = name.to_owned();
            return Err(Difference::Counter { name, rtl, golden });
        }
    }
    Ok(())
}

fn golden(front: &Front<'_>, back: &Back, acks: &ack_engine::Counters) -> BTreeMap<&'static str, u64> {
    let (front, back) = (front.counters(), back.counters());
    let icrc = front.icrc;
    let mut all = BTreeMap::from([
        (
            "packet_buffer_passed",
            u64::from(icrc.right) + u64::from(icrc.unchecked),
        ),
        ("packet_buffer_dropped", u64::from(icrc.drop_icrc)),
    ]);
    all.extend(counters!(
        "packet_parser",
        packet_parser::Counters,
        front.packet_parser,
        [
            frames,
            packets,
            slow_path,
            drop_mac,
            drop_short,
            drop_ip_checksum,
            drop_ip_length,
            drop_udp_length,
            drop_version,
            drop_opcode,
            drop_trimmed,
            drop_pad,
            drop_payload,
        ]
    ));
    all.extend(counters!(
        "icrc",
        icrc::check::Counters,
        icrc,
        [right, drop_icrc, unchecked]
    ));
    all.extend(counters!(
        "qp_lookup",
        qp_lookup::Counters,
        front.qp_lookup,
        [
            sequence,
            feedback,
            probe,
            endpoint,
            drop_context,
            drop_queue_pair,
            drop_opcode,
            drop_state,
            drop_peer,
            drop_partition,
        ]
    ));
    all.extend(counters!(
        "reorder_buffer",
        reorder_buffer::Counters,
        front.reorder_buffer,
        [
            passed,
            stored,
            duplicates,
            drop_closed,
            drop_out_of_window,
            drop_trimmed,
            drop_no_slot,
            drop_not_ready,
            drop_sequence,
            released,
            retired,
            flushed,
        ]
    ));
    all.extend(counters!(
        "ack_engine",
        ack_engine::Counters,
        *acks,
        [acks, naks, sacks, timer_sacks, nacks, cnps, cnps_spared, drop_request,]
    ));
    all.extend(counters!(
        "responder",
        responder::Counters,
        back.responder,
        [
            accepted,
            retired,
            duplicates,
            drop_duplicate,
            refused_invalid_request,
            refused_remote_access,
            refused_operational,
            drop_failed,
            drop_closed,
            responses,
            messages,
            receive_requests,
            drop_receive_request,
            drop_receive_request_full,
            flushed,
            drop_context,
        ]
    ));
    all.extend(counters!(
        "memory_regions",
        memory_regions::Counters,
        back.memory_regions,
        [
            allowed,
            refused_key,
            refused_protection_domain,
            refused_right,
            refused_bounds,
            invalidated,
            drop_region,
        ]
    ));
    all.extend(counters!(
        "payload_writer",
        payload_writer::Counters,
        back.payload_writer,
        [packets, writes, discards, completions, write_errors,]
    ));
    all.extend(counters!(
        "response_engine",
        response_engine::Counters,
        back.response_engine,
        [
            answers,
            acks,
            naks,
            reads,
            read_responses,
            atomics,
            repeated_atomics,
            atomic_errors,
            drop_queue_pair,
            drop_opcode,
            drop_duplicate,
        ]
    ));
    all
}
