//! Half of ten thousand clients hang up at a random moment of a request.
//!
//! The requests are exchanges, presents, cancels, closes of numbers, order reports and requests for a token. A second
//! later no session is left inside a transaction, and the pool is whole. What was acknowledged, reports too, is in the
//! tables. The database is 2 ms away, so that a hang-up meets every step.
//!
//! Seen to fail when a report runs BEGIN and COMMIT in the request's own future, which is dropped half-way, and the
//! pool checks no session. Then 4 of 17 were left inside a transaction. (Dropped by a time-out: hang-ups alone did
//! not show it, even with hyper's `half_close` off.)

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::service::{PAGE, PICTURE, Request, raw};
use crate::support::caller::{Asked, Reply, Servers, request_bytes};
use crate::support::figures::Figures;
use crate::support::load::{mixed, random, remember};
use crate::support::postgres::Postgres;
use crate::support::proxy::{Fault, Proxy};
use crate::support::stage::{Stage, Wallets};
use crate::support::{Dice, full_or_short};

const CLIENTS_AT_ONCE: usize = 100;
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
/// Orders that the reports are about: few, so that reports race for them and use transactions.
const ORDERS: u64 = 5;
/// How many exchanges are made first, for the cancels.
const EXCHANGES: usize = 20;
const DISTANCE: Duration = Duration::from_millis(2);
/// The pool's sessions, and one of each writer: of wallets and of orders.
const SESSIONS: i64 = 18;
/// Those for what strangers may ask open when they are needed (contract 2.7.9).
const SESSIONS_OF_STRANGERS_MAX: i64 = 4;

/// The request of a client.
enum Wish {
    Change(Asked),
    /// The number of the payment, and the request.
    Report(String, Vec<u8>),
    Token(Vec<u8>),
}

pub(crate) async fn prove() -> Figures {
    let (mut stage, postgres) = Stage::set(Wallets { count: 20, free: 100_000, charge: 100_000 }).await;
    for name in ["REPORTS", "TOKENS"] {
        stage.program = stage.program.with(&format!("MINITILL_LIMITS__{name}_PER_SECOND"), "0");
    }
    let proxy = Proxy::start(postgres.socket_dir()).await;
    proxy.set(Fault::Delay(DISTANCE));
    let server = stage.program.clone().with("DATABASE_URL", &proxy.url()).serve(None).await;
    let img_id = upload(&stage, server.address).await;
    let clients = full_or_short(10_000, 2000);
    let mut dice = Dice::new(3);
    let paid = exchanges(&stage, server.address, &mut dice).await;
    let mut under_way = JoinSet::new();
    let mut reported = Vec::new();
    for index in 0..clients {
        if under_way.len() >= CLIENTS_AT_ONCE {
            reported.extend(under_way.join_next().await.unwrap().unwrap());
        }
        let wish = wish(&stage, &mut dice, index, &img_id, &paid);
        let stage = stage.clone();
        let address = server.address;
        if index % 2 == 0 {
            under_way.spawn(hang_up(stage, address, wish, dice.clone()));
        } else {
            under_way.spawn(wait_for_answer(stage, address, wish));
        }
    }
    reported.extend(under_way.join_all().await.into_iter().flatten());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut figures = Figures::default();
    look_at_sessions(&postgres, &mut figures).await;
    look_at_reports(&postgres, &reported, &mut figures).await;
    settle_all(&stage, server.address).await;
    look_at_sessions(&postgres, &mut figures).await;
    figures.note(format!("{clients} clients, {} of them hung up", clients / 2));
    figures.add(stage.close_books(postgres.socket_dir()).await);
    figures
}

fn wish(stage: &Stage, dice: &mut Dice, index: usize, img_id: &str, paid: &[Asked]) -> Wish {
    let app = &stage.app;
    match dice.throw(10) {
        0..4 => {
            let exchange = random(dice, format!("client{index}"), 20);
            Wish::Change(mixed(dice, exchange, paid))
        }
        4..9 => {
            let payment = format!("payment_{index}");
            let report = json!({
                "out_biz_order_no": format!("order_{}", dice.throw(ORDERS)),
                "out_order_no": payment,
                "open_id": "o1",
                "order_create_time": 1_700_000_000_000_i64,
                "order_status": 1 + dice.throw(6),
                "order_path": PAGE,
                "product_cover_img_id": img_id,
            });
            let target =
                format!("/openapi/mp/developer/order/v1/report?app_id=a1&access_token={}", app.token);
            Wish::Report(payment, Request::post(&target).body(report.to_string()).bytes())
        }
        _ => {
            let target = format!(
                "/oauth2/access_token?app_id=a1&app_secret={}&grant_type=client_credentials",
                app.secret
            );
            Wish::Token(Request::get(&target).bytes())
        }
    }
}

