//! `spraynic decode`: real captures, damaged packets, and files cut off anywhere.

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use support::{capture, spraynic};

/// The captures of the test data.
const CAPTURES: [&str; 8] = [
    "rc-atomics.pcap",
    "rc-read-1024.pcap",
    "rc-send-1024.pcap",
    "rc-write-1024.pcap",
    "rc-write-ipv6-unaligned-12345.pcap",
    "rc-write-lat-64.pcap",
    "rc-write-lossy-go-back-n.pcap",
    "rc-write-multi-qp-1023.pcap",
];

/// Where the records of a classic little-endian pcap file begin, and its end.
fn record_boundaries(file: &[u8]) -> Vec<usize> {
    let mut at = 24;
    let mut boundaries = vec![at];
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        at += 16 + length;
        boundaries.push(at);
    }
    assert_eq!(at, file.len());
    boundaries
}

#[test]
fn captures_of_linux_decode_with_valid_icrcs() {
    for name in CAPTURES {
        let path = capture(name);
        let frames = record_boundaries(&std::fs::read(&path).unwrap()).len() - 1;
        let run = spraynic(&["decode", path.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{name}: {}", run.err);
        assert_eq!(run.out.lines().count(), frames, "{name}");
        assert!(
            run.out.lines().all(|line| line.ends_with(" icrc ok")),
            "{name}: {}",
            run.out
        );
        assert_eq!(
            run.err,
            format!(
                "{frames} frames: {frames} RoCEv2 (0 with a wrong ICRC), 0 malformed, 0 cut by the capture, 0 other\n"
            )
        );
    }
}

/// Reads the fields again, at their places in the frame, without the library.
#[test]
fn json_fields_are_those_of_the_bytes() {
    for name in CAPTURES {
        let path = capture(name);
        let file = std::fs::read(&path).unwrap();
        let boundaries = record_boundaries(&file);
        let text = spraynic(&["decode", path.to_str().unwrap(), "--json"]).good();
        assert_eq!(text.lines().count(), boundaries.len() - 1);
        for (line, start) in text.lines().zip(&boundaries) {
            let json: Value = serde_json::from_str(line).unwrap();
            let length = u32::from_le_bytes(file[start + 8..start + 12].try_into().unwrap()) as usize;
            let frame = &file[start + 16..start + 16 + length];
            let bth = match (frame[12], frame[13]) {
                (0x08, 0x00) => &frame[14 + 20 + 8..],
                (0x86, 0xdd) => &frame[14 + 40 + 8..],
                other => panic!("{other:?}"),
            };
            let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
            assert_eq!(json["kind"], "roce");
            assert_eq!(json["opcode"], number(&bth[0..1]), "{name}");
            assert_eq!(json["destination_qpn"], number(&bth[5..8]), "{name}");
            assert_eq!(json["psn"], number(&bth[9..12]), "{name}");
            assert_eq!(json["ack_request"], bth[8] & 0x80 != 0, "{name}");
            assert_eq!(json["pad_bytes"], u64::from(bth[1] >> 4 & 3), "{name}");
            if matches!(bth[0], 0x06 | 0x0A | 0x0C) {
                let reth = &json["headers"][0];
                assert_eq!(reth["header"], "RETH");
                let values: BTreeSet<String> = reth.as_object().unwrap().values().map(Value::to_string).collect();
                assert!(values.contains(&format!("\"0x{:x}\"", number(&bth[12..20]))), "{reth}");
                assert!(values.contains(&number(&bth[20..24]).to_string()), "{reth}");
                assert!(values.contains(&number(&bth[24..28]).to_string()), "{reth}");
            }
        }
    }
}

#[test]
fn a_wrong_icrc_is_reported_with_status_1() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = std::fs::read(capture("rc-write-1024.pcap")).unwrap();
    let first = record_boundaries(&file)[1];
    // Within the payload: only the ICRC can tell.
    file[first - 10] ^= 0x20;
    let path = directory.path().join("bad.pcap");
    std::fs::write(&path, &file).unwrap();
    let run = spraynic(&["decode", path.to_str().unwrap()]);
    assert_eq!(run.status, 1);
    let wrong: Vec<&str> = run.out.lines().filter(|line| line.contains("icrc WRONG")).collect();
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].trim_start().starts_with("1 "), "{}", wrong[0]);
    assert!(run.err.contains("(1 with a wrong ICRC)"), "{}", run.err);
    let run = spraynic(&["decode", "--json", path.to_str().unwrap()]);
    assert_eq!(run.status, 1);
    let json: Value = serde_json::from_str(run.out.lines().next().unwrap()).unwrap();
    assert_eq!(json["icrc"]["valid"], false);
    assert_ne!(json["icrc"]["found"], json["icrc"]["right"]);
}

