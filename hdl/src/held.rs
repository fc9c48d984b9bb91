//! What a block holds for a queue pair, told when it is stored or while it stands in registers: for test benches, which find there what was
//! forgotten.

use spraynic_rtl::{Module, Signal};

/// The ports of [`tell`].
pub(crate) const PORTS: [&str; 3] = ["holding_stored", "holding_qpn", "holding_count"];

/// Tells on ports of its own that a queue pair holds `count` of `what` now.
pub(crate) fn tell<'a>(m: Module<'a>, what: &str, stored: Signal<'a>, qpn: Signal<'a>, count: Signal<'a>) {
    let docs = [
        "event: what the queue pair holding_qpn holds may have changed".to_owned(),
        "queue pair of the event".to_owned(),
        format!("{what} that it holds"),
    ];
    let values = [stored, qpn.zero_extend(24), count.zero_extend(16)];
    for ((name, doc), value) in PORTS.into_iter().zip(docs).zip(values) {
        let _ = m.output_of(name, value).doc(&doc);
    }
}
