//! The page of inputs that broke other implementations names tests: each of them is there.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether a file holds a test of this name, not just a function.
fn holds_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let before = lines[..at].iter().rev();
        line.starts_with(&head)
            && before
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| *line == "#[test]")
    })
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_of_the_page_exists() {
    let page = std::fs::read_to_string(root().join("docs/src/hardening.md")).expect("the page");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter(|line| !line.starts_with("| input |"));
    let (mut inputs, mut tests) = (0, 0);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [input, _, cell] = cells[..] else {
            panic!("three columns: {row}")
        };
        let (mut file, mut of_row) = (None, 0);
        for name in quoted(cell) {
            if name.contains('/') {
                let text = std::fs::read_to_string(root().join(name));
                file = Some((name, text.unwrap_or_else(|error| panic!("{name}, of {input}: {error}"))));
                continue;
            }
            let (path, text) = file.as_ref().unwrap_or_else(|| panic!("no file before {name}"));
            assert!(
                holds_test(text, name),
                "{path} has no test {name}, which is named for {input}"
            );
            of_row += 1;
        }
        assert!(of_row > 0, "no test for {input}");
        inputs += 1;
        tests += of_row;
    }
    assert!(
        inputs >= 25 && tests >= 60,
        "{inputs} inputs and {tests} tests: is this the page?"
    );
}

#[test]
fn a_function_alone_is_no_test() {
    let text = "#[test]\n/// Why.\nfn one() {}\n\nfn two() {}\n    #[test]\n    fn three(\n        a: u8,\n    ) {}\n// fn four()\n";
    assert!(holds_test(text, "one") && holds_test(text, "three"));
    assert!(["two", "four", "on"].iter().all(|name| !holds_test(text, name)));
}
