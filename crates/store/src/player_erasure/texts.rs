//! Puts the pseudonym in place of the player in texts that people and receivers wrote.

use std::collections::BTreeMap;

use domain::ids::ItemId;
use domain::operator_log::ChainedLine;
use domain::product_info::with_additions_replaced;
use domain::topup::Offer;
use domain::wallet::DeveloperTexts;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::error::{Result, StoreError};
use crate::operator_log::ListedCredit;

/// Keys in the operator's log that stay as they are. They are numbers, which the ledger has too, what an operator set,
/// and what the till reads from the log again. That is sums, moments and who asked for a change.
const KEPT: [&str; 18] = [
    "ref",
    "biz_no",
    "of_biz_no",
    "pay_biz_no",
    "free",
    "charge",
    "amount",
    "currency",
    "at",
    "until",
    "kind",
    "state",
    "asked_by",
    "ended_by",
    "account",
    "role",
    "apps",
    "secret",
];
/// Keys of what else tells of the person.
const PERSONAL: [&str; 1] = ["union_id"];
/// Keys of the texts in a state that the audit compares. All else there is what an operator set, such as who asked for it.
const TEXTS_OF_STATE: [&str; 2] = ["open_id", "reason"];

/// The player and the pseudonym.
pub(super) struct Names<'a> {
    pub(super) app_id: &'a str,
    pub(super) open_id: &'a str,
    pub(super) pseudonym: &'a str,
}

impl Names<'_> {
    /// The text with the pseudonym for each word that is the `open_id`. A word is the longest part of characters that an
    /// `open_id` can have: the player `p1` is not in `p12`.
    pub(super) fn replaced(&self, text: &str) -> String {
        let is_outside = |char: char| !(char.is_ascii_alphanumeric() || char == '_' || char == '-');
        let words = text.split_inclusive(is_outside).map(|word| {
            let (name, rest) = word.split_at(word.trim_end_matches(is_outside).len());
            if name == self.open_id { [self.pseudonym, rest] } else { [name, rest] }
        });
        words.flatten().collect()
    }

    /// The same for the remark of an order of a top-up. An operator has set its first word, the product.
    fn replaced_behind_product(&self, content: &str) -> String {
        match content.split_once(' ') {
            Some((product, remark)) => format!("{product} {}", self.replaced(remark)),
            None => content.to_owned(),
        }
    }

    /// The same for the details of a line of the operator's log.
    fn replaced_in(&self, value: Value, is_own: bool) -> Value {
        match value {
            Value::String(text) => Value::String(self.replaced(&text)),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.replaced_in(value, is_own)).collect())
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(key, value)| {
                    let value = match key.as_str() {
                        key if KEPT.contains(&key) => value,
                        key if is_own && PERSONAL.contains(&key) => Value::Null,
                        // As the row of the request has it then.
                        "reason" if is_own => "".into(),
                        _ => self.replaced_in(value, is_own),
                    };
                    (key, value)
                });
                Value::Object(fields.collect())
            }
            other => other,
        }
    }

    /// The same for a state that the audit compares with its row.
    fn replaced_in_state(&self, mut state: Value, is_own: bool) -> Value {
        if let Value::Object(fields) = &mut state {
            let texts = fields.iter().filter(|(key, _)| TEXTS_OF_STATE.contains(&key.as_str()));
            let texts = texts.map(|(key, value)| (key.clone(), value.clone())).collect();
            if let Value::Object(texts) = self.replaced_in(Value::Object(texts), is_own) {
                fields.extend(texts);
            }
        }
        state
    }

    /// The same for the credits of one call.
    fn replaced_in_credits(&self, credits: &str) -> Result<String> {
        let damaged = |_| StoreError::damaged("operator_log.credits");
        let mut credits: Vec<ListedCredit<'_>> = serde_json::from_str(credits).map_err(damaged)?;
        for credit in credits.iter_mut().filter(|credit| credit.0 == self.open_id) {
            credit.0 = self.pseudonym.into();
        }
        serde_json::to_string(&credits).map_err(damaged)
    }
}

