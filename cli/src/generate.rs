//! `spraynic generate`: the Verilog of a configuration with what it takes to use it, as one directory.

mod constraints;
mod directory;
mod readme;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use spraynic_config::registers::RegisterMap;
use spraynic_config::{NicConfig, Resolved, descriptor};
use spraynic_hdl::state_bits::StateBits;

use crate::error::{CliError, Verdict};
use crate::generate::directory::GeneratedFile;
use crate::source::ConfigArguments;

/// Write the Verilog of a NIC, with file list, constraints, C headers, registers and README, as one directory
///
/// The NIC is `spraynic_nic`; `--block` writes one block of it. The same configuration gives the same bytes. The directory appears whole or not at all; one that was not generated, or was changed
/// since, is not overwritten. What is generated belongs to whoever generates it.
#[derive(Debug, Args)]
pub(crate) struct GenerateCommand {
    #[command(flatten)]
    config: ConfigArguments,
    /// Directory to write
    #[arg(long, value_name = "DIR", required_unless_present = "list_blocks")]
    out: Option<PathBuf>,
    /// Generate this block alone, with the modules that it uses
    #[arg(long, value_name = "NAME")]
    block: Option<String>,
    /// List the blocks, generate nothing
    #[arg(long)]
    list_blocks: bool,
    /// Where the output directory holds something else: move that aside and write
    #[arg(long)]
    force: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What a library of blocks gives for a configuration.
#[derive(Debug)]
pub(crate) struct Design {
    /// Name of the topmost module.
    pub(crate) top: String,
    /// Verilog files in the order of compilation: name and text.
    pub(crate) files: Vec<(String, String)>,
    /// Its registers, if it has some.
    pub(crate) registers: Option<RegisterMap>,
    /// What it keeps of each queue pair; of the whole NIC alone.
    pub(crate) state_bits: Vec<StateBits>,
}

/// A block that can be generated.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BlockSummary {
    /// Name: module, file and page of the documentation.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) description: &'static str,
}

/// Where blocks come from.
pub(crate) trait Library {
    /// All blocks.
    fn blocks(&self) -> Vec<BlockSummary>;
    /// Verilog of a block, or of the whole design.
    fn emit(&self, config: &NicConfig, block: Option<&str>) -> Result<Design, CliError>;
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    out: &'a str,
    top: &'a str,
    line_rate: &'a str,
    /// Bits in memories for each queue pair, of the whole NIC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state_bits: Vec<StateReport<'a>>,
    files: Vec<FileReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_aside: Option<String>,
}

/// Bits in memories for one queue pair.
#[derive(Debug, Serialize)]
struct StateReport<'a> {
    block: &'a str,
    every: u64,
    sending: u64,
    reordering: u64,
}

#[derive(Debug, Serialize)]
struct FileReport<'a> {
    path: &'a str,
    lines: usize,
    bytes: usize,
    what: &'a str,
}

impl GenerateCommand {
    pub(crate) fn run(&self, library: &dyn Library) -> Result<Verdict, CliError> {
        let mut out = std::io::stdout().lock();
        if self.list_blocks {
            let blocks = library.blocks();
            if self.json {
                serde_json::to_writer_pretty(&mut out, &blocks).map_err(std::io::Error::from)?;
                writeln!(out)?;
            } else {
                let width = blocks.iter().map(|block| block.name.len()).max().unwrap_or(0);
                for block in &blocks {
                    writeln!(out, "{:width$}  {}", block.name, block.description)?;
                }
            }
            return Ok(Verdict::Good);
        }
        let Some(target) = &self.out else {
            return Err(CliError::Usage("generate needs --out DIR".to_owned()));
        };
        let resolved = self.config.resolve()?;
        let design = library.emit(&resolved.config, self.block.as_deref())?;
        let files = assemble(&resolved, &design, self.block.as_deref());
        let moved = directory::write(target, &files, self.force)?;

        let shown = target.display().to_string();
        let line_rate = resolved.config.line_rate_statement();
        let report = Report {
            out: &shown,
            top: &design.top,
            line_rate: &line_rate,
            state_bits: design
                .state_bits
                .iter()
                .map(|row| StateReport {
                    block: &row.block,
                    every: row.every,
                    sending: row.sending,
                    reordering: row.reordering,
                })
                .collect(),
            files: files
                .iter()
                .map(|file| FileReport {
                    path: &file.path,
                    lines: file.text.lines().count(),
                    bytes: file.text.len(),
                    what: &file.what,
                })
                .collect(),
            moved_aside: moved.map(|path| path.display().to_string()),
        };
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print_table(&mut out, &report)?;
        }
        Ok(Verdict::Good)
    }
}

