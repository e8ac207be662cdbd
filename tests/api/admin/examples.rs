//! The document of the admin API: every example in it is sent, and the answer must be the documented one.

use std::sync::Arc;

use domain::app::Scope;
use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::ids::OpenId;
use domain::operation::receiver::{NewReceiver, ReceiverCommand, ReceiverReport};
use domain::operation::user::UserCommand;
use domain::receiver::ReceiverFormat;
use domain::rights::{Apps, Rights};
use domain::topup::CallbackFormat;
use minitill::config::Config;
use minitill::openapi::{Content, Example, IMG_ID, Place, Success, plain};
use minitill::operator::admin::problem::{Problem, ProblemKind};
use minitill::operator::admin::{
    API_KEY, DescribedRoute as Call, EXAMPLE_REQUEST_ID as REQUEST_ID, RouteEffect, calls, document,
};
use serde_json::{Map, Value, json};

use super::{Caller, revoke};
use crate::game::Game;
use crate::openapi::scenario::{SHORT_BODY_TIMEOUT, in_turn, slowly};
use crate::openapi::schema;
use crate::support::program::Program;
use crate::support::{Answer, AppKind, Request, TestApp, TestTill, committed, fresh_database, operator};

/// What is fresh each time. Everything else must be as documented.
const FRESH: [&str; 34] = [
    "set_at",
    "credited_at",
    "closed_at",
    "compared_at",
    "app_secret",
    "pay_key",
    "access_token",
    "js_code",
    "expires_at",
    "created_at",
    "updated_at",
    "uploaded_at",
    "blocked_at",
    "paused_at",
    "first_seen_at",
    "replayed_until",
    "at",
    "picture",
    "bytes",
    "receiver_id",
    "secret",
    "event_id",
    "first_at",
    "last_at",
    "id",
    "timestamp",
    "next",
    "pseudonym",
    "asked_at",
    "ends_at",
    "last_used_at",
    "uses_last_day",
    "issued_at",
    "token",
];

fn defaults() -> Config {
    Config::load(None, std::iter::empty()).unwrap()
}

fn value(json: &impl serde::Serialize) -> Value {
    serde_json::to_value(json).unwrap()
}

/// The refusals of a call that one till can answer after the successes, in this order. The last four
/// change it.
const IN_TURN: [&str; 15] = [
    "key_missing",
    "key_unknown",
    "unreadable",
    "unknown_field",
    "invalid_field",
    "body_too_large",
    "body_too_slow",
    "not_json",
    "idempotency_key_missing",
    "idempotency_key_reused",
    "all_apps_only",
    "key_revoked",
    "not_for_role",
    "system_error",
    "unavailable",
];

/// Adds a receiver, and gives its id.
pub(super) async fn add_receiver(till: &TestTill, app_id: &str, url: &str) -> String {
    let url = domain::ids::WebUrl::parse(url).unwrap();
    let new = NewReceiver { url, events: Vec::new(), format: ReceiverFormat::Standard };
    let app_id = domain::ids::AppId::parse(app_id).unwrap();
    let command = ReceiverCommand::Add(new);
    match till.store.change_receivers(&operator(), &app_id, command, None).await.unwrap() {
        ReceiverReport::Added(added) => added.receiver.receiver_id.to_string(),
        other => panic!("{other:?}"),
    }
}

/// An event that the receiver of an app did not take at any try.
pub(super) async fn fail_event(till: &TestTill, app_id: &str) {
    let failed = format!(
        "INSERT INTO deliveries (app_id, receiver_id, event_no, event_id, event_at, type, state, tries, last_at, status, error)
         SELECT app_id, receiver_id, 1, 'evt_019ab4739e0000112233445566778899000a', now(), 'exchange.succeeded', 'failed',
             11, now(), 500, 'expected 2xx, got 500' FROM receivers WHERE app_id = '{app_id}'"
    );
    till.execute(&failed).await;
}

/// The order of the examples.
const ORDER: &str = "order1001";

/// A till, and a request to it as an example needs it.
#[derive(Clone)]
struct Scenario {
    till: Arc<TestTill>,
    call: Call,
    example: &'static str,
    key: Option<String>,
    path: String,
    query: String,
    body: Option<Vec<u8>>,
    content_type: &'static str,
    idempotency_key: Option<String>,
    /// The id of the picture, where there is one.
    image: Option<String>,
    app: Option<TestApp>,
}

