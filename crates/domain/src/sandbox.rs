//! The test world of a sandbox app (contract 15): faults that a game asks for, to see how it takes them. An app that
//! takes real money has none of it. Only [`SandboxApp`] does, and there is no other way to one than from a sandbox app.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::app::App;
use super::code::Code;
use super::endpoint::Endpoint;
use super::event::EventType;
use super::fields::Expected;
use super::ids::AppId;
use crate::text;

/// The most times that a fault happens.
pub const TIMES_MAX: i64 = 1000;
/// The longest delay of a fault.
pub const DELAY_MAX: Duration = Duration::from_mins(1);

/// An app that is a sandbox app.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SandboxApp(AppId);

impl SandboxApp {
    /// The app, if it is a sandbox app.
    #[must_use]
    pub fn of(app: &App) -> Option<Self> {
        Self::read(&app.id, app.settings.sandbox)
    }

    /// The app of a row that says whether it is a sandbox app.
    #[must_use]
    pub fn read(app_id: &AppId, is_sandbox: bool) -> Option<Self> {
        is_sandbox.then(|| Self(app_id.clone()))
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &AppId {
        &self.0
    }
}

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultTarget {
    /// Answers of an endpoint.
    Answers(Endpoint),
    /// Notifications of a type of events.
    Notifications(EventType),
    /// Numbers that were used before.
    Numbers,
}

impl FaultTarget {
    const NUMBERS: &'static str = "numbers";

    /// Every target.
    pub fn all() -> impl Iterator<Item = Self> {
        let answers = Endpoint::ALL.into_iter().filter(|endpoint| endpoint.has_faults()).map(Self::Answers);
        answers.chain(EventType::ALL.into_iter().map(Self::Notifications)).chain([Self::Numbers])
    }

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answers(endpoint) => endpoint.as_str(),
            Self::Notifications(event_type) => event_type.as_str(),
            Self::Numbers => Self::NUMBERS,
        }
    }

    /// Reads a word.
    ///
    /// # Errors
    /// Text that is no target.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        Self::all().find(|target| target.as_str() == text).ok_or_else(|| Expected::one_of(&Self::words()))
    }

    fn words() -> Vec<&'static str> {
        Self::all().map(Self::as_str).collect()
    }

    /// The faults that can happen to it.
    #[must_use]
    pub const fn faults(self) -> &'static [FaultKind] {
        match self {
            Self::Answers(_) => {
                &[FaultKind::Lost, FaultKind::Unavailable, FaultKind::Late, FaultKind::Refuse]
            }
            Self::Notifications(_) => &[FaultKind::Twice, FaultKind::Late, FaultKind::Never],
            Self::Numbers => &[FaultKind::Old],
        }
    }
}

crate::text_traits!(FaultTarget, { "type": "string", "enum": FaultTarget::words() });

crate::word_enum! {
    /// What happens.
    pub enum FaultKind {
        /// The call is carried out. The connection is closed without an answer.
        Lost = "lost",
        /// The call is carried out. The answer is 503.
        Unavailable = "unavailable",
        /// The answer or the notification comes after a delay.
        Late = "late",
        /// The notification is sent twice, with the same id and the same bytes.
        Twice = "twice",
        /// The notification is not sent. It counts as taken.
        Never = "never",
        /// A repeat is answered as if its number had been used 49 hours ago.
        Old = "old",
        /// A code is answered, and the call is not carried out.
        Refuse = "refuse",
    }
}

/// The code with this number, if answers to this target can have it.
fn code_of(target: FaultTarget, number: i64) -> Option<Code> {
    let FaultTarget::Answers(endpoint) = target else { return None };
    let can_have =
        |code: &Code| i64::from(code.number()) == number && code.row().endpoints.contains(&endpoint);
    Code::ALL.into_iter().find(can_have)
}

/// A fault that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What it happens to.
    pub target: FaultTarget,
    /// What happens.
    pub kind: FaultKind,
    /// How often it happens, 1 to [`TIMES_MAX`].
    pub times: i32,
    /// How late the answer or the notification is. Zero for other kinds.
    pub delay: Duration,
    /// The code that is answered. Only [`FaultKind::Refuse`] has one.
    pub code: Option<Code>,
}

