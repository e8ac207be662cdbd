//! The scenario of each example of the document: what must be there, and what must be sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::app::Scope;
use domain::endpoint::Endpoint;
use domain::examples::NAMED_BIZ_NO;
use domain::ids::{ImgId, OpenId, UnionId};
use domain::login::Player;
use domain::operation::app::{AppCommand, IssuedLoginCode};
use domain::per_second::PerSecond;
use domain::signature::PayKey;
use domain::topup::{CALLBACK_BYTES_MAX, CallbackFormat};
use domain::wallet::WalletCall;
use domain::wallet::canonical_string;
use minitill::config::Config;
use minitill::http::refusal::Refusal;
use minitill::openapi::{Example, OPEN_ID, Operation, Place, UNION_ID, plain};
use minitill::public::DescribedCall;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::game::Game;
use crate::support::{Answer, AppKind, NOW, PATIENCE, PICTURE, Request, TestApp, TestTill, form, operator};

/// How long a body may take here, so that no test waits long for the refusal.
pub(crate) const SHORT_BODY_TIMEOUT: Duration = Duration::from_millis(500);

/// The examples of a call that one till can answer in turn, in this order. The last one breaks it.
pub(super) const IN_TURN: [&str; 22] = [
    "app_id_missing",
    "access_token_missing",
    "unknown_app",
    "access_token_unknown",
    "sign_missing",
    "bad_signature",
    "illegal_parameter",
    "ts_outside_window",
    "illegal_path",
    "image_not_found",
    "illegal_poi_id",
    "file_missing",
    "url_missing",
    "token_parameter",
    "content_coded",
    "token_credentials",
    "js_code_invalid",
    "wrong_width",
    "no_such_image",
    "body_too_large",
    "body_too_slow",
    "system_error",
];

/// The app of the scenario has no picture, and has stored as many as it ever may.
const QUOTA_USED_UP: &str = "DELETE FROM images; UPDATE image_usage SET images = 1000000000000000";

/// These need nothing but their settings, their picture or another way of sending.
const NEED_NOTHING: [&str; 20] = [
    "asked_for",
    "noted",
    "no_sandbox_app",
    "deducted",
    "reported",
    "uploaded",
    "issued",
    "whole",
    "rate_limited",
    "body_too_slow",
    "body_too_large",
    "overloaded",
    "picture_unacceptable",
    "order_not_found",
    "scope_missing",
    "balance",
    "given",
    "unknown_exchange",
    "unknown_number",
    "illegal_open_id",
];

