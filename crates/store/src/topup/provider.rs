//! Payment providers whose callbacks an app takes, with the secrets that sign them (contract 19.4).

use std::sync::Arc;

use domain::ids::AppId;
use domain::operation::topup::{PROVIDERS_MAX, ProviderCommand, too_many_providers, unknown_provider};
use domain::operation::unknown_app;
use domain::operator::Operator;
use domain::topup::{CallbackFormat, CallbackProvider, CallbackSecret, PaymentProvider};
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app::app_exists;
use crate::error::{OperationError, Result, StoreError};
use crate::look_up_cache::KeyIs;
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;

/// A payment provider of an app, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TopupProvider {
    /// The provider.
    #[schemars(with = "PaymentProvider")]
    pub provider: String,
    /// Format and signature of its callbacks.
    #[schemars(with = "CallbackFormat")]
    pub format: String,
    /// When format and secret were set.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub set_at: OffsetDateTime,
    /// Until when the secret before is valid too. `null` where none is.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub former_until: Option<OffsetDateTime>,
}

impl Store {
    /// The provider whose callbacks this app takes under this name, with the secrets that are valid. `None` where there is
    /// none.
    pub async fn callback_provider(
        &self,
        app_id: &AppId,
        provider: &PaymentProvider,
    ) -> Result<Option<Arc<CallbackProvider>>> {
        let key = (app_id.clone(), provider.clone());
        let look_up = |key_is| {
            let (store, (app_id, provider)) = (self.clone(), key.clone());
            async move {
                let found = store.look_up(store.load_provider(key_is, &app_id, provider)).await?;
                Ok(found.map(Arc::new))
            }
        };
        let providers = &self.app_cache.providers;
        providers.get_or(&key, self.clock.monotonic(), self.look_up_within(), look_up).await
    }

    async fn load_provider(
        &self,
        key_is: KeyIs,
        app_id: &AppId,
        provider: PaymentProvider,
    ) -> Result<Option<CallbackProvider>> {
        let row = sqlx::query!(
            "SELECT format, secret, CASE WHEN former_until > now() THEN former_secret END AS former_secret
             FROM topup_providers WHERE app_id = $1 AND provider = $2",
            app_id.as_str(),
            provider.as_str()
        );
        let row = match key_is {
            KeyIs::Known => row.fetch_optional(&self.public_pool).await?,
            KeyIs::New => row.fetch_optional(&mut *self.guest_pool.session().await?).await?,
        };
        let Some(row) = row else { return Ok(None) };
        let format =
            CallbackFormat::parse(&row.format).map_err(|_| StoreError::damaged("topup_providers"))?;
        let sealed: Vec<_> = [row.secret].into_iter().chain(row.former_secret).collect();
        let opened = self.open_secrets(app_id, &sealed).await?;
        let secrets = opened.iter().map(|text| CallbackSecret::kept(text)).collect();
        Ok(Some(CallbackProvider { provider, format, secrets }))
    }

    /// The providers of an app, by name.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn topup_providers(&self, app_id: &AppId) -> Result<Vec<TopupProvider>, OperationError> {
        let rows = sqlx::query_as!(
            TopupProvider,
            r#"SELECT provider, format, set_at, CASE WHEN former_until > now() THEN former_until END AS "former_until?"
               FROM topup_providers WHERE app_id = $1 ORDER BY provider"#,
            app_id.as_str()
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(StoreError::from)?;
        if rows.is_empty() && !app_exists(&mut *self.pool.acquire().await?, app_id).await? {
            return Err(unknown_app(app_id).into());
        }
        Ok(rows)
    }

    /// Sets or removes a provider. `None` once it is removed. The secret before a new one is valid for a day more. What is
    /// set already changes nothing.
    ///
    /// # Errors
    /// There is no such app or provider, the app has many already, or the database is away.
    pub async fn change_topup_provider(
        &self,
        operator: &Operator,
        app_id: &AppId,
        provider: &PaymentProvider,
        command: ProviderCommand,
    ) -> Result<Option<TopupProvider>, OperationError> {
        let update = ProviderUpdate {
            store: self.clone(),
            operator: operator.clone(),
            app_id: app_id.clone(),
            provider: provider.clone(),
        };
        self.transaction((update, command), |connection, (update, command)| {
            Box::pin(async move {
                match command {
                    ProviderCommand::Set(format, secret) => {
                        update.set(connection, *format, secret).await.map(Some)
                    }
                    ProviderCommand::Remove => update.remove(connection).await.map(|()| None),
                }
            })
        })
        .await
    }
}

