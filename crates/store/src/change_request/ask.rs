//! Stores a request with its line in the operator's log.

use domain::ids::{AppId, CreditRef, OpenId};
use domain::operation::account::{AccountChange, already_asked};
use domain::operation::key::key_taken;
use domain::operation::user::{unknown_user, user_taken};
use domain::operation::wallet::WalletCommand;
use domain::operator::Operator;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::row::WAITS_DAYS;
use super::{RequestState, RequestedChange};
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};

/// Stores a request, unless the ref has one.
pub(super) async fn insert(
    connection: &mut PgConnection,
    operator: &Operator,
    reference: &CreditRef,
    change: &RequestedChange,
) -> Result<(), OperationError> {
    let is_new = match change {
        RequestedChange::Wallet { app_id, open_id, command, give_back_max } => {
            let of = (open_id, command, *give_back_max);
            insert_wallet(connection, operator, (app_id, reference), of).await?
        }
        RequestedChange::Gift { app_id, free, charge, create, reason } => {
            let sums = (*free, *charge);
            insert_gift(connection, operator, (app_id, reference), sums, (*create, reason)).await?
        }
        RequestedChange::Account(change) => {
            check(connection, change).await?;
            insert_account(connection, operator, reference, change).await?;
            true
        }
    };
    if !is_new {
        return Ok(());
    }
    let line = LogLine::new(operator, OperatorAction::ChangeRequestAsk, change.subject_of(reference));
    let line = line.of_app_if_any(change.app());
    let after = shown(reference, change, RequestState::Waiting, operator.name());
    Ok(line.after(after).note(change.note()).record(connection).await?)
}

/// Stores a change of a wallet. `false` when the ref has a request.
async fn insert_wallet(
    connection: &mut PgConnection,
    operator: &Operator,
    (app_id, reference): (&AppId, &CreditRef),
    (open_id, command, give_back_max): (&OpenId, &WalletCommand, Option<i64>),
) -> Result<bool> {
    let (free, charged) = command.purses().unwrap_or_default();
    let (of, amount) = command.given_back().map(|(biz_no, amount)| (biz_no.as_str(), amount.get())).unzip();
    let asked = sqlx::query!(
        "INSERT INTO console_requests
             (app_id, ref, kind, open_id, free, charge, create_wallet, of_biz_no, amount, reason, asked_by,
              give_back_max)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (app_id, ref) DO NOTHING",
        app_id.as_str(),
        reference.as_str(),
        command.kind().as_str(),
        open_id.as_str(),
        free,
        charged,
        command.makes_known(),
        of,
        amount,
        command.note(),
        operator.name(),
        give_back_max
    );
    Ok(asked.execute(connection).await?.rows_affected() == 1)
}

/// Stores a gift. `false` when it has a request.
async fn insert_gift(
    connection: &mut PgConnection,
    operator: &Operator,
    (app_id, reference): (&AppId, &CreditRef),
    (free, charge): (i64, i64),
    (create, reason): (bool, &str),
) -> Result<bool> {
    let asked = sqlx::query!(
        "INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by)
         VALUES ($1, $2, 'gift', '', $3, $4, $5, $6, $7) ON CONFLICT (app_id, ref) DO NOTHING",
        app_id.as_str(),
        reference.as_str(),
        free,
        charge,
        create,
        reason,
        operator.name()
    );
    Ok(asked.execute(connection).await?.rows_affected() == 1)
}

/// Refuses what could not be confirmed now.
async fn check(connection: &mut PgConnection, change: &AccountChange) -> Result<(), OperationError> {
    let account = change.account();
    let known = sqlx::query!(
        r#"SELECT EXISTS (SELECT 1 FROM console_users WHERE name = $1) AS "user!",
               EXISTS (SELECT 1 FROM api_keys WHERE name = $1) AS "key!",
               EXISTS (SELECT 1 FROM console_requests WHERE account = $1 AND kind = $2 AND state = 'waiting'
                   AND asked_at > clock_timestamp() - make_interval(days => $3)) AS "asked!""#,
        account,
        change.kind().as_str(),
        WAITS_DAYS
    );
    let known = known.fetch_one(connection).await.map_err(StoreError::from)?;
    match change {
        AccountChange::AddUser(..) if known.user => Err(user_taken(account).into()),
        AccountChange::SetRights(..) | AccountChange::ResetSecondFactor(_) if !known.user => {
            Err(unknown_user(account).into())
        }
        AccountChange::CreateKey(..) if known.key => Err(key_taken(account).into()),
        _ if known.asked => Err(already_asked(account).into()),
        _ => Ok(()),
    }
}

async fn insert_account(
    connection: &mut PgConnection,
    operator: &Operator,
    reference: &CreditRef,
    change: &AccountChange,
) -> Result<()> {
    let (role, apps) = change.rights().map(|rights| (rights.role.as_str(), rights.apps.listed())).unzip();
    let secret = match change {
        AccountChange::AddUser(_, _, password) => Some(password.as_str().to_owned()),
        AccountChange::CreateKey(_, hash) => Some(hex::encode(hash)),
        AccountChange::SetRights(..) | AccountChange::ResetSecondFactor(_) => None,
    };
    sqlx::query!(
        "INSERT INTO console_requests
             (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by, account, role, apps, secret,
              second_person_above)
         VALUES ('', $1, $2, '', 0, 0, false, $3, $4, $5, $6, $7, $8, $9)",
        reference.as_str(),
        change.kind().as_str(),
        operator.reason(),
        operator.name(),
        change.account(),
        role,
        apps,
        secret,
        change.alone_max()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// A request in the operator's log.
pub(super) fn shown(
    reference: &CreditRef,
    change: &RequestedChange,
    state: RequestState,
    asked_by: &str,
) -> Value {
    let mut shown = json!({ "ref": reference.as_str(), "state": state, "asked_by": asked_by });
    match change {
        RequestedChange::Wallet { command, .. } => {
            shown["kind"] = command.kind().as_str().into();
            if let Some((free, charge)) = command.purses() {
                shown["free"] = free.into();
                shown["charge"] = charge.into();
            }
            if let Some((biz_no, amount)) = command.given_back() {
                shown["biz_no"] = biz_no.as_str().into();
                shown["amount"] = amount.get().into();
            }
        }
        RequestedChange::Gift { free, charge, .. } => {
            shown["kind"] = "gift".into();
            shown["free"] = (*free).into();
            shown["charge"] = (*charge).into();
        }
        RequestedChange::Account(change) => {
            shown["kind"] = change.kind().as_str().into();
            if let Some(rights) = change.rights() {
                shown["role"] = rights.role.as_str().into();
                shown["apps"] = json!(rights.apps.listed());
            }
            if let Some(max) = change.alone_max() {
                shown["second_person_above"] = max.into();
            }
        }
    }
    shown
}
