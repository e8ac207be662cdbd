//! Object stores: pictures outside the database, in a folder or in an S3 store (contract 5.8).
//!
//! This module reads and writes bytes under given names. Only the database knows which object holds
//! which blob (`image/object_location.rs`). A write is durable when it returns: file and folder were
//! synchronised with the disk, or the S3 store has answered. Every call ends within
//! [`ObjectStoreSettings::timeout`], retries included.

mod error;
mod folder;
mod https;
mod marks;
mod name;
mod s3;

use std::fmt;
use std::future::Future;
use std::io::Read as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use domain::picture_store::Outside;
use error::{error_of, not_set, unavailable};
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, ObjectStoreExt as _, PutPayload,
};
use sha2::{Digest as _, Sha256};

pub use error::ObjectStoreError;
pub(crate) use marks::StoreMarks;
pub use name::{ListedObject, ObjectName};
pub use s3::S3Settings;

/// The object that names the owner of a store.
const MARKER: &str = "minitill-store";
/// Maximum length of that object.
const MARKER_BYTES_MAX: u64 = 256;
/// How many bytes of a file are hashed at a time.
const HASHED_BYTES: usize = 64 * 1024;

/// Settings of the object stores.
#[derive(Debug, Clone)]
pub struct ObjectStoreSettings {
    /// The folder.
    pub folder: Option<PathBuf>,
    /// The S3 store.
    pub s3: Option<S3Settings>,
    /// The time limit of a call.
    pub timeout: Duration,
}

/// The object stores. It is cheap to clone.
#[derive(Clone)]
pub struct Objects(Arc<ObjectStoreParts>);

struct ObjectStoreParts {
    folder: Option<PathBuf>,
    folder_store: OnceLock<Arc<dyn ObjectStore>>,
    /// The store and the prefix in it.
    s3: Option<(Arc<dyn ObjectStore>, Path)>,
    timeout: Duration,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores: Vec<_> = Outside::ALL.into_iter().filter(|outside| self.has(*outside)).collect();
        f.debug_tuple("Objects").field(&stores).finish()
    }
}

impl Objects {
    /// The object stores of the settings. It reads and writes nothing yet.
    ///
    /// # Errors
    /// A setting of the S3 store cannot be used. The message names it.
    pub fn new(settings: &ObjectStoreSettings) -> Result<Self, String> {
        let s3 = settings.s3.as_ref().map(|s3| s3::open(s3, settings.timeout)).transpose()?;
        Ok(Self(Arc::new(ObjectStoreParts {
            folder: settings.folder.clone(),
            folder_store: OnceLock::new(),
            s3,
            timeout: settings.timeout,
        })))
    }

    /// True when the settings name this store.
    #[must_use]
    pub fn has(&self, outside: Outside) -> bool {
        match outside {
            Outside::Folder => self.0.folder.is_some(),
            Outside::S3 => self.0.s3.is_some(),
        }
    }

    /// Writes an object, durably.
    ///
    /// # Errors
    /// After an error, a part of the object or all of it may exist.
    pub async fn write(
        &self,
        outside: Outside,
        name: &ObjectName,
        bytes: Bytes,
    ) -> Result<(), ObjectStoreError> {
        self.put(outside, &name.path(), bytes).await
    }

    /// Reads an object and compares it with its length and hash.
    pub async fn verify(
        &self,
        outside: Outside,
        name: &ObjectName,
        byte_length: u64,
        sha256: &[u8; 32],
    ) -> Result<(), ObjectStoreError> {
        let reading = async {
            let got = self.get(outside, &name.path(), None).await?;
            check_length(&got, byte_length)?;
            let read = match got.payload {
                GetResultPayload::File(file, _) => tokio::task::spawn_blocking(move || hash_of_file(file))
                    .await
                    .map_err(unavailable)?
                    .map_err(unavailable)?,
                GetResultPayload::Stream(stream) => {
                    let hashing =
                        stream.try_fold(Sha256::new(), async |hash, bytes| Ok(hash.chain_update(bytes)));
                    hashing.await.map_err(|error| error_of(&error))?.finalize().into()
                }
            };
            if read == *sha256 {
                Ok(())
            } else {
                Err(ObjectStoreError::Wrong("it holds other bytes".to_owned()))
            }
        };
        self.in_time(reading).await
    }