/// A till and a request to it.
#[derive(Clone)]
pub(super) struct Scenario {
    till: Arc<TestTill>,
    app: TestApp,
    call: DescribedCall,
    example: &'static str,
    media_type: Option<&'static str>,
    path: String,
    query: Vec<(&'static str, String)>,
    /// Members of the body, as the document has them.
    body: Vec<(&'static str, Value)>,
    headers: Vec<(&'static str, String)>,
    picture: Vec<u8>,
    image: ImgId,
    /// Signs; absent where the test has set `sign` itself.
    pay_key: Option<String>,
}

impl Scenario {
    /// The till as the example needs it, and the documented request changed as the example needs it.
    pub(super) async fn prepare(call: &DescribedCall, example: &'static str, body: usize) -> Self {
        let picture = if example == "picture_unacceptable" { oblong() } else { PICTURE.to_vec() };
        let origin = origin(picture.clone()).await;
        let till = TestTill::start_with(|config| {
            config.http.body_timeout = SHORT_BODY_TIMEOUT;
            if call.route.id == "uploadWithUrl" && example != "illegal_url" {
                config.fetch.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
                config.fetch.ports = vec![origin.port()];
            }
            configure(config, example);
        })
        .await;
        let scopes: &[Scope] = if example.starts_with("scope_missing") { &[] } else { &Scope::ALL };
        let is_of_sandbox = call.route.endpoint == Endpoint::Sandbox && example != "no_sandbox_app";
        let sandbox = is_of_sandbox || example.ends_with("_sandbox");
        let kind =
            AppKind { sandbox, scopes, preorder_check: example == "order_not_found", ..AppKind::default() };
        let app = till.app_like("demo", kind).await;
        if example != "illegal_open_id" {
            let free = if example == "insufficient_balance" { 0 } else { 40 };
            till.player(&app, "player-1", free, if free == 0 { 59 } else { 100 }).await;
        }
        if example != "not_for_sale" {
            crate::topups::sell(&till, &app).await;
        }
        if call.route.endpoint == Endpoint::Callback && example != "unknown_callback" {
            crate::callbacks::set(&till, &app, "pay", CallbackFormat::Standard, crate::callbacks::PAY).await;
        }
        let image = till.image(&app).await;
        let operation = &call.operation;
        let mut scenario = Self {
            media_type: operation.media_types.get(body).copied(),
            path: call.route.path.to_owned(),
            query: Vec::new(),
            body: body_of(operation),
            headers: Vec::new(),
            picture,
            image: image.clone(),
            pay_key: Some(app.pay_key.clone()),
            till: Arc::new(till),
            app,
            call: call.clone(),
            example,
        };
        scenario.fill_in(&image, &format!("http://{origin}/cover.png"));
        scenario
    }

    /// The scenario of this example on the same till.
    pub(super) async fn about(&self, example: &'static str) -> Self {
        let mut scenario = Self { example, ..self.clone() };
        scenario.arrange(&self.image).await;
        scenario
    }

    /// The documented parameters, with this till's ids and tokens in place of the examples'.
    fn fill_in(&mut self, image: &ImgId, url: &str) {
        for parameter in &self.call.operation.fields {
            let Some(example) = &parameter.example else { continue };
            match parameter.place {
                Place::Path => {
                    let segment = format!("{{{}}}", parameter.name);
                    let value = plain(example);
                    let value = if parameter.name == "img_id" { image.to_string() } else { value };
                    self.path = self.path.replace(&segment, &value);
                }
                // The documented request of an upload by URL has its fields in the body instead.
                Place::Query if self.call.route.id == "uploadWithUrl" => {}
                Place::Query => self.query.push((parameter.name, plain(example))),
                Place::Header | Place::Body => {}
            }
        }
        let (token, secret) = (self.app.token.clone(), self.app.secret.clone());
        self.replace("access_token", &token);
        self.replace("app_secret", &secret);
        self.replace("product_cover_img_id", image.as_str());
        if self.example != "illegal_url" {
            self.replace("url", url);
        }
    }

    /// Gives a field that is there another value, wherever it stands.
    fn replace(&mut self, name: &str, value: &str) {
        let name = self.own_name(name);
        for (_, text) in self.query.iter_mut().filter(|(known, _)| *known == name) {
            value.clone_into(text);
        }
        for (_, text) in self.body.iter_mut().filter(|(known, _)| *known == name) {
            *text = value.into();
        }
    }

    /// Gives a member of `data` another value.
    fn replace_in_data(&mut self, name: &str, value: i64) {
        let (_, data) = self.body.iter_mut().find(|(known, _)| *known == "data").unwrap();
        data[name] = value.into();
    }

    /// What this call calls the field.
    fn own_name<'n>(&self, name: &'n str) -> &'n str {
        self.call.route.names.iter().find(|(known, _)| *known == name).map_or(name, |(_, own)| *own)
    }

    fn leave_out(&mut self, name: &str) {
        let name = self.own_name(name);
        self.query.retain(|(known, _)| *known != name);
        self.body.retain(|(known, _)| *known != name);
    }

    /// The subject of the example.
    #[expect(clippy::too_many_lines, reason = "a row for each example")]
    async fn arrange(&mut self, image: &ImgId) {
        match self.example {
            example if NEED_NOTHING.contains(&example) => {}
            "ordered"
            | "not_for_sale"
            | "unmatched"
            | "unknown_callback"
            | "callback_not_signed"
            | "callback_rate_limited" => {}
            "paid" | "callback_differs" => {
                let order = Game::topup(&self.app, OPEN_ID, NAMED_BIZ_NO, "gems60");
                assert_eq!(order.send(&self.till).await.code(), 1);
                if self.example == "callback_differs" {
                    assert_eq!(self.till.send(self.request()).await.status, 200);
                    self.replace_in_data("amount", 700);
                }
            }
            "callback_unreadable" => self.leave_out("type"),
            "order" => {
                let order = Game::topup(&self.app, OPEN_ID, "20270115080000001", "gems60");
                assert_eq!(order.send(&self.till).await.code(), 1);
                // The clock of the server stands still, and is ahead of the database's.
                let now = "timestamptz 'epoch' + interval '1 millisecond' * 1800000000000";
                self.till
                    .execute(&format!("UPDATE ledger_entries SET at = {now} WHERE kind = 'topup_order'"))
                    .await;
            }
            "given_back" | "known" | "more_than_left" | "purse_full" | "closed" | "biz_no_closed" => {
                self.arrange_wallet().await;
            }
            "replayed" | "biz_no_conflict" | "biz_no_expired" => self.exchange_before().await,
            "app_id_missing" => self.leave_out("app_id"),
            "access_token_missing" => self.leave_out("access_token"),
            "unknown_app" => self.replace("app_id", "nobody"),
            "access_token_unknown" => self.replace("access_token", "another"),
            "access_token_expired" => {
                self.till.execute("UPDATE access_tokens SET expires_at = now() - interval '1 second'").await;
            }
            "app_suspended" => {
                self.till.command(&self.app, AppCommand::Suspend(true)).await;
            }
            "sign_missing" => {
                self.pay_key = None;
                self.leave_out("sign");
            }
            "bad_signature" => self.pay_key = Some("another".to_owned()),
            "bad_signature_sandbox" => self.sign_unsorted(),
            "illegal_parameter" if self.wallet_call().is_some() => self.replace("ts", "yesterday"),
            "illegal_parameter" if self.call.route.id == "askForFault" => {
                self.replace("target", "everything");
            }
            "illegal_parameter" => self.replace("order_status", "7"),
            "ts_outside_window" => self.replace("ts", "1700000000000"),
            "wallet_frozen" => {
                self.till.execute("UPDATE wallets SET frozen_until = 'infinity'").await;
            }
            "insufficient_balance" => assert_eq!(self.till.purses(&self.app, "player-1").await, (0, 59, 1)),
            "goods_kind_changed" => self.report_before("order_status", "10", Some("12")).await,
            "owner_changed" => {
                self.till.player(&self.app, "player-2", 0, 0).await;
                self.report_before("open_id", "player-2", None).await;
            }
            "quota_exceeded" => self.till.execute(QUOTA_USED_UP).await,
            "illegal_path" => self.replace("order_path", "pages/order/detial"),
            "image_not_found" => self.replace("product_cover_img_id", &"0".repeat(48)),
            "image_blocked" | "picture_blocked" => self.block(image).await,
            "illegal_url" if self.call.route.endpoint == Endpoint::OrderReport => {
                self.replace("order_backup_url", "shop.example");
            }
            // In the sandbox example no port is allowed but that of the test's own origin.
            "illegal_url" | "illegal_url_sandbox" => self.replace("url", "http://127.0.0.1/cover.png"),
            "sent_as_json" => self.media_type = Some("application/json"),
            "illegal_poi_id" => self.body.push(("poi_id", "poi-1".into())),
            "file_missing" => {
                self.leave_out("file");
                self.body.push(("image", "picture".into()));
            }
            "url_missing" => self.leave_out("url"),
            "token_parameter" => self.leave_out("app_secret"),
            "logged_in" => self.issue_login_code().await,
            "js_code_invalid" => self.replace("js_code", "another"),
            "token_credentials" => self.replace("app_secret", "another"),
            "content_coded" => self.headers.push(("content-encoding", "gzip".to_owned())),
            "part" => self.headers.push(("range", "bytes=0-9".to_owned())),
            "not_modified" => self.headers.push(("if-none-match", "*".to_owned())),
            "range_not_satisfiable" => self.headers.push(("range", "bytes=99999999-".to_owned())),
            "wrong_width" => self.query.push(("w", "7".to_owned())),
            "no_such_image" => self.path = format!("/img/{}", "0".repeat(48)),
            "system_error" => self.take_table_away().await,
            "unavailable" => self.till.store.close().await,
            other => panic!("{other}: a new example needs a scenario here"),
        }
    }

    /// What an example of the other calls of the wallet is about.
    async fn arrange_wallet(&mut self) {
        match self.example {
            "given_back" => self.pay_before().await,
            "known" => {
                self.pay_before().await;
                self.cancel_before("20270115080000002").await;
            }
            "more_than_left" => {
                self.pay_before().await;
                self.cancel_before("20270115080000003").await;
                self.replace("amount", "60");
            }
            "purse_full" => {
                if self.call.route.id == "cancel" {
                    self.pay_before().await;
                }
                self.till.execute("UPDATE wallets SET free_balance = 9223372036854775807").await;
                self.till.execute("UPDATE wallets SET charge_balance = 9223372036854775807").await;
            }
            "closed" => self.body.push(("close", "1".into())),
            "biz_no_closed" => {
                let number =
                    self.body.iter().find(|(name, _)| *name == "biz_no").map(|(_, value)| plain(value));
                let query = Game::query(&self.app, OPEN_ID, &number.unwrap()).with("close", 1);
                assert_eq!(query.send(&self.till).await.code(), 1);
            }
            other => panic!("{other}: a new example needs a scenario here"),
        }
    }

    /// A code of the documented player, in the place of the example's.
    async fn issue_login_code(&mut self) {
        let (open_id, union_id) = (OpenId::parse(OPEN_ID).unwrap(), UnionId::parse(UNION_ID).ok());
        let issue = AppCommand::IssueLoginCode(Player { open_id, union_id });
        let issued = IssuedLoginCode::try_from(self.till.command(&self.app, issue).await).unwrap();
        self.replace("js_code", &issued.js_code);
    }

    /// The signed call that this is, if it is one.
    fn wallet_call(&self) -> Option<WalletCall> {
        WalletCall::ALL.into_iter().find(|call| call.endpoint() == self.call.route.endpoint)
    }

    /// The number of the documented exchange.
    fn paid_number(&self) -> &'static str {
        if self.call.route.id == "cancel" { "20270115070000001" } else { "20270115080000001" }
    }

