//! Export (contract 13.6) and erasure (contract 13.7) of all that is recorded of a player. The command is the player.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Subject;
use crate::text;

/// What an erasure did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErasedPlayer {
    /// The app.
    pub app_id: String,
    /// What stands in place of the `open_id` from now on.
    pub pseudonym: String,
    /// Rows that were changed or removed, by kind. `archives` has the numbers of archives instead.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub rows: BTreeMap<&'static str, u64>,
    /// Files of archives that still name the player.
    pub archive_files: Vec<String>,
    /// Where the database still has the `open_id`, and why.
    pub left: Vec<LeftText>,
}

/// A column that still has the `open_id` of an erased player.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftText {
    /// The table and the column. A star stands for all.
    pub column: String,
    /// How many rows have it. 0 where the table was not searched to its end.
    pub rows: u64,
    /// Why it stays.
    pub why: String,
}

refusals! {
    /// Nothing is recorded of such a player.
    nothing_recorded(app_id, open_id): Unknown(Subject::Records) of app_id,
        text!("nothing is recorded of a player {open_id} of an app {app_id}", open_id, app_id);
    /// Entries of the app are on their way between the ledger and an archive.
    archive_moving(app_id): Conflict,
        text!("entries of the app {app_id} are moving to or from an archive; nothing was erased, try again when \
               that has ended", app_id);
}
