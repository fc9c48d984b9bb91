//! What a context write does to what a block keeps of a queue pair while it receives: one rule for all blocks that keep something.
//!
//! It is made anew when the queue pair begins to receive, stays while it does, and is lost when it no longer does.

/// What became of it.
pub(crate) enum Reception<'a, T> {
    /// The queue pair begins to receive: it was made.
    Begins,
    /// It receives already: what is kept stays.
    GoesOn(&'a mut T),
    /// It receives no longer: what was kept, if it has received so far.
    Ends(Option<T>),
}

/// Applies a context write after which the queue pair receives or not; `begin` makes what is kept of one that begins to.
pub(crate) fn write<T>(kept: &mut Option<T>, receives: bool, begin: impl FnOnce() -> T) -> Reception<'_, T> {
    if !receives {
        return Reception::Ends(kept.take());
    }
    match kept {
        Some(kept) => Reception::GoesOn(kept),
        None => {
            *kept = Some(begin());
            Reception::Begins
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_lasts_from_the_first_write_that_receives_to_the_first_that_does_not() {
        let mut kept = None;
        let never = || -> u32 { unreachable!("it does not begin") };
        assert!(matches!(write(&mut kept, false, never), Reception::Ends(None)));
        assert!(matches!(write(&mut kept, true, || 1), Reception::Begins));
        assert!(matches!(write(&mut kept, true, never), Reception::GoesOn(1)));
        assert!(matches!(write(&mut kept, false, never), Reception::Ends(Some(1))));
        assert!(matches!(write(&mut kept, true, || 2), Reception::Begins));
        assert_eq!(kept, Some(2));
    }
}
