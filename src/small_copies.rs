//! Thumbnails of stored pictures, and the hashes for a block of one. The work runs on threads that may
//! block. Decode permits bound its memory too.

use guarded_fetch::bulkhead::Permit;
use pictures::{HASH_SIDE, PerceptualHash, Thumbnail, Unacceptable, hashes_of_near_copies};
use store::{BlobHash, StoreError, StoredImage};
use tokio::time::timeout;

use crate::state::AppState;

/// Widths of the small copies, in pixels. They are few, because each copy is made once and kept.
pub const THUMBNAIL_WIDTHS: [u32; 3] = [120, 240, 480];

/// In whose name small copies take their turn. No app has it, because ids of apps hold no blanks.
const SMALL_COPIES: &str = "small copies";
/// In whose name hashes for a block take their turn.
const BLOCKS: &str = "blocks of pictures";

/// The small copy of a picture, made now if nobody has asked for it before.
///
/// # Errors
/// The database is away, or the store of the picture; or it is not there.
pub async fn small_copy(state: &AppState, image: &StoredImage, width: u32) -> Result<Thumbnail, StoreError> {
    if let Some(known) = state.store.thumbnail(&image.contents, width).await? {
        return Ok(known);
    }
    let (state, image) = (state.clone(), image.clone());
    // A task of its own: a caller that goes away does not make room for more of this work.
    let making = tokio::spawn(async move {
        let turn = turn(&state, SMALL_COPIES).await?;
        // Of all who have waited for a turn with the same wish, the first has made and kept it.
        if let Some(known) = state.store.thumbnail(&image.contents, width).await? {
            return Ok(known);
        }
        let made = with_bytes(&state, &image, &turn, move |bytes| {
            pictures::reduce(bytes, width).map(|reduced| pictures::thumbnail(&reduced, width))
        });
        let thumbnail = made.await?;
        state.store.keep_thumbnail(&image.contents, width, &thumbnail).await?;
        drop(turn);
        Ok(thumbnail)
    });
    making.await.map_err(internal)?
}

/// The hashes for a block of an image: of its blob, and of its near copies.
///
/// # Errors
/// As of [`small_copy`].
pub async fn block_hashes(
    state: &AppState,
    image: &StoredImage,
) -> Result<(BlobHash, Vec<PerceptualHash>), StoreError> {
    let (state, image) = (state.clone(), image.clone());
    let making = tokio::spawn(async move {
        let turn = turn(&state, BLOCKS).await?;
        let made = with_bytes(&state, &image, &turn, hashes_of);
        made.await
    });
    making.await.map_err(internal)?
}

/// The hashes for a block of a picture: of its blob, and of its near copies.
///
/// # Errors
/// A reason to refuse the picture.
pub fn hashes_of(bytes: &[u8]) -> Result<(BlobHash, Vec<PerceptualHash>), Unacceptable> {
    let processed = pictures::process(bytes, HASH_SIDE)?;
    Ok((BlobHash::of(&processed.contents), hashes_of_near_copies(&processed.reduced)))
}

/// A place to work on a picture, waited for as long as a body may take. Holders, which are apps and the
/// two kinds of work of this file, take turns.
///
/// # Errors
/// Others keep all places busy.
pub async fn turn(state: &AppState, holder: &str) -> Result<Permit, StoreError> {
    let waiting = timeout(state.config.http.body_timeout, state.decodes.acquire(holder, 1)).await;
    waiting.map_err(|_| StoreError::Overloaded)
}

/// Runs `work` on the bytes of a picture while the caller has its turn, which bounds the memory too:
/// they are read only then.
async fn with_bytes<T: Send + 'static>(
    state: &AppState,
    image: &StoredImage,
    _turn: &Permit,
    work: impl FnOnce(&[u8]) -> Result<T, Unacceptable> + Send + 'static,
) -> Result<T, StoreError> {
    let bytes = state.store.contents(&image.contents, image.byte_length).await?;
    tokio::task::spawn_blocking(move || work(&bytes)).await.map_err(internal)?.map_err(internal)
}

fn internal(fault: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("a picture's work ended: {fault}"))
}
