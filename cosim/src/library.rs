//! The only unsafe code of the crate: loads a model's shared library and calls it.
//!
//! A [`Library`] is never unloaded: C++ leaves destructors of thread-local objects behind that would run after it.
#![allow(
    unsafe_code,
    reason = "a shared library is loaded and called through C pointers; everything above is safe"
)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// A shared library cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the model {path}: {reason}")]
pub struct LibraryError {
    path: PathBuf,
    reason: String,
}

/// The functions of a model's library. The shim declares them: see `build/shim.rs`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    create: unsafe extern "C" fn(u64) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    eval: unsafe extern "C" fn(*mut c_void, *const u32, *mut u32) -> c_int,
    step: unsafe extern "C" fn(*mut c_void, *const u32, *mut u32, u64) -> c_int,
    failed: unsafe extern "C" fn(*mut c_void) -> c_int,
    error: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    log: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    clear_log: unsafe extern "C" fn(*mut c_void),
    wave_open: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    wave_close: unsafe extern "C" fn(*mut c_void),
    coverage: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    /// There is one where the model has points of coverage.
    counts: Option<unsafe extern "C" fn(*mut c_void, *mut u32)>,
}

impl Library {
    /// Loads a library that [`crate::Builder`] built; the same path is loaded once.
    pub(crate) fn load(path: &Path) -> Result<Self, LibraryError> {
        static LOADED: OnceLock<Mutex<HashMap<PathBuf, Library>>> = OnceLock::new();
        let fail = |reason: String| LibraryError {
            path: path.to_path_buf(),
            reason,
        };
        let mut loaded = LOADED
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(library) = loaded.get(path) {
            return Ok(*library);
        }
        // SAFETY: the file is the entry of the cache whose hash was just checked; its initialisers are those of the
        // Verilator runtime and of the C++ library, which have no preconditions.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| fail(error.to_string()))?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the shim defines the function with this very signature.
                *unsafe { library.get(concat!("spraynic_", $name, "\0").as_bytes()) }
                    .map_err(|error| fail(error.to_string()))?
            };
        }
        // SAFETY: where the shim defines the function, it is with this very signature.
        let counts = unsafe { library.get(b"spraynic_counts\0") }.ok().map(|symbol| *symbol);
        let functions = Self {
            counts,
            create: symbol!("create"),
            destroy: symbol!("destroy"),
            eval: symbol!("eval"),
            step: symbol!("step"),
            failed: symbol!("failed"),
            error: symbol!("error"),
            log: symbol!("log"),
            clear_log: symbol!("clear_log"),
            wave_open: symbol!("wave_open"),
            wave_close: symbol!("wave_close"),
            coverage: symbol!("coverage"),
        };
        // The pointers above stay valid because the library stays loaded until the process ends.
        std::mem::forget(library);
        loaded.insert(path.to_path_buf(), functions);
        Ok(functions)
    }
}

/// One instance of a model. It may move to another thread; two threads cannot use it at once.
#[derive(Debug)]
pub(crate) struct Instance {
    library: Library,
    handle: *mut c_void,
    inputs: usize,
    outputs: usize,
}

// SAFETY: the C++ object is used through `&mut self` only (or through `&self` by functions that read it), and the shim
// sets Verilator's per-thread context at each call.
unsafe impl Send for Instance {}

impl Instance {
    /// Creates an instance whose In and Out structs have these numbers of words.
    pub(crate) fn new(library: Library, seed: u64, inputs: usize, outputs: usize) -> Self {
        // SAFETY: the function has no precondition; it returns an object that `destroy` frees.
        let handle = unsafe { (library.create)(seed) };
        Self {
            library,
            handle,
            inputs,
            outputs,
        }
    }

    /// Applies the inputs, evaluates, samples the outputs. False: the model failed.
    pub(crate) fn eval(&mut self, inputs: &[u32], outputs: &mut [u32]) -> bool {
        assert!(inputs.len() == self.inputs && outputs.len() == self.outputs);
        // SAFETY: the handle is alive, and the lengths are those that the shim reads and writes (asserted above).
        unsafe { (self.library.eval)(self.handle, inputs.as_ptr(), outputs.as_mut_ptr()) == 0 }
    }

    /// `count` clocks with the same inputs. False: the model failed.
    #[inline]
    pub(crate) fn step(&mut self, inputs: &[u32], outputs: &mut [u32], count: u64) -> bool {
        assert!(inputs.len() == self.inputs && outputs.len() == self.outputs);
        // SAFETY: as in `eval`.
        unsafe { (self.library.step)(self.handle, inputs.as_ptr(), outputs.as_mut_ptr(), count) == 0 }
    }

    /// What the model failed with, if it did.
    pub(crate) fn error(&self) -> Option<String> {
        // SAFETY: the handle is alive; the string lives until the next call that changes it, and is copied here.
        unsafe { ((self.library.failed)(self.handle) != 0).then(|| copy_string((self.library.error)(self.handle))) }
    }

    /// Takes what the model printed since the last call.
    pub(crate) fn take_log(&mut self) -> String {
        // SAFETY: as in `error`.
        unsafe {
            let text = copy_string((self.library.log)(self.handle));
            (self.library.clear_log)(self.handle);
            text
        }
    }

    /// Starts a waveform. False: the model has no tracing, or the file cannot be written.
    pub(crate) fn open_waveform(&mut self, path: &CString) -> bool {
        // SAFETY: the handle is alive and the string ends with a zero.
        unsafe { (self.library.wave_open)(self.handle, path.as_ptr()) == 0 }
    }

    /// Ends the waveform, if one is being written.
    pub(crate) fn close_waveform(&mut self) {
        // SAFETY: the handle is alive.
        unsafe { (self.library.wave_close)(self.handle) }
    }

    /// The coverage counters, of a model with so many points.
    pub(crate) fn counts(&self, points: usize) -> Vec<u32> {
        let mut counts = vec![0; points];
        if let Some(read) = self.library.counts.filter(|_| points > 0) {
            // SAFETY: the handle is alive; the function writes one word a point, and `points` is read from the same entry of the cache.
            unsafe { read(self.handle, counts.as_mut_ptr()) }
        }
        counts
    }

    /// Writes the coverage counters. False: the model has none.
    pub(crate) fn write_coverage(&mut self, path: &CString) -> bool {
        // SAFETY: the handle is alive and the string ends with a zero.
        unsafe { (self.library.coverage)(self.handle, path.as_ptr()) == 0 }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create` and is freed once.
        unsafe { (self.library.destroy)(self.handle) }
    }
}

/// # Safety
/// The pointer is to a string that ends with a zero and lives during the call.
unsafe fn copy_string(text: *const c_char) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim_end().to_owned()
}