/// A till for an example, and the key of its caller.
async fn open(example: &'static str) -> (Arc<TestTill>, String) {
    let till = TestTill::start_with(|config| {
        config.http.body_timeout = SHORT_BODY_TIMEOUT;
        config.console.support_give_back_max = 10;
        if ["needs_second", "needs_command_line", "needs_two_people"].contains(&example) {
            config.console.second_person_above = 10;
        }
    })
    .await;
    let role = if example == "above_limit" { Role::Support } else { Role::Admin };
    let key = Caller::of(&till, "dashboard", role.into()).await.key;
    (Arc::new(till), key)
}

impl Scenario {
    async fn prepare(call: &Call, example: &'static str) -> Self {
        let mut scenario = Self::on(open(example).await, call, example);
        scenario.make_app().await;
        scenario
    }

    /// A scenario without an app.
    fn on((till, key): (Arc<TestTill>, String), call: &Call, example: &'static str) -> Self {
        let parameters = |place| {
            let fields = call.operation.fields_in(place);
            fields.filter_map(|field| Some((field.name, plain(field.example.as_ref()?))))
        };
        let mut path = call.route.path.to_owned();
        for (name, text) in parameters(Place::Path) {
            path = path.replace(&format!("{{{name}}}"), &text);
        }
        let query: Vec<String> =
            parameters(Place::Query).map(|(name, text)| format!("{name}={text}")).collect();
        let idempotency_key = parameters(Place::Header).map(|(_, text)| text).next();
        let members = call.operation.fields_in(Place::Body);
        let body: Map<String, Value> =
            members.filter_map(|field| Some((field.name.to_owned(), field.example.clone()?))).collect();
        let body = call.operation.fields_in(Place::Body).next().map(|_| Value::Object(body));
        let is_file = call.route.access == RouteEffect::File;
        let file = call.operation.fields_in(Place::Body).next().filter(|_| is_file);
        let file = file.and_then(|file| Some(plain(file.example.as_ref()?).into_bytes()));
        Self {
            till,
            call: call.clone(),
            example,
            key: Some(key),
            path,
            query: query.join("&"),
            body: file.or_else(|| body.map(|body| body.to_string().into_bytes())),
            content_type: if is_file { "text/csv" } else { "application/json" },
            idempotency_key,
            image: None,
            app: None,
        }
    }

    /// The scenario of this example on the same till.
    async fn about(&self, example: &'static str) -> Self {
        let mut scenario = Self { example, ..self.clone() };
        if IN_TURN.contains(&example) && example != "idempotency_key_reused" {
            // The success has used the documented key.
            scenario.idempotency_key = self.idempotency_key.as_ref().map(|_| example.to_owned());
        }
        scenario.arrange().await;
        scenario
    }

    /// The app of the examples, with its page, a player and a picture.
    async fn make_app(&mut self) {
        let orders = self.call.route.path.contains("/topups");
        let scopes: &[Scope] = if orders { &Scope::ALL } else { &[Scope::Epay] };
        let app = self.till.app_like("demo", AppKind { scopes, ..AppKind::default() }).await;
        self.app = Some(app.clone());
        if !["no_player", "nothing_recorded"].contains(&self.example) {
            let charge = if self.example == "balance_too_large" { i64::MAX } else { 100 };
            self.till.player(&app, "player-1", 40, charge).await;
        }
        if self.example != "no_image" {
            let image = self.till.image(&app).await;
            self.path = self.path.replace(IMG_ID, image.as_str());
            self.image = Some(image.to_string());
            if self.call.route.id == "unblockImage" && self.example != "no_block" {
                let contents = self.till.store.image(&image).await.unwrap().unwrap().contents;
                self.till
                    .store
                    .change_blocks(&operator(), crate::support::block(&contents, "tests"))
                    .await
                    .unwrap();
            }
        }
        self.sell(&app).await;
        self.order(&app).await;
        self.notify(&app).await;
        self.operate().await;
    }