/// Makes the exchanges that clients cancel in parts.
async fn exchanges(stage: &Stage, address: SocketAddr, dice: &mut Dice) -> Vec<Asked> {
    let mut caller = stage.caller();
    let mut paid = Vec::new();
    for index in 0..EXCHANGES {
        let asked = Asked { amount: 100, ..random(dice, format!("paid{index}"), 20) };
        let reply = caller.settle(&Servers::new(&[address]), &asked, SETTLE_WITHIN).await;
        remember(&mut paid, &asked, reply.as_ref());
    }
    paid
}

/// Sends all of the request or a part of it, and is gone a moment later.
async fn hang_up(stage: Stage, address: SocketAddr, wish: Wish, mut dice: Dice) -> Option<String> {
    let bytes = match &wish {
        Wish::Change(asked) => {
            stage.journal.asking(asked);
            request_bytes(&stage.app, asked)
        }
        Wish::Report(_, bytes) | Wish::Token(bytes) => bytes.clone(),
    };
    let part = match dice.throw(4) {
        0 => usize::try_from(dice.throw(bytes.len().try_into().unwrap())).unwrap(),
        _ => bytes.len(),
    };
    if let Ok(mut stream) = TcpStream::connect(address).await {
        let _ = stream.write_all(&bytes[..part]).await;
        // Some while the request is read or waits for a session, some in the middle of the work.
        let longest = if dice.throw(3) == 0 { 10_000 } else { 300_000 };
        tokio::time::sleep(Duration::from_micros(dice.throw(longest))).await;
        if dice.throw(2) == 0 {
            let _ = stream.set_zero_linger();
        }
    }
    if let Wish::Change(asked) = wish {
        stage.journal.told(&asked, &Reply::Silence("hung up".to_owned()));
    }
    None
}

/// The number of the payment, when a report was acknowledged.
async fn wait_for_answer(stage: Stage, address: SocketAddr, wish: Wish) -> Option<String> {
    let (payment, bytes) = match wish {
        Wish::Change(asked) => {
            stage.caller().settle(&Servers::new(&[address]), &asked, SETTLE_WITHIN).await;
            return None;
        }
        Wish::Report(payment, bytes) => (Some(payment), bytes),
        Wish::Token(bytes) => (None, bytes),
    };
    let answer = raw(address, &bytes).await;
    // With so many at once a 503 is in order.
    assert!(matches!(answer.status, 200 | 503), "{}: {}", answer.status, answer.body);
    payment.filter(|_| answer.status == 200 && answer.code() == 1)
}

async fn look_at_reports(postgres: &Postgres, reported: &[String], figures: &mut Figures) {
    let mut sql = postgres.connect().await.unwrap();
    let kept: Vec<String> =
        sqlx::query_scalar("SELECT out_order_no FROM order_payments").fetch_all(&mut sql).await.unwrap();
    let kept: HashSet<String> = kept.into_iter().collect();
    let lost: Vec<&String> = reported.iter().filter(|payment| !kept.contains(*payment)).collect();
    figures.expect(lost.is_empty(), || format!("{} acknowledged reports are not kept", lost.len()));
    figures.expect(!reported.is_empty(), || "no report was acknowledged".to_owned());
    figures.note(format!("{} reports were acknowledged, {} of them lost", reported.len(), lost.len()));
}

/// Whoever hung up asks again, with the same number. Every second one gives up before that, and closes the number.
async fn settle_all(stage: &Stage, address: SocketAddr) {
    let mut caller = stage.caller();
    let servers = Servers::new(&[address]);
    for (index, asked) in stage.journal.unsettled().into_iter().enumerate() {
        if index % 2 == 0 && !asked.is_close() {
            caller.settle(&servers, &asked.close(), SETTLE_WITHIN).await;
        }
        caller.settle(&servers, &asked, SETTLE_WITHIN).await;
    }
}

async fn look_at_sessions(postgres: &Postgres, figures: &mut Figures) {
    let mut sql = postgres.connect().await.unwrap();
    let (sessions, idle): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE state = 'idle') FROM pg_stat_activity \
         WHERE application_name LIKE 'minitill %'",
    )
    .fetch_one(&mut sql)
    .await
    .unwrap();
    let most = SESSIONS + SESSIONS_OF_STRANGERS_MAX;
    figures.expect((SESSIONS..=most).contains(&sessions) && idle == sessions, || {
        format!("expected {SESSIONS} to {most} sessions, all idle; found {sessions}, {idle} of them idle")
    });
}

async fn upload(stage: &Stage, address: SocketAddr) -> String {
    let target =
        format!("/openapi/mp/developer/file/img/uploadWithFile?app_id=a1&access_token={}", stage.app.token);
    let head = "content-disposition: form-data; name=\"file\"; filename=\"a.png\"";
    let answer = Request::post(&target).multipart(&[(head, PICTURE)]).send(address).await;
    answer.json()["data"]["imgId"].as_str().expect("the picture is accepted").to_owned()
}
