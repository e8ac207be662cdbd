//! The ids of the object stores that were found to belong to this database.

use std::sync::OnceLock;

use domain::picture_store::Outside;

/// The stores that belong to this database, with their ids.
#[derive(Debug, Default)]
pub(crate) struct StoreMarks {
    folder: OnceLock<String>,
    s3: OnceLock<String>,
}

impl StoreMarks {
    /// The id of this store, once it is known.
    pub(crate) fn of(&self, outside: Outside) -> &OnceLock<String> {
        match outside {
            Outside::Folder => &self.folder,
            Outside::S3 => &self.s3,
        }
    }
}