/// Replaces the player in the log: in lines about the player, in lists of players and credits, and in states of players
/// and requests. Lines about the player and about the player's `payments` lose their notes. In all other notes about the
/// app the player is replaced. What an operator has set, such as the URL of a receiver, stays as its row does. Returns
/// the lines with the hashes of their new texts.
pub(super) async fn replace_in_log(
    connection: &mut PgConnection,
    names: &Names<'_>,
    payments: &[String],
) -> Result<BTreeMap<i64, String>> {
    let &Names { app_id, open_id, pseudonym } = names;
    let rows = sqlx::query!(
        r#"SELECT * FROM (
               SELECT seq, subject, before, after, note, credits::text AS credits, state,
                   seq IN (SELECT seq FROM player_lines WHERE app_id = $1 AND subject = $2) AS "is_own!",
                   action !~ '^(app|receiver|image)[.]' AND action <> 'player.erase'
                       AND strpos(concat(before, after, state), $2) > 0 AS "is_told!",
                   CASE action WHEN 'topup.settle' THEN subject = ANY ($3)
                       WHEN 'topup.refund' THEN regexp_replace(subject, '/[^/]*$', '') = ANY ($3)
                       ELSE false END AS "is_of_payment!"
               FROM operator_log WHERE app_id = $1) l
           WHERE "is_own!" OR "is_told!" OR "is_of_payment!" OR strpos(note, $2) > 0 OR strpos(credits, $2) > 0
           ORDER BY seq"#,
        app_id,
        open_id,
        payments
    );
    let mut lines = BTreeMap::new();
    for row in rows.fetch_all(&mut *connection).await? {
        let is_own = row.is_own;
        let is_named = is_own || row.is_told;
        let replaced = |details: &Option<Value>| match details.clone() {
            Some(details) if is_named => Some(names.replaced_in(details, is_own)),
            details => details,
        };
        let state = match row.state.clone() {
            Some(state) if is_named => Some(names.replaced_in_state(state, is_own)),
            state => state,
        };
        let subject = if is_own { pseudonym } else { &row.subject };
        let note = if is_own || row.is_of_payment { String::new() } else { names.replaced(&row.note) };
        let (before, after) = (replaced(&row.before), replaced(&row.after));
        let credits = row.credits.as_deref().map(|credits| names.replaced_in_credits(credits)).transpose()?;
        let is_same = note == row.note
            && (&before, &after, &credits, &state) == (&row.before, &row.after, &row.credits, &row.state);
        if !is_own && is_same {
            continue;
        }
        let new = sqlx::query!(
            r#"UPDATE operator_log SET subject = $2, note = $3, before = $4, after = $5, credits = $6::text::json, state = $7,
                   salt = NULL
               WHERE seq = $1 RETURNING before::text, after::text, credits::text, state::text"#,
            row.seq,
            subject,
            note,
            before,
            after,
            credits,
            state
        );
        let new = new.fetch_one(&mut *connection).await?;
        let line = ChainedLine {
            subject,
            before: new.before.as_deref(),
            after: new.after.as_deref(),
            note: &note,
            credits: new.credits.as_deref(),
            state: new.state.as_deref(),
            ..ChainedLine::default()
        };
        lines.insert(row.seq, hex::encode(line.texts_hash()));
    }
    Ok(lines)
}