#[test]
fn malformed_and_other_frames_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = std::fs::read(capture("rc-send-1024.pcap")).unwrap();
    let boundaries = record_boundaries(&file);
    // First frame: UDP to another port. Second: an opcode that nobody uses.
    file[boundaries[0] + 16 + 14 + 20 + 2] ^= 0xff;
    file[boundaries[1] + 16 + 14 + 20 + 8] = 0xff;
    let path = directory.path().join("mixed.pcap");
    std::fs::write(&path, &file).unwrap();
    let run = spraynic(&["decode", path.to_str().unwrap()]);
    assert_eq!(run.status, 1);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].contains("not RoCEv2: UDP destination port"), "{}", lines[0]);
    assert!(lines[1].contains("MALFORMED: opcode 0xff"), "{}", lines[1]);
    assert!(
        run.err.contains("1 malformed, 0 cut by the capture, 1 other"),
        "{}",
        run.err
    );
}

#[test]
fn frames_that_the_capture_cut_are_not_called_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::read(capture("rc-write-1024.pcap")).unwrap();
    let boundaries = record_boundaries(&file);
    let mut snapped = file[..24].to_vec();
    for pair in boundaries.windows(2) {
        let record = &file[pair[0]..pair[1]];
        let kept = (record.len() - 16).min(60);
        snapped.extend_from_slice(&record[..8]);
        snapped.extend_from_slice(&(kept as u32).to_le_bytes());
        snapped.extend_from_slice(&record[12..16 + kept]);
    }
    let path = directory.path().join("snapped.pcap");
    std::fs::write(&path, snapped).unwrap();
    let run = spraynic(&["decode", path.to_str().unwrap()]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(
        run.out
            .lines()
            .next()
            .unwrap()
            .contains("of which the capture has 60: not checked"),
        "{}",
        run.out
    );
}

#[test]
fn a_file_cut_anywhere_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pcap");
    let file = std::fs::read(capture("rc-atomics.pcap")).unwrap();
    let boundaries = record_boundaries(&file);
    // Every byte of file header and first two records, then around each boundary.
    let mut cuts: BTreeSet<usize> = (0..boundaries[2]).collect();
    for boundary in &boundaries {
        cuts.extend((boundary - 1..=boundary + 17).filter(|cut| *cut <= file.len()));
    }
    let mut refused = 0;
    for cut in cuts {
        std::fs::write(&path, &file[..cut]).unwrap();
        let run = spraynic(&["decode", path.to_str().unwrap()]);
        if let Some(whole) = boundaries.iter().position(|boundary| *boundary == cut) {
            assert_eq!(
                (run.status, run.out.lines().count()),
                (0, whole),
                "cut at {cut}: {}",
                run.err
            );
        } else {
            refused += 1;
            assert_eq!(run.status, 1, "cut at {cut}: {} {}", run.out, run.err);
            let whole = boundaries
                .iter()
                .filter(|boundary| **boundary <= cut)
                .count()
                .saturating_sub(1);
            assert_eq!(
                run.out.lines().count(),
                whole,
                "cut at {cut}: what came before is printed"
            );
            assert!(
                run.err.starts_with(&format!("spraynic: {}: ", path.display())),
                "cut at {cut}: {}",
                run.err
            );
            assert!(!run.err.contains("panicked"), "cut at {cut}: {}", run.err);
        }
    }
    assert!(refused > 100);
}

#[test]
fn what_is_no_capture_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    spraynic(&["decode", "no/such.pcap"]).refused_with(1, &["no/such.pcap: cannot open the capture: No such file"]);
    let path = directory.path().join("text.pcap");
    std::fs::write(&path, "PSN,opcode\n1,2\nand some more text to fill a header\n").unwrap();
    spraynic(&["decode", path.to_str().unwrap()]).refused_with(1, &["text.pcap: not a capture"]);
    spraynic(&["decode", directory.path().to_str().unwrap()])
        .refused_with(1, &["cannot open the capture: is a directory; give a file"]);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    use std::process::{Command, Stdio};
    let path = capture("rc-write-lossy-go-back-n.pcap");
    let mut child = Command::new(env!("CARGO_BIN_EXE_spraynic"))
        .arg("decode")
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
