//! Clients: they send requests, give up, repeat a `biz_no`, and remember every success.

use std::time::Duration;

use domain::wallet::{Receipt, Refused, WalletOutcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::content::signed_request;
use super::counts::EventKind;
use super::oracle::Request;
use super::rows::{APPS, NUMBERS, RequestContent, RequestKind, UNLUCKY, WALLETS};
use super::world::World;
use crate::error::StoreError;
use crate::wallet_writer::WalletWriters;

pub(super) type Outcome = Result<WalletOutcome, StoreError>;

/// The request that a client wants, sent or not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) number: usize,
    pub(super) content: RequestContent,
    pub(super) is_fresh: bool,
}

/// A request whose answer a client waits for.
pub(super) struct WaitingRequest {
    wish: Wish,
    request: Request,
    pub(super) process: usize,
    pub(super) gives_up_at: u64,
    receiver: oneshot::Receiver<Outcome>,
}

#[derive(Default)]
pub(super) struct GameClient {
    pub(super) waiting: Option<WaitingRequest>,
    /// A request that was sent and whose result the client does not know.
    pub(super) unsure: Option<Wish>,
}

/// All clients, and the answers they got.
pub(super) struct Clients {
    pub(super) all: Vec<GameClient>,
    start: Instant,
    /// The first success of each number. Every other success must be equal.
    successes: Vec<Option<Receipt>>,
}

impl Clients {
    pub(super) fn new(count: usize, start: Instant) -> Self {
        Self {
            all: (0..count).map(|_| GameClient::default()).collect(),
            start,
            successes: vec![None; APPS * NUMBERS],
        }
    }

    /// Draws a new request. The range of numbers moves on during the run.
    pub(super) fn draw(world: &mut World, part_done: (u64, u64)) -> Wish {
        let (numbers_at_once, unlucky) = (world.settings.numbers_at_once, world.settings.unlucky);
        let random = &mut world.random;
        let app = random.below(APPS);
        let (done, all) = part_done;
        let first = u64::try_from(NUMBERS - numbers_at_once).unwrap() * done.min(all) / all;
        let number = app * NUMBERS + usize::try_from(first).unwrap() + random.below(numbers_at_once);
        let mut content = usual_content(app, number);
        if random.chance(1_500) {
            content.wallet = app * WALLETS + random.below(WALLETS);
            content.amount = random.one_of(&[1, content.amount, content.amount, 40]);
            content.gifted_first ^= random.chance(3_000);
            content.variant = u8::from(random.chance(3_000));
            content.of =
                Some(app * NUMBERS + random.below(NUMBERS)).filter(|_| random.chance(3_000)).or(content.of);
        }
        let kind = random.one_of(&[
            content.kind,
            content.kind,
            content.kind,
            content.kind,
            RequestKind::Query,
            RequestKind::Balance,
        ]);
        let kind = if random.chance(500) {
            random.one_of(&[RequestKind::Close, RequestKind::Present])
        } else {
            kind
        };
        if kind == RequestKind::Present {
            content.amount = content.amount.max(1);
        }
        let mut content = content.of_kind(kind);
        if content.amount > 0 && random.chance(unlucky) {
            content.amount = UNLUCKY;
        }
        Wish { number, content, is_fresh: !random.chance(500) }
    }

    /// Sends a wish to a process.
    pub(super) fn send(&mut self, world: &mut World, client: usize, wish: Wish, to: (usize, &WalletWriters)) {
        let (process, writers) = to;
        let request = Request {
            number: wish.number,
            content: wish.content,
            is_fresh: wish.is_fresh,
            commit: world.commits,
            at: world.now,
        };
        let gives_up_at = world.now + world.settings.deadline;
        let asked = signed_request(wish.number, wish.content, wish.is_fresh);
        let deadline = self.start + Duration::from_millis(gives_up_at);
        let (app_id, open_id) = (asked.app_id().clone(), asked.value().open_id.clone());
        match writers.enqueue(&app_id, (&app_id, &open_id), asked, deadline) {
            Ok(receiver) => {
                world.oracle.sent(&request);
                self.all[client].unsure = None;
                self.all[client].waiting =
                    Some(WaitingRequest { wish, request, process, gives_up_at, receiver });
            }
            // The queue is full: nothing was taken, and the client asks again.
            Err(StoreError::Overloaded) => {
                world.counts.add(EventKind::Unavailable);
                self.all[client].unsure = Some(wish);
            }
            Err(error) => world.violated(Err(format!("a queue refused: {error}"))),
        }
    }

    /// The client stops waiting. The work may be done all the same.
    pub(super) fn give_up(&mut self, client: usize) {
        let client = &mut self.all[client];
        client.unsure = client.waiting.take().map(|waiting| waiting.wish);
    }

