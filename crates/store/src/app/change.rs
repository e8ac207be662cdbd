//! What operators change of an app. Each change and its line in the operator's log are one
//! transaction; what changes nothing leaves no line.

use std::sync::Arc;

use domain::app::AppLimits;
use domain::ids::AppId;
use domain::operator::Operator;
use serde_json::json;
use sqlx::PgConnection;

use super::keys::insert_pay_key;
use super::{NewApp, NewAppSecrets};
use crate::operator_log::{Action, Line, record, record_and_tell, told};
use crate::secrets::random_key_text;
use crate::{Store, StoreError, Work};

/// A change of an app that is under way.
pub(super) struct Change<T> {
    operator: Operator,
    pub(super) app_id: AppId,
    pub(super) to: T,
}

impl<T> Change<T> {
    pub(super) fn new(operator: &Operator, app_id: &AppId, to: T) -> Arc<Self> {
        Arc::new(Self { operator: operator.clone(), app_id: app_id.clone(), to })
    }

    /// Its line, about the app itself and without what was before and after.
    pub(super) fn line(&self, action: Action) -> Line<'_> {
        Line {
            operator: &self.operator,
            action,
            app_id: Some(&self.app_id),
            subject: self.app_id.as_str(),
            before: None,
            after: None,
            note: "",
        }
    }
}

impl Store {
    /// Makes an app with fresh secrets; `None` when the id is taken.
    ///
    /// # Errors
    /// The database is away.
    pub async fn create_app(
        &self,
        operator: &Operator,
        app: NewApp,
    ) -> Result<Option<NewAppSecrets>, StoreError> {
        let secrets = NewAppSecrets {
            app_id: app.id.to_string(),
            app_secret: random_key_text(),
            pay_key: random_key_text(),
        };
        let app_id = app.id.clone();
        let change = Change::new(operator, &app_id, (app, secrets.clone()));
        let store = self.clone();
        let made: Result<bool, StoreError> = self
            .transaction(move |connection| {
                let (store, change) = (store.clone(), Arc::clone(&change));
                Box::pin(async move {
                    let (app, secrets) = &change.to;
                    let key = store.encrypting_key(connection).await?;
                    if !insert_app(connection, app, &key.seal(&app.id, &secrets.app_secret)).await? {
                        return Ok(false);
                    }
                    insert_pay_key(connection, &app.id, 1, &key.seal(&app.id, &secrets.pay_key)).await?;
                    let after = json!({
                        "name": app.name, "category": app.category, "scopes": app.scopes,
                        "sandbox": app.sandbox, "preorder_check": app.preorder_check,
                    });
                    let line = Line { after: Some(after), ..change.line(Action::AppCreate) };
                    let told = told([
                        ("app_id", secrets.app_id.as_str().into()),
                        ("app_secret", secrets.app_secret.as_str().into()),
                        ("pay_key", secrets.pay_key.as_str().into()),
                    ]);
                    record_and_tell(connection, line, told).await?;
                    Ok(true)
                })
            })
            .await;
        Ok(made?.then_some(secrets))
    }

    /// Suspends an app or lets it go on; `false` when there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_suspended(
        &self,
        operator: &Operator,
        app_id: &AppId,
        suspended: bool,
    ) -> Result<bool, StoreError> {
        self.change_app(Change::new(operator, app_id, suspended), |connection, change, app| {
            Box::pin(async move {
                if app.suspended == change.to {
                    return Ok(());
                }
                sqlx::query!(
                    "UPDATE apps SET suspended_at = CASE WHEN $2 THEN now() END WHERE app_id = $1",
                    change.app_id.as_str(),
                    change.to
                )
                .execute(&mut *connection)
                .await?;
                let action = if change.to { Action::AppSuspend } else { Action::AppResume };
                let (before, after) =
                    (json!({ "suspended": app.suspended }), json!({ "suspended": change.to }));
                let line = Line { before: Some(before), after: Some(after), ..change.line(action) };
                record(connection, line).await
            })
        })
        .await
    }

    /// Gives an app its own limits; `false` when there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_limits(
        &self,
        operator: &Operator,
        app_id: &AppId,
        limits: AppLimits,
    ) -> Result<bool, StoreError> {
        self.change_app(Change::new(operator, app_id, limits), |connection, change, app| {
            Box::pin(async move {
                if app.limits == change.to {
                    return Ok(());
                }
                update_limits(connection, &change.app_id, &change.to).await?;
                let (before, after) = (json!(app.limits), json!(change.to));
                let line = Line { before: Some(before), after: Some(after), ..change.line(Action::AppLimit) };
                record(connection, line).await
            })
        })
        .await
    }

    /// Runs a change of an app under the lock of its row, in one transaction; `false` when there is
    /// no such app.
    pub(super) async fn change_app<T: Send + Sync + 'static>(
        &self,
        change: Arc<Change<T>>,
        write: for<'c> fn(&'c mut PgConnection, &'c Change<T>, LockedApp) -> Work<'c, (), StoreError>,
    ) -> Result<bool, StoreError> {
        Ok(self.change_app_to(change, write).await?.is_some())
    }

    /// The same, and gives what the change came to; `None` when there is no such app.
    pub(super) async fn change_app_to<T: Send + Sync + 'static, R: Send + 'static>(
        &self,
        change: Arc<Change<T>>,
        write: for<'c> fn(&'c mut PgConnection, &'c Change<T>, LockedApp) -> Work<'c, R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        self.transaction(move |connection| {
            let change = Arc::clone(&change);
            Box::pin(async move {
                let Some(app) = lock_app(connection, &change.app_id).await? else { return Ok(None) };
                write(connection, &change, app).await.map(Some)
            })
        })
        .await
    }
}

/// What may change of an app, as it stands until the end of the transaction.
pub(super) struct LockedApp {
    suspended: bool,
    limits: AppLimits,
}

async fn lock_app(connection: &mut PgConnection, app_id: &AppId) -> Result<Option<LockedApp>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT suspended_at IS NOT NULL AS "suspended!", exchanges_per_second, reports_per_second,
                  uploads_per_second, tokens_per_second
           FROM apps WHERE app_id = $1 FOR UPDATE"#,
        app_id.as_str()
    )
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        let limits = super::limits_of_columns(
            row.exchanges_per_second,
            row.reports_per_second,
            row.uploads_per_second,
            row.tokens_per_second,
        )?;
        Ok(LockedApp { suspended: row.suspended, limits })
    })
    .transpose()
}

/// `false` when the id is taken.
async fn insert_app(
    connection: &mut PgConnection,
    app: &NewApp,
    sealed_secret: &[u8],
) -> Result<bool, StoreError> {
    let made = sqlx::query!(
        "INSERT INTO apps (app_id, name, category, scopes, sandbox, preorder_check, app_secret)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        app.id.as_str(),
        app.name,
        app.category.as_str(),
        &app.scopes,
        app.sandbox,
        app.preorder_check,
        sealed_secret
    )
    .execute(connection)
    .await?;
    Ok(made.rows_affected() == 1)
}

async fn update_limits(
    connection: &mut PgConnection,
    app_id: &AppId,
    limits: &AppLimits,
) -> Result<(), StoreError> {
    let column = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
    sqlx::query!(
        "UPDATE apps SET exchanges_per_second = $2, reports_per_second = $3, uploads_per_second = $4,
                tokens_per_second = $5 WHERE app_id = $1",
        app_id.as_str(),
        column(limits.exchanges_per_second),
        column(limits.reports_per_second),
        column(limits.uploads_per_second),
        column(limits.tokens_per_second)
    )
    .execute(connection)
    .await?;
    Ok(())
}
