//! Reads the points that Verilator counts from the C++ that it writes, in the order of its array of counters.
//!
//! That array is the fastest way to the counts: its place says which point is meant, and no file is written. Nothing here counts.

use crate::coverage::{Kind, Point};

/// Counts the changes of this file that change what is compiled or kept.
pub(super) const VERSION: u32 = 1;

/// The call that announces a point to Verilator's runtime; its first argument is the place in the array.
const CALL: &str = "__vlCoverInsert(&(vlSymsp->__Vcoverage[";

/// All points that Verilated sources announce, by their place in `__Vcoverage`.
pub(super) fn parse<'a>(sources: impl IntoIterator<Item = &'a str>) -> Result<Vec<Point>, String> {
    let mut found: Vec<(usize, Point)> = Vec::new();
    for line in sources.into_iter().flat_map(str::lines) {
        let Some((_, rest)) = line.split_once(CALL) else {
            continue;
        };
        let point = place_and_point(rest);
        found.push(
            point.ok_or_else(|| {
                format!("Verilator announces a point of coverage in a form that is not known: {line}")
            })?,
        );
    }
    found.sort_by_key(|(place, _)| *place);
    for (expected, (place, _)) in found.iter().enumerate() {
        if *place != expected {
            return Err(format!(
                "Verilator announces no point of coverage number {expected}, or announces one twice"
            ));
        }
    }
    Ok(found.into_iter().map(|(_, point)| point).collect())
}

/// From behind `[` of the first argument: `N]), first, "file", line, column, ".hierarchy", "page/module", "comment", "lines", ...`.
fn place_and_point(text: &str) -> Option<(usize, Point)> {
    let (place, rest) = text.split_once("]), ")?;
    let (_, rest) = rest.split_once(", ")?;
    let (file, rest) = string(rest)?;
    let (line, rest) = rest.split_once(", ")?;
    let (column, rest) = rest.split_once(", ")?;
    let (hierarchy, rest) = string(rest)?;
    let (page, rest) = string(rest)?;
    let (comment, rest) = string(rest)?;
    let (lines, _) = string(rest)?;
    let module = page.split_once('/').map_or(page.as_str(), |(_, module)| module);
    let point = Point {
        module: module.to_owned(),
        file,
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        hierarchy: hierarchy.trim_start_matches('.').to_owned(),
        kind: Kind::of(&comment),
        lines: ranges(&lines)?,
    };
    Some((place.parse().ok()?, point))
}

/// A string of C++ and what stands behind it and its comma.
fn string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let rest = &text[at + 2..];
                return Some((value, rest.strip_prefix(", ").unwrap_or(rest)));
            }
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// "82-83,85": the lines 82, 83 and 85, as first and last of each range.
fn ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    parts.map(range).collect()
}

/// The same source with plain counters instead of atomic ones: a model runs on one thread at a time, and an atomic addition for each
/// block that is executed costs more than the block.
pub(super) fn with_plain_counters(source: &str) -> String {
    source
        .replace("std::atomic<uint32_t>", "uint32_t")
        .replace(".fetch_add(1, std::memory_order_relaxed)", " += 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
    vlSelf->__vlCoverInsert(&(vlSymsp->__Vcoverage[1]), first, "top_n2.v", 86, 19, ".top_n2.u_a", "v_branch/top_n2", "else", "");
    vlSelf->__vlCoverInsert(&(vlSymsp->__Vcoverage[0]), first, "top_n2.v", 84, 18, ".top_n2", "v_line/top_n2", "elsif", "84-85,88");"#;
    const NEW: &str = r#"
    vlSelf->__vlCoverInsert(&(vlSymsp->__Vcoverage[2]), first, "a \"b\".v", 30, 41, "", "v_branch/arbiter", "cond_then", "30", "", "", "", "");"#;

    #[test]
    fn points_are_read_from_both_forms_in_the_order_of_the_array() {
        let points = parse([NEW, OLD]).expect("points");
        let seen: Vec<_> = points
            .iter()
            .map(|p| {
                (
                    p.file.as_str(),
                    p.line,
                    p.column,
                    p.hierarchy.as_str(),
                    p.module.as_str(),
                    p.kind,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("top_n2.v", 84, 18, "top_n2", "top_n2", Kind::Then),
                ("top_n2.v", 86, 19, "top_n2.u_a", "top_n2", Kind::Else),
                ("a \"b\".v", 30, 41, "", "arbiter", Kind::TrueValue),
            ]
        );
        assert_eq!(points[0].lines, [(84, 85), (88, 88)]);
        assert_eq!(points[1].lines, []);
    }

    #[test]
    fn a_point_that_is_missing_or_not_understood_is_an_error() {
        let message = parse([NEW]).expect_err("0 and 1 are missing");
        assert!(message.contains("number 0"), "{message}");
        let cut = OLD.replace("86, 19", "86");
        assert!(parse([cut.as_str()]).is_err());
        assert!(parse([OLD, OLD]).is_err());
    }

    #[test]
    fn counters_become_plain() {
        let text =
            "std::atomic<uint32_t> __Vcoverage[2];\nvlSymsp->__Vcoverage[1].fetch_add(1, std::memory_order_relaxed);";
        assert_eq!(
            with_plain_counters(text),
            "uint32_t __Vcoverage[2];\nvlSymsp->__Vcoverage[1] += 1;"
        );
    }
}
