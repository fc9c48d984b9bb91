//! A progress bar for what takes longer than two seconds; none where standard error is no terminal.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Progress of one piece of work.
pub(crate) struct Progress {
    label: &'static str,
    total: u64,
    start: Instant,
    terminal: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress {
    /// Starts to count up to `total`; 0 where the end is not known.
    pub(crate) fn new(label: &'static str, total: u64) -> Self {
        Self {
            label,
            total,
            start: Instant::now(),
            // Where both go to the same terminal, the lines printed are progress enough.
            terminal: std::io::stderr().is_terminal() && !std::io::stdout().is_terminal(),
            bar: RefCell::new(None),
        }
    }

    /// Says how far the work is.
    pub(crate) fn set(&self, done: u64) {
        if !self.terminal {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        if bar.is_none() && self.start.elapsed() > PATIENCE {
            *bar = Some(self.show());
        }
        if let Some(bar) = bar.as_ref() {
            bar.set_position(done);
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    fn show(&self) -> ProgressBar {
        let (bar, template) = if self.total > 0 {
            (
                ProgressBar::new(self.total),
                "{msg} [{wide_bar}] {percent}% {elapsed}, {eta} left",
            )
        } else {
            (ProgressBar::new_spinner(), "{msg} {spinner} {elapsed}")
        };
        // The templates are constant; a wrong one would only lose the bar's looks.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(self.label);
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
