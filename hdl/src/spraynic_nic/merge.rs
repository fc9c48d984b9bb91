//! Streams that come together, and streams that part.

use spraynic_rtl::{Module, Signal, Stream, cat_lsb_first};

use crate::round_robin_arbiter::arbitrate;
use crate::skid_buffer;

/// Several streams in turn, as one; registered.
pub(super) fn merge<'a>(m: Module<'a>, name: &str, streams: &[Stream<'a>]) -> Stream<'a> {
    if let [only] = streams {
        return *only;
    }
    let joint = Stream::wires(m, name, streams[0].data.width());
    let requests: Vec<Signal<'a>> = streams.iter().map(|stream| stream.valid).collect();
    let grant = arbitrate(m, &format!("u_{name}_arbiter"), cat_lsb_first(&requests), joint.fires()).to_bits();
    let data = streams.iter().zip(&grant);
    let data = data.map(|(stream, grant)| stream.data & grant.repeat(stream.data.width()));
    joint
        .data
        .set(data.reduce(|one, other| one | other).expect("there are streams"));
    joint.valid.set(cat_lsb_first(&requests).any());
    for (stream, grant) in streams.iter().zip(&grant) {
        stream.ready.set(*grant & joint.ready);
    }
    // What stands at an output may not change while it waits, as the grant would let it.
    skid_buffer::register(m, &format!("u_{name}_skid_buffer"), joint)
}

/// A stream to one of two takers: the second where `second` is 1.
pub(super) fn part<'a>(stream: Stream<'a>, second: Signal<'a>, takers: [Stream<'a>; 2]) {
    let [low, high] = takers;
    low.data.set(stream.data);
    high.data.set(stream.data);
    low.valid.set(stream.valid & !second);
    high.valid.set(stream.valid & second);
    stream.ready.set(second.mux(high.ready, low.ready));
}

/// Only the beats for which `passes` is 1; the others are taken and forgotten.
pub(super) fn filter<'a>(m: Module<'a>, name: &str, stream: Stream<'a>, passes: Signal<'a>) -> Stream<'a> {
    let filtered = Stream::wires(m, name, stream.data.width());
    filtered.data.set(stream.data);
    filtered.valid.set(stream.valid & passes);
    stream.ready.set(filtered.ready | !passes);
    filtered
}

/// The same beats with other data.
pub(super) fn with_data<'a>(m: Module<'a>, name: &str, stream: Stream<'a>, data: Signal<'a>) -> Stream<'a> {
    stream.data.ignore();
    let changed = Stream::wires(m, name, data.width());
    changed.data.set(data);
    changed.valid.set(stream.valid);
    stream.ready.set(changed.ready);
    changed
}
