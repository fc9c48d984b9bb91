//! Which points of the Verilog a model reached, and how often: `Builder::coverage` builds them in, as Verilator's `--coverage-line` has them.
//!
//! A point is a block of statements that is executed or not: the body of an `always`, a branch of an `if` that was taken, an `if` that
//! was false. Counts are copied from the model's own array, so reading them costs microseconds. Nothing here decides what is to be
//! reached. [`Report`] says which lines of which file never were, and what they were generated from.

mod lines;
mod places;
mod report;

use std::cell::RefCell;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use lines::Lines;
pub use report::{FileReport, Report, Unreached};

/// What it means that a point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The block is executed: an `always` of a clock is in every one.
    Block,
    /// The condition of the `if` is true.
    Then,
    /// The condition of the `if` is false.
    Else,
    /// The item of the `case` is chosen.
    Case,
    /// The condition of a `? :` is true (newer versions of Verilator).
    TrueValue,
    /// The condition of a `? :` is false (newer versions of Verilator).
    FalseValue,
    /// Something else that Verilator counts.
    Other,
}

impl Kind {
    /// From Verilator's comment on the point.
    pub(crate) fn of(comment: &str) -> Self {
        match comment {
            "block" => Self::Block,
            "if" | "elsif" => Self::Then,
            "else" => Self::Else,
            "case" => Self::Case,
            "cond_then" => Self::TrueValue,
            "cond_else" => Self::FalseValue,
            _ => Self::Other,
        }
    }

    /// What did not happen where such a point has no count.
    #[must_use]
    pub fn never(self) -> &'static str {
        match self {
            Self::Block | Self::Other => "never executed",
            Self::Then | Self::TrueValue => "never true",
            Self::Else | Self::FalseValue => "never false",
            Self::Case => "never chosen",
        }
    }
}

/// A point of the Verilog.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Module.
    pub module: String,
    /// File, by its name in the [`crate::ModelSource`].
    pub file: String,
    /// Line of the `if`, `always` or `case` item, from 1.
    pub line: u32,
    /// Column in it, from 1. Verilator moves it by one for an `else`.
    pub column: u32,
    /// Instances from the top down, as `top.u_a.u_b`. Where Verilator does not inline a module, all its instances count together, and
    /// their names are not in it.
    pub hierarchy: String,
    /// What is counted.
    pub kind: Kind,
    /// Lines that are executed when it is reached, first and last of each range; none for an `else` that is not written.
    pub lines: Vec<(u32, u32)>,
}

/// Two coverages are of different models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("coverage of a model of {theirs} points cannot be joined with that of another model, of {ours} points")]
pub struct OtherModel {
    /// Points of the one that was to be joined to.
    ours: usize,
    /// Points of the other one.
    theirs: usize,
}

/// The points of a model, each with its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    points: Arc<[Point]>,
    counts: Vec<u64>,
}

impl Coverage {
    /// No point reached yet.
    pub(crate) fn nothing(points: Arc<[Point]>) -> Self {
        Self {
            counts: vec![0; points.len()],
            points,
        }
    }

    /// All points, in the order of the model's counters.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// How often each point was reached, in the order of [`Coverage::points`].
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of points that were reached.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.counts.iter().filter(|count| **count > 0).count()
    }

    /// Adds the counts of another run of the same model.
    ///
    /// # Errors
    /// It is of another model.
    pub fn merge(&mut self, other: &Self) -> Result<(), OtherModel> {
        if !Arc::ptr_eq(&self.points, &other.points) && self.points != other.points {
            return Err(OtherModel {
                ours: self.points.len(),
                theirs: other.points.len(),
            });
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
        Ok(())
    }

    /// Adds counts that a model's array holds.
    pub(crate) fn add(&mut self, counts: &[u32]) {
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(u64::from(*count));
        }
    }

    /// Puts these counts, one a point, in the place of its own; missing ones are 0.
    #[must_use]
    pub fn with_counts(mut self, counts: &[u64]) -> Self {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        for (place, count) in self.counts.iter_mut().zip(counts) {
            *place = count;
        }
        self
    }

    /// Places of the points that are reached here and not in `seen`.
    #[must_use]
    pub fn new_points(&self, seen: &Self) -> Vec<usize> {
        let unseen = |place: usize| seen.counts.get(place).is_none_or(|count| *count == 0);
        let reached = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        reached.map(|(place, _)| place).filter(|place| unseen(*place)).collect()
    }
}

thread_local! {
    /// Where models that are dropped on this thread leave their counts, while somebody collects them.
    static COLLECTED: RefCell<Option<Coverage>> = const { RefCell::new(None) };
}

/// Runs something and gives what all simulations of `model` reached that were dropped in it, on this thread.
///
/// That is how a run of many models (the NICs of a network) tells what it reached, though they die inside of it. A panic of the run is
/// not caught, and nothing is collected then.
pub fn collect<R>(model: &crate::Model, run: impl FnOnce() -> R) -> (R, Coverage) {
    /// What was collected before goes on behind the run, however it ends.
    struct Outer(Option<Coverage>);
    impl Drop for Outer {
        fn drop(&mut self) {
            let outer = self.0.take();
            COLLECTED.with_borrow_mut(|slot| *slot = outer);
        }
    }
    let outer = Outer(COLLECTED.replace(Some(model.coverage())));
    let result = run();
    let collected = COLLECTED.take();
    drop(outer);
    (result, collected.unwrap_or_else(|| model.coverage()))
}

/// Leaves the counts of a simulation that ends for the one that collects, if they are of its model.
pub(crate) fn leave(points: &Arc<[Point]>, counts: impl FnOnce() -> Vec<u32>) {
    // A simulation that ends when its thread does may find the slot gone: then nobody collects.
    let _ = COLLECTED.try_with(|slot| {
        if let Ok(mut slot) = slot.try_borrow_mut()
            && let Some(coverage) = slot.as_mut()
            && Arc::ptr_eq(&coverage.points, points)
        {
            coverage.add(&counts());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: u32) -> Arc<[Point]> {
        let point = |line| Point {
            module: "m".to_owned(),
            file: "m.v".to_owned(),
            line,
            column: 1,
            hierarchy: "m".to_owned(),
            kind: Kind::Then,
            lines: vec![(line, line)],
        };
        (0..count).map(point).collect()
    }

    #[test]
    fn counts_add_up_and_new_points_are_those_nobody_saw() {
        let mut seen = Coverage::nothing(points(3));
        seen.add(&[0, 5, 0]);
        let other = Coverage::nothing(points(3)).with_counts(&[1, 2]);
        assert_eq!(other.new_points(&seen), [0]);
        assert_eq!(seen.merge(&other), Ok(()));
        assert_eq!((seen.counts(), seen.reached()), (&[1, 7, 0][..], 2));
        assert_eq!(other.new_points(&seen), [0usize; 0]);
        let message = seen
            .merge(&Coverage::nothing(points(4)))
            .expect_err("another model")
            .to_string();
        assert!(message.contains("4 points"), "{message}");
    }
}
