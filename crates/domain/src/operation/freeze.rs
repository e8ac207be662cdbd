//! Commands of operators that stop one player and not the app (contract 17): a frozen wallet refuses what a game asks of
//! its purses.

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::{OperationRefusal, RefusalKind};
use crate::ids::{AppId, OpenId, Reason};
use crate::moment::rfc3339;
use crate::text;
use crate::text::TextMoment;

/// A command to freeze or thaw a wallet.
#[derive(Debug, Clone)]
pub enum FreezeCommand {
    /// It is frozen from now on. A second freeze replaces both values.
    Freeze {
        /// Why, for people.
        reason: Reason,
        /// When it ends by itself. `None`: an operator ends it.
        until: Option<OffsetDateTime>,
    },
    /// The freeze ends.
    Thaw {
        /// Why, for people.
        reason: Option<Reason>,
    },
}

/// Whether a wallet is frozen now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "WalletFreeze")]
pub struct FreezeReport {
    /// The app.
    pub app_id: AppId,
    /// The player.
    pub open_id: OpenId,
    /// Whether it is.
    pub frozen: bool,
    /// When the freeze ends by itself. `null` where it does not, and for a wallet that is not frozen.
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

impl FreezeReport {
    /// A wallet after a command.
    #[must_use]
    pub fn after(command: &FreezeCommand, app_id: &AppId, open_id: &OpenId) -> Self {
        let (frozen, until) = match command {
            FreezeCommand::Freeze { until, .. } => (true, *until),
            FreezeCommand::Thaw { .. } => (false, None),
        };
        Self { app_id: app_id.clone(), open_id: open_id.clone(), frozen, until: until.map(rfc3339) }
    }
}

/// A freeze cannot end before it begins.
#[must_use]
pub fn until_past(until: OffsetDateTime, now: OffsetDateTime) -> OperationRefusal {
    let (until, now) = (TextMoment(until), TextMoment(now));
    let text = text!("expected a time after now, which is {now}, got {until}", now, until);
    OperationRefusal::new(RefusalKind::Invalid("until"), text)
}
