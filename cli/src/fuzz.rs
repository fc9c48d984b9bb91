//! `spraynic fuzz`: random scenarios of two NICs, golden or Verilated, on a network that loses, damages, repeats and reorders, until one fails.

mod coverage;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use spraynic_config::Preset;
use spraynic_network::Failure;
use spraynic_network::check::{self, Property};
use spraynic_network::fuzz::{Campaign, Finding, Progress as Step, Row, Totals};
use spraynic_network::sabotage::Sabotage;
use spraynic_network::strategy::Base;

use crate::cosim::for_shell;
use crate::duration;
use crate::error::{CliError, Verdict};
use crate::nics::{Factory, NicArguments};
use crate::progress::Progress;

/// How long to go on where neither time nor cases are said.
const DEFAULT_TIME: Duration = Duration::from_secs(60);

/// Try random scenarios on two NICs, golden or Verilated, until one fails
///
/// A scenario has up to three queue pairs of any profile, up to 30 messages and two to five paths that delay, lose,
/// damage, repeat, hold and die. Each message must come through once and in order, memory must be what it must be, and
/// nothing may be left behind. Verilated NICs need Verilator and a C++ compiler, as `spraynic cosim`. Exit status 1 at the first failure: it is made smaller and saved as a trace for
/// `spraynic replay`.
#[derive(Debug, Args)]
pub(crate) struct FuzzCommand {
    /// Go on for so long, as in 90s, 10m or 1h30m [default: 1m, without --cases]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// Try so many scenarios; with --time, whichever ends first
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    cases: Option<u64>,
    /// Threads [default: as many as the machine has cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Seed: scenario n of a seed is always the same
    #[arg(long, value_name = "S", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Nothing is lost, damaged or repeated, and nothing dies: then nothing may be sent twice
    #[arg(long)]
    lossless: bool,
    /// Longest message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 60_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=1 << 24))]
    longest: u32,
    /// Preset of the NICs
    #[arg(long, default_value = "lab", value_parser = PossibleValuesParser::new(Preset::NAMES))]
    preset: String,
    /// Override of one key, as in --set send.window=64 (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Directory for the trace of a failure
    #[arg(long, value_name = "DIR", default_value = "spraynic-failures")]
    out: PathBuf,
    /// Learn from the lines of Verilog that scenarios reach, and report in DIR those never reached
    ///
    /// Needs a Verilated NIC. Scenarios that reach a line first are kept in DIR/corpus, and later ones are changes of them; the next run
    /// with the same DIR begins with them. The report is DIR/coverage.txt, and DIR/coverage.json for programs.
    #[arg(long, value_name = "DIR")]
    coverage: Option<PathBuf>,
    #[command(flatten)]
    nics: NicArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads the name of a fault that NIC 0 is given.
pub(crate) fn sabotage_parser() -> impl TypedValueParser<Value = Sabotage> {
    PossibleValuesParser::new(Sabotage::NAMES.map(|(name, _)| name)).try_map(|name| {
        let known = Sabotage::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, sabotage)| *sabotage).ok_or("unknown sabotage")
    })
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    verdict: &'static str,
    nics: String,
    preset: &'a str,
    overrides: &'a [String],
    property: Property,
    seed: u64,
    jobs: usize,
    /// What held.
    scenarios: u64,
    messages: u64,
    bytes: u64,
    frames: u64,
    simulated_seconds: f64,
    elapsed_seconds: f64,
    scenarios_per_second: f64,
    frames_per_second: f64,
    reached: &'a [Row],
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<coverage::Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureReport>,
}

#[derive(Debug, Serialize)]
struct FailureReport {
    /// Number of the scenario, from 0.
    case: u64,
    message: String,
    shrinking_runs: u64,
    trace: String,
    replay: String,
}

