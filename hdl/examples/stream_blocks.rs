//! Writes the Verilog of one stream block with given sizes to a directory: for the proofs of `scripts/formal` and for synthesis of
//! sizes that no preset has.
//!
//! `stream_blocks DIR BLOCK SIZE...`; without a block it lists what there is.

use std::path::Path;
use std::process::ExitCode;

use spraynic_hdl::{frame_fifo, packet_multiplexer, round_robin_arbiter, skid_buffer, stream_fifo};
use spraynic_rtl::{Context, Definition};

type Build = for<'a> fn(&'a Context, &[u32]) -> Definition<'a>;

/// Name, names of the sizes, how it is built.
const BLOCKS: [(&str, &[&str], Build); 7] = [
    ("skid_buffer", &["width"], |context, sizes| {
        skid_buffer::skid_buffer(context, sizes[0])
    }),
    ("axi_skid_buffer", &["width", "user"], |context, sizes| {
        skid_buffer::axi_skid_buffer(context, sizes[0], sizes[1])
    }),
    ("stream_fifo", &["width", "depth"], |context, sizes| {
        stream_fifo::stream_fifo(context, sizes[0], sizes[1])
    }),
    ("axi_stream_fifo", &["width", "user", "depth"], |context, sizes| {
        stream_fifo::axi_stream_fifo(context, sizes[0], sizes[1], sizes[2])
    }),
    ("frame_fifo", &["width", "user", "depth"], |context, sizes| {
        frame_fifo::frame_fifo(context, sizes[0], sizes[1], sizes[2])
    }),
    ("round_robin_arbiter", &["requesters"], |context, sizes| {
        round_robin_arbiter::round_robin_arbiter(context, sizes[0])
    }),
    ("packet_multiplexer", &["inputs", "width", "user"], |context, sizes| {
        packet_multiplexer::packet_multiplexer(context, sizes[0], sizes[1], sizes[2])
    }),
];

fn usage() -> String {
    let blocks = BLOCKS.map(|(name, sizes, _)| format!("  {name} {}", sizes.join(" ")));
    format!("usage: stream_blocks DIR BLOCK SIZE...\n{}", blocks.join("\n"))
}

fn write(arguments: &[String]) -> Result<(), String> {
    let [directory, block, sizes @ ..] = arguments else {
        return Err(usage());
    };
    let (_, names, build) = BLOCKS
        .iter()
        .find(|(name, ..)| name == block)
        .ok_or_else(|| format!("no block {block}\n{}", usage()))?;
    let sizes: Vec<u32> = sizes
        .iter()
        .map(|size| size.parse().map_err(|error| format!("size {size}: {error}")))
        .collect::<Result<_, _>>()?;
    if sizes.len() != names.len() {
        return Err(format!("{block} takes {}\n{}", names.join(" "), usage()));
    }
    let context = Context::new();
    let definition = build(&context, &sizes);
    std::fs::create_dir_all(directory).map_err(|error| format!("{directory}: {error}"))?;
    for file in definition.verilog() {
        let path = Path::new(directory).join(&file.name);
        std::fs::write(&path, file.text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{}", definition.name());
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match write(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
