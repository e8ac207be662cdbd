//! Exchanges that are written together (contract 3.3). The answers and the books are those of one at
//! a time, and one exchange costs its neighbours nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::caller::Signed;
use domain::fields::Fields;
use domain::wallet::{
    Balances, PayPriority, Receipt, Refused, WalletCall, WalletForm, WalletOutcome, WalletRequest,
};
use futures_util::future::join_all;
use minitill::public::auth::authenticate_call;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::{Answer, PATIENCE, TestApp, TestTill};

/// A small generator of numbers, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

async fn authenticated(till: &TestTill, game: &Game) -> Signed<WalletRequest> {
    let fields = Fields::from_urlencoded(game.body().as_bytes()).unwrap();
    let form = WalletForm { call: WalletCall::Exchange, fields };
    let signed = authenticate_call(&till.till, form).await.unwrap();
    signed.request(&till.till.reading_now()).unwrap()
}

/// The rules for one exchange alone, on maps.
#[derive(Default)]
struct Model {
    wallets: BTreeMap<String, Balances>,
    records: BTreeMap<String, (WalletRequest, Balances)>,
    /// `(open_id, biz_no, free_balance, charge_balance)` in the order they were made.
    ledger: Vec<(String, String, i64, i64)>,
}

impl Model {
    fn carry_out(&mut self, exchange: &WalletRequest) -> WalletOutcome {
        let biz_no = exchange.reference.clone();
        let receipt = |balances: Balances| Receipt {
            reference: exchange.reference.clone(),
            balances,
            given_back: None,
            ordered: None,
        };
        if let Some((first, after)) = self.records.get(&biz_no) {
            return if first == exchange {
                WalletOutcome::Replayed(receipt(*after))
            } else {
                WalletOutcome::Refused(
                    Refused::Conflict,
                    self.wallets.get(exchange.open_id.as_str()).copied(),
                )
            };
        }
        let open_id = exchange.open_id.to_string();
        let Some(balances) = self.wallets.get_mut(&open_id) else {
            return WalletOutcome::Refused(Refused::UnknownWallet, None);
        };
        let bought = exchange.purchase().unwrap();
        let Ok(change) = balances.deduct(bought.amount, bought.pay_priority) else {
            return WalletOutcome::Refused(Refused::InsufficientBalance(*balances), Some(*balances));
        };
        *balances = change.after;
        self.records.insert(biz_no.clone(), (exchange.clone(), change.after));
        self.ledger.push((open_id, biz_no, change.after.free(), change.after.charge()));
        WalletOutcome::Done(receipt(change.after))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_batches_answer_and_write_what_one_at_a_time_would() {
    // One writer: then the order of arrival is the order of the books.
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let mut model = Model::default();
    for player in 0..6 {
        let (free, charge) = (player * 20, 150 - player * 20);
        till.player(&app, &format!("o{player}"), free, charge).await;
        model.wallets.insert(format!("o{player}"), Balances::new(free, charge).unwrap());
    }
    let mut random = Random(7);
    for round in 0..25 {
        let mut asked = Vec::new();
        for _ in 0..=random.below(40) {
            // Few numbers and contents, so that they meet; the seventh player has no wallet.
            let (player, number) = (random.below(7), random.below(12));
            let amount = i64::try_from(1 + random.below(3) * 9).unwrap();
            let game = Game::new(&app, &format!("o{player}"), &format!("r{round}n{number}"), amount);
            asked.push(authenticated(&till, &game.with("pay_priority", random.below(2))).await);
        }
        let expected: Vec<WalletOutcome> =
            asked.iter().map(|exchange| model.carry_out(exchange.value())).collect();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        // They are polled in their order, and wait in the order in which they are first polled.
        let answers = join_all(asked.into_iter().map(|exchange| till.store.submit(exchange, deadline))).await;
        let answers: Vec<WalletOutcome> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, expected, "round {round}");
    }
    assert!(model.ledger.len() > 50, "{}", model.ledger.len());
    for (open_id, balances) in &model.wallets {
        let (free, charge, _) = till.purses(&app, open_id).await;
        assert_eq!((free, charge), (balances.free(), balances.charge()), "{open_id}");
        let of_wallet = |entry: &&(String, String, i64, i64)| entry.0 == *open_id;
        let expected: Vec<_> = model.ledger.iter().filter(of_wallet).cloned().collect();
        let written: Vec<(String, String, i64, i64)> = sqlx::query_as(
            "SELECT open_id, reference, free_balance, charge_balance FROM ledger
             WHERE kind = 'exchange' AND open_id = $1 ORDER BY seq",
        )
        .bind(open_id)
        .fetch_all(&till.sql)
        .await
        .unwrap();
        assert_eq!(written, expected);
    }
    till.assert_audit_clean().await;
    assert_eq!(PayPriority::GiftedFirst.code(), 1, "the model's priorities are those of the wire");
}

/// Sends all at once, half to each address.
async fn send_at_once(requests: Vec<(Game, std::net::SocketAddr)>) -> Vec<(Game, Answer)> {
    let mut tries = JoinSet::new();
    for (game, address) in requests {
        tries.spawn(async move {
            let answer = game.request().send(address).await;
            (game, answer)
        });
    }
    tries.join_all().await
}

/// The batched statement that loses money fails here. Two batches of two processes hold the same
/// numbers for different wallets, so only the records' key stands between the deductions.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_numbers_in_batches_of_two_servers_deduct_once_each() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = first.app("a1").await;
    for player in 0..8 {
        first.player(&app, &format!("o{player}"), 0, 1000).await;
    }
    for round in 0..10 {
        let mut requests = Vec::new();
        for number in 0..30 {
            // The first server gets the numbers in ascending order, the second in descending.
            let to_first = Game::new(&app, &format!("o{}", number % 4), &format!("r{round}n{number:02}"), 1);
            requests.push((to_first, first.address));
            let number = 29 - number;
            let wallet = 4 + number % 4;
            let to_second = Game::new(&app, &format!("o{wallet}"), &format!("r{round}n{number:02}"), 1);
            requests.push((to_second, second.address));
        }
        let mut wins = BTreeMap::<String, usize>::new();
        for (game, answer) in send_at_once(requests).await {
            match answer.code() {
                1 => *wins.entry(game.fields["biz_no"].clone()).or_default() += 1,
                code => assert_eq!(code, 10_000_602, "{}", answer.body),
            }
        }
        assert_eq!(wins.len(), 30);
        assert!(wins.values().all(|count| *count == 1), "{wins:?}");
    }
    let spent = "SELECT 8000 - sum(charge_balance)::bigint FROM wallets";
    assert_eq!(first.number(spent).await, 300);
    assert_eq!(first.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await, 300);
    first.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_hot_wallet_lose_nothing() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |config| config.exchange.writers = 3).await;
    let app = first.app("a1").await;
    first.player(&app, "o1", 100, 500).await;
    let requests = (0..600).map(|number| {
        let address = if number % 2 == 0 { first.address } else { second.address };
        (Game::new(&app, "o1", &format!("n{number}"), 1), address)
    });
    let answers = send_at_once(requests.collect()).await;
    assert!(answers.iter().all(|(_, answer)| answer.code() == 1));
    assert_eq!(first.purses(&app, "o1").await, (0, 0, 601));
    assert_eq!(Game::new(&app, "o1", "last", 1).send(&second).await.code(), 10_000_601);
    first.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_somebody_holds_does_not_hold_up_the_others() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    till.player(&app, "o2", 0, 100).await;
    assert_eq!(Game::new(&app, "o1", "used", 1).send(&till).await.code(), 1);
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM wallets WHERE open_id = 'o1' FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut stuck = JoinSet::new();
    for number in 0..3 {
        let (request, address) = (Game::new(&app, "o1", &format!("s{number}"), 10).request(), till.address);
        stuck.spawn(async move { request.send(address).await });
    }
    till.until_locked_out(1).await;
    for number in 0..20 {
        let answer = Game::new(&app, "o2", &format!("f{number}"), 1).send(&till).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    // What needs no deduction from it is answered too, and a player who is not there is told so.
    assert_eq!(
        Game::new(&app, "o1", "used", 1).send(&till).await.header("idempotent-replayed"),
        Some("true")
    );
    assert_eq!(Game::new(&app, "nobody", "x1", 1).send(&till).await.code(), 10_000_423);
    assert!(stuck.try_join_next().is_none(), "they wait for their wallet");
    held.rollback().await.unwrap();
    for answer in stuck.join_all().await {
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 69, 5));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_one_exchange_costs_its_neighbours_nothing() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 1000).await;
    // A fault that no check of ours foresees.
    till.execute("ALTER TABLE ledger_entries ADD CONSTRAINT unlucky CHECK (charge_change <> -13)").await;
    let requests = (0..40).map(|number| {
        let amount = if number % 10 == 3 { 13 } else { 1 };
        (Game::new(&app, "o1", &format!("n{number}"), amount), till.address)
    });
    for (game, answer) in send_at_once(requests.collect()).await {
        if game.fields["amount"] == "13" {
            assert_eq!(answer.status, 500);
            assert_eq!(answer.body, r#"{"code":10000500,"msg":"system error; send the same request again"}"#);
        } else {
            assert_eq!(answer.code(), 1, "{}", answer.body);
        }
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 1000 - 36, 37));
    till.assert_audit_clean().await;
}

