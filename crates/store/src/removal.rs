//! Removal of old rows, a piece at a time. A statement has a time limit, so one that removed all of a large backlog
//! would fail each time, and the backlog would grow.

/// The most rows of a piece. A run that removed so many may have left some.
pub const REMOVED_AT_ONCE: u32 = 5_000;

/// Removes a piece of the old rows of a table, and gives their number. `$is_old` is their condition, whose first
/// parameter is $2. Rows that somebody holds stay for the next time, so two servers take different ones, and a row that
/// changes meanwhile is looked at anew. The table must not be distributed: there, a ctid belongs to one node.
macro_rules! remove_piece {
    ($store:expr, $table:literal, $is_old:literal $(, $parameter:expr)*) => {
        sqlx::query!(
            "DELETE FROM " + $table + " WHERE ctid = ANY (ARRAY(SELECT ctid FROM " + $table + " WHERE " + $is_old
                + " LIMIT $1 FOR UPDATE SKIP LOCKED))",
            i64::from($crate::removal::REMOVED_AT_ONCE)
            $(, $parameter)*
        )
        .execute(&$store.pool)
        .await?
        .rows_affected()
    };
}
pub(crate) use remove_piece;
