//! Names of objects, and kinds of listed objects.

use std::path::PathBuf;

use crate::secrets::random_bytes;

/// The name of an object. It is random and used once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// A new random name.
    #[must_use]
    pub fn random() -> Self {
        Self(hex::encode(random_bytes::<24>()))
    }

    /// Parses a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 48 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| Self(text.to_owned()))
    }

    /// 48 lower-case hexadecimal characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path in a store. There are 256 groups, because file systems and people like small
    /// folders.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", &self.0[..2], self.0)
    }

    /// The name of a path in a store.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = Self::parse(path.rsplit('/').next()?)?;
        (name.path() == path).then_some(name)
    }
}

/// An item in the list of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedObject {
    /// An object.
    Object(ObjectName),
    /// An incomplete file of this object in the folder.
    Unfinished(ObjectName, PathBuf),
    /// An object or file that does not belong to Minitill.
    Foreign,
}
