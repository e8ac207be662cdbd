//! Callers that make exchanges, presents and cancels and close numbers, until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::Dice;
use super::caller::{Asked, Caller, Reply, Servers, Wish};
use super::stage::Stage;

/// A number that nobody knows about for so long stays unresolved, which the books tell.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);

/// One of so many changes has its number closed at the same moment.
const RACED_ONE_IN: u64 = 8;

/// A caller remembers so many of its exchanges.
const REMEMBERED_MAX: usize = 50;

/// The work of the callers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// First letters of their numbers, so that those of two loads differ.
    pub(crate) prefix: &'static str,
    pub(crate) callers: usize,
    /// Each exchange takes one of `o0`, `o1` and so on at random.
    pub(crate) wallets: u64,
}

/// Callers at work.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Load {
    pub(crate) fn start(stage: &Stage, servers: &Servers, kind: Kind) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for index in 0..kind.callers {
            let pair = [stage.caller(), stage.caller()];
            callers.spawn(work(pair, servers.clone(), kind, index, Arc::clone(&stop)));
        }
        Self { stop, callers }
    }

    /// Every caller brings its last number to an end.
    pub(crate) async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.callers.join_all().await;
    }
}

/// Asks with the first caller. The second closes some of the numbers at the same moment.
async fn work(callers: [Caller; 2], servers: Servers, kind: Kind, index: usize, stop: Arc<AtomicBool>) {
    let [mut caller, mut closer] = callers;
    let mut dice = Dice::new(index.try_into().unwrap());
    let mut count = 0;
    let mut paid = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        count += 1;
        let exchange = random(&mut dice, format!("{}{index}n{count}", kind.prefix), kind.wallets);
        let asked = mixed(&mut dice, exchange, &paid);
        let reply = if !asked.is_close() && dice.throw(RACED_ONE_IN) == 0 {
            // A game may give up before its last try has ended. One of the two comes first.
            let close = asked.close();
            let (reply, _) = tokio::join!(
                caller.settle(&servers, &asked, SETTLE_WITHIN),
                closer.settle(&servers, &close, SETTLE_WITHIN)
            );
            reply
        } else {
            caller.settle(&servers, &asked, SETTLE_WITHIN).await
        };
        remember(&mut paid, &asked, reply.as_ref());
        // Some ask again for what they know. The answer must be the same, and a closed number stays closed.
        if dice.throw(8) == 0 {
            caller.ask(servers.at(count), &asked).await;
        }
    }
}

/// An exchange of 1 to 7 from one of the wallets, in either priority.
pub(crate) fn random(dice: &mut Dice, number: String, wallets: u64) -> Asked {
    let open_id = format!("o{}", dice.throw(wallets));
    let amount = 1 + i64::try_from(dice.throw(7)).unwrap();
    Asked::exchange(number, open_id, amount, i16::try_from(dice.throw(2)).unwrap())
}

/// Of ten calls seven make the exchange. The others make a present, cancel a remembered exchange, and close the number.
pub(crate) fn mixed(dice: &mut Dice, exchange: Asked, paid: &[Asked]) -> Asked {
    let (kind, chosen) = (dice.throw(10), dice.throw(paid.len().max(1).try_into().unwrap()));
    let made = paid.get(usize::try_from(chosen).unwrap());
    match (kind, made) {
        (0, _) => Asked { wish: Wish::Present, ..exchange },
        (1, Some(made)) => {
            Asked { open_id: made.open_id.clone(), wish: Wish::Cancel(made.number.clone()), ..exchange }
        }
        (2, _) => exchange.close(),
        _ => exchange,
    }
}

/// Remembers an exchange that was made, to be cancelled in parts. The oldest is forgotten, as little of it is left.
pub(crate) fn remember(paid: &mut Vec<Asked>, asked: &Asked, reply: Option<&Reply>) {
    if !matches!(asked.wish, Wish::Exchange(_)) || !reply.is_some_and(Reply::is_success) {
        return;
    }
    if paid.len() == REMEMBERED_MAX {
        paid.remove(0);
    }
    paid.push(asked.clone());
}
