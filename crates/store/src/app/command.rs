//! Carries out the commands of operators to apps.

use domain::app_command::{
    AppCommand, AppRefusal, AppReport, IssuedToken, LimitsSet, NewAppSecret, NewPayKey, RevokedTokens,
};
use domain::ids::AppId;
use domain::moment::rfc3339_of_millis;
use domain::operator::Operator;
use serde_json::{Value, json};

use super::Rotated;
use crate::secrets::token_hash;
use crate::{Store, StoreError};

/// Why a command was not carried out.
#[derive(Debug)]
pub enum CommandError {
    /// It does not fit what is there.
    Refused(AppRefusal),
    /// The database is away, or a fault of ours.
    Store(StoreError),
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Store {
    /// Carries out a command to an app and reports what was done. The report is also the answer that
    /// is kept for the operator's idempotent request, if it is one.
    ///
    /// # Errors
    /// The command does not fit what is there, or the database is away.
    pub async fn carry_out(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: AppCommand,
    ) -> Result<AppReport, CommandError> {
        let known = command.known_report(app_id);
        let operator = &match json!(known) {
            Value::Object(answer) => operator.answered(answer),
            _ => operator.clone(),
        };
        let id = || app_id.clone();
        let unknown_app = || CommandError::Refused(AppRefusal::UnknownApp(id()));
        let found = match command {
            AppCommand::Create(settings) => {
                let made = self.create_app(operator, app_id, settings).await?;
                let taken = || CommandError::Refused(AppRefusal::IdTaken(id()));
                return made.map(AppReport::Created).ok_or_else(taken);
            }
            AppCommand::Change(change) => {
                self.change_settings(operator, app_id, change).await?;
                let app = self.list_apps(Some(app_id)).await?.pop().ok_or_else(unknown_app)?;
                return Ok(AppReport::App(Box::new(app)));
            }
            AppCommand::Limit(change) => {
                let limits = self.set_limits(operator, app_id, change).await?.ok_or_else(unknown_app)?;
                return Ok(AppReport::Limits(LimitsSet { app_id: id(), limits }));
            }
            AppCommand::RotatePayKey(newest) => {
                let pay_key = rotated(self.rotate_pay_key(operator, app_id, newest).await?, app_id)?;
                return Ok(AppReport::PayKey(NewPayKey { app_id: id(), pay_key }));
            }
            AppCommand::RotateSecret(present) => {
                let rotation = self.rotate_secret(operator, app_id, present.as_deref()).await?;
                let app_secret = rotated(rotation, app_id)?;
                return Ok(AppReport::AppSecret(NewAppSecret { app_id: id(), app_secret }));
            }
            AppCommand::IssueToken(lifetime) => {
                let issued = self.hand_out_token(operator, app_id, lifetime).await?;
                let (access_token, expires_at) = issued.ok_or_else(unknown_app)?;
                let expires_at = rfc3339_of_millis(expires_at);
                return Ok(AppReport::Token(IssuedToken { app_id: id(), access_token, expires_at }));
            }
            AppCommand::RevokeTokens(token) => {
                if !self.app_exists(app_id).await? {
                    return Err(unknown_app());
                }
                let only = token.map(|token| token_hash(token.expose()));
                let revoked = self.revoke_tokens(operator, app_id, only).await?;
                if only.is_some() && revoked == 0 {
                    return Err(CommandError::Refused(AppRefusal::UnknownToken(id())));
                }
                return Ok(AppReport::Revoked(RevokedTokens { app_id: id(), revoked }));
            }
            AppCommand::Suspend(suspended) => self.set_suspended(operator, app_id, suspended).await?,
            AppCommand::Publish(version, pages) => self.publish(operator, app_id, &version, &pages).await?,
            AppCommand::AddPois(poi_ids) => self.add_pois(operator, app_id, &poi_ids).await?,
            AppCommand::AddPreorders(numbers) => self.add_preorders(operator, app_id, &numbers).await?,
            AppCommand::AddUsers(open_ids) => self.add_users(operator, app_id, &open_ids).await?,
        };
        known.filter(|_| found).ok_or_else(unknown_app)
    }
}

/// The secret that a rotation made.
fn rotated(rotation: Rotated, app_id: &AppId) -> Result<String, CommandError> {
    match rotation {
        Rotated::To(secret) => Ok(secret),
        Rotated::Already => Err(CommandError::Refused(AppRefusal::KeysChanged(app_id.clone()))),
        Rotated::UnknownApp => Err(CommandError::Refused(AppRefusal::UnknownApp(app_id.clone()))),
    }
}
