//! The file of the master keys: one key a line, the newest first.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use super::master_key::MasterKey;
use super::random_bytes;

/// The reason why no master key is usable.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// A text that is not keys of 64 hexadecimal digits.
    #[error("{0}: expected 64 hexadecimal digits")]
    Malformed(String),
    /// The file cannot be read or made.
    #[error("the master key file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl MasterKeyError {
    pub(super) fn gone(path: &Path) -> Self {
        Self::File { path: path.to_owned(), source: io::ErrorKind::NotFound.into() }
    }
}

/// The keys in a text.
pub(super) fn texts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|key| !key.is_empty())
}

/// A new key in its text form.
#[must_use]
pub fn random_master_key() -> String {
    hex::encode(random_bytes::<32>())
}

/// The text of the file. `None` when there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, MasterKeyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MasterKeyError::File { path: path.to_owned(), source }),
    }
}

/// Makes the file with a new key, unless it exists.
pub(super) fn create(path: &Path) -> Result<(), MasterKeyError> {
    let fault = |source| MasterKeyError::File { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fault)?;
    }
    // The draft is linked to the path when it is complete, so nobody reads half a key.
    let draft = write_draft(path, &format!("{}\n", random_master_key())).map_err(fault)?.0;
    let linked = fs::hard_link(&draft, path);
    let _ = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(fault(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes a key the first of the file. It changes nothing when it is the first already.
///
/// # Errors
/// The file cannot be read or written, or `key` is not a key.
pub fn put_in_front(path: &Path, key: &str) -> Result<(), MasterKeyError> {
    let new = MasterKey::parse(key).ok_or_else(|| MasterKeyError::Malformed("the new key".to_owned()))?;
    rewrite(path, |former| {
        let others = former.into_iter().filter(|text| !is_key(text, new.id()));
        std::iter::once(key.to_owned()).chain(others).collect()
    })
}

/// Removes every key from the file but the one with this id.
///
/// # Errors
/// The file cannot be read or written, or does not hold the key.
pub fn keep_only(path: &Path, id: &str) -> Result<(), MasterKeyError> {
    rewrite(path, |former| former.into_iter().filter(|text| is_key(text, id)).collect())
}

fn is_key(text: &str, id: &str) -> bool {
    MasterKey::parse(text).is_some_and(|key| key.id() == id)
}

/// Replaces the file in one step, so that a reader gets the old or the new file. Owner and mode stay,
/// because the server may run as another user.
fn rewrite(path: &Path, change: impl FnOnce(Vec<String>) -> Vec<String>) -> Result<(), MasterKeyError> {
    let fault = |source| MasterKeyError::File { path: path.to_owned(), source };
    // A symbolic link stays a symbolic link.
    let path = fs::canonicalize(path).map_err(fault)?;
    // All from one handle: in another user's folder the path may lead to another file a moment later.
    let file = File::open(&path).map_err(fault)?;
    let was = file.metadata().map_err(fault)?;
    let former: Vec<String> = texts(&io::read_to_string(file).map_err(fault)?).map(str::to_owned).collect();
    let keys = change(former.clone());
    if keys == former {
        return Ok(());
    }
    if keys.is_empty() {
        return Err(MasterKeyError::gone(&path));
    }
    let (draft, file) = write_draft(&path, &format!("{}\n", keys.join("\n"))).map_err(fault)?;
    let replaced = keep_owner_and_mode(&was, &file).and_then(|()| fs::rename(&draft, &path));
    if replaced.is_err() {
        let _ = fs::remove_file(&draft);
    }
    replaced.map_err(fault)?;
    // The name must be as durable as the bytes, because secrets depend on the new key.
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(fault)
}

fn keep_owner_and_mode(was: &Metadata, draft: &File) -> io::Result<()> {
    let is = draft.metadata()?;
    // An ordinary user may not change the owner, and need not when it is the same.
    if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
        fchown(draft, Some(was.uid()), Some(was.gid()))?;
    }
    // A group may have the right to read the key on purpose.
    draft.set_permissions(was.permissions())
}

fn write_draft(path: &Path, text: &str) -> io::Result<(PathBuf, File)> {
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    Ok((draft, file))
}

#[cfg(test)]
mod tests {
    use super::super::keyring::Keyring;
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("minitill-key-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_key_file_is_made_once_and_private() {
        let folder = folder("made");
        let path = folder.join("master.key");
        assert!(Keyring::read(&path).unwrap().is_none());
        let first = Keyring::create(&path).unwrap();
        assert_eq!(Keyring::create(&path).unwrap().first().id(), first.first().id());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(matches!(Keyring::read(&path), Err(MasterKeyError::Malformed(_))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_group_that_may_read_the_key_may_read_the_next_one() {
        let folder = folder("group");
        let path = folder.join("master.key");
        Keyring::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let other = fs::metadata(&path).unwrap().uid() + 1000;
        for is_others in [false, true] {
            if is_others && chown(&path, Some(other), Some(other)).is_err() {
                break; // an ordinary user gives nothing away
            }
            let was = fs::metadata(&path).unwrap();
            put_in_front(&path, &random_master_key()).unwrap();
            let is = fs::metadata(&path).unwrap();
            assert_ne!(is.ino(), was.ino(), "it is another file");
            assert_eq!((is.uid(), is.gid(), is.mode() & 0o7777), (was.uid(), was.gid(), 0o640));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_new_key_goes_in_front_and_former_ones_are_taken_out() {
        let folder = folder("rotated");
        let path = folder.join("master.key");
        let former = Keyring::create(&path).unwrap().first().id().to_owned();
        let new = random_master_key();
        for _ in 0..2 {
            put_in_front(&path, &new).unwrap();
            let ids: Vec<String> =
                Keyring::read(&path).unwrap().unwrap().keys().iter().map(|key| key.id().to_owned()).collect();
            assert_eq!(ids, [MasterKey::parse(&new).unwrap().id().to_owned(), former.clone()]);
        }
        assert!(keep_only(&path, "another").is_err(), "the last key is never taken out");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let id = MasterKey::parse(&new).unwrap().id().to_owned();
        keep_only(&path, &id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), new);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no drafts are left");
        fs::remove_dir_all(&folder).unwrap();
    }
}
