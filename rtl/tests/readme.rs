//! The examples of README.md: the text there is the code here, and the code does what the text says.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spraynic_rtl::{Context, Evaluator};
use std::collections::VecDeque;

#[path = "../examples/fifo.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example has a main and its function is public"
)]
mod fifo;
#[path = "../examples/token_bucket.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example has a main and its function is public"
)]
mod token_bucket;

#[test]
fn the_readme_shows_the_examples_as_they_are_compiled() {
    let read = |name: &str| {
        let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let readme = read("README.md");
    for name in ["fifo", "token_bucket"] {
        let example = read(&format!("examples/{name}.rs"));
        let code = example
            .split("// README: begin\n")
            .nth(1)
            .and_then(|rest| rest.split("// README: end\n").next());
        let code = code.expect("both marks");
        assert!(
            readme.contains(&format!("```rust\n{code}```\n")),
            "README.md does not show examples/{name}.rs as it is"
        );
    }
    // What it shows as output is the output.
    let text = token_bucket::token_bucket(&Context::new(), 16).verilog_text();
    let shown = readme
        .split("```verilog\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a part of the Verilog");
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        squeeze(&text).contains(&squeeze(shown)),
        "README.md shows other Verilog than\n{text}"
    );
}

/// Failing cases are kept, to be run first the next time.
fn config(cases: u32) -> ProptestConfig {
    let file = FileFailurePersistence::Direct("proptest-regressions/readme.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(file)),
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn a_fifo_is_a_queue(width in 1u32..130, log in 1u32..6, moves in prop::collection::vec(any::<(u64, bool, bool)>(), 1..200)) {
        let context = Context::new();
        let mut run = Evaluator::new(fifo::fifo(&context, width, 1 << log));
        run.reset();
        let mut queue: VecDeque<u64> = VecDeque::new();
        let mask = if width < 64 { (1 << width) - 1 } else { u64::MAX };
        for (data, give, take) in moves {
            run.set("s_tdata", data & mask);
            run.set("s_tvalid", give);
            run.set("m_tready", take);
            prop_assert_eq!(run.get_u64("s_tready") == 1, queue.len() < 1 << log);
            prop_assert_eq!(run.get_u64("m_tvalid") == 1, !queue.is_empty());
            let room = queue.len() < 1 << log;
            if let Some(word) = queue.front().copied() {
                prop_assert_eq!(run.get_u64("m_tdata"), word);
                if take {
                    queue.pop_front();
                }
            }
            if give && room {
                queue.push_back(data & mask);
            }
            run.clock();
        }
    }

    /// Rate and burst may even change at random.
    #[test]
    fn a_token_bucket_follows_plain_numbers(width in 1u32..80, clocks in prop::collection::vec(any::<(u128, u128, u128, bool)>(), 1..200)) {
        let context = Context::new();
        let mut run = Evaluator::new(token_bucket::token_bucket(&context, width));
        run.reset();
        let mask = (1u128 << width) - 1;
        let mut tokens = 0u128;
        for (rate, burst, cost, request) in clocks {
            let (rate, burst, cost) = (rate & mask & 0x1f, burst & mask, cost & mask & 0x3f);
            for (name, value) in [("rate", rate), ("burst", burst), ("cost", cost)] {
                run.set(name, value);
            }
            run.set("request", request);
            let grant = request && cost <= tokens;
            prop_assert_eq!(run.get_u64("grant") == 1, grant);
            tokens = (tokens - if grant { cost } else { 0 } + rate).min(burst);
            run.clock();
        }
    }
}

#[test]
fn the_rate_of_a_token_bucket_is_exact() {
    for (rate, cost) in [(3, 7u64), (1, 1), (997, 1_000), (1_000, 1_001), (1, 4_093)] {
        let context = Context::new();
        let mut run = Evaluator::new(token_bucket::token_bucket(&context, 14));
        run.reset();
        run.set("rate", rate);
        run.set("cost", cost);
        run.set("burst", 2 * cost + rate);
        run.set("request", 1);
        let clocks = 20_000u64;
        let mut grants = 0;
        for _ in 0..clocks {
            grants += run.get_u64("grant");
            run.clock();
        }
        // The tokens of the last clock come after its request; no other token is lost.
        assert_eq!(grants, (clocks - 1) * rate / cost, "rate {rate}, cost {cost}");
    }
}