impl FuzzCommand {
    pub(crate) fn run(&self) -> Result<Verdict, CliError> {
        let base = Base::new(&self.preset, &self.overrides, self.longest).map_err(usage)?;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let campaign = Campaign {
            base,
            property: if self.lossless {
                Property::NothingTwice
            } else {
                Property::Delivery
            },
            seed: self.seed,
            cases: self.cases,
            time: self.time.or(self.cases.is_none().then_some(DEFAULT_TIME)),
            jobs: self.jobs.map_or(cores, usize::from),
        };
        let factory = self
            .nics
            .factory(campaign.base.config(), None, self.coverage.is_some())?;
        check::keep_panics();
        let (totals, finding, coverage) = match &self.coverage {
            None => {
                let (totals, finding) = try_scenarios(&campaign, &factory);
                (totals, finding, None)
            }
            Some(directory) => {
                let (totals, finding, summary) =
                    coverage::run(&campaign, &factory, &self.nics.words("two "), directory)?;
                (totals, finding, Some(summary))
            }
        };
        if let Some(Finding {
            failure: failure @ Failure::Scenario(_),
            ..
        }) = finding
        {
            return Err(usage(failure));
        }
        let saved = finding
            .as_ref()
            .map(|finding| finding.trace.save_in(&self.out))
            .transpose();
        let failure = finding.map(|finding| {
            let path = saved.as_ref().ok().and_then(Option::as_ref);
            FailureReport {
                case: finding.case,
                message: finding.failure.to_string(),
                shrinking_runs: finding.shrinking_runs,
                trace: path.map(|path| path.display().to_string()).unwrap_or_default(),
                replay: path
                    .map(|path| format!("spraynic replay {} --log{}", for_shell(path), self.nics.option()))
                    .unwrap_or_default(),
            }
        });
        let seconds = totals.elapsed.as_secs_f64().max(1e-9);
        let report = Report {
            verdict: if failure.is_some() { "fails" } else { "holds" },
            nics: self.nics.words("two "),
            preset: &self.preset,
            overrides: &self.overrides,
            property: campaign.property,
            seed: self.seed,
            jobs: campaign.jobs,
            scenarios: totals.scenarios,
            messages: totals.messages,
            bytes: totals.bytes,
            frames: totals.frames,
            simulated_seconds: totals.simulated.as_secs_f64(),
            elapsed_seconds: totals.elapsed.as_secs_f64(),
            scenarios_per_second: totals.scenarios as f64 / seconds,
            frames_per_second: totals.frames as f64 / seconds,
            reached: totals.reached(),
            coverage,
            failure,
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print(&mut out, &report)?;
        }
        // The failure was printed first: it must not be lost because its trace cannot be written.
        saved?;
        Ok(match report.failure {
            Some(_) => Verdict::FailureFound,
            None => Verdict::Good,
        })
    }
}

fn try_scenarios(campaign: &Campaign, factory: &Factory) -> (Totals, Option<Finding>) {
    let by_cases = campaign.cases.filter(|_| campaign.time.is_none());
    let whole = campaign.time.map_or(0, |time| time.as_millis() as u64);
    let trying = Progress::before_result("trying scenarios", by_cases.unwrap_or(whole));
    let shrinking = Progress::before_result("making the failure smaller", 0);
    let mut show = |step| match step {
        Step::Trying { scenarios, elapsed } => {
            trying.set(match by_cases {
                Some(cases) => scenarios.min(cases),
                None => (elapsed.as_millis() as u64).min(whole),
            });
            trying.note(&format!("{scenarios} tried"));
        }
        Step::Shrinking(runs) => {
            trying.finish();
            shrinking.set(runs);
        }
    };
    let make = |nic: usize, config: &_, memory| factory.make(nic, config, memory);
    let result = campaign.run(&make, &mut show);
    trying.finish();
    shrinking.finish();
    result
}

fn usage(failure: Failure) -> CliError {
    CliError::Usage(failure.to_string())
}

fn print(out: &mut impl Write, report: &Report<'_>) -> std::io::Result<()> {
    let mut of = vec![report.preset];
    of.extend(report.overrides.iter().map(String::as_str));
    let what = format!("{} ({}), seed {}", report.nics, of.join(" "), report.seed);
    match &report.failure {
        None => {
            let held = match report.property {
                Property::Delivery => "every message came through once and in order",
                Property::NothingTwice => "every message came through once and in order, and nothing was sent twice",
            };
            writeln!(out, "holds: {what}: in {} scenarios {held}", report.scenarios)?;
        }
        Some(failure) => {
            writeln!(
                out,
                "FAILS: {what}: scenario {}, made smaller in {} runs\n\n{}\n",
                failure.case,
                failure.shrinking_runs,
                failure.message.trim_end()
            )?;
            if !failure.trace.is_empty() {
                writeln!(out, "trace:        {}", failure.trace)?;
                writeln!(out, "run it again: {}", failure.replay)?;
            }
            writeln!(out, "\nWhat held:")?;
        }
    }
    writeln!(
        out,
        "\nscenarios  {} in {:.1} s on {} threads: {:.0} a second",
        report.scenarios, report.elapsed_seconds, report.jobs, report.scenarios_per_second
    )?;
    writeln!(
        out,
        "messages   {}, {} bytes; {:.3} s of simulated time",
        report.messages, report.bytes, report.simulated_seconds
    )?;
    writeln!(
        out,
        "frames     {}, {:.0} a second",
        report.frames, report.frames_per_second
    )?;
    let width = report
        .reached
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or(0)
        .max(8);
    if !report.reached.is_empty() {
        writeln!(
            out,
            "\n{:<11}  {:width$}  {:>9}  {:>10}",
            "reached", "", "scenarios", "count"
        )?;
    }
    let mut group = "";
    for row in report.reached {
        let label = if row.group == group { "" } else { row.group };
        group = row.group;
        writeln!(
            out,
            "{label:<11}  {:width$}  {:>9}  {:>10}",
            row.name, row.scenarios, row.count
        )?;
    }
    if let Some(summary) = &report.coverage {
        summary.print(out)?;
    }
    Ok(())
}
