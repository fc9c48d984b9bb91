//! A token bucket of any width. Prints its Verilog: `cargo run -p spraynic-rtl --example token_bucket -- 32`.

// README: begin
use spraynic_rtl::{Context, Definition};

/// A token bucket of `width` bits. Every clock adds `rate` tokens, of which at most `burst` are kept; a request is granted, and
/// its `cost` taken, when there are enough. Nothing is rounded: as long as the bucket is not full, tokens in and out agree to the last one.
pub fn token_bucket(context: &Context, width: u32) -> Definition<'_> {
    let m = context.module(&format!("token_bucket_w{width}"));
    m.doc("Grants requests at a rate, after a pause up to a burst at once. Keep rate and burst steady; burst >= cost.");
    let rate = m.input("rate", width).doc("tokens for each clock");
    let burst = m.input("burst", width).doc("most tokens that are kept");
    let cost = m.input("cost", width).doc("tokens that the request takes");
    let request = m.input("request", 1).doc("somebody wants to send");
    let grant = m.output("grant", 1).doc("it may, in this clock");

    let tokens = m.reg("tokens", width).reset(0).doc("tokens that are there");
    grant.set(request & cost.le(tokens));
    let left = (tokens - cost.gate(grant)).named("left");
    // One bit wider, so that a full bucket and a high rate do not wrap.
    let filled = left.add_wide(rate).named("filled");
    let full = filled.gt(burst.zero_extend(width + 1)).named("full");
    tokens.set(full.mux(burst, filled.part(0, width)));

    let before = burst.delayed("burst_before");
    m.assert("tokens_within_burst", tokens.le(before));
    m.finish()
}
// README: end

fn main() {
    let Some(Ok(width)) = std::env::args().nth(1).map(|text| text.parse::<u32>()) else {
        eprintln!("usage: token_bucket WIDTH");
        std::process::exit(2);
    };
    print!("{}", token_bucket(&Context::new(), width).verilog_text());
}
