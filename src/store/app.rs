//! Apps, their keys, packages, points of interest and pre-orders: what the operator keeps.

use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Store, StoreError};
use crate::domain::fields::Expected;
use crate::domain::ids::{AppId, OrderNo, PackageVersion, PagePath, PoiId};
use crate::secrets::random_key_text;

/// What an app sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Anything else.
    #[default]
    General,
    /// Local life: product id, catalog code and city are required in reports.
    LocalLife,
}

impl Category {
    /// The word in the database and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::LocalLife => "local_life",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        match text {
            "general" => Ok(Self::General),
            "local_life" => Ok(Self::LocalLife),
            _ => Err(Expected::new("general or local_life")),
        }
    }
}

/// An app's own limits in requests a second; `None` takes the setting, 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AppLimits {
    /// Exchanges.
    pub exchanges_per_second: Option<u32>,
    /// Order reports.
    pub reports_per_second: Option<u32>,
    /// Image uploads, both ways together.
    pub uploads_per_second: Option<u32>,
    /// Token requests.
    pub tokens_per_second: Option<u32>,
}

impl AppLimits {
    pub(super) fn from_columns(
        exchanges: Option<i32>,
        reports: Option<i32>,
        uploads: Option<i32>,
        tokens: Option<i32>,
    ) -> Result<Self, StoreError> {
        let limit = |column: Option<i32>| {
            column.map(u32::try_from).transpose().map_err(|_| StoreError::damaged("apps.*_per_second"))
        };
        Ok(Self {
            exchanges_per_second: limit(exchanges)?,
            reports_per_second: limit(reports)?,
            uploads_per_second: limit(uploads)?,
            tokens_per_second: limit(tokens)?,
        })
    }
}

/// An app to be made.
#[derive(Debug, Clone)]
pub struct NewApp {
    /// Its id.
    pub id: AppId,
    /// For people.
    pub name: String,
    /// General or local life.
    pub category: Category,
    /// Permission scopes.
    pub scopes: Vec<String>,
    /// Sandbox mode.
    pub sandbox: bool,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: bool,
}

/// The secrets of a new app, shown once.
#[derive(Debug, Clone, Serialize)]
pub struct NewAppSecrets {
    /// The app.
    pub app_id: String,
    /// For token requests.
    pub app_secret: String,
    /// For signing exchanges.
    pub pay_key: String,
}

