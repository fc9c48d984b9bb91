//! A directory of generated files that appears whole or not at all.
//!
//! It is written beside its final place and renamed. What stands there already is replaced only if it was generated
//! and not changed since: a manifest with the size and checksum of each file tells. Nothing that was not generated is
//! ever deleted; with `force` it is renamed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Name of the manifest within the directory.
pub(crate) const MANIFEST: &str = "spraynic.manifest";

/// First line of a manifest.
const MANIFEST_HEAD: &str = "# Files written by spraynic: CRC-32, bytes, path. A directory whose files differ from this list is not overwritten.";

/// A file to write.
#[derive(Debug, Clone)]
pub(crate) struct GeneratedFile {
    /// Path within the directory, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
    /// What it is, for the table.
    pub(crate) what: String,
}

fn manifest(files: &[GeneratedFile]) -> String {
    let mut text = format!("{MANIFEST_HEAD}\n");
    for file in files {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:08x} {} {}",
            crc32fast::hash(file.text.as_bytes()),
            file.text.len(),
            file.path
        );
    }
    text
}

/// Writes `files` and their manifest as the directory `target`. Returns where a foreign directory was moved to.
///
/// # Errors
/// The target is not a directory, holds what was not generated (without `force`), or the file system refuses. The
/// target is then as it was.
pub(crate) fn write(target: &Path, files: &[GeneratedFile], force: bool) -> Result<Option<PathBuf>, CliError> {
    // A link to a directory stays a link: its target is replaced.
    let target = match fs::canonicalize(target) {
        Ok(path) => path,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => target.to_owned(),
        Err(error) => return Err(CliError::file(target, "look at the output directory")(error)),
    };
    let named = |what: &str| CliError::Usage(format!("--out {}: {what}, for example build/100g", target.display()));
    let name = target
        .file_name()
        .ok_or_else(|| named("the output needs a name of its own"))?
        .to_str()
        .ok_or_else(|| named("the name of the output is not UTF-8; choose one that is"))?;
    let existing = state_of(&target)?;
    if let (State::Foreign(reason), false) = (&existing, force) {
        return Err(CliError::NotOurs(format!(
            "{}: not overwritten, because {reason}; choose another --out, or give --force to move what is there aside",
            target.display()
        )));
    }
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(CliError::file(parent, "create the directory"))?;
    // Dropped on every early return, which deletes what was written.
    let temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}.spraynic-"))
        .tempdir_in(parent)
        .map_err(CliError::file(parent, "write into the directory"))?;
    let fresh = temporary.path().join("new");
    let record = GeneratedFile {
        path: MANIFEST.to_owned(),
        text: manifest(files),
        what: String::new(),
    };
    for file in files.iter().chain([&record]) {
        let path = fresh.join(&file.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(CliError::file(directory, "create the directory"))?;
        }
        fs::write(&path, &file.text).map_err(CliError::file(&path, "write"))?;
    }
    let aside = match existing {
        State::Free => None,
        State::Ours => Some(temporary.path().join("old")),
        State::Foreign(_) => Some(free_name(&target)),
    };
    if let Some(aside) = &aside {
        fs::rename(&target, aside).map_err(CliError::file(&target, "move the old directory aside"))?;
    }
    if let Err(error) = fs::rename(&fresh, &target) {
        if let Some(aside) = &aside {
            fs::rename(aside, &target).map_err(CliError::file(aside, "move the old directory back"))?;
        }
        return Err(CliError::file(&target, "move the new directory into its place")(error));
    }
    Ok(aside.filter(|_| matches!(existing, State::Foreign(_))))
}

/// What stands where the directory is to be.
enum State {
    /// Nothing, or an empty directory.
    Free,
    /// A directory generated before, unchanged.
    Ours,
    /// Something else, for this reason.
    Foreign(String),
}

fn state_of(target: &Path) -> Result<State, CliError> {
    if !target.exists() {
        return Ok(State::Free);
    }
    if !target.is_dir() {
        return Err(CliError::NotOurs(format!(
            "{}: is a file; give a directory as --out",
            target.display()
        )));
    }
    let mut found = Vec::new();
    list(target, target, &mut found)?;
    let path = target.join(MANIFEST);
    let Ok(text) = fs::read_to_string(&path) else {
        if found.is_empty() {
            // An empty directory is replaced by renaming over it.
            return Ok(State::Free);
        }
        return Ok(State::Foreign(format!(
            "it was not generated by spraynic (it has no {MANIFEST})"
        )));
    };
    let mut listed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let [checksum, bytes, path] = line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            listed.insert(path, (checksum, bytes));
        }
    }
    for file in found.iter().filter(|file| *file != MANIFEST) {
        let Some((checksum, bytes)) = listed.remove(file.as_str()) else {
            return Ok(State::Foreign(format!("{file} in it was not generated")));
        };
        let path = target.join(file);
        let content = fs::read(&path).map_err(CliError::file(&path, "read"))?;
        if format!("{:08x}", crc32fast::hash(&content)) != checksum || content.len().to_string() != bytes {
            return Ok(State::Foreign(format!(
                "{file} in it was changed since it was generated"
            )));
        }
    }
    Ok(State::Ours)
}

/// Paths of all files below `directory`, relative to `root`, with `/`.
fn list(root: &Path, directory: &Path, found: &mut Vec<String>) -> Result<(), CliError> {
    let entries = fs::read_dir(directory).map_err(CliError::file(directory, "list"))?;
    for entry in entries {
        let entry = entry.map_err(CliError::file(directory, "list"))?;
        let path = entry.path();
        // Links are not followed: what they point to is not ours.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(root, &path, found)?;
        } else {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            found.push(parts.join("/"));
        }
    }
    found.sort();
    Ok(())
}

