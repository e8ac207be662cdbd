//! A list becomes a gift: each line is looked at, in the list and against the ledger, before any is kept.

use std::collections::HashSet;
use std::io::Cursor;

use domain::ids::AppId;
use domain::operation::wallet::{Credit, CreditsForAll};
use domain::text;
use domain::text::Text;
use sqlx::PgConnection;

use super::super::credit_list::{CreditList, CreditOfList, ListFault};
use super::super::csv_file::{NamedFaults, csv_line};
use super::{GIFT_LINES_MAX, Gift, GiftDigest, PIECE_LINES, find};
use crate::app_number::number_of;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;
use crate::wallet::{CreditForecast, ForeseenCredit};

/// Why a list is no gift. Nothing was kept.
#[derive(Debug)]
pub enum GiftFault {
    /// Its columns are not those of a list of credits.
    List(ListFault),
    /// It has no lines.
    Empty,
    /// It has more lines than a gift may have; this is the first one above.
    TooMany(u64),
    /// It adds more than a purse can hold.
    TooMuch,
    /// These of its lines cannot be credited, the first 100 by their numbers, and how many there are.
    Lines(Vec<(u64, Text)>, usize),
}

/// What was found in a list.
#[derive(Default)]
struct Found {
    credits: Vec<Credit>,
    faults: NamedFaults<(u64, Text)>,
    replayed: i32,
    free: i128,
    charge: i128,
}

