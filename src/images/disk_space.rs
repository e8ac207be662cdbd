//! Free space of the disks that take new pictures (contract 5.9). Below a floor no picture is taken, so
//! that room stays for payments.

use std::path::PathBuf;
use std::time::Duration;

use domain::picture_store::PictureStore;
use tokio::sync::Mutex;

use crate::config::Config;
use crate::http::refusal::Refusal;

/// How long an answer of the system counts.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The disks under new pictures.
pub struct DiskSpace {
    /// Folders on these disks. None where pictures go to S3 or to a database elsewhere.
    folders: Vec<PathBuf>,
    free_min: u64,
    /// When the system was asked last, and what it said.
    last: Mutex<Option<(Duration, Option<u64>)>>,
}

impl DiskSpace {
    /// The disks of these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let private = config.database.url.get().is_none().then(|| config.database.data_dir.clone());
        let folders = match config.image.store {
            PictureStore::Database => private.into_iter().collect(),
            PictureStore::Folder => private.into_iter().chain([config.image.folder.clone()]).collect(),
            PictureStore::S3 => Vec::new(),
        };
        Self { folders, free_min: config.image.disk_free_min, last: Mutex::default() }
    }

    /// Free bytes of the fullest disk. `None` where there is no such disk, or the system does not tell.
    async fn free(&self, now: Duration) -> Option<u64> {
        let mut last = self.last.lock().await;
        if let Some((asked, free)) = *last
            && now < asked + ASKED_EVERY
        {
            return free;
        }
        let folders = self.folders.clone();
        // A disk of the network may not answer at once.
        let asking = tokio::task::spawn_blocking(move || {
            let free =
                |folder: &PathBuf| rustix::fs::statvfs(folder).map(|disk| disk.f_bavail * disk.f_frsize).ok();
            folders.iter().filter_map(free).min()
        });
        let free = asking.await.ok().flatten();
        *last = Some((now, free));
        free
    }

    /// Why no picture is taken at this time of the monotonic clock, or `None`.
    pub async fn shortage(&self, now: Duration) -> Option<String> {
        let free = self.free(now).await.filter(|free| *free < self.free_min)?;
        Some(format!("{free} bytes of disk are free, and image.disk_free_min is {}", self.free_min))
    }

    /// Refuses an upload while there is a shortage.
    ///
    /// # Errors
    /// 503 with a text that tells nothing of the machine.
    pub async fn admit(&self, now: Duration) -> Result<(), Refusal> {
        match self.shortage(now).await {
            None => Ok(()),
            Some(cause) => {
                Err(Refusal::unavailable("the service has no room for pictures now, try again later", cause))
            }
        }
    }
}
