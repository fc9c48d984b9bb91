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

/// Short form of a place for comments in the Verilog.
pub(crate) fn short(place: Place) -> String {
    let file = place.file().replace('\\', "/");
    let tail = file.rsplitn(4, '/').take(3).collect::<Vec<_>>();
    format!(
        "{}:{}",
        tail.into_iter().rev().collect::<Vec<_>>().join("/"),
        place.line()
    )
}

/// An id that means: not driven on every branch.
pub(crate) const UNDRIVEN: NodeId = NodeId::MAX;
