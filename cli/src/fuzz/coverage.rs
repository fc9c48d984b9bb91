//! `spraynic fuzz --coverage DIR`: scenarios that learn from the lines of Verilog that others reached, and the report of those never reached.
//!
//! DIR holds `corpus/`, traces of the scenarios that reached something first, which the next run begins with; `coverage.txt` for people and
//! `coverage.json` for programs, and for the next run. A file in it that is not ours is left alone.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spraynic_cosim::coverage::{Lines, Point, Report as LineReport};
use spraynic_network::Scenario;
use spraynic_network::check::Property;
use spraynic_network::fuzz::guided::{Entry, Guided, Outcome, Progress as Step};
use spraynic_network::fuzz::{Campaign, Finding, Totals};
use spraynic_network::trace::{self, ScenarioTrace};

use crate::error::CliError;
use crate::nics::Factory;
use crate::progress::Progress;

/// New points that the reason of a trace names.
const NAMED_POINTS: usize = 3;

/// What is printed of the coverage.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    directory: String,
    points_reached: usize,
    points: usize,
    lines_reached: usize,
    lines: usize,
    /// Scenarios in the corpus that reached something first, in this run.
    kept: usize,
    /// Those of them that were there before it.
    from_before: usize,
    /// Scenarios of the corpus that are for other NICs or another property, and were not run.
    skipped: usize,
    /// Scenarios that could not be run.
    refused: u64,
}

/// `coverage.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    nics: String,
    preset: String,
    overrides: Vec<String>,
    property: Property,
    seed: u64,
    /// Number of the first case of the next run with this seed.
    next_case: u64,
    /// Scenarios that were run, those of the corpus among them.
    scenarios: u64,
    /// Points that were reached, each instance for itself.
    instances_reached: usize,
    /// Points, each instance for itself.
    instances: usize,
    /// Points reached, each instance for itself, each with the number of scenarios after which it was so.
    growth: Vec<(u64, usize)>,
    report: LineReport,
}

/// What the last run left.
struct Before {
    scenarios: Vec<Scenario>,
    skipped: usize,
    first_case: u64,
}

/// Runs a campaign that learns, and writes its directory.
pub(super) fn run(
    campaign: &Campaign,
    factory: &Factory,
    nics: &str,
    directory: &Path,
) -> Result<(Totals, Option<Finding>, Summary), CliError> {
    let Some(model) = factory.model() else {
        let what = "--coverage counts lines of Verilog, and so needs a Verilated NIC: --nics verilated,golden";
        return Err(CliError::Usage(what.to_owned()));
    };
    let corpus = directory.join("corpus");
    let before = load(campaign, directory, &corpus)?;
    let lines = Lines::new(model, |nic: usize, config: &_, memory| {
        factory.make(nic, config, memory)
    });
    let guided = Guided {
        campaign: campaign.clone(),
        first_case: before.first_case,
        learn: true,
    };
    let points = model.coverage();
    let mut unsaved = None;
    let outcome = with_progress(&guided, &lines, before.scenarios, points.points().len(), &mut |entry| {
        if unsaved.is_none() && !entry.from_before {
            unsaved = keep(campaign, entry, points.points(), &corpus).err();
        }
    });
    let coverage = lines.coverage(&outcome.counts);
    let report = model.coverage_report(&coverage);
    let summary = Summary {
        directory: directory.display().to_string(),
        points_reached: report.points_reached,
        points: report.points,
        lines_reached: report.lines_reached,
        lines: report.lines,
        kept: outcome.corpus.len(),
        from_before: outcome.corpus.iter().filter(|entry| entry.from_before).count(),
        skipped: before.skipped,
        refused: outcome.refused,
    };
    if let Some(error) = unsaved {
        return Err(error);
    }
    let saved = Saved {
        nics: nics.to_owned(),
        preset: campaign.base.preset().to_owned(),
        overrides: campaign.base.overrides().to_vec(),
        property: campaign.property,
        seed: campaign.seed,
        next_case: outcome.next_case,
        scenarios: outcome.totals.scenarios,
        instances_reached: coverage.reached(),
        instances: coverage.points().len(),
        growth: outcome.growth,
        report,
    };
    write(&saved, directory)?;
    Ok((outcome.totals, outcome.finding, summary))
}

