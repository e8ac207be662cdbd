//! Free space of the disks that take new pictures (contract 5.9). Below a floor no picture is taken, so
//! that room stays for payments. Nor is one while a disk does not answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::picture_store::PictureStore;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::config::Config;
use crate::http::refusal::Refusal;

/// How long an answer of the system counts.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// How long the system has to answer. The disk of a server that is away, as of NFS, may never do so.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Asks for the free bytes of the fullest disk under some folders. It blocks the thread.
type DiskQuestion = Arc<dyn Fn(&[PathBuf]) -> Option<u64> + Send + Sync>;

/// The disks under new pictures.
pub struct DiskSpace {
    /// Folders on these disks. None where pictures go to S3 or to a database elsewhere.
    folders: Arc<[PathBuf]>,
    free_min: u64,
    question: DiskQuestion,
    asked: Mutex<AskedDisk>,
}

/// What was asked, and what was said.
#[derive(Default)]
struct AskedDisk {
    /// When somebody wanted to know last, and the answer.
    last: Option<(Duration, DiskRoom)>,
    /// The question under way. There is no other one: each that hangs keeps a thread.
    under_way: Option<JoinHandle<Option<u64>>>,
    /// That one got no answer in time.
    hangs: bool,
}

/// An answer of the system.
#[derive(Clone, Copy)]
enum DiskRoom {
    /// Free bytes of the fullest disk. `None` where there is no such disk, or the system does not tell.
    Free(Option<u64>),
    /// It does not answer.
    Unknown,
}

impl DiskSpace {
    /// The disks of these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let private = config.database.url.get().is_none().then(|| config.database.data_dir.clone());
        let folders = match config.image.store {
            PictureStore::Database => private.into_iter().collect(),
            PictureStore::Folder => private.into_iter().chain([config.image.folder.clone()]).collect(),
            PictureStore::S3 => Arc::default(),
        };
        Self::asking(folders, config.image.disk_free_min, Arc::new(free))
    }

    fn asking(folders: Arc<[PathBuf]>, free_min: u64, question: DiskQuestion) -> Self {
        Self { folders, free_min, question, asked: Mutex::default() }
    }

    async fn room(&self, now: Duration) -> DiskRoom {
        let mut asked = self.asked.lock().await;
        if let Some((at, room)) = asked.last
            && now < at + ASKED_EVERY
        {
            return room;
        }
        let room = self.ask(&mut asked).await;
        asked.last = Some((now, room));
        room
    }

    /// Asks, unless an earlier question is still without an answer.
    async fn ask(&self, asked: &mut AskedDisk) -> DiskRoom {
        if let Some(before) = &mut asked.under_way {
            // It hangs, or whoever asked has hung up. Its answer is of another time, so it is not used.
            let patience = if asked.hangs { Duration::ZERO } else { ANSWER_WITHIN };
            if timeout(patience, before).await.is_err() {
                return self.unknown(asked);
            }
        }
        let (question, folders) = (Arc::clone(&self.question), Arc::clone(&self.folders));
        let under_way = asked.under_way.insert(spawn_blocking(move || question(&folders)));
        let Ok(free) = timeout(ANSWER_WITHIN, under_way).await else { return self.unknown(asked) };
        asked.under_way = None;
        if std::mem::take(&mut asked.hangs) {
            tracing::info!(folders = ?self.folders, "the disk of new pictures answers again");
        }
        DiskRoom::Free(free.ok().flatten())
    }

    fn unknown(&self, asked: &mut AskedDisk) -> DiskRoom {
        if !std::mem::replace(&mut asked.hangs, true) {
            tracing::warn!(
                folders = ?self.folders,
                "the disk of new pictures does not answer; uploads are refused until it does"
            );
        }
        DiskRoom::Unknown
    }

    /// Why no picture is taken at this time of the monotonic clock, or `None`. It waits for some seconds at most.
    pub async fn shortage(&self, now: Duration) -> Option<String> {
        match self.room(now).await {
            DiskRoom::Free(free) => {
                let free = free.filter(|free| *free < self.free_min)?;
                Some(format!("{free} bytes of disk are free, and image.disk_free_min is {}", self.free_min))
            }
            DiskRoom::Unknown => Some("the disk of new pictures does not answer".to_owned()),
        }
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

fn free(folders: &[PathBuf]) -> Option<u64> {
    let of = |folder: &PathBuf| rustix::fs::statvfs(folder).map(|disk| disk.f_bavail * disk.f_frsize).ok();
    folders.iter().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// A test that would wait for ever fails after this time.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Rule 5.9.4: while a disk does not answer no picture is taken, and no second thread hangs. Then all goes on.
    #[tokio::test]
    async fn a_disk_that_does_not_answer_takes_no_pictures_and_is_asked_once() {
        let ((answer, held), asked) = (channel::<()>(), Arc::new(AtomicU32::new(0)));
        let (held, count) = (StdMutex::new(held), Arc::clone(&asked));
        let question = move |_: &[PathBuf]| {
            count.fetch_add(1, Ordering::SeqCst);
            // It ends when the other side is dropped.
            let _ = held.lock().unwrap().recv();
            Some(7)
        };
        let disk = DiskSpace::asking(Arc::default(), 7, Arc::new(question));
        let silent = Some("the disk of new pictures does not answer".to_owned());
        let at = async |seconds| disk.shortage(Duration::from_secs(seconds)).await;
        let both = tokio::join!(at(1), at(1));
        assert_eq!(both, (silent.clone(), silent.clone()));
        for seconds in 2..50 {
            assert_eq!(at(seconds).await, silent);
        }
        assert!(disk.admit(Duration::from_secs(50)).await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        drop(answer);
        let goes_on = async {
            for seconds in 51.. {
                if at(seconds).await.is_none() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, goes_on).await.expect("the disk answers");
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
