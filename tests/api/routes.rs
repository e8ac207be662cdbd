//! A walk over the route table: each route refuses strangers and wrong methods (style of the
//! house: a route without an authentication case fails here).

use domain::endpoint::Endpoint;
use domain::operation::topup::ProviderCommand;
use domain::topup::{CallbackFormat, CallbackSecret, PaymentProvider};
use minitill::http::refusal::Envelope;
use minitill::public::routes::{Authentication, ROUTES, Route};

use crate::game::Game;
use crate::support::{Request, TestApp, TestTill, operator};

/// A path of the route.
fn path(route: &Route) -> String {
    let path = route.path.replace("{payment_segment}", "kpay").replace("{img_id}", &"0".repeat(48));
    path.replace("{app_id}", "a1").replace("{provider}", "pay")
}

async fn set_provider(till: &TestTill, app: &TestApp) {
    let secret = CallbackSecret::parse(CallbackFormat::Stripe, "whsec_of_a_provider").unwrap();
    let command = ProviderCommand::Set(CallbackFormat::Stripe, secret);
    let provider = PaymentProvider::parse("pay").unwrap();
    till.store.change_topup_provider(&operator(), &app.id, &provider, command).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_a_stranger() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    for route in ROUTES.iter().filter(|route| !route.is_of_sandbox_server) {
        let path = path(route);
        let (without, wrong, code) = match route.authentication {
            Authentication::SignedForm => {
                let game = Game::new(&app, "o1", "b1", 1);
                let wrong = game.clone().with("access_token", "wrong").request();
                (game.without("access_token").request(), wrong, 100_200_102)
            }
            Authentication::QueryToken | Authentication::QueryOrBodyToken => {
                let wrong = Request::new(route.method, &format!("{path}?app_id=a1&access_token=wrong"));
                (Request::new(route.method, &path), wrong, 100_200_102)
            }
            Authentication::AppSecret => {
                let more = match route.endpoint {
                    Endpoint::Login => "js_code=unknown",
                    _ => "grant_type=client_credentials",
                };
                let query = format!("{path}?app_id=a1&app_secret=wrong&{more}");
                let code = till.send(Request::get(&path)).await.code();
                assert_eq!(code, 100_200_100);
                (Request::get(&query), Request::get(&query.replace("a1", "a2")), 100_200_101)
            }
            Authentication::SignedBody => {
                set_provider(&till, &app).await;
                let answer = till.send(Request::post(&path).body("{}")).await;
                assert_eq!((answer.status, answer.code()), (401, 100_200_114), "{}", answer.body);
                let answer = till.send(Request::post(&path.replace("a1", "a2"))).await;
                assert_eq!((answer.status, answer.code()), (404, 10_000_200), "{}", answer.body);
                continue;
            }
            Authentication::Path => {
                for stranger in [Request::get(&path), Request::get("/img/guess")] {
                    let answer = till.send(stranger).await;
                    assert_eq!((answer.status, answer.code()), (404, 10_000_417), "{}", answer.body);
                }
                continue;
            }
        };
        for request in [without, wrong] {
            let answer = till.send(request).await;
            assert_eq!((answer.status, answer.code()), (200, code), "{path}: {}", answer.body);
        }
    }
    assert_eq!(till.purses(&app, "o1").await, (0, 100, 1));
    for table in ["orders", "images", "ledger_entries WHERE kind = 'exchange'"] {
        assert_eq!(till.number(&format!("SELECT count(*) FROM {table}")).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_a_wrong_method_with_405_and_allow() {
    let till = TestTill::start().await;
    for of_path in ROUTES.chunk_by(|one, other| one.path == other.path) {
        let route = &of_path[0];
        // Tests of a sandbox server ask those.
        if route.is_of_sandbox_server {
            continue;
        }
        let methods: Vec<&str> = of_path.iter().map(|route| route.method).collect();
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            if methods.contains(&method) {
                continue;
            }
            let answer = till.send(Request::new(method, &path(route))).await;
            assert_eq!(answer.status, 405, "{method} {}", route.path);
            assert_eq!(answer.header("allow"), Some(methods.join(", ").as_str()), "{method} {}", route.path);
            let message = format!(r#"method: expected {}, got \"{method}\""#, methods.join(" or "));
            let body = match route.envelope {
                Envelope::Exchange => format!(r#"{{"code":10000200,"msg":"{message}"}}"#),
                Envelope::Open => format!(r#"{{"result":10000200,"error_msg":"{message}"}}"#),
            };
            if method != "HEAD" {
                assert_eq!(answer.body, body);
            }
        }
    }
    // Paths of the table stand together, or the walk above would see a part of them.
    let mut paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    paths.dedup();
    let distinct: std::collections::BTreeSet<&&str> = paths.iter().collect();
    assert_eq!(distinct.len(), paths.len());
}

/// Rules 2.1.6, 2.2.4 and 2.8.5: the method that came is repeated as other values are: cut, and without a credential.
#[tokio::test(flavor = "multi_thread")]
async fn a_made_up_method_is_shown_cut_and_without_a_credential() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let long = "M".repeat(65);
    for (method, shown) in [
        ("BREW", "\"BREW\"".to_owned()),
        (long.as_str(), format!("\"{}\"...", &long[..64])),
        (app.token.as_str(), format!("\"{}...\"", &app.token[..4])),
    ] {
        let answer = till.send(Request::new(method, "/api/kpay/minigame/pay")).await;
        let message = format!("method: expected POST, got {shown}");
        assert_eq!((answer.status, answer.code(), answer.message()), (405, 10_000_200, message));
    }
}
