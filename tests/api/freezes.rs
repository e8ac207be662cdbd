//! An operator stops one player and not the app (contract 17).

use domain::app::Scope;
use domain::console_user::Role;
use serde_json::{Value, json};

use crate::admin::Caller;
use crate::game::Game;
use crate::support::program::Program;
use crate::support::{Answer, AppKind, TestApp, TestTill};

const FROZEN: &str = "open_id: the operator has frozen this player's wallet";
const FREEZES: &str = "/apps/a1/wallets/o1/freezes";

async fn app(till: &TestTill) -> TestApp {
    let app = till.app_like("a1", AppKind { scopes: &Scope::ALL, ..AppKind::default() }).await;
    till.player(&app, "o1", 40, 100).await;
    till.player(&app, "o2", 40, 100).await;
    app
}

async fn thaw(admin: &Caller<'_>, open_id: &str) -> Answer {
    let path = format!("/apps/a1/wallets/{open_id}/freezes");
    admin.delete(&path).await
}

/// Rule 17.2.1: exchange, present and cancel are refused with both balances, before the check of the purses. Repeats
/// are replayed, another player pays, and queries and balances go on. It holds on every server.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_wallet_refuses_what_moves_coins_and_nothing_else() {
    let till = TestTill::start().await;
    let second = TestTill::start_on(till.database_url.clone(), |_| {}).await;
    let app = app(&till).await;
    let paid = Game::new(&app, "o1", "b1", 60).send(&till).await;
    assert_eq!(paid.code(), 1, "{}", paid.body);
    let admin = Caller::admin(&till).await;
    let frozen = admin.post(FREEZES, "k1", json!({ "reason": "chargeback" })).await;
    assert_eq!(frozen.status, 200, "{}", frozen.body);
    assert_eq!(frozen.json(), json!({ "app_id": "a1", "open_id": "o1", "frozen": true, "until": null }));

    let refusal =
        format!(r#"{{"code":10000609,"msg":"{FROZEN}","data":{{"freeBalance":40,"chargeBalance":40}}}}"#);
    for server in [&till, &second] {
        for game in [
            Game::new(&app, "o1", "b2", 1),
            // What the purses do not cover, what they cannot give back, and what is unknown to them.
            Game::new(&app, "o1", "b2", 1_000),
            Game::present(&app, "o1", "p1", 5),
            Game::cancel(&app, "o1", "c1", "b1", 1_000),
            Game::cancel(&app, "o1", "c1", "b9", 1),
        ] {
            game.send(server).await.assert_body(&refusal);
        }
        let again = Game::new(&app, "o1", "b1", 60).send(server).await;
        assert_eq!(
            (again.body.as_str(), again.header("idempotent-replayed")),
            (paid.body.as_str(), Some("true"))
        );
        Game::new(&app, "o1", "b1", 59).send(server).await.assert_refused(
            10_000_602,
            "biz_no: b1 was used for other content; a new request needs a new number, and is carried out again: ask with a query first",
        );
        let stale = Game::new(&app, "o1", "b2", 1).with("ts", 1_700_000_000).send(server).await;
        assert_eq!(stale.code(), 10_000_604, "{}", stale.body);
        for (player, charge, frozen) in [("o1", 40, json!(true)), ("o2", 100, Value::Null)] {
            let data = Game::balance(&app, player).send(server).await.json()["data"].clone();
            assert_eq!((&data["freeBalance"], &data["chargeBalance"]), (&json!(40), &json!(charge)));
            assert_eq!(data["frozen"], frozen, "{data}");
        }
        let known = Game::query(&app, "o1", "b1").send(server).await;
        assert_eq!(known.json()["data"]["status"], "paid", "{}", known.body);
        let closed = Game::query(&app, "o1", "n1").with("close", 1).send(server).await;
        assert_eq!(closed.json()["data"]["status"], "closed", "{}", closed.body);
    }
    assert_eq!(Game::new(&app, "o2", "b3", 1).send(&till).await.code(), 1);

    // Rule 17.2.4: what operators do goes on.
    let credit = json!({ "free": 10, "ref": "r1" });
    assert_eq!(admin.post("/apps/a1/wallets/o1/credits", "k2", credit).await.status, 200);
    assert_eq!(
        admin.post("/apps/a1/wallets/o1/debits", "k3", json!({ "free": 10, "ref": "r2" })).await.status,
        200
    );
    let given = json!({ "amount": 60, "ref": "r3" });
    assert_eq!(admin.post("/apps/a1/exchanges/b1/cancels", "k4", given).await.status, 200);
    assert_eq!(till.purses(&app, "o1").await, (40, 100, 5));

    let thawed = thaw(&admin, "o1").await;
    assert_eq!(thawed.json(), json!({ "app_id": "a1", "open_id": "o1", "frozen": false, "until": null }));
    assert_eq!(Game::new(&app, "o1", "b2", 1).send(&second).await.code(), 1);
    till.assert_audit_clean().await;
}

