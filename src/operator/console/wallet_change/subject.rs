//! The subject of a change: a player's wallet, or the exchange that is given back.

use domain::fields::{FieldError, Fields};
use domain::ids::{AppId, OpenId};
use domain::operation::wallet::more_than_left;
use domain::text;
use store::{ExchangeRecord, Wallet};

use super::super::error::ConsoleError;
use super::super::exchange::{exchange_path, find_exchange};
use super::super::i18n::said;
use super::super::page::{Section, Shown as _};
use super::super::player::{empty_wallet, find_player, player_path};
use super::super::request::address;
use super::ChangeKind;
use crate::state::AppState;

/// What a change is made to.
pub(super) struct ChangeSubject {
    pub(super) app_id: AppId,
    pub(super) open_id: OpenId,
    /// Empty for a player whom the app does not know.
    pub(super) wallet: Wallet,
    pub(super) made: Made,
}

/// How the wallet is changed.
pub(super) enum Made {
    Credit {
        /// Whether the app knows the player.
        is_known: bool,
    },
    Debit,
    /// By giving back this exchange.
    GiveBack(Box<ExchangeRecord>),
}

/// The labels of the fields for coins, gifted and charged: a refusal names a field as the form does.
pub(super) const COINS_TO_ADD: [&str; 2] = ["Gifted coins to add", "Charged coins to add"];
pub(super) const COINS_TO_TAKE: [&str; 2] = ["Gifted coins to take", "Charged coins to take"];
pub(super) const COINS_TO_GIVE_BACK: &str = "Coins to give back";

/// A field of the form for coins.
pub(super) struct AmountField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) hint: String,
    pub(super) is_required: bool,
}

impl ChangeSubject {
    /// The target of an address: an app, and a player or an exchange of it.
    pub(super) async fn find(
        kind: ChangeKind,
        state: &AppState,
        names: &(String, String),
    ) -> Result<Self, ConsoleError> {
        let ((app_id, open_id, wallet), made) = match kind {
            ChangeKind::Credit => return Self::to_credit(state, names).await,
            ChangeKind::Debit => (find_player(state, names).await?, Made::Debit),
            ChangeKind::GiveBack => {
                let exchange = find_exchange(state, names, false).await?;
                let player = (exchange.app_id.clone(), exchange.open_id.clone());
                (find_player(state, &player).await?, Made::GiveBack(Box::new(exchange)))
            }
        };
        Ok(Self { app_id, open_id, wallet, made })
    }

    /// A credit may register a player, who has an empty wallet until then.
    async fn to_credit(state: &AppState, (app_id, open_id): &(String, String)) -> Result<Self, ConsoleError> {
        let no_app = || ConsoleError::no_such_app(app_id);
        let app = AppId::parse(app_id).map_err(|_| no_app())?;
        let player = OpenId::parse(open_id)
            .map_err(|expected| FieldError::malformed("open_id", expected.0, open_id))?;
        let known = state.store.wallet(&app, &player).await?;
        if known.is_none() && state.store.find_app(&app).await?.is_none() {
            return Err(no_app());
        }
        let made = Made::Credit { is_known: known.is_some() };
        let wallet = known.unwrap_or_else(|| empty_wallet(&app, &player));
        Ok(Self { app_id: app, open_id: player, wallet, made })
    }

    /// The exchange that is given back.
    pub(super) fn exchange(&self) -> Option<&ExchangeRecord> {
        match &self.made {
            Made::GiveBack(exchange) => Some(exchange),
            Made::Credit { .. } | Made::Debit => None,
        }
    }

    /// Whether the form offers to register the player.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.made, Made::Credit { is_known: false })
    }

    /// The player or the exchange.
    pub(super) fn name(&self) -> &str {
        self.exchange().map_or(self.open_id.as_str(), |exchange| &exchange.biz_no)
    }

    /// The address of the page to leave to. An unknown player has none, and is searched for.
    pub(super) fn page(&self) -> String {
        if !self.is_unknown() {
            return self.path();
        }
        let player = [("app_id", self.app_id.as_str()), ("open_id", self.open_id.as_str())];
        address(Section::PLAYERS.path, &Fields::default(), &player)
    }

    /// The path of the page of the player or the exchange. The addresses of its change begin with it.
    pub(super) fn path(&self) -> String {
        match self.exchange() {
            Some(exchange) => exchange_path(&exchange.app_id, &exchange.biz_no),
            None => player_path(&self.wallet.app_id, &self.wallet.open_id),
        }
    }

    /// The fields of the form for coins. Of an exchange, the user gives back at most `give_back_max` coins.
    ///
    /// # Errors
    /// The exchange was given back already, or as much of it as the user may.
    pub(super) fn amount_fields(&self, give_back_max: Option<i64>) -> Result<Vec<AmountField>, ConsoleError> {
        let purse = |name, label, hint: String| AmountField {
            name,
            label,
            value: String::new(),
            hint,
            is_required: false,
        };
        Ok(match &self.made {
            Made::Credit { .. } => {
                let hint = said(&text!("A whole number. Empty means 0."));
                vec![purse("gifted", COINS_TO_ADD[0], hint.clone()), purse("charged", COINS_TO_ADD[1], hint)]
            }
            Made::Debit => {
                let hint = |balance: i64| {
                    said(&text!("A whole number up to {balance}. Empty means 0.", balance = balance.shown()))
                };
                vec![
                    purse("gifted", COINS_TO_TAKE[0], hint(self.wallet.free_balance)),
                    purse("charged", COINS_TO_TAKE[1], hint(self.wallet.charge_balance)),
                ]
            }
            Made::GiveBack(exchange) => vec![give_back_field(exchange, give_back_max)?],
        })
    }
}

/// How many coins of an exchange a user gives back who may give back `max` of it, or all.
pub(super) fn give_back_allowed(exchange: &ExchangeRecord, max: Option<i64>) -> i64 {
    let remaining = exchange.remaining;
    max.map_or(remaining, |max| exchange.give_back_limit(max).allowed(remaining))
}

/// The field for the coins of an exchange.
fn give_back_field(exchange: &ExchangeRecord, max: Option<i64>) -> Result<AmountField, ConsoleError> {
    let remaining = exchange.remaining;
    if remaining == 0 {
        return Err(more_than_left(0).into());
    }
    if let Some(max) = max {
        // A form for which no number is right is not shown.
        exchange.give_back_limit(max).check(remaining, 1)?;
    }
    let allowed = give_back_allowed(exchange, max);
    let hint = if allowed < remaining {
        text!(
            "A whole number from 1 to {allowed}. Only an admin gives back more of this exchange.",
            allowed = allowed.shown()
        )
    } else {
        text!("A whole number from 1 to {remaining}.", remaining = remaining.shown())
    };
    Ok(AmountField {
        name: "amount",
        label: COINS_TO_GIVE_BACK,
        value: allowed.to_string(),
        hint: said(&hint),
        is_required: true,
    })
}