    /// The user, the key, the token and the request of the examples.
    async fn operate(&self) {
        let id = self.call.route.id;
        let is_of_user = ["listConsoleUsers", "setConsoleUserRole", "removeConsoleUser"].contains(&id);
        if is_of_user && self.example != "no_user" {
            let rights = Rights { role: Role::Support, apps: Apps::parse("demo").unwrap() };
            let add = UserCommand::Add(rights, PasswordHash::kept("none fits".to_owned()));
            let name = ConsoleUserName::parse("alice").unwrap();
            self.till.store.change_console_user(&operator(), &name, add).await.unwrap();
        }
        if id == "revokeApiKey" && self.example != "no_key" {
            Caller::of(&self.till, "old-dashboard", Role::Viewer.into()).await;
        }
        if id == "listChangeRequests" {
            let asked = "INSERT INTO console_requests (app_id, ref, kind, open_id, free, charge, create_wallet, reason, asked_by)
                 VALUES ('demo', 'case-4711', 'credit', 'player-1', 5000, 0, false, 'outage', 'alice')";
            self.till.execute(asked).await;
        }
    }

    /// The receiver of the examples, with what failed at it; and the events of the feed.
    async fn notify(&mut self, app: &TestApp) {
        self.till.store.number_events(None).await.unwrap();
        let id = self.call.route.id;
        let has_receiver = id == "listReceivers" || self.call.route.path.contains("{receiver_id}");
        if !has_receiver || self.example == "no_receiver" {
            return;
        }
        let url =
            if id == "testReceiver" { "http://127.0.0.1/notify" } else { "https://game.example/notify" };
        let receiver_id = add_receiver(&self.till, app.id.as_str(), url).await;
        self.path = self.path.replace("rcv_5f0c1a2b3c4d5e6f", &receiver_id);
        if ["listFailedEvents", "resendEvents"].contains(&id) {
            fail_event(&self.till, app.id.as_str()).await;
        }
    }

