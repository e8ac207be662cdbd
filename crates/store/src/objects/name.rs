//! The names of objects, and what lies in a store.

use std::path::PathBuf;

use crate::secrets::random_bytes;

/// The name of an object: random, so that it tells nothing, and never used twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// A fresh one.
    #[must_use]
    pub fn random() -> Self {
        Self(hex::encode(random_bytes::<24>()))
    }

    /// Reads a name; `None` for what is none.
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

    /// Its path in a store: 256 groups, because file systems and people like small folders.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", &self.0[..2], self.0)
    }

    /// The name that a path in a store stands for.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = Self::parse(path.rsplit('/').next()?)?;
        (name.path() == path).then_some(name)
    }
}

/// What was found in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedObject {
    /// An object.
    Object(ObjectName),
    /// A file of the folder that was to become this object when its writing was cut short.
    Unfinished(ObjectName, PathBuf),
    /// Nothing of ours.
    Foreign,
}
