//! The stores for the bytes of pictures.

crate::word_enum! {
    /// The store of the bytes of a picture (contract 5.8), as the settings name it.
    pub enum PictureStore {
        /// PostgreSQL, the default.
        Database = "database",
        /// A folder.
        Folder = "folder",
        /// Any store with the interface of S3.
        S3 = "s3",
    }
}

impl PictureStore {
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

crate::word_enum! {
    /// A store outside the database. The database keeps its word, which never changes.
    pub enum Outside {
        /// A folder.
        Folder = "folder",
        /// Any store with the interface of S3.
        S3 = "s3",
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