/// Replaces the player in the texts of what exchanges bought, and in the names of products in sums. The id of an item stays:
/// it is the digest of the first texts, which the hash chain covers. Numbers of items stay, and so does what an order of a
/// top-up is for. Returns the digest of the new texts of each item, by its id, for the line of the erasure.
pub(super) async fn replace_in_items(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
) -> Result<BTreeMap<String, String>> {
    let items = sqlx::query!(
        "SELECT item_id, product_name, product_info, product_desc FROM items
         WHERE app_no = $1 AND strpos(concat_ws(' ', product_name, product_info, product_desc), $2) > 0 ORDER BY item_id",
        app_no,
        names.open_id
    );
    let mut replaced = BTreeMap::new();
    for item in items.fetch_all(&mut *connection).await? {
        let former = [item.product_name, item.product_info, item.product_desc];
        let [name, info, desc] = &former;
        // An operator has set the product and the figures of an order of a top-up.
        if Offer::of_figures(info).is_some() {
            continue;
        }
        let info = with_additions_replaced(info, &|text| names.replaced(text));
        let texts = [names.replaced(name), info, names.replaced(desc)];
        if texts == former {
            continue;
        }
        let [name, info, desc] = &texts;
        sqlx::query!(
            "UPDATE items SET product_name = $3, product_info = $4, product_desc = $5 WHERE app_no = $1 AND item_id = $2",
            app_no,
            item.item_id,
            name,
            info,
            desc
        )
        .execute(&mut *connection)
        .await?;
        if *name != former[0] {
            sqlx::query!(
                "UPDATE sales_hours SET product_name = $3 WHERE app_no = $1 AND product_name = $2",
                app_no,
                former[0],
                name
            )
            .execute(&mut *connection)
            .await?;
        }
        replaced.insert(hex::encode(item.item_id), hex::encode(ItemId::of(name, info, desc).0));
    }
    Ok(replaced)
}

/// Replaces the player in a column of the rows of an app: `$find` reads its texts, and `$replace` writes one where it stands.
macro_rules! replace_texts {
    ($connection:ident, $names:ident, $app:expr, $find:literal, $replace:literal) => {
        let texts = sqlx::query_scalar!($find, $app, $names.open_id);
        for text in texts.fetch_all(&mut *$connection).await? {
            let replaced = $names.replaced(&text);
            sqlx::query!($replace, $app, text, replaced).execute(&mut *$connection).await?;
        }
    };
}

/// Replaces the player in the reasons of requests about others, of which the log tells the same words. It is replaced,
/// too, in notes of payments of others, in reasons of their refunds, and in those of gifts.
pub(super) async fn replace_in_reasons(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
) -> Result<()> {
    replace_texts!(
        connection,
        names,
        names.app_id,
        "SELECT DISTINCT reason FROM console_requests WHERE app_id = $1 AND strpos(reason, $2) > 0",
        "UPDATE console_requests SET reason = $3 WHERE app_id = $1 AND reason = $2"
    );
    replace_texts!(
        connection,
        names,
        app_no,
        "SELECT DISTINCT note FROM topup_payments WHERE app_no = $1 AND strpos(note, $2) > 0",
        "UPDATE topup_payments SET note = $3 WHERE app_no = $1 AND note = $2"
    );
    replace_texts!(
        connection,
        names,
        app_no,
        "SELECT DISTINCT reason FROM topup_refunds WHERE app_no = $1 AND strpos(reason, $2) > 0",
        "UPDATE topup_refunds SET reason = $3 WHERE app_no = $1 AND reason = $2"
    );
    replace_texts!(
        connection,
        names,
        names.app_id,
        "SELECT DISTINCT reason FROM gifts WHERE app_id = $1 AND strpos(reason, $2) > 0",
        "UPDATE gifts SET reason = $3 WHERE app_id = $1 AND reason = $2"
    );
    Ok(())
}

