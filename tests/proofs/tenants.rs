//! No app sees or changes what belongs to another.
//!
//! Contract 2.9: what belongs to another app is answered exactly as
//! what does not exist.
//!
//! Two apps have everything: players, money, pictures, orders, numbers, pages, points of interest, pre-orders, tokens
//! and keys. One of them tries whatever the other has at every endpoint, and the same with something that does not
//! exist at all. Both answers must be the same bytes, head included, but for the request's id, the date and the value
//! that was sent. The victim's rows must be the same afterwards. That an app exists is no secret (contract 2.9.4),
//! and a picture may be seen by whoever knows its id.
//!
//! Seen to fail when a remembered token opened another app, and when records were found by their number alone.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::app::Scope;
use domain::ids::{OpenId, OrderNo, PackageVersion, PagePath, PoiId};
use domain::login::Player;
use domain::operation::app::{AppCommand, IssuedLoginCode};
use minitill::public::routes::ROUTES;
use serde_json::json;

use crate::calls::{credentials, exchange, picture, report, token, try_send_bytes, upload};
use crate::digests::digests;
use crate::service::game::Game;
use crate::service::{AppKind, NOW, PAGE, Request, TestApp, TestTill, encoded};
use crate::support::figures::Figures;

const EXCHANGE: &str = "/api/{payment_segment}/minigame/pay";
const BALANCE: &str = "/api/{payment_segment}/minigame/balance";
const PRESENT: &str = "/api/{payment_segment}/minigame/present";
const CANCEL: &str = "/api/{payment_segment}/minigame/cancel";
const QUERY: &str = "/api/{payment_segment}/minigame/query";
const REPORT: &str = "/openapi/mp/developer/order/v1/report";
const UPLOAD_FILE: &str = "/openapi/mp/developer/file/img/uploadWithFile";
const UPLOAD_URL: &str = "/openapi/mp/developer/file/img/uploadWithUrl";
const TOKEN: &str = "/oauth2/access_token";
const LOGINS: [&str; 2] = ["/game/minigame/jscode2session", "/oauth2/mp/code2session"];
const IMAGE: &str = "/img/{img_id}";
/// What stands for the value that was sent, in an answer that repeats it.
const ECHO: &str = "<sent>";

/// An app that tries, one that is tried, and what that one has.
struct Proof {
    till: TestTill,
    thief: TestApp,
    victim: TestApp,
    victims_img_id: String,
    victims_js_code: String,
    tried: BTreeSet<&'static str>,
    tries: u32,
}

pub(crate) async fn prove() -> Figures {
    let mut proof = Proof::start().await;
    let before = digests(&proof.till.sql, Some("victim")).await;
    proof.tokens_and_keys().await;
    proof.logins().await;
    proof.players_and_numbers().await;
    proof.orders().await;
    proof.pictures().await;
    proof.limits().await;
    assert_eq!(digests(&proof.till.sql, Some("victim")).await, before, "the victim has what it had");
    let routes: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
    assert_eq!(proof.tried, routes, "every endpoint was tried");
    proof.till.assert_audit_clean().await;
    let mut figures = Figures { numbers: 3, ..Figures::default() };
    figures.note(format!("{} answers compared, none told another app's from nobody's", proof.tries));
    figures
}

impl Proof {
    async fn start() -> Self {
        let till = TestTill::start().await;
        let all = || AppKind { scopes: &Scope::ALL, ..AppKind::default() };
        let (thief, victim) = (till.app_like("thief1", all()).await, till.app_like("victim", all()).await);
        for open_id in ["own1", "own2"] {
            till.player(&thief, open_id, 0, 1000).await;
        }
        till.player(&victim, "theirs", 500, 500).await;
        let version = PackageVersion::parse("2").unwrap();
        let pages = [PAGE, "pages/victim/secret"].map(|page| PagePath::parse(page).unwrap());
        till.command(&victim, AppCommand::Publish(version.clone(), pages.to_vec())).await;
        till.command(&victim, AppCommand::AddPois(vec![PoiId::parse("poi-theirs").unwrap()])).await;
        let uploaded = till.send(upload(&victim, &picture(1))).await;
        let victims_img_id = uploaded.json()["data"]["imgId"].as_str().unwrap().to_owned();
        for number in ["number1", "number3"] {
            let bought = till.send(exchange(&victim, "theirs", number, 10, NOW)).await;
            assert_eq!(bought.code(), 1, "{}", bought.body);
        }
        let reported = till.send(report(&victim, "order-theirs", "theirs", &victims_img_id, 2)).await;
        assert_eq!(reported.code(), 1, "{}", reported.body);
        let player = Player { open_id: OpenId::parse("theirs").unwrap(), union_id: None };
        let issued = till.command(&victim, AppCommand::IssueLoginCode(player)).await;
        let victims_js_code = IssuedLoginCode::try_from(issued).unwrap().js_code;
        Self { till, thief, victim, victims_img_id, victims_js_code, tried: BTreeSet::new(), tries: 0 }
    }

