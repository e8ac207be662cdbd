//! Forecast of many credits: what would become of each, before the first of them is made (contract 8.3.6).

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};

use domain::ids::AppId;
use domain::operation::OperationRefusal;
use domain::operation::wallet::{Credit, ref_used, refused};
use domain::wallet::{Balances, WalletOutcome, WalletRequest};
use sqlx::PgConnection;

use crate::app_number::number_of;
use crate::engine::Engine;
use crate::error::{OperationError, Result, StoreError};
use crate::store::Store;
use crate::wallet_writer::{ChangeOutcome, foresee};

/// The outcome that a credit would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeseenCredit {
    /// It would be made.
    Credited,
    /// The ledger has it, or an earlier credit of the list is the same.
    Replayed,
    /// It would be refused.
    Refused(OperationRefusal),
}

/// The credits of a list that would be made. It keeps hashes in place of texts, so that a million of them need little
/// memory. The hashes are keyed at random.
#[derive(Debug, Default)]
pub struct CreditForecast {
    hasher: RandomState,
    /// For each ref that a credit of the list uses first, its player and amounts.
    used: HashMap<u64, u64>,
    /// For each player what the list adds.
    added: HashMap<u64, (i64, i64)>,
}

impl CreditForecast {
    fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    fn content(&self, credit: &Credit) -> u64 {
        self.hash((credit.open_id.as_str(), credit.free, credit.charge))
    }

    /// What an earlier piece of the list says of a credit.
    fn of_earlier(&self, credit: &Credit) -> Option<ForeseenCredit> {
        let content = self.used.get(&self.hash(credit.reference.as_str()))?;
        if *content == self.content(credit) {
            return Some(ForeseenCredit::Replayed);
        }
        Some(ForeseenCredit::Refused(ref_used(&credit.reference)))
    }

    /// The known state of a player before the next piece of the list, which registers the player or not.
    fn player(&self, open_id: &str, is_made_known: bool) -> ListedPlayer {
        ListedPlayer { is_made_known, added: self.added.get(&self.hash(open_id)).copied() }
    }

    fn make(&mut self, credit: &Credit) {
        let (reference, content) = (self.hash(credit.reference.as_str()), self.content(credit));
        self.used.insert(reference, content);
        let player = self.hash(credit.open_id.as_str());
        let (free, charge) = self.added.entry(player).or_default();
        (*free, *charge) = (free.saturating_add(credit.free), charge.saturating_add(credit.charge));
    }
}

/// What a list does for a player.
#[derive(Debug, Clone, Copy)]
struct ListedPlayer {
    is_made_known: bool,
    /// What its earlier pieces add.
    added: Option<(i64, i64)>,
}

impl ListedPlayer {
    /// Both purses after the earlier pieces.
    fn purses(self, now: Option<Balances>) -> Option<Balances> {
        let is_known = self.is_made_known || self.added.is_some();
        let before = now.or_else(|| is_known.then(Balances::default))?;
        let (free, charge) = self.added.unwrap_or_default();
        // It fitted when the earlier piece was foreseen. Where others have changed the purses since, theirs count.
        Some(before.credit(free, charge).map_or(before, |changed| changed.after))
    }
}

impl Store {
    /// Tells what would become of the next credits of a list. It changes nothing.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn foresee_credits(
        &self,
        app_id: &AppId,
        forecast: &mut CreditForecast,
        credits: &[Credit],
    ) -> Result<Vec<ForeseenCredit>, OperationError> {
        let app_no = number_of(&self.pool, app_id).await?;
        let mut foreseen: Vec<_> = credits.iter().map(|credit| forecast.of_earlier(credit)).collect();
        let left = foreseen.iter().zip(credits).filter(|(earlier, _)| earlier.is_none());
        let left: Vec<&Credit> = left.map(|(_, credit)| credit).collect();
        let requests: Vec<WalletRequest> = left.iter().map(|credit| credit.request()).collect();
        let mut players = HashMap::new();
        for credit in &left {
            let player = forecast.player(credit.open_id.as_str(), credit.create);
            let known = players.entry(credit.open_id.to_string()).or_insert(player);
            known.is_made_known |= credit.create;
        }
        let engine = self.engine.get();
        let outcomes = self.transaction((requests, players), move |connection, (requests, players)| {
            Box::pin(look(connection, engine, app_no, requests, players))
        });
        let outcomes: Result<Vec<ChangeOutcome>> = outcomes.await;
        let outcomes = outcomes?;
        let rest = foreseen.iter_mut().filter(|earlier| earlier.is_none());
        for ((place, credit), (outcome, _)) in rest.zip(left).zip(outcomes) {
            *place = Some(match outcome {
                WalletOutcome::Done(_) => {
                    forecast.make(credit);
                    ForeseenCredit::Credited
                }
                WalletOutcome::Replayed(_) => ForeseenCredit::Replayed,
                WalletOutcome::Refused(why, _) => {
                    ForeseenCredit::Refused(refused(why, app_id, &credit.open_id, &credit.reference))
                }
                WalletOutcome::Balance { .. } | WalletOutcome::Number(_) => {
                    return Err(StoreError::Internal("a credit with the outcome of a read".to_owned()).into());
                }
            });
        }
        Ok(foreseen.into_iter().flatten().collect())
    }
}

async fn look(
    connection: &mut PgConnection,
    engine: Engine,
    app_no: i32,
    requests: &[WalletRequest],
    players: &HashMap<String, ListedPlayer>,
) -> Result<Vec<ChangeOutcome>> {
    let purses =
        |open_id: &str, now| players.get(open_id).map_or(now, |player: &ListedPlayer| player.purses(now));
    foresee(connection, engine, app_no, requests, purses).await
}

#[cfg(test)]
mod tests {
    use domain::ids::{CreditRef, OpenId};

    use super::*;

    fn credit(open_id: &str, free: i64, reference: &str) -> Credit {
        let (open_id, reference) = (OpenId::parse(open_id).unwrap(), CreditRef::parse(reference).unwrap());
        Credit { open_id, free, charge: 2, reference, note: String::new(), create: false }
    }

    #[test]
    fn a_piece_of_a_list_knows_the_pieces_before_it() {
        let mut forecast = CreditForecast::default();
        assert_eq!(forecast.player("o1", false).purses(None), None);
        assert_eq!(forecast.player("o1", true).purses(None), Some(Balances::default()));
        forecast.make(&credit("o1", 5, "r1"));
        forecast.make(&credit("o1", 1, "r2"));
        assert_eq!(forecast.of_earlier(&credit("o1", 5, "r1")), Some(ForeseenCredit::Replayed));
        let used = Some(ForeseenCredit::Refused(ref_used("r1")));
        assert_eq!(forecast.of_earlier(&credit("o1", 6, "r1")), used);
        assert_eq!(forecast.of_earlier(&credit("o2", 5, "r1")), used);
        assert_eq!(forecast.of_earlier(&credit("o1", 5, "r3")), None);
        let purses = |free, charge| Some(Balances::new(free, charge).unwrap());
        assert_eq!(forecast.player("o1", false).purses(None), purses(6, 4));
        assert_eq!(forecast.player("o1", false).purses(purses(10, 0)), purses(16, 4));
        assert_eq!(forecast.player("o2", false).purses(purses(10, 0)), purses(10, 0));
    }
}