fn with_progress<S: spraynic_network::fuzz::guided::Subject>(
    guided: &Guided,
    subject: &S,
    before: Vec<Scenario>,
    points: usize,
    keep: &mut dyn FnMut(&Entry),
) -> Outcome {
    let campaign = &guided.campaign;
    let by_cases = campaign.cases.filter(|_| campaign.time.is_none());
    let whole = by_cases.map_or_else(
        || campaign.time.map_or(0, |time| time.as_millis() as u64),
        |cases| cases + before.len() as u64,
    );
    let trying = Progress::before_result("trying scenarios", whole);
    let shrinking = Progress::before_result("making the failure smaller", 0);
    let outcome = guided.run(subject, before, &mut |step| match step {
        Step::Trying {
            scenarios,
            elapsed,
            reached,
            kept,
        } => {
            let done = by_cases.map_or(elapsed.as_millis() as u64, |_| scenarios);
            trying.set(done.min(whole));
            trying.note(&format!(
                "{scenarios} tried, {reached} of {points} points reached, {kept} kept"
            ));
        }
        Step::Kept(entry) => keep(entry),
        Step::Shrinking(runs) => {
            trying.finish();
            shrinking.set(runs);
        }
    });
    trying.finish();
    shrinking.finish();
    outcome
}

fn file_error(path: &Path, action: &'static str) -> impl Fn(std::io::Error) -> CliError {
    move |source| CliError::File {
        path: path.to_path_buf(),
        action,
        source,
    }
}

/// The corpus, by names of files, and where the numbers of cases go on.
fn load(campaign: &Campaign, directory: &Path, corpus: &Path) -> Result<Before, CliError> {
    fs::create_dir_all(corpus).map_err(file_error(corpus, "create"))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(corpus).map_err(file_error(corpus, "read"))? {
        files.push(entry.map_err(file_error(corpus, "read"))?.path());
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut scenarios = Vec::new();
    let mut skipped = 0;
    for path in files {
        let trace = ScenarioTrace::load(&path)?;
        if trace.property == campaign.property && campaign.base.accepts(&trace.scenario) {
            scenarios.push(trace.scenario);
        } else {
            skipped += 1;
        }
    }
    let path = directory.join("coverage.json");
    let first_case = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(file_error(&path, "read")(error)),
        Ok(text) => {
            let saved: Saved = serde_json::from_slice(&text).map_err(|error| CliError::Content {
                path: path.clone(),
                message: format!("it is not what `spraynic fuzz --coverage` writes: {error}"),
            })?;
            let same = (saved.seed, saved.property) == (campaign.seed, campaign.property)
                && saved.preset == campaign.base.preset()
                && saved.overrides == campaign.base.overrides();
            if same { saved.next_case } else { 0 }
        }
    };
    Ok(Before {
        scenarios,
        skipped,
        first_case,
    })
}

/// Saves a scenario that reached something first.
fn keep(campaign: &Campaign, entry: &Entry, points: &[Point], corpus: &Path) -> Result<(), CliError> {
    let mut named: Vec<String> = Vec::new();
    for point in entry
        .new_points
        .iter()
        .filter_map(|place| points.get(*place))
        .take(NAMED_POINTS)
    {
        named.push(format!("{}:{}", point.file, point.line));
    }
    let mut reason = format!("first to reach {}", named.join(", "));
    if entry.new_points.len() > named.len() {
        reason.push_str(&format!(" and {} more", entry.new_points.len() - named.len()));
    }
    ScenarioTrace::new(campaign.property, entry.scenario.clone(), reason).save_in(corpus)?;
    Ok(())
}

fn write(saved: &Saved, directory: &Path) -> Result<(), CliError> {
    trace::save(saved, &directory.join("coverage.json"))?;
    let mut of = vec![saved.preset.as_str()];
    of.extend(saved.overrides.iter().map(String::as_str));
    let mut text = format!(
        "What {} ({}) reached of the Verilog in {} scenarios, seed {}. A point is a block of statements or a branch, counted once for all\n\
         instances of its module; a line without statements in an `always` has none. Counted in each instance that Verilator keeps apart:\n\
         {} of {} points.\n\n{}",
        saved.nics,
        of.join(" "),
        saved.scenarios,
        saved.seed,
        saved.instances_reached,
        saved.instances,
        saved.report
    );
    text.push_str("\nPoints reached after so many scenarios (each instance for itself):\n\n");
    for (scenarios, reached) in &saved.growth {
        text.push_str(&format!("{scenarios:>9}  {reached}\n"));
    }
    let path = directory.join("coverage.txt");
    fs::write(&path, text).map_err(file_error(&path, "write"))
}