/// Rule 17.1.3: a second freeze replaces reason and end. One that would end before now is refused. A wallet that is not
/// frozen is thawed without a trace. An unknown player has no wallet.
#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_is_replaced_and_ends_by_the_clock_of_the_database() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let admin = Caller::admin(&till).await;
    let lines = "SELECT count(*) FROM operator_log WHERE action IN ('wallet.freeze', 'wallet.thaw')";
    assert_eq!(thaw(&admin, "o1").await.json()["frozen"], false);
    assert_eq!(till.number(lines).await, 0);
    let past = admin.post(FREEZES, "k1", json!({ "reason": "x", "until": "2020-01-01T00:00:00Z" })).await;
    assert_eq!(past.status, 422, "{}", past.body);
    let detail = past.json()["errors"][0]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(
        past.json()["errors"][0]["field"] == "until"
            && detail.starts_with("expected a time after now, which is 20")
            && detail.ends_with("Z, got 2020-01-01T00:00:00Z"),
        "{}",
        past.body
    );
    let missing = admin.post(FREEZES, "k2", json!({})).await;
    assert_eq!(
        (missing.status, &missing.json()["errors"][0]["field"]),
        (422, &json!("reason")),
        "{}",
        missing.body
    );
    let nobody = admin.post("/apps/a1/wallets/o9/freezes", "k3", json!({ "reason": "x" })).await;
    assert_eq!(nobody.status, 404, "{}", nobody.body);
    assert_eq!(till.number(lines).await, 0);

    let first = json!({ "reason": "first", "until": "2999-01-01T00:00:00Z" });
    let first = admin.post(FREEZES, "k4", first).await;
    assert_eq!(first.json()["until"], "2999-01-01T00:00:00Z", "{}", first.body);
    let wallet = admin.get("/apps/a1/wallets/o1").await.json();
    assert_eq!((&wallet["frozen"], &wallet["frozen_until"]), (&json!(true), &json!("2999-01-01T00:00:00Z")));
    let second = admin.post(FREEZES, "k5", json!({ "reason": "second" })).await;
    assert_eq!(second.json()["until"], Value::Null, "{}", second.body);
    let wallet = admin.get("/apps/a1/wallets/o1").await.json();
    assert_eq!((&wallet["frozen"], &wallet["frozen_until"]), (&json!(true), &Value::Null));
    let kept = "SELECT count(*) FROM operator_log WHERE action = 'wallet.freeze' AND subject = 'o1' AND note = 'second'
        AND before = '{\"frozen\": true, \"until\": \"2999-01-01T00:00:00Z\"}'
        AND after = '{\"frozen\": true, \"until\": null}'";
    assert_eq!(till.number(kept).await, 1);

    // The clock of the database, and no job, ends it.
    till.execute("UPDATE wallets SET frozen_until = now() - interval '1 second' WHERE open_id = 'o1'").await;
    assert_eq!(Game::new(&app, "o1", "b1", 1).send(&till).await.code(), 1);
    assert_eq!(admin.get("/apps/a1/wallets/o1").await.json()["frozen"], false);
}

/// Rule 17.2.1: a wallet that is frozen while exchanges run pays nothing after the freeze is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn no_exchange_succeeds_after_a_freeze_is_acknowledged() {
    let till = TestTill::start().await;
    let app = app(&till).await;
    let admin = Caller::admin(&till).await;
    for round in 0..10 {
        let paying = async {
            let mut paid = 0;
            for try_no in 0.. {
                let answer = Game::new(&app, "o2", &format!("b{round}x{try_no}"), 1).send(&till).await;
                match answer.code() {
                    1 => paid += 1,
                    code => {
                        assert_eq!(code, 10_000_609, "{}", answer.body);
                        break;
                    }
                }
            }
            paid
        };
        let freezing = async {
            let frozen = admin
                .post("/apps/a1/wallets/o2/freezes", &format!("k{round}"), json!({ "reason": "x" }))
                .await;
            assert_eq!(frozen.status, 200, "{}", frozen.body);
            till.purses(&app, "o2").await
        };
        let (_, at_freeze) = tokio::join!(paying, freezing);
        assert_eq!(till.purses(&app, "o2").await, at_freeze, "round {round}");
        assert_eq!(thaw(&admin, "o2").await.status, 200);
        let credit = json!({ "charge": 100, "ref": format!("again{round}") });
        let credited = admin.post("/apps/a1/wallets/o2/credits", &format!("c{round}"), credit).await;
        assert_eq!(credited.status, 200, "{}", credited.body);
    }
    till.assert_audit_clean().await;
}

