//! One running model: ports by name, one call a clock.
//!
//! A cycle: the inputs are applied, the logic settles, the outputs are sampled, then the clock rises. So after
//! [`Simulation::step`] the outputs are those of the cycle that has just ended, with the inputs that were set for it:
//! what was valid and ready in them was transferred. What depends on outputs of the same cycle (a `ready` that waits
//! for `valid`) calls [`Simulation::eval`] first, which settles the logic and does not clock.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::build::Model;
use crate::coverage::{self, Coverage};
use crate::library::Instance;

#[cfg(target_endian = "big")]
compile_error!("the port structs are read as little-endian bytes; a big-endian host needs a conversion here");

/// A simulation cannot go on, or was asked for what is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// An assertion, `$error`, `$stop`, `$fatal`, `$finish` or an error of Verilator's runtime.
    #[error("the model {top} stopped at cycle {cycle}: {message}")]
    Stopped {
        /// Top module.
        top: String,
        /// Clocks since the start of the simulation.
        cycle: u64,
        /// What the model said, with file and line.
        message: String,
    },
    /// No port of this name and direction.
    #[error("the model {top} has no {direction} {name}; it has {available}")]
    NoPort {
        /// Top module.
        top: String,
        /// "input" or "output".
        direction: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that are there.
        available: String,
    },
    /// A value does not fit.
    #[error("the value {value:#x} does not fit the {width} bits of {name}")]
    TooWide {
        /// The port.
        name: String,
        /// Its width in bits.
        width: u32,
        /// The value.
        value: u64,
    },
    /// A waveform cannot be written.
    #[error("cannot write the waveform {path}: {reason}")]
    Waveform {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// Coverage cannot be written.
    #[error("cannot write the coverage {path}: {reason}")]
    Coverage {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
}

/// An input port of one model. Valid for simulations of that model only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input(Place);

/// An output port of one model. Valid for simulations of that model only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output(Place);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    offset: usize,
    words: usize,
    width: u32,
}

impl Place {
    /// Bits of the last word that belong to the port.
    fn last_mask(self) -> u32 {
        u32::MAX >> (31 - (self.width - 1) % 32)
    }
}

impl Input {
    /// Width in bits.
    #[must_use]
    pub fn width(self) -> u32 {
        self.0.width
    }
}

impl Output {
    /// Width in bits.
    #[must_use]
    pub fn width(self) -> u32 {
        self.0.width
    }
}

/// A running model.
#[derive(Debug)]
pub struct Simulation {
    model: Arc<Model>,
    instance: Instance,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    reset: Option<Input>,
    cycle: u64,
}

impl Simulation {
    /// Starts a model: inputs zero, registers and memories as the seed says, no clock yet.
    #[must_use]
    pub fn new(model: &Arc<Model>, seed: u64) -> Self {
        let words = |input| {
            let ports = model
                .ports
                .iter()
                .filter(|port| port.input == input && port.name != "clk");
            ports.map(|port| port.words() as usize).sum()
        };
        let (inputs, outputs) = (words(true), words(false));
        let mut simulation = Self {
            model: Arc::clone(model),
            instance: Instance::new(model.library, seed, inputs, outputs),
            inputs: vec![0; inputs],
            outputs: vec![0; outputs],
            reset: None,
            cycle: 0,
        };
        simulation.reset = simulation.input("rst").ok();
        simulation
    }