/// The numbers make it safe to write a batch again whose session was lost, at whatever moment.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_under_the_writers_lose_and_double_nothing() {
    let till = TestTill::start_with(|config| config.exchange.writers = 2).await;
    let app = till.app("a1").await;
    for player in 0..10 {
        till.player(&app, &format!("o{player}"), 0, 10_000).await;
    }
    let sql = till.sql.clone();
    let ending = tokio::spawn(async move {
        // A writer attempts a batch 12 times. On a busy machine every end may hit the same batch.
        for _ in 0..10 {
            sqlx::raw_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                 AND application_name LIKE 'minitill %' AND query ~ 'COMMIT|BEGIN|unnest'",
            )
            .execute(&sql)
            .await
            .unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut number = 0;
    while !ending.is_finished() {
        let requests = (number..number + 40).map(|number| {
            (Game::new(&app, &format!("o{}", number % 10), &format!("n{number}"), 1), till.address)
        });
        for (_, answer) in send_at_once(requests.collect()).await {
            assert_eq!(answer.code(), 1, "{}", answer.body);
        }
        number += 40;
    }
    ending.await.unwrap();
    assert_eq!(till.number("SELECT 100000 - sum(charge_balance)::bigint FROM wallets").await, number);
    assert_eq!(till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await, number);
    till.assert_audit_clean().await;
}

/// Contract 9.5.1: over the deadline, 503; and the queue is empty again as soon as the table is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_locked_costs_nobody_more_than_the_deadline() {
    let till = TestTill::start_with(|config| config.exchange.deadline = Duration::from_millis(600)).await;
    let app: TestApp = till.app("a1").await;
    till.player(&app, "o1", 0, 1000).await;
    assert_eq!(Game::new(&app, "o1", "first", 1).send_until_served(&till).await.code(), 1);
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE ledger_entries").execute(&mut *held).await.unwrap();
    // The lock is held until after the answers.
    let requests = (0..50).map(|number| (Game::new(&app, "o1", &format!("n{number}"), 1), till.address));
    for (_, answer) in send_at_once(requests.collect()).await {
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.body);
    }
    held.rollback().await.unwrap();
    assert_eq!(Game::new(&app, "o1", "after", 1).send_until_served(&till).await.code(), 1);
    // A batch that had begun in time may have been written after nobody waited any more.
    let written = till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await;
    assert_eq!(till.purses(&app, "o1").await, (0, 1000 - written, 1 + written));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_is_not_begun() {
    let till = TestTill::start_with(|config| config.exchange.deadline = Duration::from_millis(300)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM wallets FOR UPDATE").execute(&mut *held).await.unwrap();
    assert_eq!(Game::new(&app, "o1", "late", 10).send(&till).await.status, 503);
    // A try that began in time gives up its wait for the lock.
    tokio::time::sleep(Duration::from_millis(400)).await;
    till.until_locked_out(0).await;
    held.rollback().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(till.purses(&app, "o1").await, (0, 100, 1));
}
