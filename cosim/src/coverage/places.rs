//! Finds the place in Rust that a line of generated Verilog comes from: the generator writes it behind declarations and instances.
//!
//! A line of an `always` bears none, but what it assigns is declared with one.

use std::collections::HashMap;

/// What the comments of one Verilog file say.
#[derive(Debug, Default)]
pub(super) struct Places<'a> {
    lines: Vec<&'a str>,
    declared: HashMap<&'a str, &'a str>,
    /// What stands for a name that nobody gave: `t_5` of `assign t_5 = ready & valid;`.
    meant: HashMap<&'a str, &'a str>,
    module: Option<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut places = Self {
            lines: text.lines().collect(),
            ..Self::default()
        };
        for line in &places.lines {
            if let Some((_, place)) = line.split_once("described in ") {
                places.module = places.module.or(Some(place.trim().trim_end_matches('.')));
            }
            if let Some((name, meaning)) = line
                .trim()
                .strip_prefix("assign ")
                .and_then(|line| line.split_once(" = "))
                && is_unnamed(name)
            {
                places.meant.insert(name, meaning.trim_end_matches(';'));
            }
            let Some((code, comment)) = line.split_once("//") else {
                continue;
            };
            let (Some(name), Some(place)) = (declared_name(code), last_place(comment)) else {
                continue;
            };
            places.declared.entry(name).or_insert(place);
        }
        places
    }

    /// The text of a line, from 1, without the blanks around it.
    pub(super) fn line(&self, number: u32) -> &'a str {
        let index = (number as usize).checked_sub(1);
        index
            .and_then(|index| self.lines.get(index))
            .map_or("", |line| line.trim())
    }

    /// Where the module is described.
    pub(super) fn module(&self) -> Option<&'a str> {
        self.module
    }

    /// What the names in a line stand for that nobody gave, in the order of the line, as `t_5 = ready & valid`.
    pub(super) fn meanings(&self, text: &str) -> Vec<String> {
        let mut meanings: Vec<String> = Vec::new();
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let meaning = self.meant.get(name).map(|meaning| format!("{name} = {meaning}"));
            meanings.extend(meaning.filter(|meaning| !meanings.contains(meaning)));
        }
        meanings
    }

    /// Where what these lines assign is described, and its name; else what the whole block around them assigns.
    pub(super) fn assigned(&self, lines: impl IntoIterator<Item = u32>, line: u32) -> Option<(&'a str, &'a str)> {
        let of = |number: u32| {
            let name = assigned_name(self.line(number))?;
            Some((name, *self.declared.get(name)?))
        };
        let inside = lines.into_iter().find_map(of);
        inside.or_else(|| self.said_in(line)).or_else(|| {
            // An `else` that is not written: its `if` assigns something just behind it.
            let behind = (line..).take_while(|number| !matches!(self.line(*number), "" | "end"));
            behind.take(40).find_map(of)
        })
    }

    /// A line that names its place itself: an assertion says it in its message, a declaration in its comment.
    fn said_in(&self, line: u32) -> Option<(&'a str, &'a str)> {
        let text = [line, line + 1].map(|number| self.line(number));
        text.into_iter().find_map(|text| {
            let (_, rest) = text.split_once("$display(\"%m: ")?;
            let (what, place) = rest.split_once(" (")?;
            Some((what.split(' ').next()?, place.split(')').next()?))
        })
    }
}

/// `reg  [1:0] selected;` declares `selected`; ports end with a comma, or with nothing.
fn declared_name(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace();
    if !matches!(words.next()?, "reg" | "wire" | "input" | "output") {
        return None;
    }
    // A memory has its depth behind its name.
    let code = code.trim_end().trim_end_matches([';', ',']).trim_end();
    let code = match code.rsplit_once(" [") {
        Some((name, depth)) if depth.ends_with(']') => name,
        _ => code,
    };
    let code = code.split(" = ").next()?;
    code.split_whitespace().next_back().filter(|name| is_name(name))
}

/// `selected <= 2'h1;` or `memory[address] <= data;` assign `selected` and `memory`.
fn assigned_name(line: &str) -> Option<&str> {
    let (left, _) = line.split_once(" <= ").or_else(|| line.split_once(" = "))?;
    let name = left.trim().split('[').next()?.trim();
    is_name(name).then_some(name)
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// The generator calls a value that has no name `t_` and a number.
fn is_unnamed(name: &str) -> bool {
    let number = name.strip_prefix("t_");
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// The last word of a comment when it is a file of Rust and a line.
fn last_place(comment: &str) -> Option<&str> {
    let place = comment.split([' ', '|']).next_back()?;
    let (file, line) = place.rsplit_once(':')?;
    (file.ends_with(".rs") && line.parse::<u32>().is_ok()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
// arbiter_n2
// Generated by spraynic; described in hdl/src/arbiter.rs:18.
module arbiter_n2 (
    input  wire [1:0] request,  // who asks
    output wire granted  // somebody is granted | hdl/src/arbiter.rs:20
);
    reg  behind_last;  // this one comes after | hdl/src/arbiter.rs:37
    reg  [7:0] store [0:15];  // hdl/src/arbiter.rs:40
    always @(posedge clk) begin
        if (rst) begin
            behind_last <= 1'b0;
        end else if (advance & granted) begin
            behind_last <= somebody_before[1];
        end
    end
    assign t_1 = advance & granted;
    assign t_12 = t_1 | rst;
    always @(posedge clk) if (write) store[address] <= data;
    always @(posedge clk) if (!rst && !(one)) begin
        $display(\"%m: grant_is_one_hot does not hold (hdl/src/arbiter.rs:66)\");
        $stop;
    end
endmodule";

    #[test]
    fn lines_lead_to_what_they_assign() {
        let places = Places::of(TEXT);
        assert_eq!(places.module(), Some("hdl/src/arbiter.rs:18"));
        assert_eq!(places.line(12), "end else if (advance & granted) begin");
        let behind = Some(("behind_last", "hdl/src/arbiter.rs:37"));
        assert_eq!(places.assigned([12, 13], 12), behind);
        // No lines of its own: an `else` that is not written.
        assert_eq!(places.assigned([], 12), behind);
        assert_eq!(places.assigned([18], 18), None, "no name stands at its beginning");
        assert_eq!(
            places.assigned([], 19),
            Some(("grant_is_one_hot", "hdl/src/arbiter.rs:66"))
        );
        assert_eq!(places.declared.get("store"), Some(&"hdl/src/arbiter.rs:40"));
        assert_eq!(places.declared.get("granted"), Some(&"hdl/src/arbiter.rs:20"));
        let meanings = places.meanings("end else if (~t_12 & t_1 & t_12) begin");
        assert_eq!(meanings, ["t_12 = t_1 | rst", "t_1 = advance & granted"]);
        assert!(places.meanings("if (rst) begin").is_empty());
        assert_eq!(places.line(0), "");
        assert_eq!(places.line(999), "");
    }
}