    /// The documented exchange.
    async fn pay_before(&self) {
        let exchange = Game::new(&self.app, OPEN_ID, self.paid_number(), 60).with("pay_priority", 1);
        let exchange = exchange.with("zone_id", "zone1_role1").with("product_name", "Double-up card");
        let answer = exchange.send(&self.till).await;
        assert_eq!(answer.code(), 1, "{}", answer.body);
    }

    /// A cancel of half of it.
    async fn cancel_before(&self, biz_no: &str) {
        let cancel = Game::cancel(&self.app, OPEN_ID, biz_no, self.paid_number(), 30);
        assert_eq!(cancel.send(&self.till).await.code(), 1);
    }

    /// The same request before, and what has happened since.
    async fn exchange_before(&mut self) {
        if self.call.route.id == "cancel" {
            self.pay_before().await;
        }
        let first = self.till.send(self.request()).await;
        assert_eq!(first.code(), 1, "{}", first.body);
        if self.example == "biz_no_conflict" && self.call.route.id == "orderTopup" {
            self.replace("product_id", "gems6");
        } else if self.example == "biz_no_conflict" {
            self.replace("amount", "61");
        } else if self.example == "biz_no_expired" {
            self.till.execute("UPDATE ledger_entries SET at = now() - interval '48 hours'").await;
        }
    }

