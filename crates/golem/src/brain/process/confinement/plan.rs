//! Allow-list of a command: the files it needs, derived from the command line, and the folders that must stay closed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::Confinement;
use bardo_base::regular_file;
use bardo_base::text::SafeText;

/// System files and folders that every program may read. Missing ones are left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// Devices that every program may read and write.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Environment variables that every program receives.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT"];

/// Names of program folders below an installation prefix.
const PROGRAM_FOLDERS: &[&str] = &["bin", "sbin", "shims"];

/// Parts of an interpreter's prefix that it reads: libraries, and the versions of pyenv, rbenv, asdf and similar tools.
/// Everything else below the prefix stays closed, such as `share` below `~/.local`.
const PREFIX_PARTS: &[&str] = &[
    "bin",
    "sbin",
    "shims",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "versions",
    "installs",
    "plugins",
    "ssl",
    "version",
    "pyvenv.cfg",
];

/// Folders whose subfolders each belong to one user, one disk or one service: homes, mounted disks, service state.
const SHARED_PARENTS: &[&str] = &[
    "/export/home",
    "/home",
    "/media",
    "/mnt",
    "/private",
    "/private/var",
    "/run",
    "/run/user",
    "/Users",
    "/usr/home",
    "/var",
    "/var/home",
    "/Volumes",
];

/// Folders with one subfolder per user, which in turn contains that user's disks.
const SHARED_GRANDPARENTS: &[&str] = &["/media", "/run/media"];

/// Maximum size of the user list that is read, in bytes.
const MAX_USERS_BYTES: u64 = 4 << 20;

/// Maximum depth of scripts that start scripts.
const DEEPEST_SCRIPT: usize = 4;

/// Error in deriving the allow-list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfinementPlanError {
    /// Program that was not found.
    #[error("cannot start `{0}`: no such program. Check the command in golem.brain and PATH.")]
    NoProgram(SafeText),
    /// Path that is, contains, or lies in a protected folder.
    #[error(
        "the brain must not access {protected}, which holds Bardo's data, configuration, keys or secrets; {path} ({why}) \
         overlaps with it. Move the program or this path to a folder of its own."
    )]
    Protected {
        /// Path that was requested or derived.
        path: SafeText,
        /// Origin of the path.
        why: &'static str,
        /// Protected folder that overlaps with it.
        protected: SafeText,
    },
    /// Configured path that does not exist.
    #[error("{key} names {path}, which cannot be used: {reason}. Create it, or remove it from the list.")]
    Configured {
        /// Name of the configuration key.
        key: &'static str,
        /// Path as configured.
        path: SafeText,
        /// Error of the operating system.
        reason: SafeText,
    },
    /// Environment variable that must not be passed to a program.
    #[error("golem.environment names {0}: variables of Bardo's own may hold secrets. Remove it from the list.")]
    Variable(SafeText),
    /// Unreadable current folder.
    #[error("cannot read the current folder: {0}. Start Bardo in a folder that exists.")]
    Folder(SafeText),
}

/// Access of one program. All paths are canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinementPlan {
    /// Absolute path of the program, as it was found.
    pub program: PathBuf,
    /// Files and folders that it may read and execute.
    pub read: BTreeSet<PathBuf>,
    /// Files and folders that it may also change, without the scratch folder.
    pub write: BTreeSet<PathBuf>,
    /// Names of the environment variables that it receives.
    pub environment: Vec<String>,
}

