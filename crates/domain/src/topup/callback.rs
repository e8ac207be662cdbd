//! Callbacks of payment providers (contract 19.4): their secrets, their signatures and their content.

mod content;
mod secret;
mod signature;

use super::PaymentProvider;

pub use content::{CallbackEvent, TOLD_BY_PROVIDER};
pub use secret::CallbackSecret;
pub use signature::{ClaimedCallback, SignedCallback, not_signed};

/// The largest body of a callback.
pub const CALLBACK_BYTES_MAX: usize = 256 * 1024;

crate::word_enum! {
    /// How the callbacks of a provider look and are signed.
    pub enum CallbackFormat {
        /// As Standard Webhooks has it, with the fields of the admin API.
        Standard = "standard",
        /// As Stripe has it.
        Stripe = "stripe",
    }
}

/// A provider of an app, as its callbacks are checked.
#[derive(Debug, Clone)]
pub struct CallbackProvider {
    /// The provider.
    pub provider: PaymentProvider,
    /// Its format.
    pub format: CallbackFormat,
    /// The secrets that are valid: the present one, and for a day the one before.
    pub secrets: Vec<CallbackSecret>,
}

#[cfg(test)]
mod tests;