    /// Reads a piece of an object with `byte_length` bytes.
    pub async fn piece(
        &self,
        outside: Outside,
        name: &ObjectName,
        range: Range<u64>,
        byte_length: u64,
    ) -> Result<Bytes, ObjectStoreError> {
        let expected = range.end - range.start;
        let reading = async {
            let got = self.get(outside, &name.path(), Some(range)).await?;
            check_length(&got, byte_length)?;
            got.bytes().await.map_err(|error| error_of(&error))
        };
        let bytes = self.in_time(reading).await?;
        let length = bytes.len() as u64;
        if length == expected {
            Ok(bytes)
        } else {
            Err(ObjectStoreError::Wrong(format!("it gave {length} bytes where {expected} were asked for")))
        }
    }

    /// Removes an object. A missing object is no error.
    pub async fn remove(&self, outside: Outside, name: &ObjectName) -> Result<(), ObjectStoreError> {
        let removing = async {
            let (store, path) = self.at(outside, &name.path()).await?;
            store.delete(&path).await.map_err(|error| error_of(&error))
        };
        match self.in_time(removing).await {
            Err(ObjectStoreError::Missing) => Ok(()),
            outcome => outcome,
        }
    }

    /// The id of the store's owner. `None` for a store without an owner. It makes a missing folder.
    pub async fn owner(&self, outside: Outside) -> Result<Option<String>, ObjectStoreError> {
        let reading = async {
            let got = self.get(outside, MARKER, None).await?;
            if got.meta.size > MARKER_BYTES_MAX {
                return Err(ObjectStoreError::Wrong(format!("{MARKER} is too long to be ours")));
            }
            got.bytes().await.map_err(|error| error_of(&error))
        };
        match self.in_time(reading).await {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(ObjectStoreError::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Writes the id of the store's owner. This also shows whether the store can be written.
    pub async fn set_owner(&self, outside: Outside, id: &str) -> Result<(), ObjectStoreError> {
        self.put(outside, MARKER, format!("{id}\n").into()).await
    }

    /// Lists a store, some objects at a time.
    #[must_use]
    pub fn list(&self, outside: Outside) -> BoxStream<'_, Result<Vec<ListedObject>, ObjectStoreError>> {
        match outside {
            Outside::Folder => self.list_groups(),
            Outside::S3 => self.list_s3(),
        }
    }

    async fn put(&self, outside: Outside, path: &str, bytes: Bytes) -> Result<(), ObjectStoreError> {
        let writing = async {
            let (store, path) = self.at(outside, path).await?;
            match store.put(&path, PutPayload::from(bytes)).await.map_err(|error| error_of(&error)) {
                Ok(_) => Ok(()),
                // The bucket does not exist.
                Err(ObjectStoreError::Missing) => Err(unavailable("it was not found")),
                Err(fault) => Err(fault),
            }
        };
        self.in_time(writing).await
    }

    async fn get(
        &self,
        outside: Outside,
        path: &str,
        range: Option<Range<u64>>,
    ) -> Result<GetResult, ObjectStoreError> {
        let (store, path) = self.at(outside, path).await?;
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        store.get_opts(&path, options).await.map_err(|error| error_of(&error))
    }

    /// The store, and the full path in it.
    async fn at(
        &self,
        outside: Outside,
        path: &str,
    ) -> Result<(Arc<dyn ObjectStore>, Path), ObjectStoreError> {
        match outside {
            Outside::Folder => Ok((self.folder_store().await?, Path::from(path))),
            Outside::S3 => {
                let (store, prefix) = self.0.s3.as_ref().ok_or_else(|| not_set(outside))?;
                Ok((Arc::clone(store), path.split('/').fold(prefix.clone(), Path::join)))
            }
        }
    }

    async fn folder_store(&self) -> Result<Arc<dyn ObjectStore>, ObjectStoreError> {
        if let Some(store) = self.0.folder_store.get() {
            return Ok(Arc::clone(store));
        }
        let folder = self.0.folder.clone().ok_or_else(|| not_set(Outside::Folder))?;
        let opened = tokio::task::spawn_blocking(move || folder::open(&folder)).await;
        let opened = opened.map_err(unavailable)??;
        Ok(Arc::clone(self.0.folder_store.get_or_init(|| opened)))
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, ObjectStoreError>>,
    ) -> Result<T, ObjectStoreError> {
        let timeout = self.0.timeout;
        let late = || ObjectStoreError::Unavailable(format!("it did not answer within {timeout:?}"));
        tokio::time::timeout(timeout, work).await.map_err(|_| late())?
    }
}

fn check_length(got: &GetResult, byte_length: u64) -> Result<(), ObjectStoreError> {
    if got.meta.size == byte_length {
        Ok(())
    } else {
        Err(ObjectStoreError::Wrong(format!(
            "it has {} bytes where {byte_length} are expected",
            got.meta.size
        )))
    }
}

fn hash_of_file(mut file: std::fs::File) -> std::io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; HASHED_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests;
