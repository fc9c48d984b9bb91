//! Replay of a scenario on golden or Verilated NICs, with all that happened as text or as a capture.

use std::io::{BufWriter, Write};

use serde::Serialize;
use spraynic_network::Failure;
use spraynic_network::check::{self, Good, Property, check};
use spraynic_network::log::{self, Log};
use spraynic_network::trace::ScenarioTrace;

use super::ReplayCommand;
use crate::error::{CliError, Verdict};
use crate::nics::Factory;
use crate::progress::Progress;

#[derive(Debug, Serialize)]
struct Report<'a> {
    verdict: &'static str,
    kind: &'a str,
    nics: String,
    property: Property,
    preset: &'a str,
    overrides: &'a [String],
    /// Why the trace was saved.
    saved_because: &'a str,
    /// Why it fails now.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Of a run that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waveforms: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Vec<String>>,
}

impl ReplayCommand {
    pub(super) fn run_scenario(&self) -> Result<Verdict, CliError> {
        if self.wave.is_some() && !self.nics.has_verilated() {
            return Err(self.unusable(
                "it is the trace of a scenario, and golden NICs have no waveform: --nics verilated,golden runs NIC 0 as Verilog; \
                 --log says what happened"
                    .to_owned(),
            ));
        }
        let trace = ScenarioTrace::load(&self.file)?;
        let config = trace
            .scenario
            .config()
            .map_err(|failure| self.unusable(failure.to_string()))?;
        let factory = self.nics.factory(&config, self.wave.as_deref(), false)?;
        let events = (self.log || self.pcap.is_some()).then(Log::default);
        check::keep_panics();
        let result = Progress::during("running the scenario", || once_more(&trace, &factory, events.as_ref()));
        if let Err(failure @ Failure::Scenario(_)) = &result {
            return Err(self.unusable(failure.to_string()));
        }
        let entries = events.map(|log| log.take()).unwrap_or_default();
        if let Some(path) = &self.pcap {
            let error = |action| CliError::file(path, action);
            let file = std::fs::File::create(path).map_err(error("create the capture"))?;
            log::capture(&entries, 0, BufWriter::new(file))
                .and_then(|mut sink| sink.flush())
                .map_err(error("write the capture"))?;
        }
        let good = result.as_ref().ok();
        let report = Report {
            verdict: if good.is_some() { "passes" } else { "fails" },
            kind: &trace.kind,
            nics: self.nics.words(""),
            property: trace.property,
            preset: &trace.scenario.preset,
            overrides: &trace.scenario.overrides,
            saved_because: trace.reason.trim_end(),
            message: result.as_ref().err().map(ToString::to_string),
            finished_ns: good.map(|good| good.report.finished_ns),
            frames: good.map(|good| good.report.sent.iter().sum()),
            pcap: self.pcap.as_ref().map(|path| path.display().to_string()),
            waveforms: factory.waveforms(trace.scenario.nics),
            log: self.log.then(|| log::lines(&entries)),
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print(&mut out, &report)?;
        }
        out.flush()?;
        Ok(match report.message {
            Some(_) => Verdict::FailureFound,
            None => Verdict::Good,
        })
    }
}

fn once_more(trace: &ScenarioTrace, factory: &Factory, log: Option<&Log>) -> Result<Good, Failure> {
    let make = |nic: usize, config: &_, memory| factory.make(nic, config, memory);
    check(&trace.scenario, trace.property, make, log)
}

fn print(out: &mut impl Write, report: &Report<'_>) -> std::io::Result<()> {
    let mut of = vec![report.preset];
    of.extend(report.overrides.iter().map(String::as_str));
    let what = format!("{} ({})", report.nics, of.join(" "));
    match &report.message {
        None => writeln!(
            out,
            "passes: {what}: {} frames in {} ns, all as it must be",
            report.frames.unwrap_or(0),
            report.finished_ns.unwrap_or(0)
        )?,
        Some(message) => writeln!(out, "FAILS: {what}\n\n{message}")?,
    }
    if !report.saved_because.is_empty() && report.message.as_deref() != Some(report.saved_because) {
        writeln!(out, "\nIt was saved because:\n{}", report.saved_because)?;
    }
    if let Some(path) = &report.pcap {
        writeln!(out, "\ncapture of NIC 0: {path}")?;
    }
    for path in &report.waveforms {
        writeln!(out, "\nwaveform: {path}; time_ns says the time of the network")?;
    }
    if let Some(lines) = &report.log {
        writeln!(out, "\n{:>12}", "ns")?;
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
