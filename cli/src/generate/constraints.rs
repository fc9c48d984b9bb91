//! Timing constraints, from the templates in `constraints/` and the configuration.

use spraynic_config::NicConfig;

/// Name of each constraint file and its template.
const TEMPLATES: [(&str, &str, &str); 3] = [
    (
        "spraynic.xdc",
        "timing constraints for Vivado",
        include_str!("../../../constraints/spraynic.xdc"),
    ),
    (
        "spraynic.sdc",
        "timing constraints for tools that read SDC",
        include_str!("../../../constraints/spraynic.sdc"),
    ),
    (
        "spraynic.lpf",
        "timing constraints for Lattice tools and nextpnr",
        include_str!("../../../constraints/spraynic.lpf"),
    ),
];

/// Part of the clock period that is left to the logic outside, on each side, in percent.
const OUTSIDE_PERCENT: u64 = 30;

fn nanoseconds(picoseconds: u64) -> String {
    format!("{}.{:03}", picoseconds / 1000, picoseconds % 1000)
}

/// The constraint files: name, what it is, text. `top` is the module they are for.
pub(crate) fn files(config: &NicConfig, top: &str) -> Vec<(&'static str, &'static str, String)> {
    // Rounded down: never slower than what was asked for.
    let period = 1_000_000_000 / u64::from(config.datapath.clock_khz);
    let outside = period * OUTSIDE_PERCENT / 100;
    let hertz = u64::from(config.datapath.clock_khz) * 1000;
    let megahertz = format!("{}.{:03}", hertz / 1_000_000, hertz / 1000 % 1000);
    let values = [
        ("@TOP@", top.to_owned()),
        ("@NAME@", config.name.clone()),
        ("@PERIOD_NS@", nanoseconds(period)),
        ("@OUTSIDE_NS@", nanoseconds(outside)),
        ("@INSIDE_NS@", nanoseconds(period - outside)),
        ("@OUTSIDE_PERCENT@", OUTSIDE_PERCENT.to_string()),
        ("@CLOCK_MHZ@", megahertz),
    ];
    TEMPLATES
        .iter()
        .map(|(name, what, template)| {
            let text = values
                .iter()
                .fold((*template).to_owned(), |text, (key, value)| text.replace(key, value));
            (*name, *what, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use spraynic_config::Preset;

    use super::*;

    #[test]
    fn periods_are_those_of_the_clock() {
        for (preset, period) in [
            (Preset::Lab, "6.400"),
            (Preset::G25, "5.000"),
            (Preset::G100, "4.000"),
            (Preset::G400, "2.352"),
        ] {
            let config = NicConfig::preset(preset);
            for (name, _, text) in files(&config, "transmit_pipeline") {
                assert!(!text.contains('@'), "{name}: a placeholder is left\n{text}");
                assert!(text.contains("transmit_pipeline"), "{name}");
                if name != "spraynic.lpf" {
                    let clock = format!("create_clock -name clk -period {period} [get_ports clk]");
                    assert!(text.lines().any(|line| line == clock), "{name}:\n{text}");
                }
            }
        }
        let lpf = &files(&NicConfig::preset(Preset::Lab), "x")[2].2;
        assert!(lpf.contains("FREQUENCY PORT \"clk\" 156.250 MHZ;"), "{lpf}");
    }
}