/// Derives the allow-list of a command.
///
/// # Errors
/// Returns a [`ConfinementPlanError`] for a missing program, an unusable configured path or variable, or a path that
/// overlaps with a protected folder.
pub fn plan(
    name: &str,
    arguments: &[String],
    confinement: &Confinement,
) -> Result<ConfinementPlan, ConfinementPlanError> {
    let current = std::env::current_dir().map_err(|error| ConfinementPlanError::Folder(clean(error)))?;
    let search = std::env::var_os("PATH").unwrap_or_default();
    let places = FolderSets { current, search: &search, homes: homes(), protected: protected(confinement) };
    let program = places.find(name).ok_or_else(|| ConfinementPlanError::NoProgram(clean(name)))?;
    let mut derived = BTreeSet::new();
    places.program(&program, DEEPEST_SCRIPT, &mut derived)?;
    let files = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let files = files.map(|argument| places.current.join(argument)).filter(|path| path.exists());
    for (at, file) in files.enumerate() {
        // The first file is the script, and its modules are in the same folder.
        places.file(&file, at == 0, &mut derived)?;
    }
    let mut read: BTreeSet<PathBuf> = SYSTEM.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    for path in &read {
        places.allow(path, "a system folder")?;
    }
    read.extend(derived);
    let configured = |key: &'static str, paths: &[PathBuf]| -> Result<Vec<PathBuf>, ConfinementPlanError> {
        let found = paths.iter().map(|path| {
            let failed = |error: std::io::Error| ConfinementPlanError::Configured {
                key,
                path: show(path),
                reason: clean(error),
            };
            let found = fs::canonicalize(path).map_err(failed)?;
            places.allow(&found, key).map(|()| found)
        });
        found.collect()
    };
    read.extend(configured("golem.read", &confinement.read)?);
    let write: BTreeSet<PathBuf> = configured("golem.write", &confinement.write)?.into_iter().collect();
    if let Some(name) = confinement.environment.iter().find(|name| name.to_uppercase().starts_with("BARDO_")) {
        return Err(ConfinementPlanError::Variable(clean(name)));
    }
    let environment = ENVIRONMENT.iter().map(|name| (*name).to_owned()).chain(confinement.environment.iter().cloned());
    Ok(ConfinementPlan { program, read, write, environment: environment.collect() })
}

fn clean(text: impl ToString) -> SafeText {
    SafeText::clean(&text.to_string(), 200)
}

fn show(path: &Path) -> SafeText {
    clean(path.display())
}

/// Returns the protected folders in canonical form as far as they exist, so that no link bypasses them.
fn protected(confinement: &Confinement) -> Vec<PathBuf> {
    confinement.protected.iter().map(|path| resolved(path)).collect()
}

/// Returns the canonical path. Missing components are appended to the nearest existing folder.
fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut exists = path;
    loop {
        if let Ok(found) = fs::canonicalize(exists) {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (exists.parent(), exists.file_name()) else { return path.to_owned() };
        missing.push(name);
        exists = parent;
    }
}

/// Lookup folders and protected folders.
struct FolderSets<'a> {
    current: PathBuf,
    search: &'a OsStr,
    /// Home folders of all users.
    homes: Vec<PathBuf>,
    protected: Vec<PathBuf>,
}

impl FolderSets<'_> {
    /// Finds a program by path, or by name in PATH.
    fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(self.current.join(name)).filter(|path| is_program(path));
        }
        let folders = std::env::split_paths(self.search);
        folders.map(|folder| self.current.join(folder).join(name)).find(|path| is_program(path))
    }

    /// Checks that a path does not overlap with a protected folder.
    ///
    /// # Errors
    /// [`ConfinementPlanError::Protected`] if it does.
    fn allow(&self, path: &Path, why: &'static str) -> Result<(), ConfinementPlanError> {
        match self.overlapping(path) {
            Some(protected) => {
                Err(ConfinementPlanError::Protected { path: show(path), why, protected: show(protected) })
            }
            None => Ok(()),
        }
    }

    fn overlapping(&self, path: &Path) -> Option<&PathBuf> {
        self.protected.iter().find(|protected| path.starts_with(protected) || protected.starts_with(path))
    }

    /// True if a folder holds so much beside a program that it is never allowed as a whole.
    fn is_broad(&self, folder: &Path) -> bool {
        let temporary = fs::canonicalize(std::env::temp_dir()).ok();
        is_shared(folder)
            || temporary.is_some_and(|temporary| temporary == folder)
            || self.homes.iter().any(|home| home.starts_with(folder))
            || self.protected.iter().any(|protected| protected.starts_with(folder))
    }

    /// Adds the paths that a program needs: itself, the parts of its prefix, and the interpreter in its first line.
    fn program(&self, program: &Path, depth: usize, into: &mut BTreeSet<PathBuf>) -> Result<(), ConfinementPlanError> {
        let Ok(found) = fs::canonicalize(program) else { return Ok(()) };
        for path in [program, &found] {
            let Some(folder) = path.parent() else { continue };
            let is_prefix = folder.file_name().is_some_and(|name| PROGRAM_FOLDERS.iter().any(|known| name == *known));
            let prefix = folder.parent().filter(|prefix| is_prefix && *prefix != Path::new("/"));
            let Some(prefix) = prefix else {
                self.file(path, true, into)?;
                continue;
            };
            self.file(path, false, into)?;
            for part in PREFIX_PARTS {
                let Ok(part) = fs::canonicalize(prefix.join(part)) else { continue };
                if !self.is_broad(&part) {
                    self.allow(&part, "the program's installation")?;
                    into.insert(part);
                }
            }
        }
        let Some(interpreter) = depth.checked_sub(1).and_then(|_| self.interpreter(&found)) else { return Ok(()) };
        self.program(&interpreter, depth - 1, into)
    }

    /// Adds a file, and with `beside` its folder, unless that folder is too broad.
    fn file(&self, file: &Path, beside: bool, into: &mut BTreeSet<PathBuf>) -> Result<(), ConfinementPlanError> {
        let Ok(found) = fs::canonicalize(file) else { return Ok(()) };
        const WHY: &str = "the brain's command";
        if found.is_dir() && self.is_broad(&found) {
            // A folder such as `.` or `~` is not a program; naming it opens nothing.
            return Ok(());
        }
        self.allow(&found, WHY)?;
        for path in [file, &found] {
            let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
            if let Some(folder) = folder.filter(|folder| beside && !self.is_broad(folder)) {
                self.allow(&folder, WHY)?;
                into.insert(folder);
            }
        }
        into.insert(found);
        Ok(())
    }

    /// Returns the interpreter in a script's first line.
    fn interpreter(&self, script: &Path) -> Option<PathBuf> {
        let mut head = Vec::new();
        regular_file::open(script).ok()?.take(256).read_to_end(&mut head).ok()?;
        let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
        let named = words.next()?;
        if !named.ends_with("/env") {
            return self.find(named);
        }
        words.find(|word| !word.starts_with('-') && !word.contains('=')).and_then(|name| self.find(name))
    }
}