    /// The subject that the call looks up.
    async fn sell(&self, app: &TestApp) {
        let id = self.call.route.id;
        if ["getStatement", "getBill", "closePeriod", "listClosedPeriods"].contains(&id) {
            self.till.execute("UPDATE ledger_entries SET at = '2026-10-05'").await;
        }
        if id == "listClosedPeriods" {
            let zone = domain::period::TimeZone::parse("Asia/Shanghai").unwrap();
            let month = domain::period::Period::month("2026-10").unwrap();
            let by =
                domain::operator::Operator::new(domain::operator::OperatorKind::ApiKey, "dashboard").unwrap();
            self.till.store.close_period(&by, &app.id, month, &zone, None).await.unwrap();
        }
        let sells = ["getExchange", "cancelExchange", "listExchanges", "reconcile"].contains(&id);
        if self.example == "no_longer_sandbox" || sells && self.example != "no_exchange" {
            let game = Game::new(app, "player-1", "order1001", 60).with("product_name", "Double-up card");
            assert_eq!(game.send(&self.till).await.code(), 1);
        }
        if id == "listRefusals" {
            self.till
                .execute(
                    "INSERT INTO exchange_refusals VALUES ('demo', 'order1001', 'player-1', 10000601, 'exchange', now(), now(),
                         2, '5f2d8c1a9b3e4f60', 60, 'Double-up card', 40, 0)",
                )
                .await;
        }
        if ["listOrders", "getOrder"].contains(&id) && self.example != "no_order" {
            let report = json!({
                "out_biz_order_no": "order-000001",
                "out_order_no": "pay-000001",
                "open_id": "player-1",
                "order_create_time": 1_700_000_000_000_i64,
                "order_status": 2,
                "order_path": "pages/order/detail?id=1",
                "product_cover_img_id": self.image,
            });
            let path =
                format!("/openapi/mp/developer/order/v1/report?app_id={}&access_token={}", app.id, app.token);
            assert_eq!(self.till.send(Request::post(&path).body(report.to_string())).await.code(), 1);
        }
    }

    /// The prices, the order and the payment of the examples.
    async fn order(&self, app: &TestApp) {
        let id = self.call.route.id;
        let provided =
            ["listTopupProviders", "removeTopupProvider"].contains(&id) && self.example != "no_provider";
        if provided {
            crate::callbacks::set(&self.till, app, "pay", CallbackFormat::Standard, crate::callbacks::PAY)
                .await;
        }
        if !self.call.route.path.contains("/topups") && id != "getPrices" {
            return;
        }
        crate::topups::sell(&self.till, app).await;
        if id == "getPrices" || self.example == "no_player" || self.example == "no_payment" {
            return;
        }
        let order = Game::topup(app, "player-1", ORDER, "gems60");
        let is_paid = ["getTopup", "listTopups", "refundTopup", "getConsumption"].contains(&id)
            && self.example != "payment_not_credited";
        let order = order.send(&self.till).await;
        assert_eq!(order.code(), 1, "{}", order.body);
        if is_paid {
            let body = json!({"provider": "stripe", "provider_order_id": "pi_3OrtQ2", "currency": "CNY", "amount": 600,
                "paid_at": "2026-11-21T08:00:00Z", "biz_no": ORDER});
            let caller = Caller::new(&self.till, "payments", Role::Payments).await;
            let paid = caller.send("POST", "/apps/demo/topups", None, &body).await;
            assert_eq!(paid.status, 200, "{}", paid.body);
        } else if id == "settleTopup" {
            crate::topups::keep_unmatched(&self.till, app, "stripe", "pi_3OrtQ2").await;
        }
    }

    fn demo(&self) -> TestApp {
        self.app.clone().expect("the app was made")
    }

    /// A member of the body with another value, or none.
    fn replace(&mut self, name: &str, value: Option<Value>) {
        let mut body: Map<String, Value> = serde_json::from_slice(self.body.as_deref().unwrap()).unwrap();
        body.remove(name);
        body.extend(value.map(|value| (name.to_owned(), value)));
        self.body = Some(Value::Object(body).to_string().into_bytes());
    }

    /// The subject of the example.
    #[expect(clippy::too_many_lines, reason = "a row for each example")]
    async fn arrange(&mut self) {
        match self.example {
            "balance_too_large" if self.call.route.id == "cancelExchange" => {
                self.till.execute("UPDATE wallets SET charge_balance = 9223372036854775807").await;
            }
            "not_covered" => self.replace("free", Some(json!(41))),
            "more_than_left" => self.replace("amount", Some(json!(61))),
            "too_many_receivers" => {
                for _ in 0..5 {
                    add_receiver(&self.till, "demo", "https://game.example/notify").await;
                }
            }
            "no_event" => self.replace("event_id", Some(json!("evt_019ab4739e0000112233445566778899000a"))),
            "cursor_too_old" => {
                self.till.execute("UPDATE event_head SET last_no = 9, removed_no = 9").await;
                self.query.push_str("&after=1.00000000");
            }
            "cursor_unknown" => self.query.push_str("&after=99.00000000"),
            "added" | "tested" | "resent" | "read" | "no_receiver" | "listed" | "shown" | "debited"
            | "given_back" | "closed" | "created" | "changed" | "set" | "done" | "made" | "published"
            | "registered" | "issued" | "revoked" | "known" | "credited" | "frozen" | "thawed"
            | "blocked" | "unblocked" | "checked" | "compared" | "no_app" | "no_player" | "no_image"
            | "no_exchange" | "no_order" | "no_block" | "above_limit" | "balance_too_large"
            | "needs_second" | "needs_command_line" | "needs_two_people" | "nothing_recorded" | "no_user"
            | "no_key" | "removed" | "erased" | "prices" | "replaced" | "paid" | "settled" | "no_payment"
            | "body_too_slow" | "no_longer_sandbox" | "refunded" | "no_provider" => {}
            // The success before it has paid the order.
            "unmatched" => self.replace("provider_order_id", Some(json!("pi_2"))),
            "waiting" => self.path = self.path.replace("pi_3OrtQ2", "pi_2"),
            "payment_differs"
            | "payment_not_open"
            | "payment_not_credited"
            | "order_is_paid"
            | "refund_differs"
            | "refund_exceeds"
            | "coins_are_spent" => self.arrange_payment().await,
            "key_missing" => self.key = None,
            "key_unknown" => self.key = Some(API_KEY.to_owned()),
            // A revoked key keeps its name.
            "not_for_role" => {
                self.till.execute("UPDATE api_keys SET name = 'before' WHERE name = 'dashboard'").await;
                self.key = Some(Caller::of(&self.till, "dashboard", Role::Viewer.into()).await.key);
            }
            "all_apps_only" => {
                let rights = Rights { role: Role::Admin, apps: Apps::parse("of-one-app").unwrap() };
                self.key = Some(Caller::of(&self.till, "of-one-app", rights).await.key);
            }
            "key_revoked" => revoke(&self.till, "dashboard").await,
            "unreadable" => self.body = Some(b"[]".to_vec()),
            "unknown_field" => self.body = Some(json!({"colour": "red"}).to_string().into_bytes()),
            "body_too_large" if self.call.route.access == RouteEffect::File => self.body = None,
            "body_too_large" => self.body = Some(vec![b' '; 65_537]),
            "not_csv" => self.content_type = "text/plain",
            "not_json" => {
                self.content_type = "text/plain";
                self.body = Some(b"{}".to_vec());
            }
            "idempotency_key_missing" => self.idempotency_key = None,
            "idempotency_key_reused" => {
                self.till.execute("DELETE FROM api_requests").await;
                let caller = Caller { till: &self.till, key: self.key.clone().unwrap() };
                let key = self.idempotency_key.clone().unwrap();
                let other = caller.post("/apps/demo/users", &key, json!({"open_ids": ["other"]})).await;
                assert_eq!(other.status, 200, "{}", other.body);
            }
            // The server must look this key up. It may know the other.
            "system_error" => {
                self.key = Some(API_KEY.to_owned());
                self.till.execute("ALTER TABLE api_keys RENAME TO gone").await;
            }
            "unavailable" => {
                self.key = Some(API_KEY.to_owned());
                self.till.store.close().await;
            }
            "app_taken" => {
                self.till.app("mygame").await;
            }
            "no_provider_name" => self.path = self.path.replace("/pay", "/Pay"),
            "too_many_providers" => {
                self.till
                    .execute(
                        "INSERT INTO topup_providers (app_id, provider, format, secret)
                         SELECT 'demo', 'p' || n, 'stripe', '\\x00' FROM generate_series(1, 20) n",
                    )
                    .await;
            }
            "no_month" => self.path = self.path.replace("2026-10", "October"),
            "no_own_secret" => self.till.execute("UPDATE receivers SET format = 'platform'").await,
            "which_token" => self.body = Some(b"{}".to_vec()),
            "no_token" => self.body = Some(json!({"access_token": "another"}).to_string().into_bytes()),
            "ref_used" => {
                let app_id = domain::ids::AppId::parse("demo").unwrap();
                let credit = domain::operation::wallet::Credit {
                    open_id: OpenId::parse("player-1").unwrap(),
                    free: 1,
                    charge: 1,
                    reference: domain::ids::CreditRef::parse("order-4711").unwrap(),
                    note: String::new(),
                    create: true,
                };
                self.till.store.change_wallet(&operator(), &app_id, credit).await.unwrap();
            }
            "invalid_field" => self.make_invalid(),
            other => panic!("{other}: a new example needs a scenario here"),
        }
    }

    /// The outcome of the payment or the order before.
    async fn arrange_payment(&self) {
        match self.example {
            "payment_differs" | "payment_not_credited" => {
                crate::topups::keep_unmatched(&self.till, &self.demo(), "stripe", "pi_3OrtQ2").await;
            }
            "payment_not_open" => {
                self.till
                    .execute("UPDATE topup_payments SET state = 'paid', wallet_no = 1, seq = 9, charge = 1, bonus = 0,
                         free_balance = 0, charge_balance = 0, credited_at = now(), paid_product_id = 'gems60'")
                    .await;
            }
            "refund_differs" | "refund_exceeds" => {
                let (refund_id, amount) =
                    if self.example == "refund_differs" { ("re_3OrtQ2", 301) } else { ("re_1", 600) };
                let body = json!({"refund_id": refund_id, "amount": amount, "reason": "r"});
                let admin = Caller::of(&self.till, "refunder", Role::Admin.into()).await;
                let path = "/apps/demo/topups/stripe/pi_3OrtQ2/refunds";
                let refunded = admin.send("POST", path, None, &body).await;
                assert_eq!(refunded.status, 200, "{}", refunded.body);
            }
            "coins_are_spent" => {
                let spent = Game::new(&self.demo(), "player-1", "b9", 140).send(&self.till).await;
                assert_eq!(spent.code(), 1, "{}", spent.body);
            }
            "order_is_paid" => {
                let body = json!({"provider": "stripe", "provider_order_id": "pi_1", "currency": "CNY", "amount": 600,
                    "paid_at": "2026-11-21T08:00:00Z", "biz_no": ORDER});
                let caller = Caller { till: &self.till, key: self.key.clone().unwrap() };
                let paid = caller.send("POST", "/apps/demo/topups", None, &body).await;
                assert_eq!(paid.status, 200, "{}", paid.body);
            }
            other => panic!("{other}: a new example needs a scenario here"),
        }
    }

    fn make_invalid(&mut self) {
        match self.call.route.id {
            "setTopupProvider" => self.replace("format", Some(json!("paypal"))),
            "setConsoleUserRole" => self.replace("role", Some(json!("owner"))),
            "listApps" => "limit=0".clone_into(&mut self.query),
            "listWallets" | "listTopups" => "open_id=o.1".clone_into(&mut self.query),
            "listEntries" | "listExchanges" => "kind=gift".clone_into(&mut self.query),
            "closePeriod" => self.replace("time_zone", Some(json!("Mars"))),
            "getRevenue" => "app_id=demo&time_zone=Mars".clone_into(&mut self.query),
            "listOrders" => "status=7".clone_into(&mut self.query),
            "listRefusals" => "code=601".clone_into(&mut self.query),
            "listImages" => "blocked=yes".clone_into(&mut self.query),
            "listOperatorLog" | "listFailedEvents" => "since=soon".clone_into(&mut self.query),
            "getUnusedReport" => "app_id=demo&at=soon".clone_into(&mut self.query),
            "getStatement" | "getBill" | "getTopupReport" => {
                "app_id=demo&month=October".clone_into(&mut self.query);
            }
            "listEvents" => "wait=31".clone_into(&mut self.query),
            "addReceiver" => self.replace("url", Some(json!("ftp://game.example"))),
            "resendEvents" => self.replace("since", Some(json!("soon"))),
            "changeApp" => self.replace("sandbox", Some(json!("yes"))),
            "createApp" => self.replace("app_id", Some(json!("my game"))),
            "setAppLimits" => self.replace("uploads_per_second", Some(json!(-1))),
            "publishPackage" => self.replace("pages", Some(json!([""]))),
            "addPois" => self.replace("poi_ids", Some(json!([""]))),
            "addPreorders" => self.replace("out_order_nos", Some(json!(["12345"]))),
            "issueToken" => self.replace("ttl_seconds", Some(json!(0))),
            "issueLoginCode" => self.replace("open_id", Some(json!("o.1"))),
            "addUsers" => self.replace("open_ids", Some(json!(["o.1"]))),
            "creditWallet" | "debitWallet" => self.replace("free", Some(json!(-5))),
            "cancelExchange" | "takePayment" | "refundTopup" => self.replace("amount", Some(json!(0))),
            "blockImage" | "freezeWallet" => self.replace("reason", None),
            "checkSignature" => self.replace("form", None),
            "setPrices" => {
                let price = json!({"product_id": "gems60", "currency": "CNY", "amount": 0, "charge": 60});
                self.replace("prices", Some(json!([price])));
            }
            "settleTopup" => self.replace("action", Some(json!("refund"))),
            "reconcile" => "app_id=demo&biz_no_column=number".clone_into(&mut self.query),
            other => panic!("{other}: a new example needs a scenario here"),
        }
    }

    fn request(&self) -> Request {
        let mark = if self.query.is_empty() { "" } else { "?" };
        let mut request = Request::new(self.call.route.method, &format!("{}{mark}{}", self.path, self.query))
            .header("x-request-id", REQUEST_ID);
        if let Some(key) = &self.key {
            request = request.header("authorization", &format!("Bearer {key}"));
        }
        if let Some(key) = &self.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        match &self.body {
            Some(body) => request.header("content-type", self.content_type).body(body.clone()),
            None => request,
        }
    }

    /// The answer, with the documented id in the place of this picture's.
    async fn send(&self) -> Answer {
        let mut answer = self.send_it().await;
        if let Some(image) = &self.image {
            answer.body = answer.body.replace(image.as_str(), IMG_ID);
        }
        answer
    }

    async fn send_it(&self) -> Answer {
        if self.example == "body_too_large" && self.call.route.access == RouteEffect::File {
            // It is refused by its announced length.
            let request = self.request().header("content-type", self.content_type).bytes();
            let request = String::from_utf8(request).unwrap();
            let larger = request.replace("content-length: 0", "content-length: 268435457");
            return slowly(self.till.operator_address, larger.as_bytes()).await;
        }
        if self.example != "body_too_slow" {
            return self.request().send(self.till.operator_address).await;
        }
        let bytes = self.request().body(b"{}".to_vec()).bytes();
        slowly(self.till.operator_address, &bytes[..bytes.len() - 1]).await
    }
}

