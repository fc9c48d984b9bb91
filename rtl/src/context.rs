//! `Context`: owns every module of a design. All handles are small copies that borrow it.

use crate::ir::{ModuleData, NodeId, Place};
use crate::module::Module;
use std::cell::{Ref, RefCell, RefMut};
use std::panic::Location;

/// Owner of all modules, finished or being built.
#[derive(Debug, Default)]
pub struct Context {
    modules: RefCell<Vec<ModuleData>>,
}

impl Context {
    /// An empty design.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a module. Its name should say its parameters: `fifo_w512_d16`.
    ///
    /// # Panics
    /// When the name is no Verilog identifier, is a Verilog keyword or is that of a RAM wrapper.
    #[track_caller]
    pub fn module(&self, name: &str) -> Module<'_> {
        let place = Location::caller();
        crate::keywords::check_identifier(name, place);
        if crate::ram::is_name(name) {
            fail(
                place,
                &format!("`{name}` is the name of a RAM wrapper: choose another name"),
            );
        }
        let mut modules = self.modules.borrow_mut();
        modules.push(ModuleData::new(name, place));
        Module {
            context: self,
            index: (modules.len() - 1) as u32,
        }
    }

    pub(crate) fn data(&self, index: u32) -> Ref<'_, ModuleData> {
        Ref::map(self.modules.borrow(), |modules| &modules[index as usize])
    }

    pub(crate) fn data_mut(&self, index: u32) -> RefMut<'_, ModuleData> {
        RefMut::map(self.modules.borrow_mut(), |modules| &mut modules[index as usize])
    }

    /// The finished module of this name, whatever its case, except `but`.
    pub(crate) fn finished(&self, name: &str, but: u32) -> Option<u32> {
        let modules = self.modules.borrow();
        (0..modules.len() as u32).find(|index| {
            let module = &modules[*index as usize];
            *index != but && module.finished && module.name.eq_ignore_ascii_case(name)
        })
    }
}

/// Stops with a message that begins with the place in the user's Rust file.
#[track_caller]
pub(crate) fn fail(place: Place, message: &str) -> ! {
    panic!("{}:{}: {message}", place.file(), place.line())
}

/// A place for comments in the Verilog: the same wherever the clone lies.
pub(crate) fn short(place: Place) -> String {
    format!("{}:{}", short_file(place.file()), place.line())
}

/// A source file as seen from its workspace. Cargo gives the files of a workspace relative to its root: these stay whole. It gives
/// those of other crates as absolute paths: these begin at the directory of their crate.
fn short_file(file: &str) -> String {
    let file = file.replace('\\', "/");
    let mut parts: Vec<&str> = vec![];
    for part in file.split('/') {
        match part {
            "" | "." => {}
            // `#[path = "../x.rs"]` leaves such parts.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let absolute = file.starts_with('/') || file.as_bytes().get(1) == Some(&b':');
    if absolute {
        let is_target = |part: &str| ["src", "tests", "examples", "benches"].contains(&part);
        let directories = parts.len().saturating_sub(1);
        let mut start = parts[..directories]
            .iter()
            .rposition(|part| is_target(part))
            .unwrap_or(directories);
        // A module may be called `tests`: `crate/src/tests/x.rs`.
        if start > 0 && start < directories && parts[start] != "src" && parts[start - 1] == "src" {
            start -= 1;
        }
        let crate_directory = if start < directories {
            start.saturating_sub(1)
        } else {
            start
        };
        parts.drain(..crate_directory);
    }
    parts.join("/")
}

/// An id that means: not driven on every branch.
pub(crate) const UNDRIVEN: NodeId = NodeId::MAX;

#[cfg(test)]
mod tests {
    use super::short_file;

    #[test]
    fn a_file_is_named_from_its_workspace_or_from_its_crate() {
        for (file, short) in [
            (
                "hdl/src/packet_slicer/admission.rs",
                "hdl/src/packet_slicer/admission.rs",
            ),
            (
                "hdl\\src\\packet_slicer\\admission.rs",
                "hdl/src/packet_slicer/admission.rs",
            ),
            ("src/main.rs", "src/main.rs"),
            ("tests/tests/captures.rs", "tests/tests/captures.rs"),
            ("rtl/tests/../examples/fifo.rs", "rtl/examples/fifo.rs"),
            ("/home/me/src/nic/hdl/src/a/b/c.rs", "hdl/src/a/b/c.rs"),
            (
                "/home/me/.cargo/registry/src/index-1/blocks-1.0.0/src/a/b.rs",
                "blocks-1.0.0/src/a/b.rs",
            ),
            (
                "/home/me/.cargo/registry/src/index-1/blocks-1.0.0/src/tests/b.rs",
                "blocks-1.0.0/src/tests/b.rs",
            ),
            ("/home/me/nic/tests/tests/captures.rs", "tests/tests/captures.rs"),
            ("C:\\me\\nic\\rtl\\examples\\fifo.rs", "rtl/examples/fifo.rs"),
            ("/tmp/alone.rs", "alone.rs"),
        ] {
            assert_eq!(short_file(file), short, "{file}");
        }
    }
}
