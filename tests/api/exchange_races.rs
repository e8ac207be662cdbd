//! Races and faults around an exchange: one number deducts once, whoever asks and however often
//! (contract 3.3).

use std::time::Duration;

use store::is_between_transactions;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::{TestTill, until};

#[tokio::test(flavor = "multi_thread")]
async fn one_number_sent_to_two_servers_at_once_deducts_once_and_all_answers_are_equal() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = first.app("a1").await;
    first.player(&app, "o1", 0, 1000).await;
    for round in 0..5 {
        let mut tries = JoinSet::new();
        for index in 0..60 {
            let request = Game::new(&app, "o1", &format!("b{round}"), 7).request();
            let address = if index % 2 == 0 { first.address } else { second.address };
            tries.spawn(async move { request.send(address).await });
        }
        let answers = tries.join_all().await;
        let fresh = answers.iter().filter(|answer| answer.header("idempotent-replayed").is_none()).count();
        assert_eq!(fresh, 1);
        assert!(answers.iter().all(|answer| answer.code() == 1 && answer.body == answers[0].body));
    }
    assert_eq!(first.purses(&app, "o1").await, (0, 1000 - 5 * 7, 6));
    first.assert_audit_clean().await;
}

/// The batched statement that loses money fails here: the locks are of different wallets, so only
/// the record's key stands between the two deductions.
#[tokio::test(flavor = "multi_thread")]
async fn one_number_for_two_wallets_on_two_servers_deducts_from_one_of_them() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = first.app("a1").await;
    first.player(&app, "o1", 0, 1000).await;
    first.player(&app, "o2", 0, 1000).await;
    for round in 0..20 {
        let mut tries = JoinSet::new();
        for index in 0..8 {
            let open_id = if index % 2 == 0 { "o1" } else { "o2" };
            let request = Game::new(&app, open_id, &format!("b{round}"), 10).request();
            let address = if index < 4 { first.address } else { second.address };
            tries.spawn(async move { request.send(address).await });
        }
        let mut codes: Vec<u64> = tries.join_all().await.iter().map(crate::support::Answer::code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [1, 1, 1, 1, 10_000_602, 10_000_602, 10_000_602, 10_000_602]);
    }
    let (one, two) = (first.purses(&app, "o1").await, first.purses(&app, "o2").await);
    assert_eq!(one.1 + two.1, 2000 - 20 * 10);
    assert_eq!(first.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await, 20);
    first.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdraft_race_never_goes_below_zero() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 50, 50).await;
    let mut tries = JoinSet::new();
    for index in 0..100_i64 {
        let game = Game::new(&app, "o1", &format!("b{index}"), 1 + index % 7).with("pay_priority", index % 2);
        let (request, address) = (game.request(), till.address);
        tries.spawn(async move { (1 + index % 7, request.send(address).await) });
    }
    let mut taken = 0;
    for (amount, answer) in tries.join_all().await {
        match answer.code() {
            1 => taken += amount,
            code => assert_eq!(code, 10_000_601),
        }
    }
    let (free, charge, _) = till.purses(&app, "o1").await;
    assert!(free >= 0 && charge >= 0 && free + charge < 7);
    assert_eq!(free + charge, 100 - taken);
    till.assert_audit_clean().await;
}

/// A dropped BEGIN once left pooled sessions inside a transaction, and later writes were lost.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_hang_up_lose_nothing_and_leave_no_session_in_a_transaction() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100_000).await;
    let mut tries = JoinSet::new();
    for index in 0..300_u64 {
        let bytes = Game::new(&app, "o1", &format!("b{index}"), 1).request().bytes();
        let address = till.address;
        tries.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            tokio::time::sleep(Duration::from_micros(index * 37 % 4000)).await;
            // Dropped here, most of them before the answer.
        });
    }
    tries.join_all().await;
    // Every number is asked for again; whatever the first try did, it counts once.
    for index in 0..300 {
        // The three hundred before may still be at work on the one wallet.
        let answer = Game::new(&app, "o1", &format!("b{index}"), 1).send_until_served(&till).await;
        assert_eq!(answer.code(), 1, "{index}");
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 100_000 - 300, 301));
    let inside =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    until("no session is in a transaction", async || till.number(inside).await == 0).await;
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_inside_a_transaction_is_told_from_one_that_is_not() {
    let till = TestTill::start().await;
    let mut session = till.sql.acquire().await.unwrap();
    assert!(is_between_transactions(&mut session).await.unwrap());
    sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
    assert!(!is_between_transactions(&mut session).await.unwrap());
    sqlx::raw_sql("ROLLBACK").execute(&mut *session).await.unwrap();
    assert!(is_between_transactions(&mut session).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_keeps_its_sessions() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    // A writer connects with its first exchange.
    Game::new(&app, "o1", "b0", 1).send(&till).await;
    let sessions = "SELECT sum(pid)::bigint FROM pg_stat_activity \
                    WHERE datname = current_database() AND application_name LIKE 'minitill %'";
    let before = till.number(sessions).await;
    for index in 0..20 {
        Game::new(&app, "o1", &format!("b{index}"), 1).send(&till).await;
        Game::new(&app, "o1", "b1", 1).with("access_token", index).send(&till).await;
    }
    assert_eq!(till.number(sessions).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_past_the_deadline_and_an_unacknowledged_exchange_can_be_repeated() {
    let till = TestTill::start_with(|config| config.exchange.deadline = Duration::from_millis(300)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM wallets FOR UPDATE").execute(&mut *held).await.unwrap();
    // The lock is held until after the answer.
    let answer = Game::new(&app, "o1", "b1", 10).send(&till).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.body, r#"{"code":10000500,"msg":"the service is not available now, try again"}"#);
    held.rollback().await.unwrap();
    assert_eq!(Game::new(&app, "o1", "b1", 10).send_until_served(&till).await.code(), 1);
    assert_eq!(till.purses(&app, "o1").await, (0, 90, 2));
    till.assert_audit_clean().await;
}

/// What it takes to know who asks counts too, on a machine where it is not remembered.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_apps_or_tokens_that_is_locked_holds_no_exchange_past_the_deadline() {
    let till = TestTill::start_with(|config| config.exchange.deadline = Duration::from_millis(300)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    for (index, table) in ["apps", "access_tokens"].into_iter().enumerate() {
        let number = format!("b{index}");
        let mut held = till.sql.begin().await.unwrap();
        let lock = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *held).await.unwrap();
        // Whatever was remembered is forgotten.
        till.clock.advance(Duration::from_secs(5));
        // The lock is held until after the answer.
        let answer = Game::new(&app, "o1", &number, 10).send(&till).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{table}");
        held.rollback().await.unwrap();
        Game::new(&app, "o1", &number, 10).send_until_served(&till).await;
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 80, 3));
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_queue_limit_the_answer_is_503_at_once() {
    let till = TestTill::start_with(|config| config.exchange.queue_max = 2).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM wallets FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut tries = JoinSet::new();
    for index in 0..6 {
        let (request, address) = (Game::new(&app, "o1", &format!("b{index}"), 1).request(), till.address);
        tries.spawn(async move { request.send(address).await });
    }
    let mut refused = 0;
    while refused < 4 {
        let answer = tries.join_next().await.unwrap().unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!(answer.body, r#"{"code":10000500,"msg":"the service is overloaded, try again"}"#);
        refused += 1;
    }
    held.rollback().await.unwrap();
    for answer in tries.join_all().await {
        assert_eq!(answer.code(), 1);
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 98, 3));
}
