//! A stream to several takers: each takes every beat, when it likes; the next beat comes when all have taken this one.

use spraynic_rtl::{Module, Signal, Stream};

/// The beats of `input` for each of `names`. The takers do not wait for each other within a beat.
pub(crate) fn fork<'a>(m: Module<'a>, input: Stream<'a>, names: &[&str]) -> Vec<Stream<'a>> {
    let outputs: Vec<Stream<'a>> = names
        .iter()
        .map(|name| Stream::wires(m, &format!("{name}_copy"), input.data.width()))
        .collect();
    let taken: Vec<Signal<'a>> = names
        .iter()
        .map(|name| {
            m.reg(&format!("{name}_taken"), 1)
                .reset(0)
                .doc("has taken the beat that stands")
        })
        .collect();
    let have_all = outputs
        .iter()
        .zip(&taken)
        .map(|(output, taken)| output.ready | *taken)
        .reduce(|all, one| all & one)
        .expect("a fork has takers");
    input.ready.set(have_all);
    for (output, taken) in outputs.iter().zip(&taken) {
        output.data.set(input.data);
        output.valid.set(input.valid & !*taken);
        let done = output.ready | *taken;
        taken.set(input.valid & done & !have_all);
    }
    outputs
}