impl Fault {
    /// The fault, if it can happen to its target. It must have a delay exactly when it is late. It must have a code
    /// that answers to the target can have exactly when it refuses.
    ///
    /// # Errors
    /// The field at fault, and what is expected there.
    pub fn new(
        target: FaultTarget,
        kind: FaultKind,
        times: i32,
        delay_ms: Option<i64>,
        code: Option<i64>,
    ) -> Result<Self, (&'static str, Expected)> {
        if !target.faults().contains(&kind) {
            let words: Vec<_> = target.faults().iter().map(|kind| kind.as_str()).collect();
            let Expected(words) = Expected::one_of(&words);
            return Err(("fault", Expected(text!("{words} for {target}", words, target))));
        }
        let delay_max = i64::try_from(DELAY_MAX.as_millis()).unwrap_or(i64::MAX);
        let delay = match (kind, delay_ms) {
            (FaultKind::Late, Some(delay)) if (1..=delay_max).contains(&delay) => delay,
            (FaultKind::Late, _) => {
                let expected = text!("an integer from {min} to {max}", min = 1, max = delay_max);
                return Err(("delay_ms", Expected(expected)));
            }
            (_, None | Some(0)) => 0,
            (_, Some(_)) => return Err(("delay_ms", Expected::new("no delay, but for late"))),
        };
        let code = match (kind, code) {
            (FaultKind::Refuse, number) => {
                let code = number.and_then(|number| code_of(target, number));
                let expected = text!("a code that {target} answers, such as 10000500", target);
                Some(code.ok_or(("code", Expected(expected)))?)
            }
            (_, None) => None,
            (_, Some(_)) => return Err(("code", Expected::new("no code, but for refuse"))),
        };
        Ok(Self { target, kind, times, code, delay: Duration::from_millis(delay.unsigned_abs()) })
    }
}

/// A fault that was asked for, and how often it has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub struct FaultState {
    /// What it happens to.
    pub target: FaultTarget,
    /// What happens.
    pub fault: FaultKind,
    /// Delay in milliseconds of what is late. 0 for other faults.
    #[schemars(range(min = 0, max = 60_000))]
    pub delay_ms: i32,
    /// The code that is answered, of `refuse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// How often it was asked for.
    #[schemars(range(min = 1, max = 1000))]
    pub times: i32,
    /// How often it has happened.
    #[schemars(range(min = 0, max = 1000))]
    pub happened: i32,
    /// When it happened first.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub first_at: Option<OffsetDateTime>,
    /// When it happened last.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_at: Option<OffsetDateTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_app_has_no_test_world() {
        let mut app = App::new(AppId::parse("a1").unwrap());
        assert_eq!(SandboxApp::of(&app), None);
        app.settings.sandbox = true;
        assert_eq!(SandboxApp::of(&app).unwrap().id(), &app.id);
    }

    #[test]
    fn each_target_has_its_faults() {
        for target in FaultTarget::all() {
            assert_eq!(FaultTarget::parse(target.as_str()), Ok(target));
            for kind in FaultKind::ALL {
                let delay = (kind == FaultKind::Late).then_some(5);
                let code = (kind == FaultKind::Refuse).then_some(10_000_500);
                let fault = Fault::new(target, kind, 1, delay, code);
                assert_eq!(fault.is_ok(), target.faults().contains(&kind), "{target} {kind}");
            }
        }
        let (field, expected) =
            Fault::new(FaultTarget::Answers(Endpoint::Exchange), FaultKind::Old, 1, None, None).unwrap_err();
        assert_eq!(
            (field, expected.to_string()),
            ("fault", "expected lost, unavailable, late or refuse for exchange".to_owned())
        );
        assert!(FaultTarget::parse("sandbox").is_err() && FaultTarget::parse("image").is_err());
    }

    #[test]
    fn what_is_late_has_a_delay_and_nothing_else_has() {
        let late = |delay| {
            Fault::new(FaultTarget::Answers(Endpoint::Exchange), FaultKind::Late, 1, delay, None)
                .map(|fault| fault.delay.as_millis())
        };
        assert_eq!((late(Some(1)), late(Some(60_000))), (Ok(1), Ok(60_000)));
        for delay in [None, Some(0), Some(-1), Some(60_001)] {
            let (field, expected) = late(delay).unwrap_err();
            assert_eq!(
                (field, expected.to_string().as_str()),
                ("delay_ms", "expected an integer from 1 to 60000")
            );
        }
        let lost =
            |delay| Fault::new(FaultTarget::Answers(Endpoint::Exchange), FaultKind::Lost, 1, delay, None);
        assert!(lost(Some(0)).is_ok() && lost(Some(5)).unwrap_err().0 == "delay_ms");
    }

    #[test]
    fn what_refuses_has_a_code_that_its_target_answers_and_nothing_else_has() {
        let refuse = |target, code| {
            Fault::new(target, FaultKind::Refuse, 1, None, code).map(|fault| fault.code.map(Code::number))
        };
        let (exchange, login) =
            (FaultTarget::Answers(Endpoint::Exchange), FaultTarget::Answers(Endpoint::Login));
        assert_eq!(refuse(exchange, Some(10_000_601)), Ok(Some(10_000_601)));
        for (target, code) in [(exchange, None), (exchange, Some(1)), (login, Some(10_000_601))] {
            let (field, expected) = refuse(target, code).unwrap_err();
            let words = format!("expected a code that {target} answers, such as 10000500");
            assert_eq!((field, expected.to_string()), ("code", words));
        }
        let (field, _) = Fault::new(exchange, FaultKind::Lost, 1, None, Some(10_000_601)).unwrap_err();
        assert_eq!(field, "code");
    }
}
