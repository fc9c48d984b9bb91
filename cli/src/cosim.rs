//! `spraynic cosim`: the generated Verilog, run by Verilator, against the golden model, packet by packet.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use spraynic_cosim::transmit::campaign::{Campaign, CampaignError, Difference, Step, Totals};
use spraynic_cosim::transmit::strategy::Size;
use spraynic_cosim::{Builder, Limits};
use spraynic_hdl::transmit_pipeline::NAME as TOP;

use crate::error::{CliError, Verdict};
use crate::library;
use crate::progress::Progress;
use crate::source::ConfigArguments;

/// Run the generated Verilog against the golden model over random packets
///
/// Needs Verilator and a C++ compiler; the compiled model is kept for the next run. Exit status 1 at the first
/// difference: it is made smaller, explained field by field, and saved as a trace for `spraynic replay`.
#[derive(Debug, Args)]
pub(crate) struct CosimCommand {
    #[command(flatten)]
    config: ConfigArguments,
    /// Block to run
    #[arg(long, value_name = "NAME", default_value = TOP)]
    block: String,
    /// Compare at least so many packets
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Seed of the packets and of the initial state: same seed, same packets
    #[arg(long, value_name = "S", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Directory for the trace of a difference
    #[arg(long, value_name = "DIR", default_value = "spraynic-failures")]
    keep: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    verdict: &'static str,
    block: &'a str,
    config: &'a str,
    seed: u64,
    /// What was equal.
    scenarios: u64,
    packets: u64,
    bytes: u64,
    clocks: u64,
    simulating_seconds: f64,
    clocks_per_second: f64,
    verilator: &'a str,
    model: ModelReport<'a>,
    counters: &'a BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceReport>,
}

#[derive(Debug, Serialize)]
struct ModelReport<'a> {
    top: &'a str,
    cached: bool,
    /// To build it, or to find it in the cache.
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct DifferenceReport {
    message: String,
    shrinking_runs: u64,
    /// Whether the trace fails in the same way when it is run again.
    replays: bool,
    trace: String,
    replay: String,
}

impl CosimCommand {
    pub(crate) fn run(&self) -> Result<Verdict, CliError> {
        let resolved = self.config.resolve()?;
        let config = &resolved.config;
        let source = library::model_source(config, &self.block).ok_or_else(|| {
            let known = library::names();
            CliError::Usage(format!(
                "--block: no such block `{}`: the blocks are {known}",
                self.block
            ))
        })?;
        if self.block != TOP {
            return Err(CliError::Usage(format!(
                "--block {}: cosim runs {TOP}, with all other blocks in it; each by itself is run by \
                 `cargo test -p spraynic-cosim`",
                self.block
            )));
        }
        let start = Instant::now();
        let model = Progress::during("building the model", || Builder::new().build(&source))?;
        let model_seconds = start.elapsed().as_secs_f64();

        let campaign = Campaign {
            config,
            packets: self.packets,
            seed: self.seed,
            size: Size::default(),
            limits: Limits::default(),
        };
        let comparing = Progress::before_result("comparing packets", self.packets);
        let shrinking = Progress::before_result("making the difference smaller", 0);
        let result = campaign.run(&self.block, &model, &mut |step| match step {
            Step::Comparing(packets) => comparing.set(packets.min(self.packets)),
            Step::Shrinking(runs) => {
                comparing.finish();
                shrinking.set(runs);
            }
        });
        comparing.finish();
        shrinking.finish();
        let (totals, difference) = match result {
            Ok(totals) => (totals, None),
            Err(CampaignError::Difference(difference)) => (difference.before.clone(), Some(difference)),
            Err(error @ CampaignError::NoScenario(_)) => return Err(CliError::Usage(error.to_string())),
        };
        let saved = difference.as_ref().map(|difference| self.save(difference)).transpose();
        let report = Report {
            verdict: if difference.is_some() { "different" } else { "equal" },
            block: &self.block,
            config: &config.name,
            seed: self.seed,
            scenarios: totals.scenarios,
            packets: totals.packets,
            bytes: totals.bytes,
            clocks: totals.clocks,
            simulating_seconds: totals.simulating.as_secs_f64(),
            clocks_per_second: speed(&totals),
            verilator: model.verilator_version(),
            model: ModelReport {
                top: model.top(),
                cached: model.was_cached(),
                seconds: model_seconds,
            },
            counters: &totals.counters,
            difference: difference.map(|difference| {
                let trace = saved.as_ref().ok().and_then(Option::as_ref);
                DifferenceReport {
                    message: difference.error.to_string(),
                    shrinking_runs: difference.shrinking_runs,
                    replays: difference.replays,
                    trace: trace.map(|path| path.display().to_string()).unwrap_or_default(),
                    replay: trace.map(|path| replay_command(path)).unwrap_or_default(),
                }
            }),
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print(&mut out, &report)?;
        }
        // The difference was printed first: it must not be lost because its trace cannot be written.
        saved?;
        Ok(match report.difference {
            Some(_) => Verdict::FailureFound,
            None => Verdict::Good,
        })
    }

