//! `minitill sandbox check` tries a game (contract 15.3). It credits players, lets the calls and notifications of the
//! game fail, and looks at what the game bought and shipped.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use domain::endpoint::Endpoint;
use domain::event::EventType;
use domain::ids::{CreditRef, OpenId};
use domain::operation::wallet::{Credit, Debit};
use domain::receiver::{ReceiverFormat, ReceiverId};
use domain::sandbox::{Fault, FaultKind, FaultState, FaultTarget, SandboxApp};
use indicatif::ProgressBar;
use serde::Serialize;
use store::secrets::random_bytes;
use store::{LeasedReceiver, SandboxPurchase, Store};
use tokio::time::{Instant, sleep};

use super::super::not_done;
use super::super::output::{complain, progress_bar};
use super::super::receiver::sender;
use super::super::visible::visible;
use super::{Context, junit};
use crate::notify::{NotificationSender, Trial};

/// How often it looks at what the game did.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the game may go on doing wrong before the verdict. Replays are counted within a second.
const SETTLE: Duration = Duration::from_secs(4);
/// How late an answer is that comes late: later than most clients wait.
const LATE: Duration = Duration::from_secs(12);
/// How late a credit is told that is taken back meanwhile.
const TAKEN_BACK: Duration = Duration::from_secs(2);
/// What Retry-After asks for.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const EXCHANGE: FaultTarget = FaultTarget::Answers(Endpoint::Exchange);
const CREDITED: FaultTarget = FaultTarget::Notifications(EventType::WalletCredited);
const EXCHANGED: FaultTarget = FaultTarget::Notifications(EventType::ExchangeSucceeded);
const NUMBERS: FaultTarget = FaultTarget::Numbers;

/// A fault, and how often it happens.
type Happens = (FaultTarget, FaultKind, i32);

/// What happens to the purchase of a player, in the order of the check. The credit of `refused` is taken back before the
/// game hears of it.
const STEPS: [(&str, &[Happens]); 11] = [
    ("plain", &[]),
    ("tested", &[]),
    ("lost", &[(EXCHANGE, FaultKind::Lost, 1), (EXCHANGED, FaultKind::Never, 1)]),
    ("lost3", &[(EXCHANGE, FaultKind::Lost, 3), (EXCHANGED, FaultKind::Never, 1)]),
    ("busy", &[(EXCHANGE, FaultKind::Unavailable, 2), (EXCHANGED, FaultKind::Never, 1)]),
    ("late", &[(EXCHANGE, FaultKind::Late, 1), (EXCHANGED, FaultKind::Never, 1)]),
    ("twice", &[(CREDITED, FaultKind::Twice, 1)]),
    ("shipped", &[(EXCHANGED, FaultKind::Twice, 1)]),
    ("untold", &[(EXCHANGED, FaultKind::Never, 1)]),
    (
        "old",
        &[(EXCHANGE, FaultKind::Lost, 1), (NUMBERS, FaultKind::Old, 1), (EXCHANGED, FaultKind::Never, 1)],
    ),
    ("refused", &[(CREDITED, FaultKind::Late, 1)]),
];

type Holds = fn(&Outcome) -> bool;

const REFUSED: &str = "ships nothing that was refused";
/// The cases that a step decides, in the order of contract 15.3.6. After the first one stand those of single
/// notifications.
const CASES: [(&str, &str, Holds); 14] = [
    ("takes a signed notification", "plain", |of| !of.purchases.is_empty()),
    ("buys once for each credit", "plain", Outcome::bought_once),
    ("ships what it bought", "plain", Outcome::shipped_once),
    ("repeats with the same biz_no after a lost answer", "lost", |of| {
        of.happened(EXCHANGE) && of.bought_once() && of.replays() >= 1
    }),
    ("ships once after a lost answer", "lost", |of| of.happened(EXCHANGE) && of.shipped_once()),
    ("goes on after three lost answers in a row", "lost3", |of| {
        of.happened(EXCHANGE) && of.shipped_once() && of.replays() >= 3
    }),
    ("repeats with the same biz_no after a 503", "busy", |of| {
        of.happened(EXCHANGE) && of.bought_once() && of.replays() >= 1
    }),
    ("waits as Retry-After says after a 503", "busy", |of| {
        of.happened(EXCHANGE) && of.between().is_some_and(|between| between >= RETRY_AFTER)
    }),
    ("pays and ships once when an answer comes late", "late", |of| {
        of.happened(EXCHANGE) && of.shipped_once()
    }),
    (REFUSED, "refused", |of| of.purchases.is_empty()),
    ("buys once for a notification that came twice", "twice", |of| of.happened(CREDITED) && of.bought_once()),
    ("ships once for a notification that came twice", "shipped", |of| {
        of.happened(EXCHANGED) && of.shipped_once()
    }),
    ("ships once although the notification of the exchange never comes", "untold", |of| {
        of.happened(EXCHANGED) && of.shipped_once()
    }),
    ("asks what became of a number that is too old to repeat, and ships once", "old", |of| {
        of.happened(NUMBERS) && of.shipped_once()
    }),
];

