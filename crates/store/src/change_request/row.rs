//! Rows of `console_requests`.

use domain::console_user::{ConsoleUserName, PasswordHash};
use domain::fields::Expected;
use domain::ids::{ApiKeyName, AppId, BizNo, CreditRef, OpenId};
use domain::ledger::ReferenceKind;
use domain::operation::account::{AccountChange, AccountChangeKind};
use domain::operation::key::NewApiKey;
use domain::operation::wallet::{Credit, Debit, GiveBack, WalletCommand};
use domain::rights::Rights;
use domain::wallet::Amount;
use time::OffsetDateTime;

use super::{ChangeRequest, RequestState, RequestedChange};
use crate::error::{Result, StoreError};

/// A request waits for this long.
pub(super) const WAITS_DAYS: i32 = 7;

/// The kind of a gift.
const GIFT: &str = "gift";

/// A row of `console_requests`.
pub(super) struct ChangeRequestRow {
    pub(super) app_id: String,
    pub(super) reference: String,
    pub(super) kind: String,
    pub(super) open_id: String,
    pub(super) free: i64,
    pub(super) charge: i64,
    pub(super) create_wallet: bool,
    pub(super) of_biz_no: Option<String>,
    pub(super) amount: Option<i64>,
    pub(super) reason: String,
    pub(super) asked_by: String,
    pub(super) asked_at: OffsetDateTime,
    pub(super) ends_at: OffsetDateTime,
    pub(super) state: String,
    pub(super) ended_by: Option<String>,
    pub(super) ended_at: Option<OffsetDateTime>,
    pub(super) give_back_max: Option<i64>,
    pub(super) account: Option<String>,
    pub(super) role: Option<String>,
    pub(super) apps: Option<Vec<String>>,
    pub(super) secret: Option<String>,
    pub(super) second_person_above: Option<i64>,
}

impl ChangeRequestRow {
    pub(super) fn request(self) -> Result<ChangeRequest> {
        self.parse().map_err(|_| StoreError::damaged("console_requests"))
    }

    fn parse(self) -> Result<ChangeRequest, Expected> {
        let change = match &self.account {
            Some(account) => RequestedChange::Account(self.account_change(account)?),
            None if self.kind == GIFT => self.gift()?,
            None => self.wallet_change()?,
        };
        Ok(ChangeRequest {
            reference: CreditRef::stored(&self.reference)?,
            change,
            asked_by: self.asked_by,
            asked_at: self.asked_at,
            ends_at: self.ends_at,
            state: RequestState::parse(&self.state)?,
            ended_by: self.ended_by,
            ended_at: self.ended_at,
        })
    }

    fn gift(&self) -> Result<RequestedChange, Expected> {
        let (free, charge, create, reason) =
            (self.free, self.charge, self.create_wallet, self.reason.clone());
        Ok(RequestedChange::Gift { app_id: AppId::parse(&self.app_id)?, free, charge, create, reason })
    }

    fn wallet_change(&self) -> Result<RequestedChange, Expected> {
        let (free, charge, create, note) = (self.free, self.charge, self.create_wallet, self.reason.clone());
        let (open_id, reference) = (OpenId::parse(&self.open_id)?, CreditRef::stored(&self.reference)?);
        let player = open_id.clone();
        let command: WalletCommand = match ReferenceKind::parse(&self.kind)? {
            ReferenceKind::Credit => Credit { open_id: player, free, charge, reference, note, create }.into(),
            ReferenceKind::Debit => Debit { open_id: player, free, charge, reference, note }.into(),
            ReferenceKind::Cancel => {
                let biz_no = BizNo::parse(self.of_biz_no.as_deref().unwrap_or_default())?;
                let amount = Amount::parse(&self.amount.unwrap_or_default().to_string())?;
                GiveBack { biz_no, amount, reference, note }.into()
            }
            ReferenceKind::Exchange
            | ReferenceKind::Present
            | ReferenceKind::Closed
            | ReferenceKind::TopupOrder
            | ReferenceKind::Topup
            | ReferenceKind::Refund
            | ReferenceKind::Settlement => {
                return Err(Expected::one_of(&["credit", "debit", "cancel"]));
            }
        };
        let (app_id, give_back_max) = (AppId::parse(&self.app_id)?, self.give_back_max);
        Ok(RequestedChange::Wallet { app_id, open_id, command, give_back_max })
    }

    /// The secret is gone when the request has ended.
    fn account_change(&self, account: &str) -> Result<AccountChange, Expected> {
        let rights = || {
            Rights::stored(self.role.as_deref().unwrap_or_default(), self.apps.as_deref().unwrap_or_default())
        };
        let secret = self.secret.clone().unwrap_or_default();
        Ok(match AccountChangeKind::parse(&self.kind)? {
            AccountChangeKind::AddUser => {
                let name = ConsoleUserName::parse(account)?;
                AccountChange::AddUser(name, rights()?, PasswordHash::kept(secret))
            }
            AccountChangeKind::SetRights => {
                AccountChange::SetRights(ConsoleUserName::parse(account)?, rights()?)
            }
            AccountChangeKind::ResetSecondFactor => {
                AccountChange::ResetSecondFactor(ConsoleUserName::parse(account)?)
            }
            AccountChangeKind::CreateKey => {
                let mut hash = [0; 32];
                let is_gone = secret.is_empty();
                if !is_gone && hex::decode_to_slice(&secret, &mut hash).is_err() {
                    return Err(Expected::one_of(&["a hash"]));
                }
                let (name, rights) = (ApiKeyName::parse(account)?, rights()?);
                let alone_max = self.second_person_above;
                AccountChange::CreateKey(NewApiKey { name, rights, alone_max }, hash)
            }
        })
    }
}

/// The query for requests. `$rest` is its condition, with parameters from the second on; the first are the days that a
/// request waits.
macro_rules! requests {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query_as!(
            $crate::change_request::row::ChangeRequestRow,
            r#"SELECT app_id, ref AS reference, kind, open_id, free, charge, create_wallet, of_biz_no, amount, reason,
                   asked_by, asked_at, asked_at + make_interval(days => $1) AS "ends_at!",
                   CASE WHEN state = 'waiting' AND asked_at <= clock_timestamp() - make_interval(days => $1) THEN 'ended'
                       ELSE state END AS "state!", ended_by, ended_at, give_back_max, account, role, apps, secret,
                   second_person_above
               FROM console_requests "# + $rest,
            $crate::change_request::row::WAITS_DAYS
            $(, $parameter)*
        )
    };
}
pub(super) use requests;
