//! `skid_buffer`: registers both directions of a stream. What goes in comes out, unchanged and in order.
//!
//! It is a [`StreamFifo`] of two entries: one that is offered and one that was under way when `tready` fell.

use crate::stream_fifo::StreamFifo;

/// Beats that the block can hold.
pub const CAPACITY: usize = 2;

/// The block after reset, empty.
#[must_use]
pub fn skid_buffer<T>() -> StreamFifo<T> {
    StreamFifo::new(CAPACITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beats_fit_and_leave_in_order() {
        let mut buffer = skid_buffer();
        assert!(buffer.push('a').is_ok() && buffer.push('b').is_ok());
        assert!(buffer.push('c').is_err());
        assert_eq!((buffer.pop(), buffer.pop(), buffer.pop()), (Some('a'), Some('b'), None));
    }
}
