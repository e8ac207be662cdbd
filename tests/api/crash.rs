//! Real server processes that are killed: an acknowledged exchange stands, an unacknowledged one
//! can be repeated (contract 3.3.1 and 9.5.2).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, TestApp, TestTill, until};

const EXCHANGES: usize = 1000;
const PLAYERS: usize = 20;
const START: i64 = 100_000;

/// An exchange whose `ts` is now, for a server with the machine's clock.
fn game(app: &TestApp, index: usize) -> Game {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    Game::new(app, &format!("o{}", index % PLAYERS), &format!("b{index}"), 7).with("ts", now)
}

/// Sends an exchange; `None` when no answer came.
async fn try_send(address: SocketAddr, bytes: Vec<u8>) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&bytes).await.ok()?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.ok()?;
    (!received.is_empty()).then(|| Answer::parse(&received))
}

/// Sends every number once to one of the addresses, a hundred at a time; gives what was answered.
async fn send_all(
    app: &TestApp,
    addresses: &[SocketAddr],
    kill_after: Option<(usize, &mut dyn FnMut())>,
) -> Vec<Option<Answer>> {
    let mut answers = vec![None; EXCHANGES];
    let mut under_way = JoinSet::new();
    let mut next = 0;
    let mut done = 0;
    let mut kill_after = kill_after;
    while done < EXCHANGES {
        while next < EXCHANGES && under_way.len() < 100 {
            let (index, address) = (next, addresses[next % addresses.len()]);
            let bytes = game(app, index).request().bytes();
            under_way.spawn(async move { (index, try_send(address, bytes).await) });
            next += 1;
        }
        let (index, answer) = under_way.join_next().await.unwrap().unwrap();
        answers[index] = answer;
        done += 1;
        if kill_after.as_ref().is_some_and(|(count, _)| done == *count) {
            let (_, kill) = kill_after.take().unwrap();
            kill();
        }
    }
    answers
}

async fn start() -> (TestTill, TestApp, Program) {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for player in 0..PLAYERS {
        till.player(&app, &format!("o{player}"), 0, START).await;
    }
    // Tokens of a till with a test clock last until long after the machine's clock.
    let program = Program::on(&till.database_url);
    (till, app, program)
}

/// Every number is repeated until it is answered; then each has deducted exactly once, and what
/// was acknowledged before is answered the same.
async fn repeat_all(till: &TestTill, app: &TestApp, address: SocketAddr, before: &[Option<Answer>]) {
    for (index, earlier) in before.iter().enumerate() {
        let mut answer = None;
        for _ in 0..50 {
            answer = try_send(address, game(app, index).request().bytes()).await;
            if answer.as_ref().is_some_and(|answer| answer.status == 200) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let answer = answer.expect("an answer in the end");
        assert_eq!(answer.code(), 1, "{index}: {}", answer.body);
        if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.status == 200) {
            assert_eq!(earlier.body, answer.body, "an acknowledged exchange stands");
            assert_eq!(answer.header("idempotent-replayed"), Some("true"));
        }
    }
    assert_eq!(
        till.number("SELECT count(*) FROM ledger_entries WHERE kind = 'exchange'").await,
        i64::try_from(EXCHANGES).unwrap()
    );
    let each = i64::try_from(EXCHANGES / PLAYERS).unwrap();
    for player in 0..PLAYERS {
        assert_eq!(till.purses(app, &format!("o{player}")).await, (0, START - 7 * each, 1 + each));
    }
    till.assert_audit_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_of_a_thousand_exchanges_loses_and_doubles_none() {
    let (till, app, program) = start().await;
    let mut server = Some(program.serve(None).await);
    let address = server.as_ref().unwrap().address;
    let mut kill = || server.take().unwrap().kill();
    let answers = send_all(&app, &[address], Some((EXCHANGES / 3, &mut kill))).await;
    let acknowledged = answers.iter().flatten().filter(|answer| answer.status == 200).count();
    assert!((1..EXCHANGES).contains(&acknowledged), "{acknowledged}");
    let again = program.serve(None).await;
    repeat_all(&till, &app, again.address, &answers).await;
    assert!(program.run(&["audit"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_killed_while_both_get_the_same_numbers_loses_and_doubles_none() {
    let (till, app, program) = start().await;
    let mut first = Some(program.serve(None).await);
    let second = program.serve(None).await;
    let first_address = first.as_ref().unwrap().address;
    let mut kill = || first.take().unwrap().kill();
    let (only_first, only_second) = ([first_address], [second.address]);
    let (to_first, to_second) = tokio::join!(
        send_all(&app, &only_first, Some((EXCHANGES / 3, &mut kill))),
        send_all(&app, &only_second, None),
    );
    // What both have answered is the same.
    for (one, two) in to_first.iter().zip(&to_second) {
        if let (Some(one), Some(two)) = (one, two)
            && one.status == 200
            && two.status == 200
        {
            assert_eq!(one.body, two.body);
        }
    }
    repeat_all(&till, &app, second.address, &to_first).await;
    repeat_all(&till, &app, second.address, &to_second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_answers_what_is_under_way_and_ends() {
    let (till, app, program) = start().await;
    let server = program.serve(None).await;
    let address = server.address;
    // Under way: the wallet is locked until the server takes no more connections.
    let mut held = till.sql.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM wallets FOR UPDATE").execute(&mut *held).await.unwrap();
    let bytes = game(&app, 0).request().bytes();
    let under_way = tokio::spawn(try_send(address, bytes));
    till.until_locked_out(1).await;
    let stopping = tokio::task::spawn_blocking(move || server.terminate());
    until("there are no new connections", async || TcpStream::connect(address).await.is_err()).await;
    held.rollback().await.unwrap();
    let answer = under_way.await.unwrap().expect("an answer");
    assert_eq!((answer.status, answer.code()), (200, 1));
    stopping.await.unwrap();
    assert_eq!(till.purses(&app, "o0").await, (0, START - 7, 2));
}