    /// Takes the answers of a process and judges them.
    pub(super) fn take_answers(&mut self, world: &mut World, process: usize) {
        for place in 0..self.all.len() {
            let Some(waiting) = self.all[place].waiting.as_mut().filter(|waiting| waiting.process == process)
            else {
                continue;
            };
            let outcome = match waiting.receiver.try_recv() {
                Ok(outcome) => outcome,
                Err(oneshot::error::TryRecvError::Empty) => continue,
                Err(oneshot::error::TryRecvError::Closed) => {
                    world.violated(Err("a request was dropped without an answer".to_owned()));
                    continue;
                }
            };
            let request = waiting.request;
            let judged = world.oracle.answered(&request, &outcome, world.commits, world.now);
            world.violated(judged);
            let same = self.remember(request.number, &outcome);
            world.violated(same);
            count(world, &outcome);
            self.give_up(place);
            let is_lost = world.fault(300);
            if is_lost {
                world.counts.add(EventKind::AnswerLost);
            } else if is_final(&outcome) {
                self.all[place].unsure = None;
            }
        }
    }

    /// Every success of a number must report the same balances.
    fn remember(&mut self, number: usize, outcome: &Outcome) -> Result<(), String> {
        let Ok(WalletOutcome::Done(receipt) | WalletOutcome::Replayed(receipt)) = outcome else {
            return Ok(());
        };
        match self.successes[number].get_or_insert_with(|| receipt.clone()) {
            first if first == receipt => Ok(()),
            first => Err(format!("{receipt:?}, and before {first:?}")),
        }
    }

    /// The numbers with an acknowledged success.
    pub(super) fn acknowledged(&self) -> Vec<usize> {
        (0..self.successes.len()).filter(|number| self.successes[*number].is_some()).collect()
    }

    pub(super) fn are_content(&self) -> bool {
        self.all.iter().all(|client| client.waiting.is_none() && client.unsure.is_none())
    }
}

/// True when a client has no reason to repeat after this answer.
fn is_final(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(_) | Err(StoreError::Internal(_)))
}

/// The content that a number goes with, so that repeats are common. Half of the numbers are exchanges. Three of
/// eight are cancels of an exchange of the same wallet, some of them two of one. The others are presents and orders.
fn usual_content(app: usize, number: usize) -> RequestContent {
    let own = number % NUMBERS;
    let before = if own % 16 < 8 { 4 } else { 12 };
    let kind = match own % 8 {
        0..=3 => RequestKind::Exchange,
        4 if own % 16 == 4 => RequestKind::Present,
        4 => RequestKind::Order,
        _ => RequestKind::Cancel,
    };
    let content = RequestContent {
        kind,
        wallet: app * WALLETS + number % WALLETS,
        amount: 1 + i64::try_from(number % 9).unwrap(),
        gifted_first: number.is_multiple_of(2),
        variant: u8::from(own % 32 == 12),
        of: number.checked_sub(before).filter(|_| own >= before),
    };
    match kind {
        RequestKind::Cancel => RequestContent { amount: 1 + content.amount % 4, ..content }.of_kind(kind),
        kind => content.of_kind(kind),
    }
}

fn count(world: &mut World, outcome: &Outcome) {
    world.counts.add(match outcome {
        Ok(WalletOutcome::Done(receipt)) if receipt.given_back.is_some() => EventKind::GivenBack,
        Ok(WalletOutcome::Done(receipt)) if receipt.ordered.is_some() => EventKind::Ordered,
        Ok(WalletOutcome::Done(_)) => EventKind::Done,
        Ok(WalletOutcome::Replayed(_)) => EventKind::Replayed,
        Ok(WalletOutcome::Balance { .. }) => EventKind::Balance,
        Ok(WalletOutcome::Number(number)) if number.change.is_none() => EventKind::ClosedShown,
        Ok(WalletOutcome::Number(_)) => EventKind::NumberShown,
        Ok(WalletOutcome::Refused(Refused::Conflict, _)) => EventKind::Conflict,
        Ok(WalletOutcome::Refused(Refused::Expired, _)) => EventKind::Expired,
        Ok(WalletOutcome::Refused(Refused::Closed, _)) => EventKind::ClosedRefused,
        Ok(WalletOutcome::Refused(Refused::TsOutsideWindow, _)) => EventKind::TsRefused,
        Ok(WalletOutcome::Refused(Refused::UnknownWallet, _)) => EventKind::UnknownWallet,
        Ok(WalletOutcome::Refused(Refused::InsufficientBalance(_), _)) => EventKind::Insufficient,
        Ok(WalletOutcome::Refused(Refused::Frozen(_), _)) => EventKind::Frozen,
        Ok(WalletOutcome::Refused(Refused::MoreThanLeft { .. }, _)) => EventKind::MoreThanLeft,
        Ok(WalletOutcome::Refused(Refused::UnknownNumber, _)) => EventKind::UnknownNumber,
        Ok(WalletOutcome::Refused(Refused::PurseFull | Refused::NotForSale, _))
        | Err(StoreError::Unavailable(..) | StoreError::Overloaded) => EventKind::Unavailable,
        Err(StoreError::Again) => EventKind::Exhausted,
        Err(StoreError::Internal(_) | StoreError::PicturesUnavailable(_) | StoreError::Repeated) => {
            EventKind::Faulty
        }
    });
}