/// Replaces the player in what was written into the entries of others. It reads all entries of the app, and locks
/// those that it replaces: another erasure may have replaced a name in them meanwhile.
#[expect(clippy::disallowed_methods, reason = "the columns are those of the texts of the developer")]
pub(super) async fn replace_in_ledger(
    connection: &mut PgConnection,
    app_no: i32,
    names: &Names<'_>,
) -> Result<()> {
    let columns = DeveloperTexts::NAMES.join(", ");
    let values = DeveloperTexts::NAMES.iter().zip(1..);
    let values = values.map(|(column, place)| format!("{column} = ($4::text[])[{place}]"));
    let values = values.collect::<Vec<_>>().join(", ");
    // An `open_id` has no space, so it stands in one of the texts.
    let find = format!(
        "SELECT reference, kind = 'topup_order', remark, ARRAY[{columns}] FROM ledger_entries
         WHERE app_no = $1 AND strpos(concat_ws(' ', remark, {columns}), $2) > 0
         FOR UPDATE"
    );
    let replace =
        format!("UPDATE ledger_entries SET remark = $3, {values} WHERE app_no = $1 AND reference = $2");
    let entries =
        sqlx::query_as::<_, (String, bool, Option<String>, Vec<Option<String>>)>(AssertSqlSafe(find));
    let entries = entries.bind(app_no).bind(names.open_id).fetch_all(&mut *connection).await?;
    for (reference, is_order, remark, texts) in entries {
        let replaced = if is_order { Names::replaced_behind_product } else { Names::replaced };
        let remark = remark.map(|remark| replaced(names, &remark));
        let texts: Vec<_> = texts.into_iter().map(|text| text.map(|text| names.replaced(&text))).collect();
        let replace = sqlx::query(AssertSqlSafe(replace.as_str())).bind(app_no).bind(reference);
        replace.bind(remark).bind(texts).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Replaces the player in what refused exchanges of others wanted to buy.
pub(super) async fn replace_in_refusals(connection: &mut PgConnection, names: &Names<'_>) -> Result<()> {
    replace_texts!(
        connection,
        names,
        names.app_id,
        r#"SELECT DISTINCT product_name AS "product_name!" FROM exchange_refusals
           WHERE app_id = $1 AND strpos(product_name, $2) > 0"#,
        "UPDATE exchange_refusals SET product_name = $3 WHERE app_id = $1 AND product_name = $2"
    );
    Ok(())
}

/// Replaces the player in what receivers of the app answered.
pub(super) async fn replace_in_deliveries(connection: &mut PgConnection, names: &Names<'_>) -> Result<()> {
    let &Names { app_id, open_id, .. } = names;
    let failures = sqlx::query!(
        r#"SELECT receiver_id, event_no, error AS "error!" FROM deliveries
           WHERE app_id = $1 AND strpos(error, $2) > 0"#,
        app_id,
        open_id
    );
    for failure in failures.fetch_all(&mut *connection).await? {
        sqlx::query!(
            "UPDATE deliveries SET error = $4 WHERE app_id = $1 AND receiver_id = $2 AND event_no = $3",
            app_id,
            failure.receiver_id,
            failure.event_no,
            names.replaced(&failure.error)
        )
        .execute(&mut *connection)
        .await?;
    }
    let receivers = sqlx::query!(
        r#"SELECT receiver_id, last_error, tries FROM receivers
           WHERE app_id = $1 AND (strpos(last_error, $2) > 0 OR strpos(tries::text, $2) > 0)"#,
        app_id,
        open_id
    );
    for receiver in receivers.fetch_all(&mut *connection).await? {
        sqlx::query!(
            "UPDATE receivers SET last_error = $3, tries = $4 WHERE app_id = $1 AND receiver_id = $2",
            app_id,
            receiver.receiver_id,
            receiver.last_error.map(|error| names.replaced(&error)),
            names.replaced_in(receiver.tries, false)
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMES: Names<'_> = Names { app_id: "a", open_id: "p-1", pseudonym: "erased-x" };

    /// Contract 13.7.4: the whole word is replaced, wherever it stands, and no part of a longer word is.
    #[test]
    fn a_whole_word_is_replaced() {
        for (text, replaced) in [
            ("p-1", "erased-x"),
            ("to p-1, p-12 and xp-1: (p-1)é", "to erased-x, p-12 and xp-1: (erased-x)é"),
            ("é p-1\n", "é erased-x\n"),
            ("", ""),
        ] {
            assert_eq!(NAMES.replaced(text), replaced);
        }
        let state =
            json!({ "open_id": "p-1", "ref": "p-1", "at": "p-1", "list": ["p-1", 1], "union_id": "u" });
        let replaced = json!({ "open_id": "erased-x", "ref": "p-1", "at": "p-1", "list": ["erased-x", 1], "union_id": null });
        assert_eq!(NAMES.replaced_in(state, true), replaced);
        let credits = r#"[["p-1","p-1",0,0,1,2],["p-12","r",0,0,1,2]]"#;
        let replaced = r#"[["erased-x","p-1",0,0,1,2],["p-12","r",0,0,1,2]]"#;
        assert_eq!(NAMES.replaced_in_credits(credits).unwrap(), replaced);
    }
}
