//! The database of a sandbox server (contract 18). It has a clock that can be moved, secrets that are known beforehand,
//! and the way back to its seed.
//!
//! SQL reads the time by `now()`, `statement_timestamp()` and `clock_timestamp()`. A sandbox server's database has functions of these names in a
//! schema that is searched before PostgreSQL's own. No other database has them, so no other clock can be moved.

use domain::app::AppSettings;
use domain::ids::{AppId, ImgId};
use domain::operator::Operator;
use sqlx::{Connection as _, PgConnection};

use crate::app::AppUpdate;
use crate::error::{OperationError, Result, StoreError};
use crate::hosts::DatabaseAddress;
use crate::secrets::token_hash;
use crate::store::Store;

/// Before the migrations, so that the defaults of columns read this clock too.
const CLOCK: &str = "\
    CREATE SCHEMA sandbox_server; CREATE SCHEMA sandbox_seed;
    CREATE TABLE sandbox_server.clock (ahead interval NOT NULL);
    INSERT INTO sandbox_server.clock VALUES ('0');
    CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT pg_catalog.now() + ahead FROM sandbox_server.clock';
    CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT pg_catalog.statement_timestamp() + ahead FROM sandbox_server.clock';
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM sandbox_server.clock';
    ALTER DATABASE postgres SET search_path = public, pg_catalog;";

/// What the schema is made of is no part of the seed. Items are texts by their hash, and writers remember which are stored.
const KEEP_SEED: &str = "DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
        AND tablename NOT IN ('_sqlx_migrations', 'minitill_migration_lock', 'items') LOOP
        EXECUTE format('CREATE UNLOGGED TABLE sandbox_seed.%I AS TABLE public.%I', name, name);
    END LOOP; END $$";

/// The lock lets whatever writes end first. Rows are deleted, because a TRUNCATE makes new files for each table and index.
const RESTORE_SEED: &str = "DO $$ DECLARE name text; names text; BEGIN
    SELECT string_agg(format('public.%I', tablename), ', ' ORDER BY tablename) INTO names
        FROM pg_tables WHERE schemaname = 'sandbox_seed';
    EXECUTE 'LOCK TABLE ' || names || ' IN EXCLUSIVE MODE';
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'sandbox_seed' LOOP
        EXECUTE format('DELETE FROM public.%I', name);
        EXECUTE format('INSERT INTO public.%I SELECT * FROM sandbox_seed.%I', name, name);
    END LOOP;
    UPDATE sandbox_server.clock SET ahead = '0'; END $$";

/// What is random for any other app.
#[derive(Debug, Clone)]
pub struct FixedSecrets {
    /// The app secret.
    pub app_secret: String,
    /// The pay key.
    pub pay_key: String,
    /// An access token that does not expire.
    pub access_token: String,
}

/// Prepares the new database of a sandbox server, before its migrations.
pub async fn prepare_sandbox_database(address: &DatabaseAddress) -> Result<()> {
    let mut connection = PgConnection::connect_with(address.first()).await?;
    sqlx::raw_sql(CLOCK).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

impl Store {
    /// Makes an app of the seed, with the secrets that its tests know.
    pub async fn create_seed_app(
        &self,
        operator: &Operator,
        app_id: &AppId,
        settings: AppSettings,
        secrets: FixedSecrets,
    ) -> Result<(), OperationError> {
        let update = AppUpdate { store: self.clone(), operator: operator.clone(), app_id: app_id.clone() };
        self.transaction((update, settings, secrets), |connection, (update, settings, secrets)| {
            Box::pin(async move {
                let keys = (secrets.app_secret.clone(), secrets.pay_key.clone());
                update.create(&mut *connection, settings, keys).await?;
                let hash = token_hash(&secrets.access_token);
                let token = sqlx::query!(
                    "INSERT INTO access_tokens (app_id, token_hash, expires_at) VALUES ($1, $2, '9999-12-31')",
                    update.app_id.as_str(),
                    hash.as_slice()
                );
                token.execute(connection).await?;
                Ok(())
            })
        })
        .await
    }

    /// Gives an image of the seed the id that its tests know. Nothing may name the image yet.
    pub async fn fix_img_id(&self, app_id: &AppId, img_id: &ImgId, fixed: &ImgId) -> Result<()> {
        let renamed = sqlx::query!(
            "UPDATE images SET img_id = $3 WHERE app_id = $1 AND img_id = $2",
            app_id.as_str(),
            img_id.as_str(),
            fixed.as_str()
        );
        renamed.execute(&self.pool).await?;
        Ok(())
    }

    /// Keeps a copy of all rows of a sandbox server, to which [`restore_seed`](Self::restore_seed) returns.
    pub async fn keep_seed(&self) -> Result<()> {
        self.number_events(None).await?;
        sqlx::raw_sql(KEEP_SEED).execute(&self.pool).await?;
        Ok(())
    }

    /// Makes all rows those of the seed again, and forgets what this process knew of the others. Transactions under way
    /// end first. The clock of the database is back at the machine's.
    pub async fn restore_seed(&self) -> Result<()> {
        self.transaction((), |connection, ()| {
            Box::pin(async move {
                sqlx::raw_sql(RESTORE_SEED).execute(connection).await?;
                Ok::<_, StoreError>(())
            })
        })
        .await?;
        self.app_cache.apps.forget();
        self.app_cache.tokens.forget();
        self.key_leases.forget();
        self.app_cache.providers.forget();
        self.shipment_counts.forget();
        self.last_audits.forget();
        self.replays.take();
        self.refusals.take();
        self.key_uses.take();
        Ok(())
    }

    /// Sets how far the clock of a sandbox server's database is ahead of the machine's. Leases move along: a receiver that
    /// is being served goes on being served.
    pub async fn move_clock(&self, ahead: std::time::Duration) -> Result<()> {
        let sql = format!(
            "WITH new AS (SELECT make_interval(secs => {}) AS ahead),
                  moved AS (UPDATE public.receivers SET leased_until = leased_until + new.ahead - clock.ahead
                      FROM new, sandbox_server.clock WHERE leased_until IS NOT NULL)
             UPDATE sandbox_server.clock SET ahead = new.ahead FROM new",
            ahead.as_secs_f64()
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&self.pool).await?;
        Ok(())
    }
}