const NOTHING_BOUGHT: &str = "the game bought nothing for a credit; is a server running that sends notifications, and \
    does the game buy for wallet.credited (docs/contract.md, section 15.3)?";

/// The result of a case.
#[derive(Debug, Clone, Serialize)]
struct CaseResult {
    case: &'static str,
    passed: bool,
    /// The finding.
    seen: String,
}

/// The result of the check.
#[derive(Debug, Serialize)]
struct Score {
    passed: usize,
    cases: usize,
    results: Vec<CaseResult>,
}

/// What a player's purchase went through, and what the game made of it.
struct Outcome {
    open_id: OpenId,
    /// The faults of the app when the purchase was done.
    faults: Vec<FaultState>,
    purchases: Vec<SandboxPurchase>,
}

impl Outcome {
    fn fault(&self, target: FaultTarget) -> Option<&FaultState> {
        self.faults.iter().find(|fault| fault.target == target)
    }

    fn happened(&self, target: FaultTarget) -> bool {
        self.fault(target).is_some_and(|fault| fault.happened == fault.times)
    }

    fn shipments(&self) -> i32 {
        self.purchases.iter().map(|purchase| purchase.shipments).sum()
    }

    fn replays(&self) -> i64 {
        self.purchases.iter().map(|purchase| purchase.replays).sum()
    }

    fn bought_once(&self) -> bool {
        self.purchases.len() == 1
    }

    fn shipped_once(&self) -> bool {
        self.bought_once() && self.shipments() == 1
    }

    /// The time from the first faulty answer of the exchange to the last one.
    fn between(&self) -> Option<Duration> {
        let fault = self.fault(EXCHANGE)?;
        Duration::try_from(fault.last_at? - fault.first_at?).ok()
    }

    fn seen(&self) -> String {
        let (numbers, replays, shipments) = (self.purchases.len(), self.replays(), self.shipments());
        let happened = self.faults.iter().map(|fault| {
            format!("; {} {} {} of {} times", fault.target, fault.fault, fault.happened, fault.times)
        });
        let between = self.between().filter(|between| !between.is_zero());
        let between =
            between.map(|between| format!(" within {} ms", between.as_millis())).unwrap_or_default();
        let happened = happened.collect::<String>();
        format!(
            "{}: bought with {numbers} numbers, repeated {replays} times, shipped {shipments} times{happened}{between}",
            self.open_id
        )
    }
}