/// A name beside `target` that nothing has yet.
fn free_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (1u64..)
        .map(|number| target.with_file_name(format!("{name}.before-{number}")))
        .find(|path| !path.exists() && !path.is_symlink())
        .unwrap_or_else(|| target.with_file_name(format!("{name}.before")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Vec<GeneratedFile> {
        texts
            .iter()
            .map(|(path, text)| GeneratedFile {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
                what: String::new(),
            })
            .collect()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn read(path: impl AsRef<Path>) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn writes_parents_files_and_manifest_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a/b/out");
        write(&target, &files(&[("rtl/x.v", "module"), ("y", "")]), false).unwrap();
        assert_eq!(names(&target), ["rtl", MANIFEST, "y"]);
        assert_eq!(read(target.join("rtl/x.v")), "module");
        assert_eq!(names(&place.path().join("a/b")), ["out"]);
        // CRC-32 of "module", computed with another tool.
        assert!(
            read(target.join(MANIFEST)).contains("\n0c242628 6 rtl/x.v\n00000000 0 y\n"),
            "{}",
            read(target.join(MANIFEST))
        );
    }

    #[test]
    fn replaces_what_it_wrote_and_leaves_no_old_file() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        write(&target, &files(&[("old.v", "1"), ("same.v", "1")]), false).unwrap();
        write(&target, &files(&[("same.v", "2")]), false).unwrap();
        assert_eq!(names(&target), ["same.v", MANIFEST]);
        assert_eq!(read(target.join("same.v")), "2");
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn takes_an_empty_directory() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        fs::create_dir(&target).unwrap();
        write(&target, &files(&[("x.v", "1")]), false).unwrap();
        assert_eq!(names(&target), [MANIFEST, "x.v"]);
    }

    /// Each way in which a directory is not as it was generated.
    #[test]
    fn refuses_what_is_not_its_own_and_changes_nothing() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 6] = [
            ("notes.txt in it was not generated", |t| {
                fs::write(t.join("notes.txt"), "mine").unwrap();
            }),
            ("deep/notes.txt in it was not generated", |t| {
                fs::create_dir(t.join("deep")).unwrap();
                fs::write(t.join("deep/notes.txt"), "mine").unwrap();
            }),
            ("x.v in it was changed", |t| fs::write(t.join("x.v"), "edited").unwrap()),
            ("x.v in it was changed", |t| {
                fs::write(t.join("x.v"), "1 and more").unwrap();
            }),
            ("it has no spraynic.manifest", |t| {
                fs::remove_file(t.join(MANIFEST)).unwrap();
            }),
            ("link in it was not generated", |t| {
                #[cfg(unix)]
                std::os::unix::fs::symlink("/etc", t.join("link")).unwrap();
            }),
        ];
        for (reason, change) in changes {
            let place = tempfile::tempdir().unwrap();
            let target = place.path().join("out");
            write(&target, &files(&[("x.v", "1")]), false).unwrap();
            change(&target);
            let before = names(&target);
            let error = write(&target, &files(&[("x.v", "2")]), false).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(names(&target), before);
            assert_eq!(names(place.path()), ["out"]);
            // With force, what was there is kept under another name.
            let moved = write(&target, &files(&[("x.v", "2")]), true).unwrap().unwrap();
            assert_eq!(moved.file_name().unwrap(), "out.before-1");
            assert_eq!(names(&moved), before);
            assert_eq!(names(&target), [MANIFEST, "x.v"]);
        }
    }

    #[test]
    fn force_never_takes_a_name_that_is_in_use() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        for number in 1..4 {
            fs::create_dir(&target).unwrap();
            fs::write(target.join("mine"), "").unwrap();
            let moved = write(&target, &files(&[("x.v", "1")]), true).unwrap().unwrap();
            assert_eq!(
                moved.file_name().unwrap().to_str().unwrap(),
                format!("out.before-{number}")
            );
            fs::remove_dir_all(&target).unwrap();
        }
    }

    #[test]
    fn a_failure_in_the_middle_leaves_everything_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        write(&target, &files(&[("x.v", "1")]), false).unwrap();
        // The second file needs a directory where the first one is a file.
        let broken = files(&[("x.v", "2"), ("x.v/y.v", "2")]);
        let error = write(&target, &broken, false).unwrap_err().to_string();
        assert!(error.contains("cannot create the directory"), "{error}");
        assert_eq!(read(target.join("x.v")), "1");
        assert_eq!(names(place.path()), ["out"]);
        let fresh = place.path().join("fresh");
        write(&fresh, &broken, false).unwrap_err();
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn refuses_a_file_and_a_nameless_place() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        fs::write(&target, "a file").unwrap();
        for force in [false, true] {
            let error = write(&target, &files(&[("x.v", "1")]), force).unwrap_err();
            assert!(
                error.to_string().ends_with("is a file; give a directory as --out"),
                "{error}"
            );
            assert_eq!(read(&target), "a file");
        }
        let error = write(Path::new("/"), &files(&[]), true).unwrap_err();
        assert_eq!(error.exit_status(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_utf_8_is_called_that() {
        use std::os::unix::ffi::OsStrExt;
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join(std::ffi::OsStr::from_bytes(b"out\xff"));
        let error = write(&target, &files(&[("x.v", "1")]), false).unwrap_err();
        assert!(error.to_string().contains("is not UTF-8"), "{error}");
        assert_eq!(error.exit_status(), 2);
        assert!(names(place.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_directory_stays_one() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        let link = place.path().join("link");
        write(&real, &files(&[("x.v", "1")]), false).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, &files(&[("x.v", "2")]), false).unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(real.join("x.v")), "2");
    }
}
