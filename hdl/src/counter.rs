//! Counters that software reads: 32 bits, wrapping, an output port `count_NAME` each.

use spraynic_rtl::{InstanceHandle, Module, Signal};

/// Name (without `count_`) and meaning of a counter.
#[derive(Debug, Clone, Copy)]
pub struct Counter(pub &'static str, pub &'static str);

/// Adds a counter that goes up by one in each clock in which `event` is 1.
#[track_caller]
pub fn count_when<'a>(m: Module<'a>, counter: Counter, event: Signal<'a>) {
    let Counter(name, doc) = counter;
    let count = m.reg(&format!("counted_{name}"), 32).reset(0);
    m.when(event, || count.set(count + count.lit(1)));
    let _ = m.output_of(&format!("count_{name}"), count).doc(doc);
}

/// Adds a counter that goes up by `step`, a number of up to 32 bits, in each clock in which `event` is 1.
#[track_caller]
pub fn count_more<'a>(m: Module<'a>, counter: Counter, event: Signal<'a>, step: Signal<'a>) {
    let Counter(name, doc) = counter;
    let count = m.reg(&format!("counted_{name}"), 32).reset(0);
    m.when(event, || count.set(count + step.zero_extend(32)));
    let _ = m.output_of(&format!("count_{name}"), count).doc(doc);
}

/// Passes the counters of a block on as `count_BLOCK_NAME`.
pub(crate) fn export_counters<'a>(m: Module<'a>, block: &str, instance: InstanceHandle<'a>) {
    for port in instance.definition().ports() {
        if let Some(name) = port.name.strip_prefix("count_") {
            let value = instance.output(&port.name);
            let _ = m.output_of(&format!("count_{block}_{name}"), value).doc(&port.doc);
        }
    }
}
