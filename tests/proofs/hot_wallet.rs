//! Many callers exchange from one wallet at once.
//!
//! First: 64 callers at two server processes for half a minute, and the balance is
//! exact. Then: wallets that hold 100, and a thousand deductions of 1 to 7 in both priorities at once: never below
//! zero, and every row is split between the purses as the rule says.
//!
//! Seen to fail when gifted-first is split as charged-first.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::caller::Servers;
use crate::support::figures::Figures;
use crate::support::load::{Kind, Load, random};
use crate::support::stage::{Stage, Wallets};
use crate::support::{Dice, full_or_short};

const DEDUCTIONS: usize = 1000;
const SETTLE_WITHIN: Duration = Duration::from_mins(1);

pub(crate) async fn prove() -> Figures {
    let mut figures = hot_wallet().await;
    figures.add(overdraft_race().await);
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

async fn overdraft_race() -> Figures {
    let wallets = full_or_short(10, 3);
    // Odd shares, so that a purse often covers a part.
    let (stage, postgres) = Stage::set(Wallets { count: wallets, free: 37, charge: 63 }).await;
    let (one, other) = (stage.program.serve(None).await, stage.program.serve(None).await);
    let servers = Servers::new(&[one.address, other.address]);
    let mut refused = 0;
    for wallet in 0..wallets {
        let mut callers = JoinSet::new();
        let mut dice = Dice::new(wallet.try_into().unwrap());
        for index in 0..DEDUCTIONS {
            let mut asked = random(&mut dice, format!("race{wallet}n{index}"), 1);
            asked.open_id = format!("o{wallet}");
            let (mut caller, servers) = (stage.caller(), servers.clone());
            callers.spawn(async move { caller.settle(&servers, &asked, SETTLE_WITHIN).await });
        }
        let codes: Vec<_> = callers.join_all().await.iter().map(|reply| reply.as_ref()?.code()).collect();
        refused += codes.iter().filter(|code| **code == Some(10_000_601)).count();
        assert!(codes.iter().all(|code| matches!(code, Some(1 | 10_000_601))), "{codes:?}");
    }
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    let mut sql = postgres.connect().await.unwrap();
    let left: i64 = sqlx::query_scalar("SELECT max(free_balance + charge_balance) FROM wallets")
        .fetch_one(&mut sql)
        .await
        .unwrap();
    // Somebody asked for 1 until the end.
    figures.expect(left == 0, || format!("{left} left in a wallet that could pay"));
    figures.note(format!("{refused} of {} raced deductions were refused", wallets * DEDUCTIONS));
    figures
}
