//! Reads the ports of a Verilated class from its header, and gives each a place in the plain-data structs.
//!
//! The header is the truth about C++ names and types; a wrong port list is found here, before C++ is compiled.

use serde::{Deserialize, Serialize};

use crate::model::{Direction, Port};

/// A port with its place in the In or Out struct of the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacedPort {
    /// Name as in the Verilog.
    pub(crate) name: String,
    /// Name of the member of the Verilated class.
    pub(crate) member: String,
    /// Width in bits.
    pub(crate) width: u32,
    /// The harness drives it.
    pub(crate) input: bool,
    /// First 32-bit word in the struct; no meaning for `clk`.
    pub(crate) offset: u32,
}

impl PlacedPort {
    /// Words of 32 bits that the port takes.
    pub(crate) fn words(&self) -> u32 {
        self.width.div_ceil(32)
    }
}

/// Reads the ports from the text of `V….h`, in the order of their declaration.
pub(crate) fn parse(header: &str) -> Result<Vec<PlacedPort>, String> {
    let mut ports = Vec::new();
    for line in header.lines().map(str::trim) {
        let (input, rest) = match (line.strip_prefix("VL_IN"), line.strip_prefix("VL_OUT")) {
            (Some(rest), _) if !rest.starts_with("OUT") => (true, rest),
            (_, Some(rest)) => (false, rest),
            (Some(_), _) => return Err(format!("an inout port cannot be driven: {line}")),
            _ => continue,
        };
        let unknown = || format!("this port is of a kind that the harness does not know: {line}");
        let inner = rest
            .split_once('(')
            .and_then(|(_, rest)| rest.strip_suffix(");"))
            .ok_or_else(unknown)?;
        let mut parts = inner.split(',');
        let member = parts
            .next()
            .and_then(|name| name.strip_prefix('&'))
            .ok_or_else(unknown)?;
        let mut number = || parts.next().and_then(|text| text.trim().parse::<u32>().ok());
        let (Some(high), Some(low)) = (number(), number()) else {
            return Err(unknown());
        };
        let width = high.checked_sub(low).ok_or_else(unknown)? + 1;
        ports.push(PlacedPort {
            name: demangle(member),
            member: member.to_owned(),
            width,
            input,
            offset: 0,
        });
    }
    let mut next = [0u32; 2];
    for port in ports.iter_mut().filter(|port| port.name != "clk") {
        let next = &mut next[usize::from(port.input)];
        port.offset = *next;
        *next += port.words();
    }
    Ok(ports)
}

/// Verilator writes "__" in a name as "___05F", and puts "__SYM__" before a name that is a word of C++.
fn demangle(member: &str) -> String {
    member.strip_prefix("__SYM__").unwrap_or(member).replace("___05F", "__")
}

/// Compares what was announced with what was found.
pub(crate) fn compare(announced: &[Port], found: &[PlacedPort]) -> Result<(), String> {
    for port in announced {
        let Some(real) = found.iter().find(|real| real.name == port.name) else {
            return Err(format!(
                "the port list names {}, which the top module does not have",
                port.name
            ));
        };
        let direction = if real.input {
            Direction::Input
        } else {
            Direction::Output
        };
        if real.width != port.width || direction != port.direction {
            return Err(format!(
                "the port list says that {} is an {:?} of {} bits, but the module has an {direction:?} of {} bits",
                port.name, port.direction, port.width, real.width
            ));
        }
    }
    match found
        .iter()
        .find(|real| announced.iter().all(|port| port.name != real.name))
    {
        Some(real) => Err(format!(
            "the top module has a port {} that the port list does not name",
            real.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "
        VL_IN8(&clk,0,0);
        VL_OUT8(&__SYM__new,0,0);
        VL_IN(&a___05Fb,31,0);
        VL_OUT64(&wide,32,0);
        VL_INW(&data,599,0,19);
        VL_OUT16(&high,15,4);";

    #[test]
    fn ports_are_placed_one_after_another() {
        let ports = parse(HEADER).expect("a header");
        let places: Vec<_> = ports
            .iter()
            .map(|p| (p.name.as_str(), p.width, p.input, p.offset))
            .collect();
        assert_eq!(
            places,
            [
                ("clk", 1, true, 0),
                ("new", 1, false, 0),
                ("a__b", 32, true, 0),
                ("wide", 33, false, 1),
                ("data", 600, true, 1),
                ("high", 12, false, 3),
            ]
        );
    }

    #[test]
    fn what_cannot_be_driven_is_refused() {
        for line in ["VL_INOUT8(&pad,0,0);", "VL_IN8((&array)[4],7,0);"] {
            let message = parse(line).expect_err(line);
            assert!(message.contains(line), "{message}");
        }
    }

    #[test]
    fn a_wrong_port_list_says_which_port() {
        let found = parse("VL_IN8(&clk,0,0);\nVL_OUT8(&y,7,0);").expect("a header");
        let clk = Port::input("clk", 1);
        assert_eq!(compare(&[clk.clone(), Port::output("y", 8)], &found), Ok(()));
        for (ports, text) in [
            (vec![clk.clone(), Port::output("y", 9)], "y is an Output of 9 bits"),
            (vec![clk.clone(), Port::input("y", 8)], "y is an Input"),
            (vec![clk.clone()], "port y that the port list does not name"),
            (vec![clk, Port::output("y", 8), Port::output("z", 1)], "names z"),
        ] {
            let message = compare(&ports, &found).expect_err(text);
            assert!(message.contains(text), "{message:?} should contain {text:?}");
        }
    }
}
