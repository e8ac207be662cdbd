//! Changes that wait for a second person. They are large ones of wallets (contract 8.6.40), and those of users and API
//! keys by which one admin could become two (contract 8.6.44). One admin of the console asks, and another one confirms
//! or refuses. A confirmed change and the end of its request are one transaction.

mod ask;
mod end;
mod row;
mod second_person;

use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::account::AccountChange;
use domain::operation::unknown_app;
use domain::operation::wallet::{WalletCommand, ref_used, unknown_gift};
use domain::operator::Operator;
use domain::rights::Apps;
pub(crate) use end::{log_refused, refuse_requests_of};
use row::{ChangeRequestRow, requests};
use time::OffsetDateTime;

use crate::app::app_exists;
use crate::error::{OperationError, Result, StoreError};
use crate::paging::LISTED_MAX;
use crate::secrets::random_bytes;
use crate::store::Store;

domain::word_enum! {
    /// The outcome of a request.
    pub enum RequestState {
        /// It waits for another admin.
        Waiting = "waiting",
        /// The change was made.
        Confirmed = "confirmed",
        /// Somebody refused it.
        Refused = "refused",
        /// Nobody confirmed it for 7 days.
        Ended = "ended",
    }
}

/// The change that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedChange {
    /// A large change of a wallet.
    Wallet {
        /// The app.
        app_id: AppId,
        /// The player.
        open_id: OpenId,
        /// The change.
        command: WalletCommand,
        /// How many coins of an exchange whoever asked may give back (contract 8.6.38). `None`: all.
        give_back_max: Option<i64>,
    },
    /// A gift. Its list is kept under the ref of the request, which is a digest of it.
    Gift {
        /// The app.
        app_id: AppId,
        /// Gifted currency that it adds in all.
        free: i64,
        /// Charged currency that it adds in all.
        charge: i64,
        /// Whether it registers players.
        create: bool,
        /// The note of each credit.
        reason: String,
    },
    /// A change of a user or an API key.
    Account(AccountChange),
}

/// A request for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Its ref, unique in its app.
    pub reference: CreditRef,
    /// The requested change.
    pub change: RequestedChange,
    /// Who asked.
    pub asked_by: String,
    /// When.
    pub asked_at: OffsetDateTime,
    /// When it ends by itself.
    pub ends_at: OffsetDateTime,
    /// What became of it.
    pub state: RequestState,
    /// Who confirmed or refused it.
    pub ended_by: Option<String>,
    /// When.
    pub ended_at: Option<OffsetDateTime>,
}

impl RequestedChange {
    /// The app of the wallet.
    #[must_use]
    pub fn app(&self) -> Option<&AppId> {
        match self {
            Self::Wallet { app_id, .. } | Self::Gift { app_id, .. } => Some(app_id),
            Self::Account(_) => None,
        }
    }

    /// The id of the app. Empty for a change of a user or a key.
    #[must_use]
    pub fn app_id(&self) -> &str {
        self.app().map_or("", AppId::as_str)
    }

    /// The player and the command of a change of a wallet.
    #[must_use]
    pub fn of_wallet(&self) -> Option<(&OpenId, &WalletCommand)> {
        match self {
            Self::Wallet { open_id, command, .. } => Some((open_id, command)),
            Self::Gift { .. } | Self::Account(_) => None,
        }
    }

    /// The player, the user or the key, or the gift, which has the ref of its request.
    #[must_use]
    pub fn subject_of<'a>(&'a self, reference: &'a CreditRef) -> &'a str {
        match self {
            Self::Gift { .. } => reference.as_str(),
            Self::Wallet { open_id, .. } => open_id.as_str(),
            Self::Account(change) => change.account(),
        }
    }

    /// The reason of whoever asked. Empty for a change of a user or a key.
    #[must_use]
    pub fn note(&self) -> &str {
        match self {
            Self::Wallet { command, .. } => command.note(),
            Self::Gift { reason, .. } => reason,
            Self::Account(_) => "",
        }
    }

    /// Whether it is a change of this wallet by the same command.
    #[must_use]
    pub fn is_of(&self, player: &OpenId, wanted: &WalletCommand) -> bool {
        match self {
            Self::Wallet { open_id, command, .. } => {
                open_id == player && command.content() == wanted.content()
            }
            Self::Gift { .. } | Self::Account(_) => false,
        }
    }
}

