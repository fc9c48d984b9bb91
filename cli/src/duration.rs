//! Durations as people write them: `90s`, `10m`, `1h30m`.

use std::time::Duration;

/// Units and their milliseconds, the longer name of two that begin alike first.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads a duration: whole numbers, each with `ms`, `s`, `m`, `h` or `d`; nothing else, and not nothing at all.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write it as 90s, 10m or 1h30m");
    let mut rest = text;
    let mut milliseconds = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let (name, unit) = UNITS
            .iter()
            .find(|(name, _)| rest.starts_with(name))
            .ok_or_else(wrong)?;
        rest = &rest[name.len()..];
        milliseconds = number
            .checked_mul(*unit)
            .and_then(|more| milliseconds.checked_add(more))
            .ok_or_else(wrong)?;
    }
    if milliseconds == 0 {
        return Err(format!("`{text}` is no time at all"));
    }
    Ok(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_written() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        for text in [
            "",
            "10",
            "m",
            "10 m",
            "1.5h",
            "-1s",
            "10mm",
            "10m5",
            "99999999999999999999s",
            "999999999999999d",
            "0s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
