//! A thousand requests with one idempotency key at once: one change, and equal answers.
//!
//! Two server processes get them, and the answers are equal to the byte.
//!
//! Seen to fail when a used number is not found again and the insert of its record ignores the conflict. There
//! were up to 46 deductions for one number. Also when a cancel gives back twice its amount.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::caller::{Asked, Reply, Servers, Wish};
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::stage::{Stage, Wallets};

const ASKED_AT_ONCE: usize = 1000;

pub(crate) async fn prove() -> Figures {
    let (mut stage, postgres) = Stage::set(Wallets { count: 3, free: 1000, charge: 1000 }).await;
    // A thousand at once take longer than usual; a 503 would be right, and prove nothing.
    stage.program = stage
        .program
        .with("MINITILL_EXCHANGE__DEADLINE", "20s")
        .with("MINITILL_DATABASE__ACQUIRE_TIMEOUT", "20s");
    let (one, other) = (stage.program.serve(None).await, stage.program.serve(None).await);
    let servers = Servers::new(&[one.address, other.address]);
    let mut faults = Vec::new();
    let rounds = full_or_short(20, 5);
    for round in 0..rounds {
        let open_id = format!("o{}", round % 3);
        let exchange = Asked::exchange(format!("round{round}"), open_id, 7, i16::from(round % 2 == 0));
        // Of five rounds two are exchanges. One is a present, one gives back a part of the first, and one is an exchange
        // whose number is closed at the same time.
        let asked = match round % 5 {
            2 => Asked { wish: Wish::Present, ..exchange },
            3 => Asked {
                open_id: format!("o{}", (round - 3) % 3),
                amount: 3,
                wish: Wish::Cancel(format!("round{}", round - 3)),
                ..exchange
            },
            _ => exchange,
        };
        let asks = if round % 5 == 4 { vec![asked.clone(), asked.close()] } else { vec![asked] };
        let mut told = ask_at_once(&stage, &servers, &asks).await;
        let (replies, closes) = (told.remove(0), told.pop());
        if let Some(closes) = closes {
            // One of the two has come first, for everybody.
            let is_made = replies.iter().all(Reply::is_success);
            let is_closed = replies.iter().all(|reply| reply.code() == Some(10_000_608));
            let is_one = closes.iter().all(|reply| reply.is_success() && is_closed_by(reply) == is_closed);
            if is_made == is_closed || !is_one {
                faults.push(format!("round {round}: {replies:?} and {closes:?}"));
            }
            continue;
        }
        let bodies: BTreeSet<&Reply> = replies.iter().collect();
        let fresh =
            replies.iter().filter(|reply| matches!(reply, Reply::Answer { replayed: false, .. })).count();
        // The one that was made, and its replays, with the same body: the books compare the bodies.
        if fresh != 1 || bodies.len() != 2 || !replies.iter().all(Reply::is_success) {
            faults.push(format!(
                "round {round}: {fresh} without the header, {} kinds: {bodies:?}",
                bodies.len()
            ));
        }
    }
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    figures.faults.extend(faults);
    let numbers = figures.numbers;
    figures.expect(numbers == rounds, || format!("{numbers} numbers"));
    figures.note(format!("each of them asked for {ASKED_AT_ONCE} times at once"));
    figures
}

/// Whether a query has told that the number is closed.
fn is_closed_by(reply: &Reply) -> bool {
    matches!(reply, Reply::Answer { body, .. } if body.contains(r#""status":"closed""#))
}

/// The replies to each of these, which are asked for at once.
async fn ask_at_once(stage: &Stage, servers: &Servers, asks: &[Asked]) -> Vec<Vec<Reply>> {
    let start = Arc::new(Barrier::new(ASKED_AT_ONCE));
    let mut callers = JoinSet::new();
    for turn in 0..ASKED_AT_ONCE {
        let (mut caller, server) = (stage.caller(), servers.at(turn));
        let which = turn / 2 % asks.len();
        let (asked, start) = (asks[which].clone(), Arc::clone(&start));
        callers.spawn(async move {
            caller.connect(server).await;
            start.wait().await;
            (which, caller.ask(server, &asked).await)
        });
    }
    let mut replies = vec![Vec::new(); asks.len()];
    for (which, reply) in callers.join_all().await {
        replies[which].push(reply);
    }
    replies
}
