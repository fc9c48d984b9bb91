//! Says for each Verilog file how much of it was reached, and names what never was, with its text and the place in Rust that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::places::Places;
use super::{Coverage, Kind, Point};

/// What was reached of all files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Top module.
    pub top: String,
    /// Points that were reached. Instances of a module count as one here.
    pub points_reached: usize,
    /// Points.
    pub points: usize,
    /// Lines that were reached. Lines without statements in an `always` do not count, nor do those of `assign`.
    pub lines_reached: usize,
    /// Lines.
    pub lines: usize,
    /// The files, those with most unreached points first.
    pub files: Vec<FileReport>,
}

/// What was reached of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its name.
    pub file: String,
    /// Where in Rust its module is described.
    pub source: Option<String>,
    /// See [`Report::points_reached`].
    pub points_reached: usize,
    /// See [`Report::points`].
    pub points: usize,
    /// See [`Report::lines_reached`].
    pub lines_reached: usize,
    /// See [`Report::lines`].
    pub lines: usize,
    /// What was never reached, by line.
    pub unreached: Vec<Unreached>,
}

/// A point that was never reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreached {
    /// Line of its `if` or `always`.
    pub line: u32,
    /// What it would be to reach it.
    pub kind: Kind,
    /// Text of the line.
    pub text: String,
    /// What names in it stand for that only the generator gave, as `t_5 = ready & valid`.
    pub meanings: Vec<String>,
    /// Lines that are executed nowhere else, and so never were.
    pub lines: Vec<u32>,
    /// What they assign: a register, or the name of an assertion.
    pub assigns: Option<String>,
    /// Where in Rust that is described, else its module.
    pub source: Option<String>,
}

/// A point whatever the instance.
type Place = (u32, u32, Kind);

impl Report {
    /// From counts and the text of the files; a file whose text is not there is reported without text.
    #[must_use]
    pub fn new(top: &str, coverage: &Coverage, files: &[(String, String)]) -> Self {
        let mut by_file: BTreeMap<&str, BTreeMap<Place, (&Point, u64)>> = BTreeMap::new();
        for (point, count) in coverage.points().iter().zip(coverage.counts()) {
            let places = by_file.entry(&point.file).or_default();
            let (_, sum) = places
                .entry((point.line, point.column, point.kind))
                .or_insert((point, 0));
            *sum = sum.saturating_add(*count);
        }
        let text = |file: &str| files.iter().find(|(name, _)| name == file).map_or("", |(_, text)| text);
        let mut reports: Vec<FileReport> = by_file
            .into_iter()
            .map(|(file, points)| report_of(file, text(file), points.into_values().collect()))
            .collect();
        reports.sort_by_key(|report| (std::cmp::Reverse(report.unreached.len()), report.file.clone()));
        let sum = |of: fn(&FileReport) -> usize| reports.iter().map(of).sum();
        Self {
            top: top.to_owned(),
            points_reached: sum(|report| report.points_reached),
            points: sum(|report| report.points),
            lines_reached: sum(|report| report.lines_reached),
            lines: sum(|report| report.lines),
            files: reports,
        }
    }
}

fn report_of(file: &str, text: &str, points: Vec<(&Point, u64)>) -> FileReport {
    let places = Places::of(text);
    let lines_of = |point: &Point| {
        point
            .lines
            .iter()
            .flat_map(|(first, last)| *first..=*last)
            .collect::<Vec<u32>>()
    };
    let lines = |only_reached: bool| -> BTreeSet<u32> {
        let counted = points.iter().filter(|(_, count)| !only_reached || *count > 0);
        counted.flat_map(|(point, _)| lines_of(point)).collect()
    };
    let (all, reached) = (lines(false), lines(true));
    let unreached = points.iter().filter(|(_, count)| *count == 0).map(|(point, _)| {
        let mine = lines_of(point);
        let assigned = places.assigned(mine.iter().copied(), point.line);
        Unreached {
            line: point.line,
            kind: point.kind,
            text: places.line(point.line).to_owned(),
            meanings: places.meanings(places.line(point.line)),
            lines: mine.into_iter().filter(|line| !reached.contains(line)).collect(),
            assigns: assigned.map(|(name, _)| name.to_owned()),
            source: assigned.map(|(_, place)| place).or(places.module()).map(str::to_owned),
        }
    });
    FileReport {
        file: file.to_owned(),
        source: places.module().map(str::to_owned),
        points_reached: points.iter().filter(|(_, count)| *count > 0).count(),
        points: points.len(),
        lines_reached: reached.len(),
        lines: all.len(),
        unreached: unreached.collect(),
    }
}

/// Longest text of a line that is printed, in characters.
const LONGEST_TEXT: usize = 100;

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_TEXT).collect();
    if short.len() < text.len() {
        short.push_str(" ...");
    }
    short
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .files
            .iter()
            .map(|file| file.file.len())
            .max()
            .unwrap_or(0)
            .max("all files".len());
        writeln!(f, "{:width$}  {:>13}  {:>13}", self.top, "points", "lines")?;
        let mut row = |name: &str, points: (usize, usize), lines: (usize, usize)| {
            let share = |(part, whole): (usize, usize)| format!("{part}/{whole}");
            writeln!(f, "{name:width$}  {:>13}  {:>13}", share(points), share(lines))
        };
        row(
            "all files",
            (self.points_reached, self.points),
            (self.lines_reached, self.lines),
        )?;
        for file in &self.files {
            row(
                &file.file,
                (file.points_reached, file.points),
                (file.lines_reached, file.lines),
            )?;
        }
        if self.points_reached < self.points {
            writeln!(f, "\nNever reached:")?;
        }
        for file in self.files.iter().filter(|file| !file.unreached.is_empty()) {
            match &file.source {
                Some(source) => writeln!(f, "\n{} ({source})", file.file)?,
                None => writeln!(f, "\n{}", file.file)?,
            }
            for point in &file.unreached {
                writeln!(
                    f,
                    "{:>6}  {:<14}  {}",
                    point.line,
                    point.kind.never(),
                    shortened(&point.text)
                )?;
                for meaning in &point.meanings {
                    writeln!(f, "{:>24}{}", "", shortened(meaning))?;
                }
                if let Some(source) = &point.source {
                    let what = point.assigns.as_deref().unwrap_or("module");
                    writeln!(f, "{:>24}{what}: {source}", "")?;
                }
            }
        }
        Ok(())
    }
}
