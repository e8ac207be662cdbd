//! The operator who makes a change, as the operator's log names them.

use std::sync::Arc;

use super::fields::Expected;
use super::idempotency::IdempotentRequest;
use super::ids::Reason;

/// Longest name of an operator, in characters.
const NAME_CHARS_MAX: usize = 128;

crate::word_enum! {
    /// The way in which an operator works with the service.
    pub enum OperatorKind {
        /// The command line: the name is the one given, or the operating system's.
        CommandLine = "command_line",
        /// The console: the name is that of the signed-in user.
        Console = "console",
        /// The admin API: the name is that of the key.
        ApiKey = "api_key",
        /// A callback: the name is that of the payment provider.
        Provider = "provider",
    }
}

/// An operator. Every function that makes a change for an operator has one as an argument, so that no
/// change is missing in the operator's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    kind: OperatorKind,
    name: String,
    reason: String,
    request: Option<Arc<IdempotentRequest>>,
    give_back_max: Option<i64>,
    alone_max: Option<i64>,
    asked_by: Option<String>,
}

impl Operator {
    /// An operator of this name.
    ///
    /// # Errors
    /// A name that is not 1 to 128 characters, or has control characters.
    pub fn new(kind: OperatorKind, name: &str) -> Result<Self, Expected> {
        let fits =
            (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if fits {
            Ok(Self {
                kind,
                name: name.to_owned(),
                request: None,
                reason: String::new(),
                give_back_max: None,
                alone_max: None,
                asked_by: None,
            })
        } else {
            Err(Expected::new("a name of 1 to 128 characters, none of them a control character"))
        }
    }

    /// The same operator with a reason, which is the note of each line in the log.
    #[must_use]
    pub fn because(self, reason: &Reason) -> Self {
        Self { reason: reason.to_string(), ..self }
    }

    /// The same operator, for whom at most this many coins of an exchange are given back (contract 8.6.38).
    #[must_use]
    pub fn giving_back_at_most(self, coins: i64) -> Self {
        Self { give_back_max: Some(coins), ..self }
    }

    /// How many coins of an exchange may be given back after a change of this operator. `None`: all.
    #[must_use]
    pub fn give_back_max(&self) -> Option<i64> {
        self.give_back_max
    }

    /// The same operator with a limit: at most this many coins in 24 hours without a second person (contract 8.6.40).
    /// Changes of accounts that need a second person then wait for one (contract 8.6.44).
    #[must_use]
    pub fn alone_up_to(self, coins: i64) -> Self {
        Self { alone_max: Some(coins), ..self }
    }

    /// How many coins the operator moves in 24 hours without a second person. `None`: any number.
    #[must_use]
    pub fn alone_max(&self) -> Option<i64> {
        self.alone_max
    }

    /// The same operator as the second person of a change that somebody asked for.
    #[must_use]
    pub fn confirming(self, asked_by: &str) -> Self {
        Self { alone_max: None, asked_by: Some(asked_by.to_owned()), ..self }
    }

    /// The operator who asked for the change that this one confirms.
    #[must_use]
    pub fn asked_by(&self) -> Option<&str> {
        self.asked_by.as_deref()
    }

    /// The same operator with an idempotent request. The answer is stored in the transaction that makes
    /// the change.
    #[must_use]
    pub fn once(self, request: Arc<IdempotentRequest>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// The idempotent request, if there is one.
    #[must_use]
    pub fn request(&self) -> Option<&IdempotentRequest> {
        self.request.as_deref()
    }

    /// The way in which the operator works.
    #[must_use]
    pub fn kind(&self) -> OperatorKind {
        self.kind
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The reason. It may be empty.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_has_no_control_characters() {
        let named = |name: &str| Operator::new(OperatorKind::CommandLine, name).is_ok();
        assert!(named("alice@host") && named("Ünal") && named(&"é".repeat(128)));
        assert!(!named("") && !named("a\nb") && !named("\u{1b}[31m") && !named(&"é".repeat(129)));
    }
}