impl Summary {
    /// Prints it below what was reached.
    pub(super) fn print(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        writeln!(
            out,
            "\nVerilog    {} of {} lines reached ({:.1} %), {} of {} points ({:.1} %)",
            self.lines_reached,
            self.lines,
            share(self.lines_reached, self.lines),
            self.points_reached,
            self.points,
            share(self.points_reached, self.points)
        )?;
        writeln!(
            out,
            "corpus     {} scenarios reached something first, {} of them from before",
            self.kept, self.from_before
        )?;
        if self.skipped > 0 {
            let what = "scenarios of the corpus are for other NICs or options, and were not run";
            writeln!(out, "           {} {what}", self.skipped)?;
        }
        if self.refused > 0 {
            writeln!(out, "           {} scenarios could not be run", self.refused)?;
        }
        let directory = Path::new(&self.directory);
        writeln!(out, "report     {}", directory.join("coverage.txt").display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_network::strategy::Base;

    fn campaign(seed: u64, property: Property) -> Campaign {
        Campaign {
            base: Base::new("lab", &[], 1_000).expect("preset lab"),
            property,
            seed,
            cases: Some(1),
            time: None,
            jobs: 1,
        }
    }

    /// A run without lines, which keeps one scenario all the same.
    fn saved(seed: u64) -> Saved {
        Saved {
            nics: "two verilated NICs".to_owned(),
            preset: "lab".to_owned(),
            overrides: Vec::new(),
            property: Property::Delivery,
            seed,
            next_case: 77,
            scenarios: 80,
            instances_reached: 1,
            instances: 2,
            growth: vec![(5, 1)],
            report: LineReport {
                top: "spraynic_nic".to_owned(),
                points_reached: 1,
                points: 2,
                lines_reached: 1,
                lines: 2,
                files: Vec::new(),
            },
        }
    }

    #[test]
    fn the_next_run_takes_up_what_the_last_one_left() {
        let place = tempfile::tempdir().expect("a directory");
        let (directory, corpus) = (place.path(), place.path().join("corpus"));
        let ours = campaign(1, Property::Delivery);
        let before = load(&ours, directory, &corpus).expect("an empty directory");
        assert_eq!((before.scenarios.len(), before.first_case), (0, 0));

        let scenario = Scenario {
            messages: serde_json::from_str(r#"[{"queue_pair":0,"side":1,"operation":"send","length":7}]"#)
                .expect("a message"),
            ..Scenario::default()
        };
        let entry = Entry {
            scenario: scenario.clone(),
            new_points: vec![0],
            from_before: false,
        };
        let point: Point = serde_json::from_str(
            r#"{"module":"m","file":"m.v","line":9,"column":1,"hierarchy":"m","kind":"then","lines":[[9,10]]}"#,
        )
        .expect("a point");
        keep(&ours, &entry, &[point], &corpus).expect("a trace");
        write(&saved(1), directory).expect("a report");
        let text = fs::read_to_string(directory.join("coverage.txt")).expect("the report");
        assert!(
            text.contains("two verilated NICs (lab)") && text.contains("1 of 2 points"),
            "{text}"
        );

        let before = load(&ours, directory, &corpus).expect("what was left");
        assert_eq!(before.scenarios, [scenario]);
        assert_eq!((before.skipped, before.first_case), (0, 77));
        let file = fs::read_dir(&corpus)
            .expect("a corpus")
            .next()
            .expect("a file")
            .expect("a file");
        let trace = ScenarioTrace::load(&file.path()).expect("a trace");
        assert_eq!(trace.reason, "first to reach m.v:9");
        // Another seed begins anew; what is for another property is left out.
        assert_eq!(
            load(&campaign(2, Property::Delivery), directory, &corpus)
                .expect("a corpus")
                .first_case,
            0
        );
        let other = load(&campaign(1, Property::NothingTwice), directory, &corpus).expect("a corpus");
        assert_eq!((other.scenarios.len(), other.skipped, other.first_case), (0, 1, 0));
        // What is not ours is named, and not overwritten.
        fs::write(directory.join("coverage.json"), "{}").expect("a file");
        let error = load(&ours, directory, &corpus).err().expect("no report").to_string();
        assert!(
            error.contains("coverage.json") && error.contains("--coverage"),
            "{error}"
        );
    }
}
