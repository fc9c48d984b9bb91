//! `spraynic replay`: a saved run once more, with a waveform where one is wanted. Traces of scenarios are `replay/scenario.rs`.

mod scenario;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use spraynic_config::{NicConfig, Source};
use spraynic_cosim::{
    BenchError, Builder, CaseError, Limits, Mismatch, ModelSource, Outcome, SimulationError, Trace, replay,
};

use crate::error::{CliError, Verdict};
use crate::library;
use crate::nics::NicArguments;
use crate::progress::Progress;

/// Run a saved trace again, and say whether it still fails
///
/// Trace of a block: the model is generated anew from the block and the configuration that the trace names. Trace of
/// `spraynic fuzz`: the scenario runs on golden or Verilated NICs. Exit status 0: it passes now; 1: it still fails.
#[derive(Debug, Args)]
pub(crate) struct ReplayCommand {
    /// Trace that `spraynic cosim`, `spraynic fuzz` or a test saved
    file: PathBuf,
    /// Write a waveform: FST, or VCD where Verilator's FST writer cannot be compiled. Trace of a scenario: of each
    /// Verilated NIC; with several, the number of the NIC comes into the name
    #[arg(long, value_name = "FILE")]
    wave: Option<PathBuf>,
    /// Trace of a scenario: print all that happened, a line an event
    #[arg(long)]
    log: bool,
    /// Trace of a scenario: write what left and reached NIC 0 as a capture
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    nics: NicArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    verdict: &'static str,
    block: &'a str,
    config: &'a str,
    model: &'a str,
    /// Why the trace was saved.
    saved_because: &'a str,
    /// Why it fails now.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Clocks and frames out of the model, of a run that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    clocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waveform: Option<String>,
    reset_clocks: u64,
}

impl ReplayCommand {
    pub(crate) fn run(&self) -> Result<Verdict, CliError> {
        match spraynic_network::trace::kind(&self.file)?.as_deref() {
            None => {}
            Some(spraynic_network::trace::SCENARIO) => return self.run_scenario(),
            Some(other) => return Err(self.unusable(format!("traces of kind `{other}` are not known"))),
        }
        if self.log || self.pcap.is_some() || self.nics.sabotage.is_some() || self.nics.has_verilated() {
            return Err(
                self.unusable("it is the trace of a block: --log, --pcap and --nics are for scenarios".to_owned())
            );
        }
        let trace = Trace::load(&self.file)?;
        let config = self.config_of(&trace)?;
        let source = library::model_source(&config, &trace.block).ok_or_else(|| {
            let known = library::names();
            self.unusable(format!("no such block `{}`: the blocks are {known}", trace.block))
        })?;
        let replayed = Progress::during("building and running the model", || {
            run(&trace, &source, self.wave.as_deref())
        })?;
        if let Err(error) = &replayed.result
            && is_misfit(error)
        {
            return Err(self.unusable(format!("its run does not fit the model {}: {error}", source.top)));
        }
        let outcome = replayed.result.as_ref().ok();
        let report = Report {
            verdict: if outcome.is_some() { "passes" } else { "fails" },
            block: &trace.block,
            config: &config.name,
            model: &source.top,
            saved_because: trace.reason.trim_end(),
            message: replayed
                .result
                .as_ref()
                .err()
                .map(|error| error.to_string().trim_end().to_owned()),
            clocks: outcome.map(|outcome| outcome.cycles),
            frames: outcome.map(frames),
            waveform: replayed.waveform.as_ref().map(|path| path.display().to_string()),
            reset_clocks: replayed.reset_clocks,
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print(&mut out, &report)?;
        }
        Ok(match report.message {
            Some(_) => Verdict::FailureFound,
            None => Verdict::Good,
        })
    }

    fn config_of(&self, trace: &Trace) -> Result<NicConfig, CliError> {
        if trace.config.trim().is_empty() {
            return Err(self.unusable(format!(
                "it does not say from which configuration {} was generated (its `config` is empty); run it with the test \
                 that saved it",
                trace.block
            )));
        }
        let place = format!("the configuration in {}", self.file.display());
        let resolved = Source::default().resolve_text(Some((place.as_ref(), &trace.config)))?;
        Ok(resolved.config)
    }

    fn unusable(&self, message: String) -> CliError {
        CliError::Usage(format!("{}: {message}", self.file.display()))
    }
}

fn run(
    trace: &Trace,
    source: &ModelSource,
    wave: Option<&std::path::Path>,
) -> Result<spraynic_cosim::Replay, CliError> {
    Ok(replay(trace, source, &Builder::new(), Limits::default(), wave)?)
}

/// Whether the trace names what the model does not have: then it says nothing about the model.
fn is_misfit(error: &CaseError) -> bool {
    match error {
        CaseError::Bench(error) => matches!(
            error,
            BenchError::Setup(_)
                | BenchError::Simulation(SimulationError::NoPort { .. } | SimulationError::TooWide { .. })
        ),
        CaseError::Mismatch(mismatch) => matches!(mismatch, Mismatch::NoStream { .. }),
        CaseError::Judge(_) | CaseError::Reset(_) => false,
    }
}

fn frames(outcome: &Outcome) -> usize {
    outcome.sinks.iter().map(|sink| sink.frames.len()).sum()
}

fn print(out: &mut impl std::io::Write, report: &Report<'_>) -> std::io::Result<()> {
    let what = format!("{} ({})", report.model, report.config);
    match &report.message {
        None => {
            writeln!(
                out,
                "passes: {what}: {} frames in {} clocks, all as expected",
                report.frames.unwrap_or(0),
                report.clocks.unwrap_or(0)
            )?;
            if !report.saved_because.is_empty() {
                writeln!(out, "\nIt was saved because:\n{}", report.saved_because)?;
            }
        }
        Some(message) => {
            writeln!(out, "FAILS: {what}\n\n{message}")?;
            if !report.saved_because.is_empty() && report.saved_because != message {
                writeln!(out, "\nIt was saved because:\n{}", report.saved_because)?;
            }
        }
    }
    if let Some(path) = &report.waveform {
        writeln!(
            out,
            "\nwaveform: {path}; cycle t of the messages begins at 10 * (t + {}) ns",
            report.reset_clocks
        )?;
    }
    Ok(())
}
