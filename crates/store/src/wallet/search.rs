//! Search of players by their open id or its start.

use std::fmt;
use std::str::FromStr;

use domain::fields::Expected;
use domain::ids::{AppId, OpenId};
use domain::rights::Apps;
use serde::{Serialize, Serializer};

use super::Wallet;
use crate::engine::Engine;
use crate::error::Result;
use crate::paging::ListPage;
use crate::store::Store;

/// A character above every character of an open id.
const AFTER_EVERY_ID: char = '\u{7f}';

/// A filter of players. The default lets all players through.
#[derive(Debug, Clone, Default)]
pub struct PlayerFilter {
    /// Only of this app.
    pub app_id: Option<AppId>,
    /// Only of these apps.
    pub apps: Apps,
    /// The open id, or its start.
    pub open_id: Option<OpenId>,
}

/// A position in the order of [`Store::find_players`]. As text `<open_id>.<app_id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayerCursor {
    open_id: String,
    app_id: String,
}

impl fmt::Display for PlayerCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.open_id, self.app_id)
    }
}

impl FromStr for PlayerCursor {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (open_id, app_id) = text.split_once('.').ok_or(Expected::new("<open_id>.<app_id>"))?;
        let (open_id, app_id): (OpenId, AppId) = (open_id.parse()?, app_id.parse()?);
        Ok(Self { open_id: open_id.to_string(), app_id: app_id.to_string() })
    }
}

impl Serialize for PlayerCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A page of players in the order of their open ids, then of their apps. So an exact match comes first.
pub type PlayersPage = ListPage<Wallet, PlayerCursor>;

/// The search on Citus, which cannot distribute a limit for each app. An index of its own has the open ids of all apps.
const FIND_ON_CITUS: &str = "\
SELECT a.app_id, w.open_id, w.free_balance, w.charge_balance, w.entry_count AS entries
FROM wallets w JOIN apps a ON a.app_no = w.app_no
WHERE ($1::text IS NULL OR a.app_id = $1) AND w.open_id >= greatest($2::text COLLATE \"C\", $4) AND w.open_id < $3
    AND (w.open_id, a.app_id COLLATE \"C\") > ($4, $5) AND ($7::text[] IS NULL OR a.app_id = ANY ($7))
ORDER BY w.open_id, a.app_id COLLATE \"C\" LIMIT $6";

impl Store {
    /// At most `limit` players with both purses. It reads at most `limit` rows of each app by its
    /// key, so the work depends on the number of apps, and not of players. On Citus it reads that many rows of each shard.
    pub async fn find_players(
        &self,
        filter: &PlayerFilter,
        after: Option<&PlayerCursor>,
        limit: u32,
    ) -> Result<PlayersPage> {
        let beginning = filter.open_id.as_ref().map_or("", OpenId::as_str);
        let (after_open_id, after_app_id) =
            after.map_or(("", ""), |after| (after.open_id.as_str(), after.app_id.as_str()));
        let upper = format!("{beginning}{AFTER_EVERY_ID}");
        let limit_and_one = i64::from(limit) + 1;
        if self.engine.get() == Engine::Citus {
            #[expect(clippy::disallowed_methods, reason = "the same columns, as Citus can distribute them")]
            let wallets = sqlx::query_as(FIND_ON_CITUS)
                .bind(filter.app_id.as_ref().map(AppId::as_str))
                .bind(beginning)
                .bind(upper)
                .bind(after_open_id)
                .bind(after_app_id)
                .bind(limit_and_one)
                .bind(filter.apps.ids());
            return Ok(cut(wallets.fetch_all(&self.pool).await?, limit));
        }
        let wallets = sqlx::query_as!(
            Wallet,
            r#"SELECT w.app_id AS "app_id!", w.open_id AS "open_id!", w.free_balance AS "free_balance!",
                      w.charge_balance AS "charge_balance!", w.entry_count AS "entries!"
               FROM apps a
               CROSS JOIN LATERAL (
                   SELECT a.app_id, open_id, free_balance, charge_balance, entry_count FROM wallets
                   WHERE wallets.app_no = a.app_no AND open_id >= greatest($2::text COLLATE "C", $4)
                     AND open_id < $3 AND (open_id, a.app_id COLLATE "C") > ($4, $5)
                   ORDER BY open_id LIMIT $6
               ) w
               WHERE ($1::text IS NULL OR a.app_id = $1) AND ($7::text[] IS NULL OR a.app_id = ANY ($7))
               ORDER BY w.open_id, w.app_id COLLATE "C" LIMIT $6"#,
            filter.app_id.as_ref().map(AppId::as_str),
            beginning,
            upper,
            after_open_id,
            after_app_id,
            limit_and_one,
            filter.apps.ids()
        );
        Ok(cut(wallets.fetch_all(&self.pool).await?, limit))
    }
}

fn cut(wallets: Vec<Wallet>, limit: u32) -> PlayersPage {
    ListPage::cut(wallets, limit, |last| PlayerCursor {
        open_id: last.open_id.clone(),
        app_id: last.app_id.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_what_it_prints() {
        let cursor: PlayerCursor = "o_-1.app-1".parse().unwrap();
        assert_eq!(cursor.to_string(), "o_-1.app-1");
        for bad in ["", "o", "o.", ".a", "o.a.b", "o'.a"] {
            assert!(bad.parse::<PlayerCursor>().is_err(), "{bad:?}");
        }
    }
}
