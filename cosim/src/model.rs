//! What a model is built from: Verilog text, the name of the top module and its ports.
//!
//! Whoever wrote the Verilog (the generator, a person, a test) fills a [`ModelSource`]; nothing here looks into the text.

/// Direction of a port, seen from the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The harness drives it.
    Input,
    /// The module drives it.
    Output,
}

/// A port of the top module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Port {
    /// Name as in the Verilog.
    pub name: String,
    /// Width in bits, at least 1.
    pub width: u32,
    /// Who drives it.
    pub direction: Direction,
}

impl Port {
    /// An input of `width` bits.
    #[must_use]
    pub fn input(name: impl Into<String>, width: u32) -> Self {
        Self {
            name: name.into(),
            width,
            direction: Direction::Input,
        }
    }

    /// An output of `width` bits.
    #[must_use]
    pub fn output(name: impl Into<String>, width: u32) -> Self {
        Self {
            name: name.into(),
            width,
            direction: Direction::Output,
        }
    }
}

/// Everything needed to build a model.
///
/// The clock is the input `clk` of one bit; the harness drives it, and it cannot be set. Logic without registers may have
/// none. A synchronous, active-high
/// reset is the input `rst`, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelSource {
    /// Name of the top module.
    pub top: String,
    /// Verilog files: a plain file name (no directory) and its text.
    pub files: Vec<(String, String)>,
    /// Ports of the top module. They are compared with those that Verilator finds. Empty: what Verilator finds is taken.
    pub ports: Vec<Port>,
}

impl ModelSource {
    /// One file of hand-written Verilog whose ports Verilator finds out.
    #[must_use]
    pub fn from_verilog(top: &str, text: impl Into<String>) -> Self {
        Self {
            top: top.to_owned(),
            files: vec![(format!("{top}.v"), text.into())],
            ports: Vec::new(),
        }
    }

    /// A finished module of the generator with all below it.
    #[must_use]
    pub fn from_definition(definition: spraynic_rtl::Definition<'_>) -> Self {
        let ports = definition.ports().into_iter().map(|port| match port.output {
            true => Port::output(port.name, port.width),
            false => Port::input(port.name, port.width),
        });
        Self {
            top: definition.name(),
            files: definition
                .verilog()
                .into_iter()
                .map(|file| (file.name, file.text))
                .collect(),
            ports: ports.collect(),
        }
    }

    /// Says what in this source cannot be built, if anything: names that are no Verilog identifiers or no plain file
    /// names, no file, a clock that is not one input bit, a port twice or of width 0.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !is_identifier(&self.top) {
            return Err(format!("top module {:?} is not a plain Verilog identifier", self.top));
        }
        if self.files.is_empty() {
            return Err("there is no Verilog file".to_owned());
        }
        for (index, (name, _)) in self.files.iter().enumerate() {
            let plain = !name.is_empty()
                && !name.starts_with(['.', '-', '+'])
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.+".contains(c));
            if !plain {
                return Err(format!("{name:?} is not a plain file name such as fifo.v"));
            }
            if self.files[..index].iter().any(|(other, _)| other == name) {
                return Err(format!("file {name} is there twice"));
            }
        }
        if self.ports.is_empty() {
            return Ok(());
        }
        check_ports(&self.ports)
    }
}

/// Says what is wrong with a port list: see [`ModelSource::check`].
pub(crate) fn check_ports(ports: &[Port]) -> Result<(), String> {
    for (index, port) in ports.iter().enumerate() {
        if !is_identifier(&port.name) {
            return Err(format!("port {:?} is not a plain Verilog identifier", port.name));
        }
        if port.width == 0 {
            return Err(format!("port {} has width 0", port.name));
        }
        if ports[..index].iter().any(|other| other.name == port.name) {
            return Err(format!("port {} is there twice", port.name));
        }
    }
    match ports.iter().find(|port| port.name == "clk") {
        Some(Port {
            width: 1,
            direction: Direction::Input,
            ..
        }) => Ok(()),
        Some(port) => Err(format!(
            "clk must be an input of 1 bit, but is an {:?} of {} bits",
            port.direction, port.width
        )),
        // Logic without registers needs no clock.
        None => Ok(()),
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_source_is_named() {
        let good = ModelSource {
            top: "top".into(),
            files: vec![("top.v".into(), String::new())],
            ports: vec![Port::input("clk", 1), Port::output("y", 8)],
        };
        assert_eq!(good.check(), Ok(()));
        type Spoil = fn(&mut ModelSource);
        let cases: [(Spoil, &str); 7] = [
            (|s| s.top = "a b".into(), "identifier"),
            (|s| s.files.clear(), "no Verilog file"),
            (|s| s.files[0].0 = "../top.v".into(), "plain file name"),
            (|s| s.files.push(s.files[0].clone()), "twice"),
            (|s| s.ports[1].width = 0, "width 0"),
            (|s| s.ports.push(Port::output("y", 1)), "twice"),
            (|s| s.ports[0].width = 2, "clk must be"),
        ];
        for (spoil, text) in cases {
            let mut source = good.clone();
            spoil(&mut source);
            let message = source.check().expect_err(text);
            assert!(message.contains(text), "{message:?} should contain {text:?}");
        }
    }
}