    /// A report with this value before, and with that one now.
    async fn report_before(&mut self, name: &str, before: &str, now: Option<&str>) {
        let original = self.body.clone();
        self.replace(name, before);
        let first = self.till.send(self.request()).await;
        assert_eq!(first.code(), 1, "{}", first.body);
        self.body = original;
        if let Some(now) = now {
            self.replace(name, now);
        }
    }

    /// A statement that fails is a fault of ours.
    async fn take_table_away(&self) {
        let table = match self.call.route.id {
            _ if self.wallet_call().is_some() => "wallets",
            _ if self.call.route.endpoint == Endpoint::OrderReport => "orders",
            "askForFault" => "sandbox_faults",
            "notify" => "topup_payments",
            "tellOfShipment" => "sandbox_shipments",
            "getAccessToken" | "postAccessToken" => "access_tokens",
            _ if self.call.route.endpoint == Endpoint::Login => "login_codes",
            _ => "images",
        };
        self.till.execute(&format!("ALTER TABLE {table} RENAME TO gone")).await;
    }

    async fn block(&self, image: &ImgId) {
        let contents = self.till.store.image(image).await.unwrap().unwrap().contents;
        self.till.store.change_blocks(&operator(), crate::support::block(&contents, "tests")).await.unwrap();
    }

    /// Signs the fields in the order of the document, which is not that of the alphabet.
    fn sign_unsorted(&mut self) {
        let call = self.wallet_call().unwrap();
        let signed = self.body.iter().filter(|(name, _)| call.signs(name));
        let string: Vec<String> = signed.map(|(name, value)| format!("{name}={}", plain(value))).collect();
        let key = self.pay_key.take().unwrap();
        let sign = PayKey::new(key).sign(&string.join("&"));
        self.replace("sign", &sign);
    }

