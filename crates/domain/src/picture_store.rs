//! The places where the bytes of pictures can be.

use serde::Deserialize;

/// Where the bytes of a picture are (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PictureStore {
    /// PostgreSQL, the default.
    Database,
    /// A folder.
    Folder,
    /// Any store that speaks S3.
    S3,
}

impl PictureStore {
    /// As settings, arguments and people write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Folder => Outside::Folder.as_str(),
            Self::S3 => Outside::S3.as_str(),
        }
    }

    /// The store outside the database; `None` for the database.
    #[must_use]
    pub const fn outside(self) -> Option<Outside> {
        match self {
            Self::Database => None,
            Self::Folder => Some(Outside::Folder),
            Self::S3 => Some(Outside::S3),
        }
    }
}

/// A store outside the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// A folder.
    Folder,
    /// Any store that speaks S3.
    S3,
}

impl Outside {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Folder, Self::S3];

    /// The form in which the database keeps it. It never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::S3 => "s3",
        }
    }

    /// Reads what [`Outside::as_str`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outside| outside.as_str() == text)
    }
}

impl From<Outside> for PictureStore {
    fn from(outside: Outside) -> Self {
        match outside {
            Outside::Folder => Self::Folder,
            Outside::S3 => Self::S3,
        }
    }
}
