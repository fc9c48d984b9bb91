//! Reads what Verilator says about a source: severity, file, line and message.

use std::fmt;

/// One message of Verilator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// An error; otherwise a warning.
    pub is_error: bool,
    /// Name of the warning (WIDTH, UNUSEDSIGNAL, ...); empty for a plain error.
    pub code: String,
    /// Verilog file; empty where the message is about none.
    pub file: String,
    /// Line in it, from 1; 0 where there is none.
    pub line: u32,
    /// Column in it, from 1; 0 where there is none.
    pub column: u32,
    /// What is wrong, with the lines of source that Verilator shows.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        f.write_str(if self.is_error { "error" } else { "warning" })?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Splits Verilator's output into its messages.
pub(crate) fn parse(output: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in output.lines() {
        let (is_error, rest) = match (line.strip_prefix("%Error"), line.strip_prefix("%Warning")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => {
                // An indented line belongs to the message above; advice on how to silence it does not help here.
                if let Some(last) = found.last_mut()
                    && line.starts_with(' ')
                    && !line.contains("... ")
                {
                    last.message.push('\n');
                    last.message.push_str(line);
                }
                continue;
            }
        };
        let Some((code, text)) = rest.split_once(": ") else {
            continue;
        };
        let code = code.trim_start_matches('-');
        // The last line only counts: "Exiting due to 1 error(s)".
        if text.starts_with("Exiting due to") || text.starts_with("Command Failed") {
            continue;
        }
        let mut parts = text.splitn(4, ':');
        let place = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(file), Some(line), Some(column), Some(message)) => match (line.parse(), column.parse()) {
                (Ok(line), Ok(column)) => Some((file, line, column, message.trim_start())),
                _ => None,
            },
            _ => None,
        };
        let (file, line, column, message) = place.unwrap_or(("", 0, 0, text));
        found.push(Diagnostic {
            is_error,
            code: code.to_owned(),
            file: file.to_owned(),
            line,
            column,
            message: message.to_owned(),
        });
    }
    found
}

/// Messages one below the other, errors first.
pub(crate) fn listing(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.is_error);
    let warnings = diagnostics.iter().filter(|d| !d.is_error);
    errors.chain(warnings).map(|d| format!("\n{d}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_line_and_code_are_read() {
        let output = "%Error: bad.v:3:9: syntax error, unexpected ';'\n    3 |   assign;\n      |         ^\n\
                      %Warning-WIDTH: a.v:7:12: Operator ASSIGN expects 8 bits\n\
                      \x20                       ... For warning description see https://verilator.org\n\
                      %Error: Cannot find file containing module: 'x'\n%Error: Exiting due to 2 error(s)\n";
        let found = parse(output);
        assert_eq!(found.len(), 3);
        assert_eq!(
            (found[0].file.as_str(), found[0].line, found[0].column),
            ("bad.v", 3, 9)
        );
        assert!(found[0].message.contains("assign;"));
        assert_eq!((found[1].code.as_str(), found[1].is_error), ("WIDTH", false));
        assert!(!found[1].message.contains("verilator.org"));
        assert_eq!(found[2].to_string(), "error: Cannot find file containing module: 'x'");
    }
}
