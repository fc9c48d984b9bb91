//! NicConfig: presets, TOML, validation; descriptor layouts.

pub mod descriptor;