    /// The model that runs.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Clocks since the start.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    fn place(&self, name: &str, input: bool) -> Result<Place, SimulationError> {
        let mut ports = self
            .model
            .ports
            .iter()
            .filter(|port| port.input == input && port.name != "clk");
        match ports.clone().find(|port| port.name == name) {
            Some(port) => Ok(Place {
                offset: port.offset as usize,
                words: port.words() as usize,
                width: port.width,
            }),
            None => Err(SimulationError::NoPort {
                top: self.model.top().to_owned(),
                direction: if input { "input" } else { "output" },
                name: name.to_owned(),
                available: ports
                    .by_ref()
                    .map(|port| port.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    /// The input of this name.
    ///
    /// # Errors
    /// There is none; `clk` is not one, it is driven by [`Simulation::step`].
    pub fn input(&self, name: &str) -> Result<Input, SimulationError> {
        self.place(name, true).map(Input)
    }

    /// The output of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn output(&self, name: &str) -> Result<Output, SimulationError> {
        self.place(name, false).map(Output)
    }

    /// Names of all outputs, in the order of their declaration.
    pub fn output_names(&self) -> impl Iterator<Item = &str> {
        self.model
            .ports
            .iter()
            .filter(|port| !port.input)
            .map(|port| port.name.as_str())
    }

    /// Names of all inputs but the clock, in the order of their declaration.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.model
            .ports
            .iter()
            .filter(|port| port.input && port.name != "clk")
            .map(|port| port.name.as_str())
    }

    /// Sets an input; bits beyond its width are cut off, and bits beyond 64 become zero.
    #[inline]
    pub fn set(&mut self, input: Input, value: u64) {
        let words = self.words_mut(input);
        words[0] = value as u32;
        if let Some(second) = words.get_mut(1) {
            *second = (value >> 32) as u32;
            words[2..].fill(0);
        }
        self.mask(input);
    }

    /// Sets an input from bytes, byte 0 lowest; missing bytes are zero, those beyond the width are cut off.
    #[inline]
    pub fn set_bytes(&mut self, input: Input, bytes: &[u8]) {
        let place: &mut [u8] = bytemuck::cast_slice_mut(self.words_mut(input));
        let count = bytes.len().min(place.len());
        place[..count].copy_from_slice(&bytes[..count]);
        place[count..].fill(0);
        self.mask(input);
    }

    /// Sets an input by name.
    ///
    /// # Errors
    /// There is no such input, or the value does not fit it.
    pub fn set_by_name(&mut self, name: &str, value: u64) -> Result<(), SimulationError> {
        let input = self.input(name)?;
        self.check_fits(name, input, value)?;
        self.set(input, value);
        Ok(())
    }

    /// Whether a value fits an input.
    pub(crate) fn check_fits(&self, name: &str, input: Input, value: u64) -> Result<(), SimulationError> {
        let width = input.width();
        if width < 64 && value >> width != 0 {
            return Err(SimulationError::TooWide {
                name: name.to_owned(),
                width,
                value,
            });
        }
        Ok(())
    }

    /// The low 64 bits of an output.
    #[inline]
    #[must_use]
    pub fn get(&self, output: Output) -> u64 {
        let words = self.words(output);
        u64::from(words[0]) | words.get(1).map_or(0, |second| u64::from(*second) << 32)
    }

    /// The low 64 bits of an output by name.
    ///
    /// # Errors
    /// There is no such output.
    pub fn get_by_name(&self, name: &str) -> Result<u64, SimulationError> {
        Ok(self.get(self.output(name)?))
    }

    /// An output as bytes, byte 0 lowest, filled up to a multiple of 4 with zeros.
    #[inline]
    #[must_use]
    pub fn bytes(&self, output: Output) -> &[u8] {
        bytemuck::cast_slice(self.words(output))
    }

    /// An output as 32-bit words, word 0 lowest.
    #[inline]
    #[must_use]
    pub fn words(&self, output: Output) -> &[u32] {
        &self.outputs[output.0.offset..output.0.offset + output.0.words]
    }

    /// An input as 32-bit words, word 0 lowest. Who writes bits beyond the width calls [`Simulation::mask`] after it.
    #[inline]
    pub(crate) fn words_mut(&mut self, input: Input) -> &mut [u32] {
        &mut self.inputs[input.0.offset..input.0.offset + input.0.words]
    }

    /// Clears the bits beyond an input's width, which Verilator wants to be zero.
    #[inline]
    pub(crate) fn mask(&mut self, input: Input) {
        self.inputs[input.0.offset + input.0.words - 1] &= input.0.last_mask();
    }

    /// Settles the logic with the inputs as they are and samples the outputs; no clock.
    ///
    /// # Errors
    /// The model stopped, now or before.
    pub fn eval(&mut self) -> Result<(), SimulationError> {
        if self.instance.eval(&self.inputs, &mut self.outputs) {
            Ok(())
        } else {
            Err(self.stopped())
        }
    }

    /// One clock: settles the logic, samples the outputs, raises and lowers the clock.
    ///
    /// # Errors
    /// The model stopped, now or before.
    #[inline]
    pub fn step(&mut self) -> Result<(), SimulationError> {
        self.run(1)
    }

    /// `clocks` clocks with the same inputs; the outputs are those of the last one.
    ///
    /// # Errors
    /// The model stopped, now or before.
    #[inline]
    pub fn run(&mut self, clocks: u64) -> Result<(), SimulationError> {
        let good = self.instance.step(&self.inputs, &mut self.outputs, clocks);
        self.cycle += clocks;
        if good { Ok(()) } else { Err(self.stopped()) }
    }

    #[cold]
    fn stopped(&self) -> SimulationError {
        SimulationError::Stopped {
            top: self.model.top().to_owned(),
            cycle: self.cycle.saturating_sub(1),
            message: self.instance.error().unwrap_or_else(|| "no message".to_owned()),
        }
    }

    /// Sets all inputs to zero, holds `rst` for `clocks` clocks and lowers it again. Without a `rst`: only the clocks.
    ///
    /// # Errors
    /// The model stopped, now or before.
    pub fn reset(&mut self, clocks: u64) -> Result<(), SimulationError> {
        self.inputs.fill(0);
        self.hold_reset(clocks)
    }

    /// Holds `rst` for `clocks` clocks and lowers it again; all other inputs stay as they are.
    pub(crate) fn hold_reset(&mut self, clocks: u64) -> Result<(), SimulationError> {
        if let Some(reset) = self.reset {
            self.set(reset, 1);
        }
        self.run(clocks)?;
        if let Some(reset) = self.reset {
            self.set(reset, 0);
        }
        Ok(())
    }

    /// Sets all inputs to zero.
    pub(crate) fn clear_inputs(&mut self) {
        self.inputs.fill(0);
    }

    /// Takes what the model printed since the last call (`$display`, `$error`), at most 1 MiB.
    pub fn take_log(&mut self) -> String {
        self.instance.take_log()
    }

    /// Starts a waveform file; the model must have been built with [`crate::Builder::tracing`]. Cycle t takes the times
    /// 10t to 10t+9, its rising edge is at 10t+5.
    ///
    /// # Errors
    /// The model has no tracing, or the file cannot be written.
    pub fn start_waveform(&mut self, path: &Path) -> Result<(), SimulationError> {
        let error = |reason| SimulationError::Waveform {
            path: path.to_path_buf(),
            reason,
        };
        if self.model.waveform().is_none() {
            return Err(error("the model was built without tracing: Builder::tracing(true)"));
        }
        // Verilator writes no error where a directory is missing.
        std::fs::File::create(path).map_err(|_| error("the file cannot be created"))?;
        let text = path.to_str().and_then(|text| CString::new(text).ok());
        let text = text.ok_or_else(|| error("its name is not UTF-8"))?;
        if self.instance.open_waveform(&text) {
            Ok(())
        } else {
            Err(error("Verilator cannot open it"))
        }
    }

    /// Ends the waveform file, if there is one. Dropping the simulation does it too.
    pub fn stop_waveform(&mut self) {
        self.instance.close_waveform();
    }

    /// Writes the line coverage counted so far, for `verilator_coverage`.
    ///
    /// # Errors
    /// The model was built without coverage, or the file cannot be written.
    pub fn write_coverage(&mut self, path: &Path) -> Result<(), SimulationError> {
        let error = |reason| SimulationError::Coverage {
            path: path.to_path_buf(),
            reason,
        };
        std::fs::File::create(path).map_err(|_| error("the file cannot be created"))?;
        let text = path.to_str().and_then(|text| CString::new(text).ok());
        let text = text.ok_or_else(|| error("its name is not UTF-8"))?;
        if self.instance.write_coverage(&text) {
            Ok(())
        } else {
            Err(error("the model was built without coverage: Builder::coverage(true)"))
        }
    }

    /// What was reached so far; nothing, without points, where the model was built without coverage.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.model.coverage();
        coverage.add(&self.instance.counts(coverage.points().len()));
        coverage
    }
}

impl Drop for Simulation {
    /// Leaves what was reached for [`coverage::collect`].
    fn drop(&mut self) {
        if let Some(points) = self.model.points() {
            coverage::leave(points, || self.instance.counts(points.len()));
        }
    }
}
