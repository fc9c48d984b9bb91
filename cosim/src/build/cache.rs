//! The cache of built models: entries appear whole or not at all, and old ones go away.
//!
//! An entry is built in a temporary directory beside the others and renamed when it is complete. A lock of the
//! operating system (freed when a process dies) keeps two builders of one entry apart.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Environment variable that names the cache's directory.
pub const CACHE_VARIABLE: &str = "SPRAYNIC_CACHE";

/// Entries that are kept, the most recently used ones.
const KEPT_ENTRIES: usize = 400;
/// Bytes that all entries together may take.
const KEPT_BYTES: u64 = 2 << 30;
/// An entry used more recently than this is not removed: another process may be about to load it.
const GRACE: Duration = Duration::from_secs(600);
/// A temporary directory older than this was left by a build that was interrupted.
const ABANDONED: Duration = Duration::from_secs(3600);

const MANIFEST: &str = "manifest.json";

/// A SHA-256 over parts, in hexadecimal (32 digits of it). Each part's length counts, so parts cannot run together.
#[derive(Default)]
pub(crate) struct Key(Sha256);

impl Key {
    pub(crate) fn part(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// What an entry must hold: the names, sizes and hashes of its files.
#[derive(Serialize, Deserialize)]
struct Manifest {
    files: Vec<(String, u64, String)>,
}

/// The directory of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// [`CACHE_VARIABLE`], else `spraynic-cosim` in the cargo target directory that the running program is in or
    /// CARGO_TARGET_DIR names, else `spraynic` in the user's cache directory.
    pub(crate) fn default_root() -> PathBuf {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = variable(CACHE_VARIABLE)
            .or_else(|| Some(target_directory()?.join("spraynic-cosim")))
            .or_else(|| Some(variable("CARGO_TARGET_DIR")?.join("spraynic-cosim")))
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("spraynic")))
            .or_else(|| Some(variable("HOME")?.join(".cache/spraynic")))
            .unwrap_or_else(|| std::env::temp_dir().join("spraynic-cosim"));
        std::path::absolute(&root).unwrap_or(root)
    }

    /// The entry `kind`/`key`: the one that is there when it is whole, else the one that `build` fills.
    pub(crate) fn get_or_build<E: From<CacheError>>(
        &self,
        kind: &str,
        key: &str,
        build: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let entry = self.root.join(kind).join(key);
        if self.is_whole(&entry) {
            touch(&entry);
            return Ok(entry);
        }
        let locks = self.root.join("locks");
        for directory in [&locks, &self.root.join(kind), &self.root.join("building")] {
            fs::create_dir_all(directory).map_err(|error| CacheError::new("create", directory, error))?;
        }
        let lock_path = locks.join(format!("{kind}-{key}"));
        let lock = File::create(&lock_path).map_err(|error| CacheError::new("create", &lock_path, error))?;
        lock.lock()
            .map_err(|error| CacheError::new("lock", &lock_path, error))?;
        // Someone else may have built it while this one waited.
        if self.is_whole(&entry) {
            touch(&entry);
            return Ok(entry);
        }
        let building = self.root.join("building");
        let temporary = tempfile::Builder::new()
            .prefix(key)
            .tempdir_in(&building)
            .map_err(|error| CacheError::new("create a directory in", &building, error))?;
        build(temporary.path())?;
        write_manifest(temporary.path()).map_err(|error| CacheError::new("write", temporary.path(), error))?;
        // What is there now is damaged: `is_whole` said so under the lock.
        match fs::remove_dir_all(&entry) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CacheError::new("remove", &entry, error).into());
            }
            _ => {}
        }
        match fs::rename(temporary.path(), &entry) {
            Ok(()) => drop(temporary.keep()),
            // A lock file that was pruned in the wrong moment lets two build: the first one wins.
            Err(_) if self.is_whole(&entry) => {}
            Err(error) => return Err(CacheError::new("create", &entry, error).into()),
        }
        drop(lock);
        self.prune(&entry);
        Ok(entry)
    }

    /// Whether each file that the entry's manifest names is there with its size and hash.
    fn is_whole(&self, entry: &Path) -> bool {
        let Ok(text) = fs::read(entry.join(MANIFEST)) else {
            return false;
        };
        let Ok(manifest) = serde_json::from_slice::<Manifest>(&text) else {
            return false;
        };
        manifest.files.iter().all(|(name, size, hash)| {
            let path = entry.join(name);
            fs::metadata(&path).is_ok_and(|data| data.len() == *size)
                && fs::read(&path).is_ok_and(|bytes| Key::default().part(bytes).finish() == *hash)
        })
    }

    /// Removes what is beyond the bounds, the least recently used first. What cannot be removed is left: the next
    /// build tries again.
    fn prune(&self, keep: &Path) {
        self.prune_to(keep, KEPT_ENTRIES, KEPT_BYTES, GRACE);
    }

    fn prune_to(&self, keep: &Path, entries: usize, bytes: u64, grace: Duration) {
        let now = SystemTime::now();
        let age = |path: &Path| {
            let time = fs::metadata(path).and_then(|data| data.modified()).unwrap_or(now);
            now.duration_since(time).unwrap_or_default()
        };
        for left in list(&self.root.join("building"))
            .into_iter()
            .filter(|path| age(path) > ABANDONED)
        {
            let _ = fs::remove_dir_all(left);
        }
        let mut found: Vec<(Duration, PathBuf)> = ["models", "runtime"]
            .iter()
            .flat_map(|kind| list(&self.root.join(kind)))
            .map(|path| (age(&path.join(MANIFEST)), path))
            .collect();
        found.sort();
        let mut size = 0;
        for (index, (age, entry)) in found.iter().enumerate() {
            size += list(entry)
                .iter()
                .filter_map(|file| Some(fs::metadata(file).ok()?.len()))
                .sum::<u64>();
            if (index >= entries || size > bytes) && *age >= grace && entry != keep {
                let _ = fs::remove_dir_all(entry);
                if let (Some(kind), Some(key)) = (entry.parent().and_then(Path::file_name), entry.file_name()) {
                    let name = format!("{}-{}", kind.to_string_lossy(), key.to_string_lossy());
                    let _ = fs::remove_file(self.root.join("locks").join(name));
                }
            }
        }
    }
}

