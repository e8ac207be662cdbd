//! The books of others as a person or a program sends them to be compared (contract 13.5.8). They are a file of CSV,
//! which is kept on the disk for as long as it is compared.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use axum::body::{Body, Bytes};
use domain::ids::AppId;
use domain::operation::OperationRefusal;
use domain::operation::books::existing_span;
use domain::period::{Period, TimeZone};
use domain::text::Text;
use futures_util::{Stream, TryStreamExt as _};
use guarded_fetch::bulkhead::{AskedBack, Permit};
use store::secrets::random_token;
use store::{BillColumn, BookColumn, ComparedBy, ComparisonQuery};
use tokio::io::AsyncWriteExt as _;

use crate::http::body::{BoxedError, PACE_BYTES, paced};
use crate::http::language;
use crate::http::refusal::Refusal;

/// The largest file, in bytes.
pub(super) const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The columns that are compared, each with the field that says which column of a file it is. Those that most
/// files have come first.
pub(super) const COLUMN_FIELDS: [(BookColumn, &str); 13] = [
    (BookColumn::Bill(BillColumn::BizNo), "biz_no_column"),
    (BookColumn::Amount, "amount_column"),
    (BookColumn::Bill(BillColumn::ChargeChange), "charge_change_column"),
    (BookColumn::Bill(BillColumn::FreeChange), "free_change_column"),
    (BookColumn::Bill(BillColumn::OpenId), "open_id_column"),
    (BookColumn::Bill(BillColumn::Kind), "kind_column"),
    (BookColumn::Bill(BillColumn::ProductName), "product_name_column"),
    (BookColumn::Bill(BillColumn::ZoneId), "zone_id_column"),
    (BookColumn::Bill(BillColumn::At), "at_column"),
    (BookColumn::Bill(BillColumn::Seq), "seq_column"),
    (BookColumn::Bill(BillColumn::ChargeBalance), "charge_balance_column"),
    (BookColumn::Bill(BillColumn::FreeBalance), "free_balance_column"),
    (BookColumn::Bill(BillColumn::Ref), "ref_column"),
];

/// The field that says which column of a file is this one.
pub(super) fn field_of(column: BookColumn) -> &'static str {
    COLUMN_FIELDS.iter().find(|(known, _)| *known == column).map_or("file", |(_, field)| field)
}

/// The books that are compared with a file.
///
/// # Errors
/// The clocks skip the day.
pub(super) fn compared(
    app_id: AppId,
    period: Option<Period>,
    zone: &TimeZone,
    (by, map): (ComparedBy, Vec<(String, BookColumn)>),
    members_max: u16,
) -> Result<ComparisonQuery, OperationRefusal> {
    let span = period.map(|period| existing_span(period, zone)).transpose()?;
    Ok(ComparisonQuery { app_id, span, by, map, languages: &language::WORDS, members_max })
}

/// The data of a body that announces so many bytes, as it comes, while it brings 1 MiB within `time`.
pub(super) fn at_a_pace(
    body: Body,
    announced: Option<usize>,
    time: Duration,
) -> impl Stream<Item = Result<Bytes, BoxedError>> {
    let expected = announced.unwrap_or(FILE_BYTES_MAX).clamp(PACE_BYTES, FILE_BYTES_MAX);
    let parts = u32::try_from(expected.div_ceil(PACE_BYTES)).unwrap_or(u32::MAX);
    paced(body, expected, time.saturating_mul(parts))
}

/// Why a file was not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept<E> {
    /// It is larger than [`FILE_BYTES_MAX`].
    #[error("the file is too large")]
    TooLarge,
    /// The disk, or its folder for temporary files, has no room.
    #[error("no temporary file in {}: {}", std::env::temp_dir().display(), .0)]
    Disk(#[from] io::Error),
    /// It came slowly, and others waited for its place.
    #[error("the file came slowly, and others waited for its place")]
    AskedBack,
    /// It did not come.
    #[error("the file did not come")]
    Broken(E),
}

/// Keeps a file as it comes, in a temporary file without a name: it is gone when it is closed, however this process ends.
/// It ends when the file comes slowly while others wait for its place.
pub(super) async fn keep<E>(
    permit: &mut Permit,
    data: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<File, NotKept<E>> {
    keep_in(&std::env::temp_dir(), FILE_BYTES_MAX, permit, data).await
}

async fn keep_in<E>(
    folder: &Path,
    bytes_max: usize,
    permit: &mut Permit,
    mut data: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<File, NotKept<E>> {
    let mut file = tokio::fs::File::from_std(nameless(folder)?);
    let mut bytes = 0;
    loop {
        let piece = permit.wait_for(data.try_next()).await.map_err(|AskedBack| NotKept::AskedBack)?;
        let Some(piece) = piece.map_err(NotKept::Broken)? else { break };
        bytes += piece.len();
        if bytes > bytes_max {
            return Err(NotKept::TooLarge);
        }
        file.write_all(&piece).await?;
    }
    file.flush().await?;
    let mut file = file.into_std().await;
    file.rewind()?;
    Ok(file)
}

/// A new file for reading and writing, without a name.
pub(super) fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!("minitill-{}", random_token()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// The refusal of a file for which the disk has no room.
pub(super) fn no_room(cause: String) -> Refusal {
    Refusal::unavailable(Text::new("the disk of the server has no room for the file now"), cause)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use futures_util::stream;
    use guarded_fetch::bulkhead::Bulkhead;

    use super::*;

    #[tokio::test]
    async fn a_file_is_kept_whole_without_a_name_and_within_its_limit() {
        let folder = std::env::temp_dir().join(format!("minitill-kept-{}", random_token()));
        fs::create_dir(&folder).unwrap();
        let pieces =
            || stream::iter([b"biz_no\n", b"order1\n"].map(|piece| Ok::<_, ()>(Bytes::from_static(piece))));
        let mut permit = Bulkhead::new(1, 1).try_acquire("app").unwrap();
        let mut text = String::new();
        keep_in(&folder, 14, &mut permit, pieces()).await.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "biz_no\norder1\n");
        assert!(matches!(keep_in(&folder, 13, &mut permit, pieces()).await, Err(NotKept::TooLarge)));
        let broken = stream::iter([Ok(Bytes::from_static(b"biz_no\n")), Err(7)]);
        assert!(matches!(keep_in(&folder, 14, &mut permit, broken).await, Err(NotKept::Broken(7))));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
        assert!(matches!(keep_in(&folder, 14, &mut permit, pieces()).await, Err(NotKept::Disk(_))));
    }
}