/// Gives what is fresh its documented value, where it is of the documented kind.
fn settle(got: &mut Value, documented: &Value) {
    match (got, documented) {
        (Value::Object(got), Value::Object(documented)) => {
            for (name, value) in got {
                let Some(documented) = documented.get(name) else { continue };
                let same_kind = std::mem::discriminant(value) == std::mem::discriminant(documented);
                if FRESH.contains(&name.as_str()) && same_kind {
                    value.clone_from(documented);
                } else {
                    settle(value, documented);
                }
            }
        }
        (Value::Array(got), Value::Array(documented)) => {
            for (got, documented) in got.iter_mut().zip(documented) {
                settle(got, documented);
            }
        }
        (_, _) => {}
    }
}

async fn try_success(root: &Value, scenario: &Scenario, success: &Success) {
    let call = &scenario.call;
    let context = format!("{} {}", call.route.id, success.name);
    let scenario = scenario.about(success.name).await;
    let answer = scenario.send().await;
    assert_eq!(answer.status, success.status, "{context}: {}", answer.body);
    let mut got = match &success.content {
        Content::Json { schema, example } => {
            for (shown, of) in [(&answer.json(), "answer"), (example, "example")] {
                let faults = schema::faults(root, &schema.root, shown, of);
                assert!(faults.is_empty(), "{context}: {faults:?}");
            }
            answer.json()
        }
        Content::Csv { .. } => Value::from(answer.whole()),
        // It has no example, because its bytes differ each time.
        Content::Zip => {
            let media_type = answer.header("content-type");
            assert!(media_type == Some("application/zip") && answer.bytes.starts_with(b"PK"), "{context}");
            return;
        }
        Content::Picture | Content::Empty => panic!("{context}: no example"),
    };
    let shown = &root["paths"][call.route.path][call.route.method.to_ascii_lowercase()]["responses"];
    let media_type = answer.header("content-type").unwrap().split(';').next().unwrap();
    let shown = &shown[success.status.to_string()]["content"][media_type]["examples"][success.name];
    let shown = root.pointer(shown["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
    let example = &shown["value"];
    settle(&mut got, example);
    assert_eq!(&got, example, "{context}");
    for (name, _, expected) in &success.headers {
        assert_eq!(answer.header(&name.to_ascii_lowercase()), Some(expected.as_str()), "{context}: {name}");
    }
    if call.route.access == RouteEffect::Once {
        let again = scenario.send().await;
        assert_eq!(
            (&again.body, again.header("idempotent-replayed")),
            (&answer.body, Some("true")),
            "{context}"
        );
    }
}

async fn try_problem(root: &Value, scenario: &Scenario, example: &Example<Problem>) {
    let call = &scenario.call;
    let context = format!("{} {}", call.route.id, example.name);
    let answer = scenario.about(example.name).await.send().await;
    assert_eq!(answer.json(), value(&example.refusal.body(REQUEST_ID)), "{context}");
    let status = example.refusal.kind.status().as_u16();
    assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/problem+json")));
    assert_eq!(answer.header("retry-after").is_some(), status == 503, "{context}");
    assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{context}");
    let faults = schema::faults(root, &root["components"]["schemas"]["Problem"], &answer.json(), "answer");
    assert!(faults.is_empty(), "{context}: {faults:?}");
    let shown = &root["paths"][call.route.path][call.route.method.to_ascii_lowercase()]["responses"];
    let shown = &shown[status.to_string()]["content"]["application/problem+json"]["examples"][example.name];
    let shown = root.pointer(shown["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
    assert_eq!(shown["value"], answer.json(), "{context}");
}

/// Each example of these calls; three of those with a till of their own are tried at once. One till without apps does for all
/// that have none.
async fn try_calls(of: impl Fn(&Call) -> bool) {
    use futures_util::StreamExt as _;
    let root = value(&document(&defaults()));
    let calls: Vec<Call> = calls(&defaults()).into_iter().filter(of).collect();
    assert!(!calls.is_empty());
    let without_apps = open("no_app").await;
    for call in &calls {
        let shared = Scenario::prepare(call, IN_TURN[0]).await;
        for success in &call.operation.successes {
            try_success(&root, &shared, success).await;
        }
        let (in_turn, alone) = in_turn(&IN_TURN, &call.operation.refusals);
        for example in in_turn {
            try_problem(&root, &shared, example).await;
        }
        let alone = futures_util::stream::iter(alone).for_each_concurrent(3, async |example| {
            let scenario = match example.name {
                "no_app" => Scenario::on(without_apps.clone(), call, example.name),
                other => Scenario::prepare(call, other).await,
            };
            try_problem(&root, &scenario, example).await;
        });
        alone.await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_what_reads_is_answered_as_documented() {
    try_calls(|call| call.route.access == RouteEffect::Read).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_what_replaces_or_checks_is_answered_as_documented() {
    try_calls(|call| {
        [RouteEffect::Replace, RouteEffect::Check, RouteEffect::File].contains(&call.route.access)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_what_makes_keys_and_tokens_is_answered_as_documented() {
    let makes = ["createApp", "rotatePayKey", "rotateAppSecret", "issueToken", "revokeTokens"];
    try_calls(|call| call.route.access == RouteEffect::Once && makes.contains(&call.route.id)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_other_writes_is_answered_as_documented() {
    let makes = ["createApp", "rotatePayKey", "rotateAppSecret", "issueToken", "revokeTokens"];
    try_calls(|call| call.route.access == RouteEffect::Once && !makes.contains(&call.route.id)).await;
}

#[test]
fn every_example_of_a_request_is_one_that_its_schema_takes() {
    for call in calls(&defaults()) {
        for field in call.operation.fields {
            let Some(example) = &field.example else { continue };
            let faults = schema::faults(&field.schema, &field.schema, example, field.name);
            assert!(faults.is_empty(), "{} {faults:?}", call.route.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_committed_document_is_what_the_program_prints_and_serves() {
    let committed = &committed("docs/admin-openapi.json");
    let program = Program::on(&fresh_database().await.url);
    let printed = String::from_utf8(program.run(&["openapi", "--admin"]).stdout).unwrap();
    assert!(&printed == committed, "run: minitill openapi --admin > docs/admin-openapi.json");
    let till = TestTill::start().await;
    let served = Request::get("/admin/openapi.json").send(till.operator_address).await;
    let expected: Value = serde_json::from_str(committed).unwrap();
    assert_eq!((served.status, served.json()["paths"].clone()), (200, expected["paths"].clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_has_the_described_fields_and_no_others() {
    let till = TestTill::start().await;
    let caller = Caller::admin(&till).await;
    for call in calls(&defaults()).into_iter().filter(|call| call.route.access == RouteEffect::Read) {
        let names: Vec<&str> = call.operation.fields_in(Place::Query).map(|field| field.name).collect();
        let mut path = call.route.path.replace("/admin/v1", "");
        for field in call.operation.fields_in(Place::Path) {
            let example = plain(field.example.as_ref().unwrap());
            path = path.replace(&format!("{{{}}}", field.name), &example);
        }
        let answer = caller.get(&format!("{path}?colour=red")).await;
        let detail = match names.as_slice() {
            [] => "no field is expected here".to_owned(),
            names => format!("unknown field, expected {}", names.join(", ")),
        };
        let expected = json!([{ "field": "colour", "detail": detail }]);
        assert_eq!(answer.json()["errors"], expected, "{}", call.route.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_problem_leads_to_a_place_on_the_page() {
    let till = TestTill::start().await;
    let shown = Request::get("/docs/admin").send(till.operator_address).await;
    assert_eq!((shown.status, shown.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for kind in ProblemKind::ALL {
        let uri = kind.uri();
        let (address, anchor) = uri.split_once('#').unwrap();
        assert_eq!(address, "/docs/admin");
        assert!(shown.body.contains(&format!(" id=\"{anchor}\"")), "{anchor}");
    }
}