/// The cargo target directory around the running program: the one that cargo marked with CACHEDIR.TAG.
pub(crate) fn target_directory() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let found = program
        .ancestors()
        .skip(1)
        .find(|directory| directory.join("CACHEDIR.TAG").is_file());
    found.map(Path::to_path_buf)
}

fn list(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

/// Marks an entry as used now.
fn touch(entry: &Path) {
    if let Ok(file) = File::options().append(true).open(entry.join(MANIFEST)) {
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
    }
}

fn write_manifest(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for path in list(directory) {
        if path.is_file() {
            let bytes = fs::read(&path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, bytes.len() as u64, Key::default().part(bytes).finish()));
        }
    }
    files.sort();
    fs::write(directory.join(MANIFEST), serde_json::to_vec(&Manifest { files })?)
}

/// The cache's directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path} in the cache of models: {source}; {CACHE_VARIABLE} names another directory")]
pub struct CacheError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            action,
            path: path.to_path_buf(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str) -> impl FnOnce(&Path) -> Result<(), CacheError> {
        move |directory| {
            fs::write(directory.join("data"), text).map_err(|error| CacheError::new("write", directory, error))
        }
    }

    fn read(entry: &Path) -> String {
        fs::read_to_string(entry.join("data")).expect("the entry's file")
    }

    #[test]
    fn an_entry_is_built_once_and_rebuilt_when_damaged() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let cache = Cache::at(root.path().to_path_buf());
        let entry = cache.get_or_build("models", "a", fill("first")).expect("an entry");
        cache.get_or_build("models", "a", fill("second")).expect("an entry");
        assert_eq!(read(&entry), "first");
        // Same size, other content; a missing file; no manifest; a half manifest.
        let damages: [fn(&Path); 4] = [
            |entry| fs::write(entry.join("data"), "FIRST").expect("a write"),
            |entry| fs::remove_file(entry.join("data")).expect("a removal"),
            |entry| fs::remove_file(entry.join(MANIFEST)).expect("a removal"),
            |entry| fs::write(entry.join(MANIFEST), "{\"fil").expect("a write"),
        ];
        for damage in damages {
            damage(&entry);
            assert_eq!(
                read(&cache.get_or_build("models", "a", fill("first")).expect("an entry")),
                "first"
            );
        }
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let cache = Cache::at(root.path().to_path_buf());
        let failed = cache.get_or_build("models", "a", |directory| {
            fs::write(directory.join("data"), "half").expect("a write");
            Err(CacheError::new("write", directory, io::Error::other("disk full")))
        });
        assert!(failed.is_err());
        assert!(list(&root.path().join("building")).is_empty());
        assert!(list(&root.path().join("models")).is_empty());
        assert_eq!(
            read(&cache.get_or_build("models", "a", fill("whole")).expect("an entry")),
            "whole"
        );
    }

    #[test]
    fn old_entries_go_and_recent_ones_stay() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let cache = Cache::at(root.path().to_path_buf());
        let mut entries = Vec::new();
        for index in 0..5u64 {
            let entry = cache
                .get_or_build("models", &index.to_string(), fill("data"))
                .expect("an entry");
            let manifest = File::options()
                .append(true)
                .open(entry.join(MANIFEST))
                .expect("a manifest");
            let time = SystemTime::now() - Duration::from_secs(10_000 - 1000 * index);
            manifest.set_times(FileTimes::new().set_modified(time)).expect("a time");
            entries.push(entry);
        }
        // The oldest is the one just built; the next two are beyond the bound.
        cache.prune_to(&entries[0], 2, u64::MAX, GRACE);
        let there: Vec<bool> = entries.iter().map(|entry| entry.exists()).collect();
        assert_eq!(there, [true, false, false, true, true]);
        cache.prune_to(&entries[0], 2, 0, Duration::from_secs(6500));
        let there: Vec<bool> = entries.iter().map(|entry| entry.exists()).collect();
        assert_eq!(there, [true, false, false, false, true]);
    }

    #[test]
    fn parts_of_a_key_do_not_run_together() {
        assert_ne!(
            Key::default().part("ab").part("c").finish(),
            Key::default().part("a").part("bc").finish()
        );
    }
}