    /// The whole answer as text, without what differs between any two.
    async fn answer(&mut self, request: &Request, sent: &str) -> String {
        self.tries += 1;
        let bytes = try_send_bytes(self.till.address, &request.bytes()).await.expect("an answer");
        let text = String::from_utf8_lossy(&bytes).replace(sent, ECHO);
        let lines = text.split("\r\n").filter(|line| {
            let line = line.to_ascii_lowercase();
            !line.starts_with("x-request-id:") && !line.starts_with("date:")
        });
        lines.collect::<Vec<_>>().join("\r\n")
    }

    /// What is another's and what is nobody's are answered the same; the two values are of one length.
    async fn same(
        &mut self,
        route: &'static str,
        code: u64,
        (theirs, nobodys): (&str, &str),
        request: impl Fn(&str) -> Request,
    ) {
        self.tried.insert(route);
        assert_eq!(theirs.len(), nobodys.len(), "a length is an echo too");
        let got = self.answer(&request(theirs), theirs).await;
        let expected = self.answer(&request(nobodys), nobodys).await;
        assert_eq!(got, expected, "{route}: {theirs} and {nobodys}");
        let (code_named, result_named) = (format!("\"code\":{code},"), format!("\"result\":{code},"));
        assert!(got.contains(&code_named) || got.contains(&result_named), "{route}: {got}");
    }

    async fn tokens_and_keys(&mut self) {
        let (thief, victim) = (self.thief.clone(), self.victim.clone());
        let none = "0".repeat(64);
        // A token that has just been used is remembered, which must not open another app.
        let own = self.till.send(exchange(&thief, "nobody", "n0", 1, NOW)).await;
        assert_eq!(own.code(), 10_000_423, "{}", own.body);
        let as_victim = |token: &str| TestApp { token: token.to_owned(), ..victim.clone() };
        let tokens = (thief.token.as_str(), none.as_str());
        self.same(EXCHANGE, 100_200_102, tokens, |token| {
            exchange(&TestApp { pay_key: thief.pay_key.clone(), ..as_victim(token) }, "theirs", "n1", 1, NOW)
        })
        .await;
        self.same(REPORT, 100_200_102, tokens, |token| {
            report(&as_victim(token), "order-theirs", "theirs", &"0".repeat(48), 3)
        })
        .await;
        self.same(UPLOAD_FILE, 100_200_102, tokens, |token| upload(&as_victim(token), &picture(2))).await;
        for in_body in [false, true] {
            self.same(UPLOAD_URL, 100_200_102, tokens, |token| {
                by_url(&as_victim(token), "http://203.0.113.1/a.png", in_body)
            })
            .await;
        }
        // A key opens its own app only, also when the token was stolen.
        let no_key = "k".repeat(thief.pay_key.len());
        let sign_with = |app: &TestApp, key: &str| TestApp { pay_key: key.to_owned(), ..app.clone() };
        self.same(EXCHANGE, 100_200_114, (&thief.pay_key, &no_key), |key| {
            exchange(&sign_with(&victim, key), "theirs", "n2", 1, NOW)
        })
        .await;
        self.same(EXCHANGE, 100_200_114, (&victim.pay_key, &no_key), |key| {
            exchange(&sign_with(&thief, key), "own1", "n3", 1, NOW)
        })
        .await;
        let secret_of = |app: &TestApp, secret: &str| TestApp { secret: secret.to_owned(), ..app.clone() };
        self.same(TOKEN, 100_200_101, (&thief.secret, &no_key), |secret| token(&secret_of(&victim, secret)))
            .await;
        // Not even that the app exists is told there.
        self.same(TOKEN, 100_200_101, ("victim", "nobody"), |app_id| {
            token(&TestApp { id: app_id.parse().unwrap(), ..thief.clone() })
        })
        .await;
    }

