//! Finds PostgreSQL's programs, `postgres` and `initdb`, on this machine.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::ClusterError;

/// The oldest major version that this crate accepts.
const MAJOR_MIN: u32 = 14;

/// The folder in which packages keep one folder for each version.
const VERSIONED: [(&str, &str, &str); 6] = [
    // (folder, start of the names in it, path below them)
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// The programs of one PostgreSQL version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    major: u32,
}

impl Programs {
    /// Finds `postgres` and `initdb` of the newest version, or of the major version `major`.
    ///
    /// If the environment variable `PG_BIN` is set, only that folder is searched. Otherwise the
    /// folders of packages come first, then `PATH`, which may hold wrapper scripts.
    ///
    /// # Errors
    /// [`ClusterError::NoPrograms`] or [`ClusterError::TooOld`].
    pub fn find(major: Option<u32>) -> Result<Self, ClusterError> {
        choose(&candidates(), major, &version_of).map_err(|seen| match &seen[..] {
            [] => ClusterError::NoPrograms,
            seen => ClusterError::TooOld { found: list(seen) },
        })
    }

    /// Finds the programs of the major version `wanted`, which an upgrade starts from: in `folder`, or
    /// in the folders of packages and `PATH`.
    pub(super) fn find_old(folder: Option<&Path>, wanted: u32) -> Result<Self, ClusterError> {
        let folders = folder.map_or_else(installed, |folder| vec![folder.to_owned()]);
        choose(&folders, Some(wanted), &version_of)
            .map_err(|seen| ClusterError::NoOldPrograms { wanted, found: list(&seen) })
    }

    /// Like [`Programs::find`], for the cluster in `pgdata`, which needs the major version
    /// `wanted`.
    pub(super) fn find_for(pgdata: &Path, wanted: u32) -> Result<Self, ClusterError> {
        choose(&candidates(), Some(wanted), &version_of).map_err(|seen| Self::refused(pgdata, wanted, &seen))
    }

    /// Why the cluster in `pgdata` needs other programs than these.
    pub(super) fn refused(pgdata: &Path, wanted: u32, seen: &[Self]) -> ClusterError {
        let Some(newest) = seen.iter().map(|programs| programs.major).max() else {
            return ClusterError::NoPrograms;
        };
        ClusterError::OtherVersion { pgdata: pgdata.to_owned(), wanted, newest, found: list(seen) }
    }

    /// The major version.
    pub(super) fn major(&self) -> u32 {
        self.major
    }

    /// The folder of the programs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if one of these programs is missing. Some packages leave out what `pg_upgrade` needs.
    pub(super) fn require(&self, programs: &[&'static str]) -> Result<(), ClusterError> {
        match programs.iter().find(|program| !self.path(program).is_file()) {
            None => Ok(()),
            Some(program) => Err(ClusterError::NoProgram { program, folder: self.folder.clone() }),
        }
    }

    /// The path of one program, such as `initdb`.
    #[must_use]
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

/// The first candidate that is new enough and, with `wanted`, has that major version. The error
/// holds the programs that were found instead.
fn choose(
    candidates: &[PathBuf],
    wanted: Option<u32>,
    version_of: &dyn Fn(&Path) -> Option<u32>,
) -> Result<Programs, Vec<Programs>> {
    let mut seen = Vec::new();
    for folder in candidates {
        let Some(major) = version_of(folder) else { continue };
        let programs = Programs { folder: folder.clone(), major };
        if major >= MAJOR_MIN && wanted.is_none_or(|wanted| wanted == major) {
            return Ok(programs);
        }
        if !seen.contains(&programs) {
            seen.push(programs);
        }
    }
    Err(seen)
}

fn list(seen: &[Programs]) -> String {
    if seen.is_empty() {
        return "none".to_owned();
    }
    let seen: Vec<String> =
        seen.iter().map(|programs| format!("{} in {}", programs.major, programs.folder.display())).collect();
    seen.join(", ")
}

/// The folders to search, the best first.
fn candidates() -> Vec<PathBuf> {
    if let Some(folder) = env::var_os("PG_BIN").filter(|folder| !folder.is_empty()) {
        return vec![folder.into()];
    }
    installed()
}

/// The folders of packages, the newest version first, and those of `PATH`.
fn installed() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (parent, start, rest) in VERSIONED {
        let names = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(start));
        folders
            .extend(newest_first(names.collect()).iter().map(|name| Path::new(parent).join(name).join(rest)));
    }
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    folders
}

/// Sorts names such as `9.6`, `17` and `postgresql@16` by their number, newest first. Names without
/// a number come last.
fn newest_first(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|name| std::cmp::Reverse(first_number(name)));
    names
}

/// The first number in a text.
fn first_number(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The major version of the programs in `folder`; `None` if they are missing or do not run.
fn version_of(folder: &Path) -> Option<u32> {
    if !folder.is_absolute() || !folder.join("initdb").is_file() || !folder.join("postgres").is_file() {
        return None;
    }
    let output = clean_command(folder.join("postgres").as_os_str()).arg("--version").output().ok()?;
    // "postgres (PostgreSQL) 17.2 (Debian 17.2-1.pgdg120+1)"
    first_number(&String::from_utf8_lossy(&output.stdout)).filter(|_| output.status.success())
}

/// A command with a clean environment and working directory. So no `PGPORT`, `LD_PRELOAD` or locale
/// of the operator changes PostgreSQL, and the operator's folder can be unmounted.
pub(super) fn clean_command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
    command.current_dir("/").stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(folder: &Path) -> Option<u32> {
        folder.file_name()?.to_str()?.parse().ok()
    }

    fn folders(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn versions_sort_as_numbers_newest_first() {
        let names = ["9.6", "postgresql@14", "postgresql", "17", "latest", "pgsql-15"];
        let names = newest_first(names.iter().map(ToString::to_string).collect());
        assert_eq!(names, ["17", "pgsql-15", "postgresql@14", "9.6", "postgresql", "latest"]);
    }

    #[test]
    fn the_version_is_read_from_what_postgres_says() {
        for (said, major) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 9.6.24", Some(9)),
            ("bash: no such thing", None),
            ("", None),
        ] {
            assert_eq!(first_number(said), major, "{said}");
        }
    }

    #[test]
    fn the_first_fitting_version_is_taken_and_an_old_one_is_not() {
        let there = folders(&["/a/9", "/a/none", "/a/17", "/a/16"]);
        let found = |major: u32| Ok(Programs { folder: format!("/a/{major}").into(), major });
        assert_eq!(choose(&there, None, &versions), found(17));
        assert_eq!(choose(&there, Some(16), &versions), found(16));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let there = folders(&["/a/13", "/a/17", "/a/13"]);
        let seen = choose(&there, Some(15), &versions).unwrap_err();
        assert_eq!(list(&seen), "13 in /a/13, 17 in /a/17");
        // Data of a version that is too old is refused, even if its programs are there.
        assert!(choose(&there, Some(13), &versions).is_err());
    }

    #[test]
    fn without_programs_one_sentence_has_the_install_commands() {
        let text = ClusterError::NoPrograms.to_string();
        for part in ["apt install postgresql", "dnf install postgresql-server", "brew install postgresql@17"]
        {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(!text.contains('\n'), "one sentence");
    }
}
