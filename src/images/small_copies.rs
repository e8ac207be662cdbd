//! Thumbnails of stored pictures, and the hashes for a block of one. The work runs on threads that may
//! block. Decode permits bound its memory too.

use std::sync::Arc;
use std::time::Duration;

use domain::operation::image::ImageCommand;
use guarded_fetch::bulkhead::{Bulkhead, Permit};
use pictures::{HASH_SIDE, PerceptualHash, Thumbnail, Unacceptable, hashes_of_near_copies};
use store::{BlobHash, Store, StoreError, StoredImage};
use tokio::time::timeout;

/// Widths of the small copies, in pixels. They are few, because each copy is made once and kept.
pub const THUMBNAIL_WIDTHS: [u32; 3] = [120, 240, 480];

/// One of them, written as a cache of addresses knows it: without a sign and without zeros before it.
#[must_use]
pub fn thumbnail_width(text: &str) -> Option<u32> {
    THUMBNAIL_WIDTHS.into_iter().find(|known| known.to_string() == text)
}

/// In whose name small copies take their turn. No app has it, because ids of apps hold no blanks.
const SMALL_COPIES: &str = "small copies";
/// In whose name hashes for a block take their turn.
const BLOCKS: &str = "blocks of pictures";

/// Work on decoded pictures: the turns of those who want some, and the store of the pictures. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PictureWork {
    store: Store,
    turns: Arc<Bulkhead>,
    patience: Duration,
}

impl PictureWork {
    /// At most `decodes_max` pictures are decoded at once. Nobody waits longer than `patience` for a turn.
    #[must_use]
    pub fn new(store: Store, decodes_max: u32, patience: Duration) -> Self {
        // As many for one app. It waits for its own places before it takes its turn among all, so each other app has at
        // most this many before it.
        Self { store, turns: Arc::new(Bulkhead::new(decodes_max, decodes_max)), patience }
    }

    /// A place to work on a picture, waited for as long as a body may take. Holders, which are apps and the
    /// two kinds of work of this file, take turns.
    ///
    /// # Errors
    /// Others keep all places busy.
    pub async fn turn(&self, holder: &str) -> Result<Permit, StoreError> {
        let waiting = timeout(self.patience, self.turns.acquire(holder, 1)).await;
        waiting.map_err(|_| StoreError::Overloaded)
    }

    /// How many wait for a turn.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.turns.waiting()
    }

    /// The small copy of a picture, made now if nobody has asked for it before.
    ///
    /// # Errors
    /// The database is away, or the store of the picture; or it is not there.
    pub async fn small_copy(&self, image: &StoredImage, width: u32) -> Result<Thumbnail, StoreError> {
        if let Some(known) = self.store.thumbnail(&image.contents, width).await? {
            return Ok(known);
        }
        let (work, image) = (self.clone(), image.clone());
        // A task of its own: a caller that goes away does not make room for more of this work.
        let making = tokio::spawn(async move {
            let turn = work.turn(SMALL_COPIES).await?;
            // Of all who have waited for a turn with the same wish, the first has made and kept it.
            if let Some(known) = work.store.thumbnail(&image.contents, width).await? {
                return Ok(known);
            }
            let made = work.with_bytes(&image, &turn, move |bytes| {
                pictures::reduce(bytes, width).map(|reduced| pictures::thumbnail(&reduced, width))
            });
            let thumbnail = made.await?;
            work.store.keep_thumbnail(&image.contents, width, &thumbnail).await?;
            drop(turn);
            Ok(thumbnail)
        });
        making.await.map_err(internal)?
    }

    /// The hashes for a block of an image: of its blob, and of its near copies.
    ///
    /// # Errors
    /// As of [`Self::small_copy`].
    pub async fn block_hashes(
        &self,
        image: &StoredImage,
    ) -> Result<(BlobHash, Vec<PerceptualHash>), StoreError> {
        let (work, image) = (self.clone(), image.clone());
        let making = tokio::spawn(async move {
            let turn = work.turn(BLOCKS).await?;
            work.with_bytes(&image, &turn, hashes_of).await
        });
        making.await.map_err(internal)?
    }

    /// Runs `work` on the bytes of a picture while the caller has its turn, which bounds the memory too:
    /// they are read only then.
    async fn with_bytes<T: Send + 'static>(
        &self,
        image: &StoredImage,
        _turn: &Permit,
        work: impl FnOnce(&[u8]) -> Result<T, Unacceptable> + Send + 'static,
    ) -> Result<T, StoreError> {
        let bytes = self.store.contents(&image.contents, image.byte_length).await?;
        tokio::task::spawn_blocking(move || work(&bytes)).await.map_err(internal)?.map_err(internal)
    }
}

/// The hashes for a block of a picture: of its blob, and of its near copies.
///
/// # Errors
/// A reason to refuse the picture.
pub fn hashes_of(bytes: &[u8]) -> Result<(BlobHash, Vec<PerceptualHash>), Unacceptable> {
    let processed = pictures::process(bytes, HASH_SIDE)?;
    Ok((BlobHash::of(&processed.contents), hashes_of_near_copies(&processed.reduced)))
}

fn internal(fault: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("a picture's work ended: {fault}"))
}

/// The command that blocks a picture and its near copies.
pub(crate) fn block_command(
    contents: &BlobHash,
    near_copies: &[PerceptualHash],
    reason: String,
) -> ImageCommand {
    let near_copies = near_copies.iter().map(|hash| hash.to_i64()).collect();
    ImageCommand::Block { picture: *contents.as_array(), near_copies, reason }
}
