//! How a top joins the ports of its instances. A port that the other side has not, because the configuration does without it, is tied off.

use spraynic_rtl::{AxiStream, InstanceHandle, Module, Stream};

/// Whether a block has a port.
pub(crate) fn has_port(block: InstanceHandle<'_>, name: &str) -> bool {
    block.definition().ports().iter().any(|port| port.name == name)
}

/// Whether a block has a stream.
pub(crate) fn has_stream(block: InstanceHandle<'_>, name: &str) -> bool {
    has_port(block, &format!("{name}_tvalid"))
}

/// Width and documentation of a block's port.
///
/// # Panics
/// When there is none.
#[track_caller]
pub(crate) fn port_of(block: InstanceHandle<'_>, name: &str) -> (u32, String) {
    let ports = block.definition().ports();
    let port = ports
        .iter()
        .find(|port| port.name == name)
        .unwrap_or_else(|| panic!("{} has no port {name}", block.definition().name()));
    (port.width, port.doc.clone())
}

/// The stream that a block gives.
#[track_caller]
pub(crate) fn from<'a>(block: InstanceHandle<'a>, output: &str) -> Stream<'a> {
    Stream::from_instance(block, output)
}

/// The stream that a block takes.
#[track_caller]
pub(crate) fn into<'a>(block: InstanceHandle<'a>, input: &str) -> Stream<'a> {
    Stream::into_instance(block, input)
}

/// A stream that one block gives and another one takes.
#[track_caller]
pub(crate) fn join<'a>(giver: InstanceHandle<'a>, output: &str, taker: InstanceHandle<'a>, input: &str) {
    from(giver, output).connect(into(taker, input));
}

/// Bytes that one block gives and another one takes.
#[track_caller]
pub(crate) fn join_axi<'a>(giver: InstanceHandle<'a>, output: &str, taker: InstanceHandle<'a>, input: &str) {
    AxiStream::from_instance(giver, output).connect(AxiStream::into_instance(taker, input));
}

/// As [`join`], where both have the stream; otherwise whoever has it finds nothing, or is always taken from.
pub(crate) fn join_where_both<'a>(giver: InstanceHandle<'a>, output: &str, taker: InstanceHandle<'a>, input: &str) {
    match (has_stream(giver, output), has_stream(taker, input)) {
        (true, true) => join(giver, output, taker, input),
        (true, false) => drain(from(giver, output)),
        (false, true) => nothing(into(taker, input)),
        (false, false) => {}
    }
}

/// As [`join_axi`], where both have the stream; otherwise whoever has it finds nothing, or is always taken from.
pub(crate) fn join_axi_where_both<'a>(giver: InstanceHandle<'a>, output: &str, taker: InstanceHandle<'a>, input: &str) {
    match (has_stream(giver, output), has_stream(taker, input)) {
        (true, true) => join_axi(giver, output, taker, input),
        (true, false) => {
            let bytes = AxiStream::from_instance(giver, output);
            for signal in [bytes.data, bytes.keep, bytes.last, bytes.user, bytes.valid] {
                signal.ignore();
            }
            bytes.ready.set_lit(1);
        }
        (false, true) => {
            let bytes = AxiStream::into_instance(taker, input);
            for signal in [bytes.data, bytes.keep, bytes.last, bytes.user, bytes.valid] {
                signal.set_lit(0);
            }
            bytes.ready.ignore();
        }
        (false, false) => {}
    }
}

/// Takes all of a stream and forgets it.
pub(crate) fn drain(stream: Stream<'_>) {
    stream.data.ignore();
    stream.valid.ignore();
    stream.ready.set_lit(1);
}

/// A stream that never has anything.
pub(crate) fn nothing(stream: Stream<'_>) {
    stream.data.set_lit(0);
    stream.valid.set_lit(0);
    stream.ready.ignore();
}

/// A stream of the module that a block takes as it is.
#[track_caller]
pub(crate) fn pass_in<'a>(m: Module<'a>, block: InstanceHandle<'a>, port: &str, name: &str) {
    let (width, doc) = port_of(block, &format!("{port}_tdata"));
    Stream::slave(m, name, width, &doc).connect(into(block, port));
}

/// A stream of a block that the module gives as it is.
#[track_caller]
pub(crate) fn pass_out<'a>(m: Module<'a>, block: InstanceHandle<'a>, port: &str, name: &str) {
    let (width, doc) = port_of(block, &format!("{port}_tdata"));
    from(block, port).connect(Stream::master(m, name, width, &doc));
}

/// Bytes of the module that a block takes as they are.
#[track_caller]
pub(crate) fn pass_in_axi<'a>(m: Module<'a>, block: InstanceHandle<'a>, port: &str, name: &str) {
    let (width, doc) = port_of(block, &format!("{port}_tdata"));
    let (user, _) = port_of(block, &format!("{port}_tuser"));
    AxiStream::slave(m, name, width, user, &doc).connect(AxiStream::into_instance(block, port));
}

/// Bytes of a block that the module gives as they are.
#[track_caller]
pub(crate) fn pass_out_axi<'a>(m: Module<'a>, block: InstanceHandle<'a>, port: &str, name: &str) {
    let (width, doc) = port_of(block, &format!("{port}_tdata"));
    let (user, _) = port_of(block, &format!("{port}_tuser"));
    AxiStream::from_instance(block, port).connect(AxiStream::master(m, name, width, user, &doc));
}
