//! One step of a counter, which wraps as the 32-bit registers of the RTL do.

/// Counts an event.
pub(crate) fn count(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}
