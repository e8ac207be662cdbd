//! Events beside their changes (contract 12.1.1 and 12.1.9).

use domain::ids::ImgId;
use serde_json::json;

use super::{credit, debit, give_back, pay, quiet_till, report};
use crate::game::Game;
use crate::support::{Answer, PICTURE, TestApp, TestTill, operator};

/// Events that have no number yet, of wallets and of all others.
const OF_WALLETS: &str = "SELECT coalesce(sum(count), 0)::bigint FROM wallet_outbox";
const OTHERS: &str = "SELECT coalesce(sum(count), 0)::bigint FROM outbox";

async fn count(till: &TestTill) -> i64 {
    till.number(OF_WALLETS).await + till.number(OTHERS).await
}

async fn block(till: &TestTill) {
    till.store
        .change_blocks(&operator(), crate::support::block(&store::BlobHash::of(PICTURE), "r"))
        .await
        .unwrap();
}

async fn ok(answer: impl Future<Output = Answer>) {
    let answer = answer.await;
    assert_eq!(answer.code(), 1, "{}", answer.body);
}

/// One change of each kind, each in a transaction of its own.
async fn change_all(till: &TestTill, app: &TestApp) {
    credit(till, app, "c1", 5, 7).await;
    pay(till, app, "b1").await;
    ok(Game::new(app, "o1", "b2", 20).send(till)).await;
    ok(Game::present(app, "o1", "p1", 10).send(till)).await;
    ok(Game::cancel(app, "o1", "k1", "b2", 5).send(till)).await;
    debit(till, app, "d1", 0, 1).await;
    give_back(till, app, "b2", 3, "g1", "").await;
    let img_id = till.image(app).await;
    for status in [1, 2] {
        ok(report(till, app, "order-1", status, &img_id)).await;
    }
    block(till).await;
}

/// Rule 12.1.1: a row of the outbox and the row it tells of are written by one transaction: PostgreSQL keeps its id
/// beside each row.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_written_in_the_transaction_of_its_change() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    change_all(&till, &app).await;
    let entries = till.number("SELECT count(*) FROM ledger_entries").await;
    assert_eq!((entries, till.number(OF_WALLETS).await, till.number(OTHERS).await), (8, 8, 3));
    let together = "SELECT count(*) FROM ledger_entries e JOIN wallet_outbox o USING (app_no, at) \
                    WHERE o.xmin = e.xmin AND o.count = 1 AND o.type = CASE e.kind \
                        WHEN 'credit' THEN 'wallet.credited' WHEN 'debit' THEN 'wallet.debited' \
                        ELSE e.kind || '.succeeded' END";
    assert_eq!(till.number(together).await, entries);
    let orders = "SELECT count(*) FROM order_events e JOIN outbox o USING (app_id, at) \
                  WHERE o.xmin = e.xmin AND o.type = 'order.changed'";
    assert_eq!(till.number(orders).await, 2);
    let images = "SELECT count(*) FROM images i JOIN outbox o USING (app_id) \
                  WHERE o.xmin = i.xmin AND o.type = 'image.blocked' AND i.blocked_by IS NOT NULL";
    assert_eq!(till.number(images).await, 1);
}

/// Rule 12.1.1: a change whose event cannot be written is not made.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_event_a_change_is_not_made() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let img_id = till.image(&app).await;
    let rows = "SELECT (SELECT count(*) FROM ledger_entries) + (SELECT count(*) FROM order_events) \
                + (SELECT count(*) FROM images WHERE blocked_by IS NOT NULL)";
    let before = (till.number(rows).await, till.purses(&app, "o1").await);
    for table in ["wallet_outbox", "outbox"] {
        till.execute(&format!("ALTER TABLE {table} ADD CONSTRAINT full_up CHECK (count < 0) NOT VALID"))
            .await;
    }
    assert_ne!(Game::new(&app, "o1", "b1", 1).send(&till).await.status, 200);
    assert_ne!(report(&till, &app, "order-1", 1, &img_id).await.status, 200);
    let blocked = till
        .store
        .change_blocks(&operator(), crate::support::block(&store::BlobHash::of(PICTURE), "r"))
        .await;
    assert!(blocked.is_err());
    assert_eq!((till.number(rows).await, till.purses(&app, "o1").await), before);
    for table in ["wallet_outbox", "outbox"] {
        till.execute(&format!("ALTER TABLE {table} DROP CONSTRAINT full_up")).await;
    }
    pay(&till, &app, "b1").await;
    ok(report(&till, &app, "order-1", 1, &img_id)).await;
    block(&till).await;
    assert_eq!(till.number(rows).await, before.0 + 3);
    assert_eq!(count(&till).await, before.0 + 3);
}

/// Rule 12.1.9.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_makes_no_event() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    change_all(&till, &app).await;
    let before = count(&till).await;
    // Replays.
    credit(&till, &app, "c1", 5, 7).await;
    pay(&till, &app, "b1").await;
    ok(Game::present(&app, "o1", "p1", 10).send(&till)).await;
    ok(Game::cancel(&app, "o1", "k1", "b2", 5).send(&till)).await;
    give_back(&till, &app, "b2", 3, "g1", "").await;
    // The image is blocked already.
    block(&till).await;
    // Refusals.
    assert_eq!(Game::new(&app, "o1", "b9", 1_000_000).send(&till).await.code(), 10_000_601);
    assert_eq!(Game::new(&app, "o1", "b1", 2).send(&till).await.code(), 10_000_602);
    assert_ne!(Game::cancel(&app, "o1", "k9", "b2", 900).send(&till).await.code(), 1);
    // A number that is closed, and a read.
    let closed = Game::query(&app, "o1", "never").with("close", 1).send(&till).await;
    assert_eq!(closed.json()["data"]["status"], json!("closed"), "{}", closed.body);
    ok(Game::balance(&app, "o1").send(&till)).await;
    assert_eq!(count(&till).await, before);
}

/// Rule 12.1.9: a report that changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_changes_nothing_makes_no_event() {
    let (till, app) = quiet_till(&[], |_| {}).await;
    let img_id = till.image(&app).await;
    for (status, events) in [(1, 1), (1, 1), (2, 2), (2, 2)] {
        ok(report(&till, &app, "order-1", status, &img_id)).await;
        assert_eq!(till.number(OTHERS).await, events, "{status}");
    }
    let unknown = ImgId::parse(&"0".repeat(48)).unwrap();
    assert_eq!(report(&till, &app, "order-1", 3, &unknown).await.code(), 10_000_417);
    assert_eq!(till.number(OTHERS).await, 2);
}
