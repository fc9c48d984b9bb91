//! A FIFO of any width and depth. Prints its Verilog: `cargo run -p spraynic-rtl --example fifo -- 64 16`.

// README: begin
use spraynic_rtl::{Context, Definition, MemoryStyle, Stream, index_width};

/// First in, first out: `depth` words (a power of two) of `width` bits in distributed RAM, read in the same cycle.
pub fn fifo(context: &Context, width: u32, depth: u32) -> Definition<'_> {
    assert!(
        depth.is_power_of_two() && depth > 1,
        "a depth of {depth} is no power of two above 1"
    );
    let m = context.module(&format!("fifo_w{width}_d{depth}"));
    m.doc("First in, first out. Never loses, invents or reorders a word.");
    let input = Stream::slave(m, "s", width, "words to keep");
    let output = Stream::master(m, "m", width, "words in the order in which they came");

    // One bit more than an address has tells full from empty.
    let bits = index_width(depth.into());
    let written = m.reg("written", bits + 1).reset(0).doc("words ever taken");
    let read = m.reg("read", bits + 1).reset(0).doc("words ever given");
    let level = (written - read).named("level");

    let memory = m.memory("words", depth, width).style(MemoryStyle::Distributed);
    memory.write(input.fires(), written.part(0, bits), input.data);

    input.ready.set(level.ne(level.lit(depth)));
    output.valid.set(level.any());
    output.data.set(memory.read_now(read.part(0, bits)));
    m.when(input.fires(), || written.set(written + written.lit(1)));
    m.when(output.fires(), || read.set(read + read.lit(1)));

    m.assert("level_within_depth", level.le(level.lit(depth)));
    m.finish()
}
// README: end

fn main() {
    let mut sizes = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let (Some(Ok(width)), Some(Ok(depth))) = (sizes.next(), sizes.next()) else {
        eprintln!("usage: fifo WIDTH DEPTH");
        std::process::exit(2);
    };
    print!("{}", fifo(&Context::new(), width, depth).verilog_text());
}
