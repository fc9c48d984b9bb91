//! The configuration as commented TOML, and the table of parameters as Markdown.

use std::fmt::Write as _;

use crate::parameters::{PARAMETERS, SECTIONS};
use crate::{NicConfig, Preset};

/// Width of comments in the TOML.
const COLUMNS: usize = 100;

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].len() > 1 && lines[last].len() + 1 + word.len() > COLUMNS {
            lines.push(format!("# {word}"));
        } else {
            lines[last].push(' ');
            lines[last].push_str(word);
        }
    }
    lines
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

impl NicConfig {
    /// The whole configuration as TOML, each key with what it does, its unit and range. Reading it back gives the
    /// same configuration.
    #[must_use]
    pub fn to_commented_toml(&self) -> String {
        let values = self.values();
        let mut text = String::new();
        for line in wrapped(&self.line_rate_statement()) {
            let _ = writeln!(text, "{line}");
        }
        let mut section = "";
        for parameter in PARAMETERS {
            text.push('\n');
            if parameter.section != section {
                section = parameter.section;
                if let Some(found) = SECTIONS.iter().find(|s| s.name == section) {
                    for line in wrapped(found.doc) {
                        let _ = writeln!(text, "{line}");
                    }
                }
                let _ = writeln!(text, "[{section}]\n");
            }
            for line in wrapped(parameter.effect)
                .into_iter()
                .chain(wrapped(&format!("{}.", sentence(&parameter.range()))))
            {
                let _ = writeln!(text, "{line}");
            }
            if let Some((_, value)) = values.iter().find(|(key, _)| *key == parameter.key) {
                let _ = writeln!(text, "{} = {value}", parameter.name());
            }
        }
        text
    }
}

/// The table of parameters as a page of the documentation.
#[must_use]
pub fn parameters_markdown() -> String {
    let mut text = String::from(
        "# Parameters\n\n\
         Printed from the table in `config/src/parameters.rs`; a test compares.\n\n\
         A configuration starts from a preset, then a TOML file (`--config`), then overrides (`--set key=value`); the \
         later wins, key by key. A file may name its preset by `preset = \"25g\"` at its top; without one it is \
         `100g`. Unknown keys, values out of range and values that contradict each other are errors.\n",
    );
    let mut section = None;
    for parameter in PARAMETERS {
        if section != Some(parameter.section) {
            section = Some(parameter.section);
            if let Some(found) = SECTIONS.iter().find(|s| s.name == parameter.section) {
                let _ = write!(text, "\n## `[{}]`\n\n{}\n", found.name, found.doc);
            }
            let _ = write!(
                text,
                "\n| key | allowed | {} | effect |\n|---|---|{}---|\n",
                Preset::NAMES.join(" | "),
                "---|".repeat(Preset::ALL.len())
            );
        }
        let _ = write!(text, "| `{}` | {} |", parameter.name(), parameter.range());
        for preset in Preset::ALL {
            let _ = write!(text, " {} |", parameter.default(*preset).to_string().replace('"', ""));
        }
        let _ = writeln!(text, " {} |", parameter.effect);
    }
    text.push_str("\n## What the presets carry\n\n");
    for preset in Preset::ALL {
        let _ = writeln!(
            text,
            "- `{}`: {}",
            preset.name(),
            NicConfig::preset(*preset).line_rate_statement()
        );
    }
    text
}
