//! Changes against `main`: which packages, and which tests of the API.

use std::collections::BTreeSet;

use crate::command::{self, Failure};

/// The packages to check, and the modules of `tests/api` whose files changed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) packages: BTreeSet<String>,
    pub(crate) api_tests: BTreeSet<String>,
}

impl Changes {
    /// Reads what was committed since `main`, and what was not committed.
    pub(crate) fn read() -> Result<Self, Failure> {
        let git = |arguments: &[&str]| {
            let printed = command::read(command::new("git", arguments))?;
            Ok::<_, Failure>(String::from_utf8_lossy(&printed).into_owned())
        };
        // A clone may have no branch of that name.
        let base = git(&["merge-base", "HEAD", "main"]).or_else(|_| git(&["rev-parse", "HEAD"]))?;
        let edited = git(&["diff", "--name-only", base.trim()])?;
        let new = git(&["ls-files", "--others", "--exclude-standard"])?;
        let mut changes = Self::default();
        edited.lines().chain(new.lines()).for_each(|path| changes.add(path));
        Ok(changes)
    }

    fn add(&mut self, path: &str) {
        let parts: Vec<&str> = path.split('/').collect();
        let package = match parts[..] {
            ["crates", name, ..] => name,
            ["xtask", ..] => "xtask",
            ["migrations" | ".sqlx", ..] => "store",
            ["src" | "config" | "benches", ..] | ["tests", "api", ..] | ["askama.toml"] => "minitill",
            _ => return,
        };
        self.packages.insert(package.to_owned());
        if let ["tests", "api", name, ..] = parts[..] {
            let name = name.trim_end_matches(".rs");
            if name != "main" {
                self.api_tests.insert(format!("{name}::"));
            }
        }
    }
}
