//! Files that hold secrets: who else may write and read them (contract 9.4.8).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};

use super::Config;

const WRITTEN_BY_EVERYBODY: u32 = 0o002;
const WRITTEN_BY_GROUP: u32 = 0o020;
const READ_BY_EVERYBODY: u32 = 0o004;

/// Refuses files of secrets that everybody can write, and warns of those that others can read. These are private
/// keys, and the files that the settings name for secrets.
///
/// # Errors
/// As [`warning`].
pub fn check(config: &Config) -> Result<()> {
    // Both listeners may have the same key.
    let keys = BTreeSet::from([&config.public.tls_key, &config.ops.tls_key]);
    let keys = keys.into_iter().filter(|file| !file.as_os_str().is_empty());
    for file in keys.chain(&config.secret_files) {
        if let Some(warning) = warning(file)? {
            tracing::warn!("{warning}");
        }
    }
    Ok(())
}

/// Returns a warning about a file that users of this machine can read, or its group can write. `None` for a
/// file that is private enough, or is not there.
///
/// # Errors
/// Every user of this machine can write the file, or its permissions cannot be read. The text names it.
pub fn warning(file: &Path) -> Result<Option<String>> {
    let shown = file.display();
    let mode = match file.metadata() {
        Ok(metadata) => metadata.permissions().mode(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(anyhow!("cannot read the permissions of {shown}: {error}")),
    };
    ensure!(
        mode & WRITTEN_BY_EVERYBODY == 0,
        "{shown} holds secrets, and every user of this machine can write it; run: chmod 600 {shown}"
    );
    let others = match (mode & READ_BY_EVERYBODY, mode & WRITTEN_BY_GROUP) {
        (0, 0) => return Ok(None),
        (0, _) => "its group can write it",
        _ => "every user of this machine can read it",
    };
    Ok(Some(format!("{shown} holds secrets, and {others}; run: chmod 600 {shown}")))
}