/// An app as the operator sees it; no secrets.
#[derive(Debug, Clone, Serialize)]
pub struct AppSummary {
    /// Its id.
    pub app_id: String,
    /// For people.
    pub name: String,
    /// `general` or `local_life`.
    pub category: String,
    /// Permission scopes.
    pub scopes: Vec<String>,
    /// Sandbox mode.
    pub sandbox: bool,
    /// Whether reports must name a registered pre-order.
    pub preorder_check: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Own limits.
    pub limits: AppLimits,
    /// Version of the latest published package.
    pub package_version: Option<String>,
    /// Its pages.
    pub pages: Vec<String>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Store {
    /// Makes an app with fresh secrets; `None` when the id is taken.
    ///
    /// # Errors
    /// The database is away.
    pub async fn create_app(&self, app: NewApp) -> Result<Option<NewAppSecrets>, StoreError> {
        let keyring = self.directory.keyring()?;
        let (app_secret, pay_key) = (random_key_text(), random_key_text());
        let sealed_secret = keyring.seal(&app.id, &app_secret);
        let sealed_key = keyring.seal(&app.id, &pay_key);
        let app_id = app.id.to_string();
        let made = self
            .transaction(move |connection| {
                let (app, sealed_secret, sealed_key) =
                    (app.clone(), sealed_secret.clone(), sealed_key.clone());
                Box::pin(async move { insert_app(connection, &app, &sealed_secret, &sealed_key).await })
            })
            .await?;
        Ok(made.then_some(NewAppSecrets { app_id, app_secret, pay_key }))
    }

    /// Every app, or the one asked for.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list_apps(&self, only: Option<&AppId>) -> Result<Vec<AppSummary>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT app_id, name, category, scopes, sandbox, preorder_check,
                      suspended_at IS NOT NULL AS "suspended!", created_at,
                      exchanges_per_second, reports_per_second, uploads_per_second, tokens_per_second,
                      latest.version AS "version?", latest.pages AS "pages?"
               FROM apps LEFT JOIN LATERAL (
                   SELECT version, pages FROM packages WHERE packages.app_id = apps.app_id
                   ORDER BY published_at DESC, version DESC LIMIT 1) AS latest ON true
               WHERE $1::text IS NULL OR app_id = $1 ORDER BY app_id"#,
            only.map(AppId::as_str)
        )
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(AppSummary {
                    app_id: row.app_id,
                    name: row.name,
                    category: row.category,
                    scopes: row.scopes,
                    sandbox: row.sandbox,
                    preorder_check: row.preorder_check,
                    suspended: row.suspended,
                    limits: AppLimits::from_columns(
                        row.exchanges_per_second,
                        row.reports_per_second,
                        row.uploads_per_second,
                        row.tokens_per_second,
                    )?,
                    package_version: row.version,
                    pages: row.pages.unwrap_or_default(),
                    created_at: row.created_at,
                })
            })
            .collect()
    }

    /// Suspends an app or lets it go on; `false` when there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_suspended(&self, app_id: &AppId, suspended: bool) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "UPDATE apps SET suspended_at = CASE WHEN $2 THEN coalesce(suspended_at, now()) END WHERE app_id = $1",
            app_id.as_str(),
            suspended
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Gives an app its own limits; `false` when there is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_limits(&self, app_id: &AppId, limits: AppLimits) -> Result<bool, StoreError> {
        let column = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
        let done = sqlx::query!(
            "UPDATE apps SET exchanges_per_second = $2, reports_per_second = $3, uploads_per_second = $4,
                    tokens_per_second = $5 WHERE app_id = $1",
            app_id.as_str(),
            column(limits.exchanges_per_second),
            column(limits.reports_per_second),
            column(limits.uploads_per_second),
            column(limits.tokens_per_second)
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Makes a new pay key. The one before it stays valid, older ones are retired. `None` when
    /// there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_pay_key(&self, app_id: &AppId) -> Result<Option<String>, StoreError> {
        let pay_key = random_key_text();
        let sealed = self.directory.keyring()?.seal(app_id, &pay_key);
        let app_id = app_id.clone();
        let made = self
            .transaction(move |connection| {
                let (app_id, sealed) = (app_id.clone(), sealed.clone());
                Box::pin(async move { insert_pay_key(connection, &app_id, &sealed).await })
            })
            .await?;
        Ok(made.then_some(pay_key))
    }

    /// Makes a new app secret; the old one ends at once. `None` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rotate_secret(&self, app_id: &AppId) -> Result<Option<String>, StoreError> {
        let app_secret = random_key_text();
        let sealed = self.directory.keyring()?.seal(app_id, &app_secret);
        let done = sqlx::query!("UPDATE apps SET app_secret = $2 WHERE app_id = $1", app_id.as_str(), sealed)
            .execute(&self.pool)
            .await?;
        Ok((done.rows_affected() == 1).then_some(app_secret))
    }

    /// Publishes a package; its pages are the legal order paths from now on. `false` when there
    /// is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn publish(
        &self,
        app_id: &AppId,
        version: &PackageVersion,
        pages: &[PagePath],
    ) -> Result<bool, StoreError> {
        let pages: Vec<String> = pages.iter().map(|page| page.as_str().to_owned()).collect();
        let done = sqlx::query!(
            "INSERT INTO packages (app_id, version, pages, published_at)
             SELECT app_id, $2, $3, clock_timestamp() FROM apps WHERE app_id = $1
             ON CONFLICT (app_id, version) DO UPDATE SET pages = excluded.pages, published_at = excluded.published_at",
            app_id.as_str(),
            version.as_str(),
            &pages
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Registers points of interest; known ones are fine. `false` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_pois(&self, app_id: &AppId, poi_ids: &[PoiId]) -> Result<bool, StoreError> {
        let poi_ids: Vec<String> = poi_ids.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "INSERT INTO pois (app_id, poi_id) SELECT app_id, unnest($2::text[]) FROM apps WHERE app_id = $1
             ON CONFLICT DO NOTHING",
            app_id.as_str(),
            &poi_ids
        )
        .execute(&self.pool)
        .await?;
        self.app_exists(app_id).await
    }

    /// Registers payment pre-orders; known ones are fine. `false` when there is no such app.
    ///
    /// # Errors
    /// The database is away.
    pub async fn add_preorders(&self, app_id: &AppId, numbers: &[OrderNo]) -> Result<bool, StoreError> {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "INSERT INTO preorders (app_id, out_order_no) SELECT app_id, unnest($2::text[]) FROM apps WHERE app_id = $1
             ON CONFLICT DO NOTHING",
            app_id.as_str(),
            &numbers
        )
        .execute(&self.pool)
        .await?;
        self.app_exists(app_id).await
    }

    pub(super) async fn app_exists(&self, app_id: &AppId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT 1 FROM apps WHERE app_id = $1) AS "there!""#,
            app_id.as_str()
        )
        .fetch_one(&self.pool)
        .await?)
    }
}

async fn insert_app(
    connection: &mut PgConnection,
    app: &NewApp,
    sealed_secret: &[u8],
    sealed_key: &[u8],
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
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "INSERT INTO pay_keys (app_id, generation, pay_key) VALUES ($1, 1, $2)",
        app.id.as_str(),
        sealed_key
    )
    .execute(&mut *connection)
    .await?;
    Ok(true)
}

async fn insert_pay_key(
    connection: &mut PgConnection,
    app_id: &AppId,
    sealed: &[u8],
) -> Result<bool, StoreError> {
    // The app's row is locked, so that two rotations at once make two generations.
    let known = sqlx::query!("SELECT app_id FROM apps WHERE app_id = $1 FOR UPDATE", app_id.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    if known.is_none() {
        return Ok(false);
    }
    sqlx::query!(
        "INSERT INTO pay_keys (app_id, generation, pay_key)
         SELECT $1, coalesce(max(generation), 0) + 1, $2 FROM pay_keys WHERE app_id = $1",
        app_id.as_str(),
        sealed
    )
    .execute(&mut *connection)
    .await?;
    Ok(true)
}