/// Rule 17.3: the events name the player and the end, and nothing of the reason.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_are_told_of_a_freeze_and_its_end() {
    let till = TestTill::start().await;
    app(&till).await;
    let admin = Caller::admin(&till).await;
    let freeze = json!({ "reason": "chargeback", "until": "2999-01-01T00:00:00Z" });
    assert_eq!(admin.post(FREEZES, "k1", freeze).await.status, 200);
    assert_eq!(thaw(&admin, "o1").await.status, 200);
    till.store.number_events(None).await.unwrap();
    let page = admin.get("/events?app_id=a1").await.json();
    // The first two are the credits of the players.
    let told = |place: usize| (page["items"][place]["type"].clone(), page["items"][place]["data"].clone());
    assert_eq!(
        [told(2), told(3)],
        [
            (json!("wallet.frozen"), json!({ "open_id": "o1", "until": 32_472_144_000_000_i64 })),
            (json!("wallet.thawed"), json!({ "open_id": "o1", "until": null })),
        ],
        "{page}"
    );
}

/// Rule 17.1.1: the same on the command line, and an operator without the right changes nothing in the console.
#[tokio::test(flavor = "multi_thread")]
async fn each_face_freezes_and_thaws() {
    let till = TestTill::start().await;
    app(&till).await;
    let program = Program::on(&till.database_url);
    let frozen =
        program.json(&["wallet", "freeze", "a1", "o1", "--reason", "chargeback", "--until", "2999-01-01"]);
    assert_eq!(
        frozen,
        json!({ "app_id": "a1", "open_id": "o1", "frozen": true, "until": "2999-01-01T00:00:00Z" })
    );
    let past = program.complaint(&["wallet", "freeze", "a1", "o1", "--reason", "x", "--until", "2020-01-01"]);
    assert!(past.contains("expected a time after now") && past.contains("2020-01-01T00:00:00Z"), "{past}");
    let player = "/console/apps/a1/players/o1";
    let (support, admin) = (till.browser(Role::Support).await, till.browser(Role::Admin).await);
    let shown = support.get(player).await.body;
    assert!(shown.contains("This wallet is frozen until") && shown.contains("“chargeback”"), "{shown}");
    assert_eq!(support.post(&format!("{player}/thaw"), &[("reason", "x")]).await.status, 403);
    assert_eq!(admin.post(&format!("{player}/thaw"), &[("reason", "")]).await.status, 400);
    assert!(admin.get(&format!("{player}/thaw")).await.body.contains("Thaw the wallet"));
    let thawed = admin.post(&format!("{player}/thaw"), &[("reason", "settled")]).await;
    let page = admin.get(thawed.header("location").unwrap()).await.body;
    assert!(
        page.contains("The wallet is no longer frozen.") && !page.contains("This wallet is frozen"),
        "{page}"
    );
    assert!(admin.get(&format!("{player}/freeze")).await.body.contains("Freeze the wallet"));
    let again = admin.post(&format!("{player}/freeze"), &[("reason", "again")]).await;
    let page = admin.get(again.header("location").unwrap()).await.body;
    assert!(
        page.contains("This wallet is frozen until an operator thaws it.") && page.contains("“again”"),
        "{page}"
    );
    assert_eq!(program.json(&["wallet", "thaw", "a1", "o1"])["frozen"], false);
    // Rule 8.6.34: the history of the player has each of them.
    let history = support.get(&format!("{player}?kind=change")).await.body;
    let told = ["freeze", "thaw"].map(|act| history.matches(&format!("wallet.<wbr>{act}<wbr>")).count());
    assert_eq!(told, [2, 2], "{history}");
}

/// Rule 17.3.2: a freeze outlives the erasure of its player, under the pseudonym.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_players_freeze_stays() {
    let till = TestTill::start().await;
    app(&till).await;
    let program = Program::on(&till.database_url);
    program.json(&["wallet", "freeze", "a1", "o1", "--reason", "chargeback"]);
    let erased = program.json(&["player", "erase", "a1", "o1", "--yes"]);
    let pseudonym = erased["pseudonym"].as_str().unwrap();
    assert_eq!(program.json(&["wallet", "show", "a1", pseudonym])["frozen"], true);
    // Rule 13.7.5: its line has the pseudonym and no note, and the audit finds the freeze that it tells of.
    let lines = format!("SELECT count(*) FROM operator_log WHERE subject = '{pseudonym}' AND note = ''");
    assert_eq!(till.number(&format!("{lines} AND action = 'wallet.freeze'")).await, 1);
    let page =
        till.browser(Role::Viewer).await.get(&format!("/console/apps/a1/players/{pseudonym}")).await.body;
    assert!(page.contains(" froze it on ") && !page.contains("“”"), "{page}");
    till.assert_audit_clean().await;
}