    /// Another app's login code is no code, and stays one of its app: the victim's rows are compared.
    async fn logins(&mut self) {
        let (thief, theirs) = (self.thief.clone(), self.victims_js_code.clone());
        for path in LOGINS {
            self.same(path, 100_200_103, (&theirs, &"0".repeat(64)), |js_code| {
                Request::get(&format!(
                    "{path}?app_id={}&app_secret={}&js_code={js_code}",
                    thief.id, thief.secret
                ))
            })
            .await;
        }
    }

    async fn players_and_numbers(&mut self) {
        let thief = self.thief.clone();
        self.same(EXCHANGE, 10_000_423, ("theirs", "nobody"), |open_id| {
            exchange(&thief, open_id, "n4", 1, NOW)
        })
        .await;
        self.other_calls().await;
        // The victim's number is as new as any other: of two players with the same purse.
        self.tried.insert(EXCHANGE);
        let taken = self.answer(&exchange(&thief, "own1", "number1", 10, NOW), "number1").await;
        let fresh = self.answer(&exchange(&thief, "own2", "number2", 10, NOW), "number2").await;
        assert_eq!(taken, fresh);
        assert!(taken.contains(r#""freeBalance":0,"chargeBalance":990"#), "{taken}");
        let replay = self.till.send(exchange(&self.victim, "theirs", "number1", 10, NOW)).await;
        assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    }

    /// The other calls of the wallet: players, numbers and exchanges of the victim are nobody's.
    async fn other_calls(&mut self) {
        let thief = self.thief.clone();
        let players = ("theirs", "nobody");
        self.same(BALANCE, 10_000_423, players, |open_id| Game::balance(&thief, open_id).request()).await;
        self.same(PRESENT, 10_000_423, players, |open_id| Game::present(&thief, open_id, "n5", 1).request())
            .await;
        self.same(CANCEL, 10_000_423, players, |open_id| {
            Game::cancel(&thief, open_id, "n6", "number1", 1).request()
        })
        .await;
        let numbers = ("number1", "number2");
        self.same(CANCEL, 10_000_606, numbers, |number| {
            Game::cancel(&thief, "own1", "n7", number, 1).request()
        })
        .await;
        self.same(QUERY, 10_000_606, numbers, |number| Game::query(&thief, "own1", number).request()).await;
        self.same(QUERY, 10_000_423, players, |open_id| Game::query(&thief, open_id, "number1").request())
            .await;
        // The victim's number is unknown, so the thief may close its own, which the victim does not notice.
        let closed = self.till.send(Game::query(&thief, "own1", "number3").with("close", 1).request()).await;
        assert_eq!(closed.json()["data"]["status"], "closed", "{}", closed.body);
        let replay = self.till.send(exchange(&self.victim, "theirs", "number3", 10, NOW)).await;
        assert_eq!(replay.header("idempotent-replayed"), Some("true"), "{}", replay.body);
        for (route, game) in [
            (BALANCE, Game::balance(&self.victim, "theirs")),
            (PRESENT, Game::present(&self.victim, "theirs", "n8", 1)),
            (CANCEL, Game::cancel(&self.victim, "theirs", "n9", "number1", 1)),
            (QUERY, Game::query(&self.victim, "theirs", "number1")),
        ] {
            let (own, none) = (thief.pay_key.clone(), "k".repeat(thief.pay_key.len()));
            self.same(route, 100_200_114, (&own, &none), |key| game.clone().keyed(key).request()).await;
            let (own, none) = (thief.token.clone(), "0".repeat(64));
            self.same(route, 100_200_102, (&own, &none), |token| {
                game.clone().with("access_token", token).request()
            })
            .await;
        }
    }

    async fn orders(&mut self) {
        let thief = self.thief.clone();
        let own = self.till.send(upload(&thief, &picture(3))).await;
        let own = own.json()["data"]["imgId"].as_str().unwrap().to_owned();
        let theirs = self.victims_img_id.clone();
        self.same(REPORT, 10_000_417, (&theirs, &"0".repeat(48)), |img_id| {
            report(&thief, "order-new", "own1", img_id, 1)
        })
        .await;
        self.same(REPORT, 10_000_423, ("theirs", "nobody"), |open_id| {
            report(&thief, "order-new", open_id, &own, 1)
        })
        .await;
        let with = |name: &str, value: &str| {
            let mut body = json!({
                "out_biz_order_no": "order-new", "out_order_no": "order-new", "open_id": "own1",
                "order_create_time": 1_700_000_000_000_i64, "order_status": 1, "order_path": PAGE,
                "product_cover_img_id": own,
            });
            body[name] = value.into();
            Request::post(&format!("{REPORT}?{}", credentials(&thief))).body(body.to_string())
        };
        self.same(REPORT, 10_002_003, ("poi-theirs", "poi-nobody"), |poi_id| with("poi_id", poi_id)).await;
        self.same(REPORT, 10_001_007, ("pages/victim/secret", "pages/nobody/secret"), |page| {
            with("order_path", page)
        })
        .await;
        // The victim's order and payment number are as new as any other.
        self.same(REPORT, 1, ("order-theirs", "order-nobody"), |number| {
            report(&thief, number, "own1", &own, 1)
        })
        .await;
        self.preorders(&own).await;
    }

    /// Apps that must register their payments do not register them for each other.
    async fn preorders(&mut self, img_id: &str) {
        let kind = || AppKind { preorder_check: true, ..AppKind::default() };
        let thief = self.till.app_like("thief2", kind()).await;
        let other = self.till.app_like("other2", kind()).await;
        self.till.player(&thief, "own1", 0, 0).await;
        let uploaded = self.till.send(upload(&thief, &picture(3))).await;
        let own = uploaded.json()["data"]["imgId"].as_str().unwrap().to_owned();
        assert_ne!(own, img_id, "the same bytes have another id in another app");
        self.till
            .command(&other, AppCommand::AddPreorders(vec![OrderNo::parse("paid-theirs").unwrap()]))
            .await;
        self.same(REPORT, 10_002_018, ("paid-theirs", "paid-nobody"), |number| {
            report(&thief, number, "own1", &own, 1)
        })
        .await;
    }

    async fn pictures(&mut self) {
        // The same bytes again are the thief's own picture, as new ones are.
        let same = self.till.send(upload(&self.thief, &picture(1))).await;
        let img_id = same.json()["data"]["imgId"].as_str().unwrap().to_owned();
        assert_ne!(img_id, self.victims_img_id);
        assert_eq!((same.code(), img_id.len()), (1, 48));
        // A picture takes no credentials, and another app's open no more.
        let thief = self.thief.clone();
        let none = ("0".repeat(48), "f".repeat(48));
        self.same(IMAGE, 10_000_417, (&none.0, &none.1), |img_id| {
            Request::get(&format!("/img/{img_id}?{}", credentials(&thief)))
        })
        .await;
    }

    /// One app that is at its limit, or suspended, is so alone.
    async fn limits(&mut self) {
        self.till.command(&self.thief, AppCommand::Suspend(true)).await;
        self.till.clock.advance(Duration::from_secs(5));
        let refused = self.till.send(exchange(&self.thief, "own1", "n5", 1, NOW)).await;
        assert_eq!(refused.code(), 100_200_102, "{}", refused.body);
        let replay = self.till.send(exchange(&self.victim, "theirs", "number1", 10, NOW)).await;
        assert_eq!(replay.code(), 1, "{}", replay.body);
    }
}

/// An upload by URL, its parameters in the query or in the body.
fn by_url(app: &TestApp, url: &str, in_body: bool) -> Request {
    let fields = format!("{}&url={}", credentials(app), encoded(url));
    if in_body {
        Request::post(UPLOAD_URL).body(fields)
    } else {
        Request::post(&format!("{UPLOAD_URL}?{fields}"))
    }
}