/// The transaction of a command to a provider.
struct ProviderUpdate {
    store: Store,
    operator: Operator,
    app_id: AppId,
    provider: PaymentProvider,
}

impl ProviderUpdate {
    async fn set(
        &self,
        connection: &mut PgConnection,
        format: CallbackFormat,
        secret: &CallbackSecret,
    ) -> Result<TopupProvider, OperationError> {
        self.lock_app(connection).await?;
        let key = self.store.encrypting_key(&mut *connection).await?;
        let before = sqlx::query!(
            "SELECT format, secret FROM topup_providers WHERE app_id = $1 AND provider = $2",
            self.app_id.as_str(),
            self.provider.as_str()
        );
        let before = before.fetch_optional(&mut *connection).await.map_err(StoreError::from)?;
        if before.is_none() && self.count(connection).await? >= PROVIDERS_MAX {
            return Err(too_many_providers().into());
        }
        if let Some(before) = &before {
            let opened = self.store.open_secrets(&self.app_id, std::slice::from_ref(&before.secret)).await?;
            if before.format == format.as_str() && opened == [secret.expose()] {
                return self.read(connection).await;
            }
        }
        sqlx::query!(
            "INSERT INTO topup_providers AS p (app_id, provider, format, secret) VALUES ($1, $2, $3, $4)
             ON CONFLICT (app_id, provider) DO UPDATE SET format = excluded.format, secret = excluded.secret,
                 former_secret = CASE WHEN p.format = excluded.format THEN p.secret END,
                 former_until = CASE WHEN p.format = excluded.format THEN now() + interval '24 hours' END, set_at = now()",
            self.app_id.as_str(),
            self.provider.as_str(),
            format.as_str(),
            key.seal(&self.app_id, secret.expose())
        )
        .execute(&mut *connection)
        .await
        .map_err(StoreError::from)?;
        let report = self.read(connection).await?;
        let line = self.line(OperatorAction::TopupProviderSet);
        let line = line.before(before.map(|before| json!({ "format": before.format })));
        line.after(json!({ "format": format.as_str() })).answer(&report).record(connection).await?;
        Ok(report)
    }

    async fn remove(&self, connection: &mut PgConnection) -> Result<(), OperationError> {
        self.lock_app(connection).await?;
        let removed = sqlx::query_scalar!(
            "DELETE FROM topup_providers WHERE app_id = $1 AND provider = $2 RETURNING format",
            self.app_id.as_str(),
            self.provider.as_str()
        );
        let removed = removed.fetch_optional(&mut *connection).await.map_err(StoreError::from)?;
        let format = removed.ok_or_else(|| unknown_provider(&self.app_id, &self.provider))?;
        let line = self.line(OperatorAction::TopupProviderRemove).before(json!({ "format": format }));
        Ok(line.record(connection).await?)
    }

    /// Commands to the providers of an app take turns.
    async fn lock_app(&self, connection: &mut PgConnection) -> Result<(), OperationError> {
        let app =
            sqlx::query_scalar!("SELECT 1 FROM apps WHERE app_id = $1 FOR UPDATE", self.app_id.as_str());
        let app = app.fetch_optional(connection).await.map_err(StoreError::from)?;
        app.map(drop).ok_or_else(|| unknown_app(&self.app_id).into())
    }

    async fn count(&self, connection: &mut PgConnection) -> Result<usize> {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM topup_providers WHERE app_id = $1"#,
            self.app_id.as_str()
        );
        Ok(usize::try_from(count.fetch_one(connection).await?).unwrap_or(usize::MAX))
    }

    async fn read(&self, connection: &mut PgConnection) -> Result<TopupProvider, OperationError> {
        let row = sqlx::query_as!(
            TopupProvider,
            r#"SELECT provider, format, set_at, CASE WHEN former_until > now() THEN former_until END AS "former_until?"
               FROM topup_providers WHERE app_id = $1 AND provider = $2"#,
            self.app_id.as_str(),
            self.provider.as_str()
        );
        Ok(row.fetch_one(connection).await.map_err(StoreError::from)?)
    }

    fn line(&self, action: OperatorAction) -> LogLine<'_> {
        LogLine::new(&self.operator, action, self.provider.as_str()).of_app(&self.app_id)
    }
}
