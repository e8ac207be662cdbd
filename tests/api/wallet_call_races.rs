//! Races around cancels and queries (contract 10.4.1 and 10.5.3).

use domain::app::Scope;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::{Answer, AppKind, TestApp, TestTill};

async fn app(till: &TestTill) -> TestApp {
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 500, 500).await;
    app
}

/// Sends all at once, half to each server.
async fn send_at_once(till: [&TestTill; 2], games: impl IntoIterator<Item = Game>) -> Vec<(Game, Answer)> {
    let mut tries = JoinSet::new();
    for (index, game) in games.into_iter().enumerate() {
        let address = till[index % 2].address;
        tries.spawn(async move {
            let answer = game.request().send(address).await;
            (game, answer)
        });
    }
    tries.join_all().await
}

/// Contract 10.4.1: the parts of one exchange never exceed it, whoever asks and wherever.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_cancels_of_one_exchange_at_once_never_exceed_it() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = app(&first).await;
    for round in 0..3 {
        let paid = format!("b{round}");
        assert_eq!(Game::new(&app, "o1", &paid, 100).with("pay_priority", 1).send(&first).await.code(), 1);
        let cancels = (0..64).map(|index| Game::cancel(&app, "o1", &format!("c{round}x{index}"), &paid, 7));
        let answers = send_at_once([&first, &second], cancels).await;
        let mut left: Vec<i64> = Vec::new();
        for (_, answer) in &answers {
            match answer.code() {
                1 => left.push(answer.json()["data"]["remaining"].as_i64().unwrap()),
                code => assert_eq!(code, 10_000_605, "{}", answer.body),
            }
        }
        left.sort_unstable();
        assert_eq!(left, [2, 9, 16, 23, 30, 37, 44, 51, 58, 65, 72, 79, 86, 93]);
        let rest = Game::cancel(&app, "o1", &format!("c{round}rest"), &paid, 2).send(&second).await;
        assert_eq!(rest.json()["data"]["remaining"], 0, "{}", rest.body);
    }
    assert_eq!(first.purses(&app, "o1").await, (500, 500, 1 + 3 * 16));
    first.assert_audit_clean().await;
}

/// Contract 10.5.4: either the first try or the close has the number, and both tell the same of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_races_the_first_try_leaves_one_truth() {
    let first = TestTill::start().await;
    let second = TestTill::start_on(first.database_url.clone(), |_| {}).await;
    let app = app(&first).await;
    let (mut paid, mut closed) = (0, 0);
    for round in 0..12 {
        let numbers = (0..16).map(|index| format!("n{round}x{index}"));
        let games = numbers.flat_map(|number| {
            let close = Game::query(&app, "o1", &number).with("close", 1);
            let pay = Game::new(&app, "o1", &number, 1);
            // Sometimes the close has a head start.
            if round % 2 == 0 { [close, pay] } else { [pay, close] }
        });
        let mut told = std::collections::BTreeMap::<String, Vec<String>>::new();
        for (game, answer) in send_at_once([&first, &second], games).await {
            let state = match (game.fields.contains_key("amount"), answer.code()) {
                (true, 1) => "paid".to_owned(),
                (true, 10_000_608) => "closed".to_owned(),
                (false, 1) => answer.json()["data"]["status"].as_str().unwrap().to_owned(),
                _ => panic!("{}", answer.body),
            };
            told.entry(game.fields["biz_no"].clone()).or_default().push(state);
        }
        for (number, states) in told {
            assert_eq!(states[0], states[1], "{number}");
            paid += i64::from(states[0] == "paid");
            closed += i64::from(states[0] == "closed");
        }
    }
    assert_eq!(paid + closed, 12 * 16);
    assert!(paid > 0 && closed > 0, "{paid} paid, {closed} closed");
    assert_eq!(first.purses(&app, "o1").await, (500, 500 - paid, 1 + paid));
    assert_eq!(first.number("SELECT count(*) FROM ledger_entries WHERE kind = 'closed'").await, closed);
    first.assert_audit_clean().await;
}

/// Contract 10.5.3: a change that is being written is waited for. A transaction that has not committed has written the
/// row and holds the wallet, as the statement of a batch does.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_waits_for_an_exchange_that_is_being_written() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    assert_eq!(Game::new(&app, "o1", "b0", 1).send(&till).await.code(), 1);
    for (commits, code) in [(false, 10_000_606), (true, 1)] {
        let mut writing = till.sql.begin().await.unwrap();
        let write = "INSERT INTO ledger_entries SELECT (jsonb_populate_record(e, '{\"reference\":\"b1\",\"seq\":9}')).* \
             FROM ledger_entries e WHERE reference = 'b0'; \
             UPDATE wallets SET free_balance = free_balance WHERE open_id = 'o1'";
        sqlx::raw_sql(write).execute(&mut *writing).await.unwrap();
        let (query, address) = (Game::query(&app, "o1", "b1").request(), till.address);
        let asking = tokio::spawn(async move { query.send(address).await });
        till.until_locked_out(1).await;
        if commits {
            writing.commit().await.unwrap();
        } else {
            writing.rollback().await.unwrap();
        }
        let answer = asking.await.unwrap();
        assert_eq!(answer.code(), code, "{}", answer.body);
    }
}
