//! A progress bar for what takes longer than two seconds; none where standard error is no terminal.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at work on another thread.
const GLANCE: Duration = Duration::from_millis(20);

/// Progress of one piece of work.
pub(crate) struct Progress {
    label: &'static str,
    total: u64,
    start: Instant,
    terminal: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress {
    /// The same for a command that prints nothing before its end: shown also where standard output is a terminal.
    pub(crate) fn before_result(label: &'static str, total: u64) -> Self {
        let mut progress = Self::new(label, total);
        progress.terminal = std::io::stderr().is_terminal();
        progress
    }

    /// Does one piece of work whose end is not known, on another thread.
    pub(crate) fn during<T: Send>(label: &'static str, work: impl FnOnce() -> T + Send) -> T {
        let progress = Self::before_result(label, 0);
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                progress.set(0);
                std::thread::sleep(GLANCE);
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

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
            if self.total == 0 {
                bar.tick();
            }
        }
    }

    /// Says what was done so far, behind the label.
    pub(crate) fn note(&self, note: &str) {
        if let Some(bar) = self.bar.borrow().as_ref() {
            bar.set_message(format!("{}: {note}", self.label));
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