fn print_table(out: &mut impl std::io::Write, report: &Report<'_>) -> std::io::Result<()> {
    if let Some(aside) = &report.moved_aside {
        writeln!(out, "What was there before is now {aside}\n")?;
    }
    let width = report.files.iter().map(|file| file.path.len()).max().unwrap_or(0);
    writeln!(out, "{:width$}  {:>7}  {:>8}  what", report.out, "lines", "bytes")?;
    let total = report.files.iter().map(|file| file.bytes).sum::<usize>();
    for file in &report.files {
        // A terminal is narrow; whoever pipes the table gets all of it.
        let room = if std::io::stdout().is_terminal() {
            60
        } else {
            usize::MAX
        };
        let what: String = file.what.chars().take(room).collect();
        writeln!(
            out,
            "{:width$}  {:>7}  {:>8}  {what}",
            file.path, file.lines, file.bytes
        )?;
    }
    writeln!(
        out,
        "{:width$}  {:>7}  {total:>8}  {} files\n",
        "",
        "",
        report.files.len()
    )?;
    writeln!(out, "{}", report.line_rate)?;
    print_state(out, &report.state_bits)
}

/// What a queue pair takes in memories, by block.
fn print_state(out: &mut impl std::io::Write, rows: &[StateReport<'_>]) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nBits in memories for each queue pair     every  + sending  + reordering"
    )?;
    let mut sums = (0, 0, 0);
    for row in rows {
        writeln!(
            out,
            "{:36} {:>9} {:>10} {:>13}",
            row.block, row.every, row.sending, row.reordering
        )?;
        sums = (sums.0 + row.every, sums.1 + row.sending, sums.2 + row.reordering);
    }
    writeln!(out, "{:36} {:>9} {:>10} {:>13}", "all", sums.0, sums.1, sums.2)
}

/// All files of the directory, in the order of the table.
fn assemble(resolved: &Resolved, design: &Design, block: Option<&str>) -> Vec<GeneratedFile> {
    let config = &resolved.config;
    let mut files: Vec<GeneratedFile> = design
        .files
        .iter()
        .map(|(name, text)| GeneratedFile {
            path: format!("rtl/{name}"),
            what: summary_of(text),
            text: text.clone(),
        })
        .collect();
    let list = design.files.iter().map(|(name, _)| format!("rtl/{name}\n")).collect();
    let rest = [
        ("spraynic.f", "Verilog files in the order of compilation", list),
        (
            "config.toml",
            "the configuration, for --config",
            config.to_commented_toml(),
        ),
        (
            "include/spraynic_descriptors.h",
            "descriptors for C and C++",
            descriptor::c_header(),
        ),
    ];
    let registers = design.registers.iter().flat_map(|map| {
        [
            (
                "include/spraynic_registers.h",
                "registers for C and C++",
                map.c_header(),
            ),
            ("registers.rdl", "registers as SystemRDL 2.0", map.system_rdl()),
            ("registers.json", "registers as JSON", map.json()),
            ("registers.md", "registers, for people", map.markdown()),
        ]
    });
    let constraints = constraints::files(config, &design.top)
        .into_iter()
        .map(|(name, what, text)| (format!("constraints/{name}"), what, text));
    let rest = rest.into_iter().chain(registers);
    let rest = rest.map(|(path, what, text)| (path.to_owned(), what, text));
    for (path, what, text) in rest.chain(constraints) {
        files.push(GeneratedFile {
            path,
            text,
            what: what.to_owned(),
        });
    }
    let text = readme::text(config, design, block, &files);
    files.push(GeneratedFile {
        path: "README.md".to_owned(),
        text,
        what: "what this is, line rate, licence".to_owned(),
    });
    files
}

/// The first sentence of a Verilog file's opening comment that is not the module's name.
fn summary_of(verilog: &str) -> String {
    let comment: Vec<&str> = verilog
        .lines()
        .map_while(|line| line.strip_prefix("//"))
        .map(str::trim)
        .collect();
    let paragraph = comment
        .split(|line| line.is_empty())
        .find(|paragraph| paragraph.iter().any(|line| line.contains(' ')));
    let text = paragraph.unwrap_or_default().join(" ");
    let sentence = text.split_once(". ").map_or(text.as_str(), |(first, _)| first);
    sentence.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_summed_up_by_its_first_sentence() {
        let text = "// fifo_w8\n//\n// Keeps bytes\n// in order. Never drops one.\n//\n// More.\nmodule fifo_w8 (\n// not this\n";
        assert_eq!(summary_of(text), "Keeps bytes in order");
        assert_eq!(summary_of("// fifo_w8\n//\n// Keeps bytes.\nmodule x ("), "Keeps bytes");
        assert_eq!(summary_of("module x ("), "");
    }
}