impl Store {
    /// Asks a second person for a gift. The same list is the same request, whatever became of it.
    ///
    /// # Errors
    /// There is no such gift, or the database is away.
    pub async fn ask_for_gift(
        &self,
        operator: &Operator,
        app_id: &AppId,
        name: &CreditRef,
    ) -> Result<ChangeRequest, OperationError> {
        let gift = self.gift(app_id, name).await?.ok_or_else(|| unknown_gift(app_id, name))?;
        let change = RequestedChange::Gift {
            app_id: app_id.clone(),
            free: gift.free,
            charge: gift.charge,
            create: gift.create,
            reason: gift.reason,
        };
        let request = self.ask(operator, name, change).await?;
        let is_gift = matches!(request.change, RequestedChange::Gift { .. });
        if is_gift { Ok(request) } else { Err(ref_used(name).into()) }
    }

    /// Asks for a change of this player's wallet, and returns its request. The same change under the same ref is the same
    /// request, whatever became of it.
    ///
    /// # Errors
    /// There is no such app, the ref has a request for another change, or the database is away.
    pub async fn ask_for_change(
        &self,
        operator: &Operator,
        app_id: &AppId,
        open_id: &OpenId,
        command: WalletCommand,
    ) -> Result<ChangeRequest, OperationError> {
        if !app_exists(&self.pool, app_id).await? {
            return Err(unknown_app(app_id).into());
        }
        let reference = command.reference().clone();
        let give_back_max = command.given_back().and(operator.give_back_max());
        let (app, player, wanted) = (app_id.clone(), open_id.clone(), command.clone());
        let change = RequestedChange::Wallet { app_id: app, open_id: player, command, give_back_max };
        let request = self.ask(operator, &reference, change).await?;
        if request.change.is_of(open_id, &wanted) { Ok(request) } else { Err(ref_used(&reference).into()) }
    }

    /// Asks for a change of a user or an API key. Each gets a ref of its own.
    ///
    /// # Errors
    /// The change does not fit what is there, the same one waits already, or the database is away.
    pub async fn ask_for_account_change(
        &self,
        operator: &Operator,
        change: AccountChange,
    ) -> Result<ChangeRequest, OperationError> {
        let reference = CreditRef::parse(&format!("account-{}", hex::encode(random_bytes::<8>())));
        let reference = reference.map_err(|_| StoreError::Internal("a ref that is none".to_owned()))?;
        self.ask(operator, &reference, RequestedChange::Account(change)).await
    }

    pub(crate) async fn ask(
        &self,
        operator: &Operator,
        reference: &CreditRef,
        change: RequestedChange,
    ) -> Result<ChangeRequest, OperationError> {
        let app_id = change.app_id().to_owned();
        let context = (operator.clone(), reference.clone(), change);
        self.transaction(context, |connection, (operator, reference, change)| {
            Box::pin(ask::insert(connection, operator, reference, change))
        })
        .await?;
        let request = self.change_request(&app_id, reference).await?;
        Ok(request.ok_or_else(|| StoreError::damaged("console_requests"))?)
    }

    /// The request with this ref. The id of the app is empty for a change of a user or a key.
    pub async fn change_request(&self, app_id: &str, reference: &CreditRef) -> Result<Option<ChangeRequest>> {
        let row = requests!("WHERE app_id = $2 AND ref = $3", app_id, reference.as_str());
        row.fetch_optional(&self.pool).await?.map(ChangeRequestRow::request).transpose()
    }

    /// The requests of these apps that wait, newest first, at most 1,000.
    pub async fn waiting_change_requests(&self, apps: &Apps) -> Result<Vec<ChangeRequest>> {
        let rows = requests!(
            "WHERE state = 'waiting' AND asked_at > now() - make_interval(days => $1)
               AND ($3::text[] IS NULL OR app_id = ANY ($3))
             ORDER BY asked_at DESC, app_id, ref LIMIT $2",
            LISTED_MAX,
            apps.ids()
        );
        rows.fetch_all(&self.pool).await?.into_iter().map(ChangeRequestRow::request).collect()
    }

    /// The newest requests of these apps that have ended, at most `limit`: by the time when they were asked.
    pub async fn ended_change_requests(&self, apps: &Apps, limit: u32) -> Result<Vec<ChangeRequest>> {
        let rows = requests!(
            "WHERE (state <> 'waiting' OR asked_at <= now() - make_interval(days => $1))
               AND ($3::text[] IS NULL OR app_id = ANY ($3))
             ORDER BY asked_at DESC, app_id, ref LIMIT $2",
            i64::from(limit),
            apps.ids()
        );
        rows.fetch_all(&self.pool).await?.into_iter().map(ChangeRequestRow::request).collect()
    }
}