/// Tries the game of an app.
pub(super) async fn run(
    context: &Context,
    store: &Store,
    app: SandboxApp,
    receiver: Option<ReceiverId>,
    (patience, junit): (Duration, Option<&Path>),
) -> Result<ExitCode> {
    // A file that cannot be written is told before the check, which takes minutes.
    let junit = junit.map(junit::create).transpose()?;
    let app_id = app.id().clone();
    let receiver = find_receiver(store, &app, receiver).await?;
    let trials = SandboxCheck {
        context,
        store,
        sender: sender(context),
        receiver,
        patience,
        run: hex::encode(random_bytes::<3>()),
        bar: progress_bar(u64::try_from(STEPS.len()).unwrap_or_default(), "steps"),
        app,
    };
    store.end_faults(&trials.app).await?;
    let results = trials.try_all().await;
    store.end_faults(&trials.app).await?;
    trials.bar.finish_and_clear();
    let results = results?;
    let passed = results.iter().filter(|result| result.passed).count();
    let report = Score { passed, cases: results.len(), results };
    if let Some(mut file) = junit {
        let results = report.results.iter();
        let cases = results.map(|result| junit::Case {
            name: result.case,
            failure: (!result.passed).then_some(result.seen.as_str()),
        });
        file.write_all(junit::document(app_id.as_str(), &cases.collect::<Vec<_>>()).as_bytes())?;
    }
    let lines = report.results.iter().enumerate().map(|(index, CaseResult { case, passed, seen })| {
        let verdict = if *passed { "passed" } else { "FAILED" };
        let seen = if *passed { String::new() } else { format!("\n            {}", visible(seen)) };
        format!("{verdict}  {:>2}  {case}{seen}", index + 1)
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    context.output.print(&report, format!("{lines}\n{} of {} passed.", report.passed, report.cases))?;
    Ok(if report.passed == report.cases { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The receiver of this id, or the first one that fits.
async fn find_receiver(store: &Store, app: &SandboxApp, id: Option<ReceiverId>) -> Result<LeasedReceiver> {
    let receivers = store.receivers(app.id()).await?;
    let fits = |receiver: &&domain::receiver::Receiver| {
        receiver.format == ReceiverFormat::Standard
            && [EventType::WalletCredited, EventType::ExchangeSucceeded]
                .iter()
                .all(|needed| receiver.events.is_empty() || receiver.events.contains(needed))
    };
    let found = receivers.iter().filter(|receiver| id.as_ref().is_none_or(|id| *id == receiver.receiver_id));
    let found = found.filter(fits).map(|receiver| receiver.receiver_id.clone()).next();
    let needed = "a receiver of the standard format that is told of wallet.credited and exchange.succeeded";
    let id = found.ok_or_else(|| match id {
        Some(id) => anyhow!("{id} is not {needed}"),
        None => anyhow!("the app has no {}; add the game with `minitill receiver add`", &needed[2..]),
    })?;
    let receiver = store.receiver_to_test(app.id(), &id).await?;
    receiver.ok_or_else(|| anyhow!("the receiver {id} was removed meanwhile"))
}

struct SandboxCheck<'a> {
    context: &'a Context,
    store: &'a Store,
    sender: NotificationSender,
    app: SandboxApp,
    receiver: LeasedReceiver,
    patience: Duration,
    /// It makes the players of this run its own.
    run: String,
    bar: ProgressBar,
}

impl SandboxCheck<'_> {
    async fn try_all(&self) -> Result<Vec<CaseResult>> {
        let started = Instant::now();
        let mut outcomes = HashMap::new();
        let mut direct = Vec::new();
        for (step, faults) in STEPS {
            let outcome = self.buy(step, faults).await?;
            match step {
                "plain" if outcome.purchases.is_empty() => complain(NOTHING_BOUGHT),
                "tested" => {
                    direct = self.try_receiver(&outcome.open_id).await?;
                    // A game that buys for the test must not meet the fault of the next step.
                    sleep(TAKEN_BACK).await;
                }
                _ => {}
            }
            outcomes.insert(step, outcome);
        }
        sleep(TAKEN_BACK + SETTLE).await;
        for outcome in outcomes.values_mut() {
            outcome.purchases = self.store.purchases(&self.app, &outcome.open_id).await?;
        }
        let for_nothing = self.store.shipped_for_nothing(&self.app, started.elapsed()).await?;
        let mut results = CASES.map(|(case, step, holds)| {
            let outcome = &outcomes[step];
            CaseResult { case, passed: holds(outcome), seen: outcome.seen() }
        });
        for result in results.iter_mut().filter(|result| result.case == REFUSED) {
            result.passed &= for_nothing.is_empty();
            let shipped = if for_nothing.is_empty() { "nothing".to_owned() } else { for_nothing.join(", ") };
            result.seen = format!("shipped, and never bought: {shipped}");
        }
        let (first, others) = results.split_at(1);
        let test = CaseResult {
            case: "takes a test event and buys nothing for it",
            passed: direct.last().is_some_and(|test| test.passed) && outcomes["tested"].bought_once(),
            seen: outcomes["tested"].seen(),
        };
        direct.pop();
        Ok(first.iter().cloned().chain(direct).chain([test]).chain(others.iter().cloned()).collect())
    }

    /// Credits a player of this name two coins, so that a naive game can buy twice, with these faults. Waits until the
    /// game has shipped and every fault has happened, or patience ends.
    async fn buy(&self, name: &str, faults: &[Happens]) -> Result<Outcome> {
        let is_taken_back = name == "refused";
        let mut until = Instant::now() + self.patience;
        self.store.end_faults(&self.app).await?;
        for &(target, kind, times) in faults {
            let delay = match (kind, target) {
                (FaultKind::Late, FaultTarget::Answers(_)) => Some(LATE),
                (FaultKind::Late, _) => Some(TAKEN_BACK),
                (_, _) => None,
            };
            until += delay.unwrap_or_default();
            let delay = delay.and_then(|delay| i64::try_from(delay.as_millis()).ok());
            let fault = Fault::new(target, kind, times, delay, None)
                .map_err(|(field, expected)| anyhow!("{field}: {expected}"))?;
            self.store.ask_for_fault(&self.app, fault, None).await?;
        }
        let open_id = self.player(name)?;
        self.credit(&open_id, 2).await?;
        if is_taken_back {
            self.debit(&open_id, 2).await?;
        }
        let mut outcome = Outcome { open_id, faults: Vec::new(), purchases: Vec::new() };
        loop {
            outcome.purchases = self.store.purchases(&self.app, &outcome.open_id).await?;
            outcome.faults = self.store.faults(&self.app).await?;
            let happened = outcome.faults.iter().all(|fault| fault.happened == fault.times);
            if happened && (outcome.shipments() > 0 || is_taken_back) || Instant::now() >= until {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        self.bar.inc(1);
        Ok(outcome)
    }

    async fn credit(&self, open_id: &OpenId, coins: i64) -> Result<()> {
        let credit = Credit {
            open_id: open_id.clone(),
            free: coins,
            charge: 0,
            reference: reference(open_id)?,
            note: "sandbox check".to_owned(),
            create: true,
        };
        let changed = self.store.change_wallet(&self.context.operator, self.app.id(), credit).await;
        changed.map(drop).map_err(not_done)
    }

    async fn debit(&self, open_id: &OpenId, coins: i64) -> Result<()> {
        let debit = Debit {
            open_id: open_id.clone(),
            free: coins,
            charge: 0,
            reference: reference(&self.player("back")?)?,
            note: "sandbox check".to_owned(),
        };
        let changed = self.store.change_wallet(&self.context.operator, self.app.id(), debit).await;
        changed.map(drop).map_err(not_done)
    }

    /// Sends notifications that the game must take or refuse, a test for this player last.
    async fn try_receiver(&self, tested: &OpenId) -> Result<Vec<CaseResult>> {
        let stranger = self.player("forged")?;
        let stranger = stranger.as_str();
        let mut results = Vec::new();
        for (case, trial, is_right) in [
            ("refuses a notification without a signature", Trial::Unsigned(stranger), false),
            ("refuses a notification with a wrong signature", Trial::Wrong(stranger), false),
            ("refuses a notification that was signed ten minutes ago", Trial::Old(stranger), false),
            ("takes a notification with the signatures of two secrets", Trial::TwoSecrets, true),
            ("takes an event of a type that it does not know", Trial::UnknownType, true),
            ("takes a test event", Trial::Test(tested.as_str()), true),
        ] {
            let tried = self.sender.send_trial(&self.receiver, trial).await;
            let refused = tried.status.is_some_and(|status| (400..500).contains(&status));
            let passed = if is_right { tried.error.is_none() } else { refused };
            let status = tried.status.map(|status| format!("HTTP status {status}"));
            let seen = status.or(tried.error).unwrap_or_default();
            results.push(CaseResult { case, passed, seen });
        }
        Ok(results)
    }

    fn player(&self, name: &str) -> Result<OpenId> {
        OpenId::parse(&format!("check-{}-{name}", self.run))
            .map_err(|expected| anyhow!("open_id: {expected}"))
    }
}

fn reference(open_id: &OpenId) -> Result<CreditRef> {
    CreditRef::parse(open_id.as_str()).map_err(|error| anyhow!("{error}"))
}
