//! The folder of pictures: opening and listing.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::picture_store::Outside;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::{ListedObject, MARKER, ObjectName, ObjectStoreError, Objects, not_set, unavailable};

/// Opens the folder. It makes a missing folder, which only its owner may enter.
pub(super) fn open(folder: &Path) -> Result<Arc<dyn ObjectStore>, ObjectStoreError> {
    let fault = |error: &dyn std::fmt::Display| unavailable(format!("{}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| fault(&error))?;
    let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| fault(&error))?;
    Ok(Arc::new(store.with_fsync(true)))
}

impl Objects {
    /// Lists the folder group by group. A group is a sub-folder of two hexadecimal digits.
    pub(super) fn list_groups(&self) -> BoxStream<'_, Result<Vec<ListedObject>, ObjectStoreError>> {
        let groups = async {
            let groups = self.list_folder(PathBuf::new()).await?;
            Ok(stream::iter(groups.into_iter().filter(|name| name != MARKER).map(Ok)))
        };
        groups.try_flatten_stream().and_then(|group| self.folder_group(group)).boxed()
    }

    /// Lists one group of the folder.
    async fn folder_group(&self, group: String) -> Result<Vec<ListedObject>, ObjectStoreError> {
        let folder = self.0.folder.clone().ok_or_else(|| not_set(Outside::Folder))?;
        let files = self.list_folder(PathBuf::from(&group)).await?;
        let found = files.into_iter().map(|file| {
            let (name, rest) =
                file.split_once('#').map_or((file.as_str(), None), |(name, rest)| (name, Some(rest)));
            match (ObjectName::of_path(&format!("{group}/{name}")), rest) {
                (Some(name), None) => ListedObject::Object(name),
                // The library that writes the folder uses such names for incomplete files.
                (Some(name), Some(rest)) if rest.bytes().all(|byte| byte.is_ascii_digit()) => {
                    ListedObject::Unfinished(name, folder.join(&group).join(&file))
                }
                (Some(_), Some(_)) | (None, None | Some(_)) => ListedObject::Foreign,
            }
        });
        Ok(found.collect())
    }

    /// Removes an unfinished file.
    pub async fn remove_unfinished(&self, file: PathBuf) -> Result<(), ObjectStoreError> {
        let removing = tokio::task::spawn_blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        });
        ended(self.in_time(async { Ok(removing.await) }).await?)
    }

    async fn list_folder(&self, below: PathBuf) -> Result<Vec<String>, ObjectStoreError> {
        let folder = self.0.folder.clone().ok_or_else(|| not_set(Outside::Folder))?.join(below);
        let listing = tokio::task::spawn_blocking(move || match fs::read_dir(&folder) {
            Ok(entries) => {
                entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
            }
            // A foreign file beside the groups.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
            Err(error) => Err(error),
        });
        ended(listing.await)
    }
}

fn ended<T>(task: Result<io::Result<T>, tokio::task::JoinError>) -> Result<T, ObjectStoreError> {
    task.map_err(unavailable)?.map_err(unavailable)
}