    /// The request as it goes over the wire.
    fn request(&self) -> Request {
        let mut fields: Vec<(&str, String)> =
            self.body.iter().map(|(name, value)| (*name, plain(value))).collect();
        if let (Some(key), Some(call)) = (&self.pay_key, self.wallet_call()) {
            let signed = fields.iter().filter(|(name, _)| call.signs(name));
            let string = canonical_string(signed.map(|(name, value)| (*name, value.as_str())));
            let sign = PayKey::new(key.clone()).sign(&string);
            fields.retain(|(name, _)| *name != "sign");
            fields.push(("sign", sign));
        }
        let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let query: Vec<(&str, &str)> =
            self.query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request =
            Request::new(self.call.route.method, &format!("{}{mark}{}", self.path, form(&query)));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let too_large = self.example == "body_too_large";
        match self.media_type {
            // A coding counts where there is a body.
            None if self.example == "content_coded" => request.body("{}"),
            None => request,
            Some("multipart/form-data") => {
                let head = |name: &str| format!("content-disposition: form-data; name=\"{name}\"");
                let mut parts: Vec<(String, &[u8])> = Vec::new();
                for (name, value) in &pairs {
                    if *name == "file" {
                        parts.push((format!("{}; filename=\"{value}\"", head(name)), &self.picture));
                    } else {
                        parts.push((head(name), value.as_bytes()));
                    }
                }
                let room = vec![0; 12_000_000];
                if too_large {
                    parts.push((head("room"), &room));
                }
                let parts: Vec<(&str, &[u8])> =
                    parts.iter().map(|(head, bytes)| (head.as_str(), *bytes)).collect();
                request.multipart(&parts)
            }
            Some(_) if self.call.route.endpoint == Endpoint::Callback => {
                let members = self.body.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
                let body = members.collect::<Value>().to_string();
                let body = if too_large { "a".repeat(CALLBACK_BYTES_MAX + 1) } else { body };
                let is_signed = self.example != "callback_not_signed";
                let secret = if is_signed { crate::callbacks::PAY } else { crate::callbacks::NEXT };
                crate::support::callback::standard_at(&self.path, secret, NOW / 1000, &body)
            }
            Some(media_type) if too_large => {
                request.header("content-type", media_type).body(vec![b'a'; 65_537])
            }
            Some(media_type @ "application/json") => {
                let members = self.body.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
                let object: Value = members.collect();
                request.header("content-type", media_type).body(object.to_string())
            }
            Some(media_type) => request.header("content-type", media_type).body(form(&pairs)),
        }
    }

    /// Sends it in the way that the example is about.
    pub(super) async fn send(&self) -> Answer {
        match self.example {
            "rate_limited" | "callback_rate_limited" => {
                self.till.send(self.request()).await;
                self.till.send(self.request()).await
            }
            "body_too_slow" => {
                // What follows the last part of a multipart body need not come.
                let held_back = if self.media_type == Some("multipart/form-data") { 200 } else { 1 };
                let bytes = self.request().bytes();
                slowly(self.till.address, &bytes[..bytes.len() - held_back]).await
            }
            _ => self.till.send(self.request()).await,
        }
    }
}

fn body_of(operation: &Operation<Refusal>) -> Vec<(&'static str, Value)> {
    operation.fields_in(Place::Body).filter_map(|field| Some((field.name, field.example.clone()?))).collect()
}

fn configure(config: &mut Config, example: &str) {
    match example {
        "rate_limited" | "callback_rate_limited" => {
            config.limits.exchanges_per_second = PerSecond::new(1).unwrap();
            config.limits.reads_per_second = PerSecond::new(1).unwrap();
            config.limits.reports_per_second = PerSecond::new(1).unwrap();
            config.limits.uploads_per_second = PerSecond::new(1).unwrap();
            config.limits.tokens_per_second = PerSecond::new(1).unwrap();
            config.limits.logins_per_second = PerSecond::new(1).unwrap();
        }
        "overloaded" => config.exchange.queue_max = 0,
        _ => {}
    }
}

/// The examples that one till can answer in turn, in the order of these names, and the others.
pub(crate) fn in_turn<'a, R>(
    names: &[&str],
    examples: impl IntoIterator<Item = &'a Example<R>>,
) -> (Vec<&'a Example<R>>, Vec<&'a Example<R>>) {
    let place = |example: &Example<R>| names.iter().position(|name| *name == example.name);
    let (mut in_turn, alone): (Vec<_>, Vec<_>) =
        examples.into_iter().partition(|example| place(example).is_some());
    in_turn.sort_by_key(|example| place(example));
    (in_turn, alone)
}

/// Sends a part of a request, and waits for the answer. The answer names the documented limit of a body's
/// time, the default's: the limit here spares the tests the waiting.
pub(crate) async fn slowly(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    let reading = stream.read_to_end(&mut received);
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer").unwrap();
    let mut answer = Answer::parse(&received);
    answer.body = answer.body.replace("within 0.5 s", "within 30 s");
    answer
}

/// A server that answers whatever it is asked with these bytes, for as long as the test runs.
async fn origin(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
            let _ = stream.write_all(&[head.as_bytes(), &bytes].concat()).await;
        }
    });
    address
}

/// A picture of 128 by 64 pixels.
fn oblong() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 128, 64);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0; 128 * 64]).unwrap();
    bytes
}