impl Store {
    /// Looks at a list and keeps it as a gift, which moves nothing until it is started. The same list is the same gift.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn draft_gift(
        &self,
        app_id: &AppId,
        for_all: &CreditsForAll,
        list: &[u8],
    ) -> Result<Result<Gift, GiftFault>, OperationError> {
        let app_no = number_of(&self.pool, app_id).await?;
        let found = match self.look_at(app_id, for_all, list).await? {
            Ok(found) => found,
            Err(fault) => return Ok(Err(fault)),
        };
        if found.faults.count > 0 {
            return Ok(Err(GiftFault::Lines(found.faults.named, found.faults.count)));
        }
        let (Ok(free), Ok(charge)) = (i64::try_from(found.free), i64::try_from(found.charge)) else {
            return Ok(Err(GiftFault::TooMuch));
        };
        if found.credits.is_empty() {
            return Ok(Err(GiftFault::Empty));
        }
        let newcomers = self.newcomers(app_no, &found.credits).await?;
        let mut digest = GiftDigest::new(for_all.create, &for_all.note);
        for credit in &found.credits {
            digest.add(credit.open_id.as_str(), (credit.free, credit.charge), credit.reference.as_str());
        }
        let kept = KeptGift {
            app_id: app_id.clone(),
            name: digest.name(),
            sums: (free, charge),
            replayed: found.replayed,
            create: for_all.create,
            reason: for_all.note.clone(),
            credits: found.credits,
            newcomers,
        };
        let name = domain::ids::CreditRef::parse(&kept.name).map_err(|_| StoreError::damaged("gifts"))?;
        self.transaction(kept, |connection, kept| Box::pin(keep(connection, kept))).await?;
        let gift = find(&self.pool, app_id, &name).await?;
        Ok(Ok(gift.ok_or_else(|| StoreError::damaged("gifts"))?))
    }

    async fn look_at(
        &self,
        app_id: &AppId,
        for_all: &CreditsForAll,
        list: &[u8],
    ) -> Result<Result<Found, GiftFault>, OperationError> {
        let mut lines = match CreditList::open(list, for_all, false) {
            Ok(lines) => lines,
            Err(fault) => return Ok(Err(GiftFault::List(fault))),
        };
        let number = |line: &CreditOfList| csv_line(Cursor::new(list), &line.position);
        let (mut found, mut forecast) = (Found::default(), CreditForecast::default());
        loop {
            let piece: Result<Vec<CreditOfList>, _> = lines.by_ref().take(PIECE_LINES).collect();
            let piece = match piece {
                Ok(piece) if piece.is_empty() => return Ok(Ok(found)),
                Ok(piece) => piece,
                Err(error) => return Ok(Err(GiftFault::List(ListFault::Unreadable(error)))),
            };
            let room = GIFT_LINES_MAX - found.credits.len();
            if let Some(above) = piece.get(room) {
                return Ok(Err(GiftFault::TooMany(number(above))));
            }
            let good: Vec<Credit> =
                piece.iter().filter_map(|line| line.credit.as_ref().ok().cloned()).collect();
            let mut foreseen = self.foresee_credits(app_id, &mut forecast, &good).await?.into_iter();
            for line in piece {
                match &line.credit {
                    Err(why) => found.faults.add((number(&line), why.clone())),
                    Ok(credit) => match foreseen.next() {
                        Some(ForeseenCredit::Credited) => {
                            found.free += i128::from(credit.free);
                            found.charge += i128::from(credit.charge);
                        }
                        Some(ForeseenCredit::Replayed) => found.replayed += 1,
                        Some(ForeseenCredit::Refused(why)) => found.faults.add((number(&line), why.text)),
                        None => {
                            return Err(StoreError::Internal("a credit without a forecast".to_owned()).into());
                        }
                    },
                }
                // Lines at fault count too: the list may not be longer.
                match line.credit {
                    Ok(credit) => found.credits.push(credit),
                    Err(_) if found.credits.len() + found.faults.count > GIFT_LINES_MAX => {
                        return Ok(Ok(found));
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// The players whom the app does not know.
    async fn newcomers(&self, app_no: i32, credits: &[Credit]) -> Result<HashSet<String>> {
        let mut unknown: HashSet<String> =
            credits.iter().filter(|credit| credit.create).map(|credit| credit.open_id.to_string()).collect();
        let wanted: Vec<String> = unknown.iter().cloned().collect();
        for piece in wanted.chunks(PIECE_LINES) {
            let known = sqlx::query_scalar!(
                "SELECT open_id FROM wallets WHERE app_no = $1 AND open_id = ANY ($2)",
                app_no,
                piece
            );
            for open_id in known.fetch_all(&self.pool).await? {
                unknown.remove(&open_id);
            }
        }
        Ok(unknown)
    }
}

/// What is kept of a list.
struct KeptGift {
    app_id: AppId,
    name: String,
    sums: (i64, i64),
    replayed: i32,
    create: bool,
    reason: String,
    credits: Vec<Credit>,
    newcomers: HashSet<String>,
}

/// Keeps a list, unless it was started: then it stays as it is.
async fn keep(connection: &mut PgConnection, kept: &KeptGift) -> Result<(), OperationError> {
    let KeptGift { app_id, name, sums: (free, charge), replayed, create, reason, credits, newcomers } = kept;
    let is_open = sqlx::query_scalar!(
        r#"INSERT INTO gifts (app_id, gift, line_count, free, charge, replayed, create_wallets, reason)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
           ON CONFLICT (app_id, gift) DO UPDATE SET free = CASE WHEN gifts.started_at IS NULL THEN $4 ELSE gifts.free END,
               charge = CASE WHEN gifts.started_at IS NULL THEN $5 ELSE gifts.charge END,
               replayed = CASE WHEN gifts.started_at IS NULL THEN $6 ELSE gifts.replayed END,
               -- The erasure of a player may have changed it.
               reason = CASE WHEN gifts.started_at IS NULL THEN $8 ELSE gifts.reason END, made_at = clock_timestamp()
           RETURNING started_at IS NULL AS "is_open!""#,
        app_id.as_str(),
        name,
        i32::try_from(credits.len()).unwrap_or(i32::MAX),
        free,
        charge,
        replayed,
        create,
        reason
    );
    if !is_open.fetch_one(&mut *connection).await.map_err(StoreError::from)? {
        return Ok(());
    }
    let former =
        sqlx::query!("DELETE FROM gift_lines WHERE app_id = $1 AND gift = $2", app_id.as_str(), name);
    former.execute(&mut *connection).await.map_err(StoreError::from)?;
    let mut named = HashSet::new();
    for (index, piece) in credits.chunks(PIECE_LINES).enumerate() {
        let open_ids: Vec<String> = piece.iter().map(|credit| credit.open_id.to_string()).collect();
        let refs: Vec<String> = piece.iter().map(|credit| credit.reference.to_string()).collect();
        let free: Vec<i64> = piece.iter().map(|credit| credit.free).collect();
        let charge: Vec<i64> = piece.iter().map(|credit| credit.charge).collect();
        let known: Vec<bool> = open_ids
            .iter()
            .map(|open_id| newcomers.contains(open_id) && named.insert(open_id.clone()))
            .collect();
        sqlx::query!(
            "INSERT INTO gift_lines (app_id, gift, line, open_id, free, charge, ref, makes_known)
             SELECT $1, $2, $3 + k.position::int, k.open_id, k.free, k.charge, k.ref, k.makes_known
             FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bool[])
                 WITH ORDINALITY AS k (open_id, free, charge, ref, makes_known, position)",
            app_id.as_str(),
            name,
            i32::try_from(index * PIECE_LINES).unwrap_or(i32::MAX),
            &open_ids,
            &free,
            &charge,
            &refs,
            &known
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
    }
    Ok(())
}

impl GiftFault {
    /// What is wrong with the list as a whole, where the face calls the values for all lines by these names.
    #[must_use]
    pub fn text(&self, names: [&'static str; 3]) -> Text {
        match self {
            Self::List(fault) => fault.text(names),
            Self::Empty => Text::new("the list is empty"),
            Self::TooMany(line) => {
                text!(
                    "a list has at most {max} lines of credits, and line {line} is one too many",
                    max = GIFT_LINES_MAX,
                    line
                )
            }
            Self::TooMuch => Text::new("the list adds up to more than 9223372036854775807"),
            Self::Lines(_, count) => text!("lines that cannot be credited: {count}", count),
        }
    }
}