/// True for a folder that many programs, users or disks share, or that is one user's whole home.
fn is_shared(folder: &Path) -> bool {
    let is_child_of = |parents: &[&str]| folder.parent().is_some_and(|parent| parents.iter().any(|one| parent == *one));
    folder.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2
        || is_child_of(SHARED_PARENTS)
        || folder
            .parent()
            .and_then(Path::parent)
            .is_some_and(|above| SHARED_GRANDPARENTS.iter().any(|one| above == *one))
}

/// Returns the canonical home folders of all users that the system lists.
fn homes() -> Vec<PathBuf> {
    // Users of a directory service are not in the file; their homes are in the usual places.
    let users = regular_file::read_text(Path::new("/etc/passwd"), MAX_USERS_BYTES).unwrap_or_default();
    let listed = users.lines().filter_map(|user| user.split(':').nth(5)).filter(|home| home.starts_with('/'));
    let homes = listed.map(PathBuf::from).chain(std::env::home_dir());
    // A service without a home may list the root folder.
    homes.filter_map(|home| fs::canonicalize(home).ok()).filter(|home| *home != Path::new("/")).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_folders_and_home_folders_count_as_broad() {
        let homes = vec![PathBuf::from("/opt/alice")];
        let places = FolderSets {
            current: "/".into(),
            search: OsStr::new(""),
            homes,
            protected: vec!["/srv/bardo/data".into()],
        };
        for broad in [
            "/",
            "/tmp",
            "/private/tmp",
            "/home",
            "/home/alice",
            "/root",
            "/Users/alice",
            "/var/home/alice",
            "/var/lib",
            "/var/tmp",
            "/run/user",
            "/run/user/1000",
            "/mnt/disk",
            "/media/alice",
            "/media/alice/disk",
            "/run/media/alice/disk",
            "/opt/alice",
            "/srv/bardo",
        ] {
            assert!(places.is_broad(Path::new(broad)), "{broad}");
        }
        for own in [
            "/home/alice/bots",
            "/Users/alice/bots",
            "/var/lib/bot",
            "/run/user/1000/bot",
            "/mnt/disk/bot",
            "/media/alice/disk/bot",
            "/opt/bot",
            "/opt/alice/bots",
            "/srv/bot",
            "/usr/lib/bot",
        ] {
            assert!(!places.is_broad(Path::new(own)), "{own}");
        }
    }
}
