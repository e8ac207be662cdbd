//! Many callers use one wallet at once.
//!
//! First: 64 callers at two server processes for half a minute, and the balance is exact. Then: an exchange of 100, and
//! a thousand cancels of 1 to 7 at once give back all of it and no more. A thousand deductions of 1 to 7 in both
//! priorities at once take it again. It is never below zero, and every row is split between the purses as the rule
//! says.
//!
//! Seen to fail when gifted-first is split as charged-first, and when a cancel of all that is left is refused.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::caller::{Asked, Reply, Servers, Wish};
use crate::support::figures::Figures;
use crate::support::load::{Kind, Load, random};
use crate::support::stage::{Stage, Wallets};
use crate::support::{Dice, full_or_short};

const RACED_AT_ONCE: usize = 1000;
const SETTLE_WITHIN: Duration = Duration::from_mins(1);

pub(crate) async fn prove() -> Figures {
    let mut figures = hot_wallet().await;
    figures.add(races().await);
    figures
}

async fn hot_wallet() -> Figures {
    let (stage, postgres) = Stage::set(Wallets { count: 1, free: 10_000_000, charge: 100 }).await;
    let (one, other) = (stage.program.serve(None).await, stage.program.serve(None).await);
    let servers = Servers::new(&[one.address, other.address]);
    let load = Load::start(&stage, &servers, Kind { prefix: "hot", callers: 64, wallets: 1 });
    tokio::time::sleep(Duration::from_secs(full_or_short(30, 5))).await;
    load.stop().await;
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    figures.note(format!("{} acknowledged on one wallet", stage.meter.acknowledged()));
    figures
}

async fn races() -> Figures {
    let wallets = full_or_short(10, 3);
    // Odd shares, so that a purse often covers a part.
    let (stage, postgres) = Stage::set(Wallets { count: wallets, free: 37, charge: 63 }).await;
    let (one, other) = (stage.program.serve(None).await, stage.program.serve(None).await);
    let servers = Servers::new(&[one.address, other.address]);
    let (mut cancels_refused, mut deductions_refused) = (0, 0);
    for wallet in 0..wallets {
        let open_id = format!("o{wallet}");
        let mut dice = Dice::new(wallet.try_into().unwrap());
        let all = Asked::exchange(format!("all{wallet}"), &open_id, 100, i16::from(wallet % 2 == 0));
        let paid = stage.caller().settle(&servers, &all, SETTLE_WITHIN).await;
        assert!(paid.as_ref().is_some_and(Reply::is_success), "{paid:?}");
        let mut deduction = |kind: &str, index: usize| Asked {
            open_id: open_id.clone(),
            ..random(&mut dice, format!("{kind}{wallet}n{index}"), 1)
        };
        let cancel = |deduction: Asked| Asked { wish: Wish::Cancel(all.number.clone()), ..deduction };
        let cancels = (0..RACED_AT_ONCE).map(|index| cancel(deduction("back", index))).collect();
        let deductions = (0..RACED_AT_ONCE).map(|index| deduction("race", index)).collect();
        cancels_refused += race(&stage, &servers, cancels, 10_000_605).await;
        deductions_refused += race(&stage, &servers, deductions, 10_000_601).await;
    }
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    let mut sql = postgres.connect().await.unwrap();
    let sum = "SELECT sum(free_change + charge_change)::bigint FROM ledger_entries WHERE kind = 'cancel'";
    let given_back: i64 = sqlx::query_scalar(sum).fetch_one(&mut sql).await.unwrap();
    let sum = "SELECT sum(free_balance + charge_balance)::bigint FROM wallets";
    let left: i64 = sqlx::query_scalar(sum).fetch_one(&mut sql).await.unwrap();
    // Somebody asked for 1 until the end.
    figures.expect(given_back == 100 * i64::try_from(wallets).unwrap(), || {
        format!("{given_back} given back of {wallets} exchanges of 100")
    });
    figures.expect(left == 0, || format!("{left} left in wallets that could pay"));
    figures.note(format!(
        "of {} raced cancels {cancels_refused} were refused, and of as many deductions {deductions_refused}",
        wallets * RACED_AT_ONCE
    ));
    figures
}

/// Asks for all of them at once. How many were refused with this code; the others have succeeded.
async fn race(stage: &Stage, servers: &Servers, asks: Vec<Asked>, refusal: u64) -> usize {
    let mut callers = JoinSet::new();
    for asked in asks {
        let (mut caller, servers) = (stage.caller(), servers.clone());
        callers.spawn(async move { caller.settle(&servers, &asked, SETTLE_WITHIN).await });
    }
    let codes: Vec<_> = callers.join_all().await.iter().map(|reply| reply.as_ref()?.code()).collect();
    assert!(codes.iter().all(|code| [Some(1), Some(refusal)].contains(code)), "{codes:?}");
    codes.iter().filter(|code| **code == Some(refusal)).count()
}