    /// Saves the trace under a name that says what failed: the same failure has the same name.
    fn save(&self, difference: &Difference) -> Result<PathBuf, CliError> {
        let text = serde_json::to_vec(&difference.trace).map_err(std::io::Error::from)?;
        let name = format!("{}-{:08x}.json", self.block, crc32fast::hash(&text));
        let path = self.keep.join(name);
        difference.trace.save(&path)?;
        Ok(path)
    }
}

fn speed(totals: &Totals) -> f64 {
    let seconds = totals.simulating.as_secs_f64();
    if seconds > 0.0 {
        (totals.clocks as f64 / seconds).round()
    } else {
        0.0
    }
}

/// The command that runs a trace again with a waveform, for a shell.
fn replay_command(path: &Path) -> String {
    format!("spraynic replay {} --wave failure.fst", for_shell(path))
}

/// A path as a shell takes it.
pub(crate) fn for_shell(path: &Path) -> String {
    let shown = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if shown.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', r"'\''"))
    }
}

fn print(out: &mut impl Write, report: &Report<'_>) -> std::io::Result<()> {
    let what = format!("{} ({}), seed {}", report.model.top, report.config, report.seed);
    match &report.difference {
        None => writeln!(
            out,
            "equal: {what}: all {} packets are those of the golden model",
            report.packets
        )?,
        Some(difference) => {
            writeln!(
                out,
                "DIFFERENT: {what}: after {} equal packets; the scenario was made smaller in {} runs\n\n{}\n",
                report.packets,
                difference.shrinking_runs,
                difference.message.trim_end()
            )?;
            if !difference.trace.is_empty() {
                writeln!(out, "trace:        {}", difference.trace)?;
                writeln!(out, "run it again: {}", difference.replay)?;
            }
            if !difference.replays {
                writeln!(
                    out,
                    "The recorded run did not fail in the same way when it was tried at once; its trace may pass."
                )?;
            }
            writeln!(out)?;
        }
    }
    writeln!(out, "packets    {}, {} bytes without FCS", report.packets, report.bytes)?;
    writeln!(
        out,
        "clocks     {} in {} scenarios, {} a second",
        report.clocks, report.scenarios, report.clocks_per_second
    )?;
    writeln!(out, "Verilator  {}", report.verilator)?;
    if report.model.cached {
        writeln!(out, "model      from the cache")?;
    } else {
        writeln!(out, "model      built in {:.1} s", report.model.seconds)?;
    }
    let width = report.counters.keys().map(String::len).max().unwrap_or(0);
    for (index, (name, value)) in report.counters.iter().enumerate() {
        let label = if index == 0 { "counters" } else { "" };
        writeln!(out, "{label:<9}  {name:width$}  {value:>10}")?;
    }
    Ok(())
}
