//! A network loses the database's replies to a thousand writes that commit.
//!
//! They are lost in whole,
//! but for the last message, with the session left open, or the commit itself. What is retried is answered with the
//! identical `data`, as a replay. Then the same network resets, stalls, delays, half closes and splits everything.
//!
//! Seen to fail when a used number is not found again: 197 of 1,241 doubled. It failed when a session that ends while a
//! write is under way is taken for a success: numbers were answered in different ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::caller::{Asked, Caller, Reply, Servers};
use crate::support::figures::Figures;
use crate::support::load::{Kind, Load, mixed, random, remember};
use crate::support::protocol::Loss;
use crate::support::proxy::{Fault, Proxy};
use crate::support::stage::{Stage, Wallets};
use crate::support::{Dice, full_or_short};

const WALLETS: Wallets = Wallets { count: 4, free: 10_000_000, charge: 10_000_000 };
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
const BACK_WITHIN: Duration = Duration::from_secs(5);
const CALLERS: usize = 8;

pub(crate) async fn prove() -> Figures {
    let mut figures = lost_replies().await;
    figures.add(faulty_network().await);
    figures
}

async fn lost_replies() -> Figures {
    let (stage, postgres) = Stage::set(WALLETS).await;
    let proxy = Proxy::start(postgres.socket_dir()).await;
    // A session that swallows replies is given up after a second more than a statement may take.
    let through = stage
        .program
        .clone()
        .with("DATABASE_URL", &proxy.url())
        .with("MINITILL_DATABASE__STATEMENT_TIMEOUT", "200ms")
        .with("MINITILL_EXCHANGE__DEADLINE", "1s");
    let (behind, beside) = (through.serve(None).await, stage.program.serve(None).await);
    let stop = Arc::new(AtomicBool::new(false));
    let unlike = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for index in 0..CALLERS {
        let (caller, servers) = (stage.caller(), Servers::new(&[behind.address]));
        callers.spawn(ask_twice(caller, servers, index, Arc::clone(&stop), Arc::clone(&unlike)));
    }
    let wanted = full_or_short(1000, 100);
    let mut rival = None;
    for lost in 0..wanted {
        if lost == wanted / 2 {
            // Another server on the same wallets: now the first meets conflicts, and uses BEGIN and COMMIT.
            let kind = Kind { prefix: "rival", callers: 2, wallets: 4 };
            rival = Some(Load::start(&stage, &Servers::new(&[beside.address]), kind));
        }
        proxy.plan(match lost {
            _ if lost % 50 == 7 => Loss::Swallowed,
            _ if lost % 5 == 1 => Loss::LastMessage,
            _ if lost % 5 == 3 => Loss::Commit,
            _ => Loss::Reply,
        });
        let planned = Instant::now();
        while proxy.planned() > 0 {
            assert!(planned.elapsed() < SETTLE_WITHIN, "loss {lost}: nothing is written any more");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    callers.join_all().await;
    if let Some(rival) = rival {
        rival.stop().await;
    }
    let mut figures = stage.close_books(postgres.socket_dir()).await;
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    let losses = proxy.losses();
    let (statements, transactions) = (count(&losses.statements), count(&losses.transactions));
    let uncommitted = count(&losses.uncommitted);
    figures
        .expect(statements + transactions + uncommitted == wanted, || "not all replies were lost".to_owned());
    figures.expect(statements > 0 && transactions > 0 && uncommitted > 0, || {
        "not every kind of reply was lost".to_owned()
    });
    let unlike = count(&unlike);
    figures.expect(unlike == 0, || {
        format!("{unlike} were repeated and not answered as replays, or not the same")
    });
    figures.note(format!(
        "lost: {statements} replies to a statement that commits, {transactions} to COMMIT, {uncommitted} commits"
    ));
    figures
}

/// Settles one number after the other and asks again: the answer must be the same. If it was a success, it says that it
/// is a replay.
async fn ask_twice(
    mut caller: Caller,
    servers: Servers,
    index: usize,
    stop: Arc<AtomicBool>,
    unlike: Arc<AtomicUsize>,
) {
    let mut dice = Dice::new(index.try_into().unwrap());
    let mut count = 0;
    let mut paid = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        count += 1;
        let exchange = random(&mut dice, format!("lost{index}n{count}"), 4);
        let asked = mixed(&mut dice, exchange, &paid);
        let first = caller.settle(&servers, &asked, SETTLE_WITHIN).await;
        let again = caller.settle(&servers, &asked, SETTLE_WITHIN).await;
        // The books tell that it is unresolved.
        let (Some(first), Some(again)) = (first, again) else { continue };
        remember(&mut paid, &asked, Some(&first));
        let (Reply::Answer { body, .. }, Reply::Answer { body: same, replayed, .. }) = (&first, &again)
        else {
            continue;
        };
        // A refusal and the answer to a query are no replays.
        let is_replay = first.is_success() && !asked.is_close();
        unlike.fetch_add(usize::from(body != same || *replayed != is_replay), Ordering::SeqCst);
    }
}

async fn faulty_network() -> Figures {
    let (stage, postgres) = Stage::set(WALLETS).await;
    let proxy = Proxy::start(postgres.socket_dir()).await;
    let server = stage.program.clone().with("DATABASE_URL", &proxy.url()).serve(None).await;
    let servers = Servers::new(&[server.address]);
    let load = Load::start(&stage, &servers, Kind { prefix: "net", callers: 16, wallets: 4 });
    let mut figures = Figures::default();
    let mut probe = stage.caller();
    let faults = [
        Fault::Reset,
        Fault::BlackHole,
        Fault::Delay(Duration::from_millis(100)),
        Fault::HalfClose,
        Fault::ByteWise,
    ];
    for round in 0..full_or_short(4, 1) {
        for (index, fault) in faults.into_iter().enumerate() {
            tokio::time::sleep(Duration::from_millis(500)).await;
            proxy.set(fault);
            tokio::time::sleep(Duration::from_secs(4)).await;
            proxy.set(Fault::None);
            let healed = Instant::now();
            let number = format!("healed{round}n{index}");
            let asked = Asked::exchange(number, "o0", 1, 1);
            let settled = probe.settle(&servers, &asked, SETTLE_WITHIN).await;
            let took = healed.elapsed();
            figures.expect(settled.is_some() && took < BACK_WITHIN, || {
                format!("{fault:?}: back after {took:?}")
            });
            figures.recovered_in(took);
        }
    }
    load.stop().await;
    let mut found = stage.close_books(postgres.socket_dir()).await;
    found.add(figures);
    let slowest = stage.meter.slowest();
    found.expect(slowest < Duration::from_secs(3), || format!("faulty network: an answer took {slowest:?}"));
    found.expect(stage.meter.silent() == 0, || format!("{} got no answer", stage.meter.silent()));
    found.note(format!(
        "faulty network: {} acknowledged, {} answers were 503, the slowest took {slowest:?}",
        stage.meter.acknowledged(),
        stage.meter.unavailable()
    ));
    found
}
