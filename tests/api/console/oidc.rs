//! Sign-in by OpenID Connect: who is signed in as whom, and what is refused.

mod provider;

use domain::console_user::{ConsoleUserName, PasswordHash, ProvidedIdentity, Role};
use domain::operation::user::{UserCommand, of_a_provider};
use domain::operator::{Operator, OperatorKind};
use domain::rights::{Apps, Rights};
use guarded_fetch::ServiceClient;
use minitill::config::OIDC_CALLBACK_PATH;
use minitill::operator::oidc::{OidcFault, SignInProvider, SignInSecret};
use provider::{CLIENT_ID, Provider, REDIRECT_URL, Token, now, settings_of};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;
use store::OperationError;
use url::Url;

use super::sign_in::{PASSWORD, sign_in, user};
use crate::support::console::Browser;
use crate::support::{Answer, Request, TestTill, encoded, operator};

/// A sign-in under way.
struct Begun {
    /// The address to which the browser is sent.
    address: Url,
    /// The cookie, as the browser sends it back.
    cookie: String,
}

impl Begun {
    fn asked(&self, name: &str) -> Option<String> {
        self.address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }
}

async fn begin(till: &TestTill, query: &str) -> Begun {
    let answer = Request::get(&format!("/console/sign-in/provider{query}")).send(till.operator_address).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    Begun { address: Url::parse(answer.header("location").unwrap()).unwrap(), cookie }
}

/// The browser comes back with a code, and asks again from the page that it gets.
async fn come_back(till: &TestTill, cookie: &str, code: &str, state: &str) -> Answer {
    let path = format!("{OIDC_CALLBACK_PATH}?code={code}&state={}", encoded(state));
    let first = Request::get(&path).header("sec-fetch-site", "cross-site").send(till.operator_address).await;
    assert_eq!((first.status, first.header("set-cookie")), (200, None), "{}", first.body);
    let (_, rest) = first.body.split_once("http-equiv=\"refresh\" content=\"0;url=").unwrap();
    let again = rest.split('"').next().unwrap().replace("&#38;", "&");
    assert!(first.body.contains(&format!("href=\"{}\"", again.replace('&', "&#38;"))), "for who must click");
    Request::get(&again).header("cookie", cookie).send(till.operator_address).await
}

/// A whole sign-in of a browser with these cookies.
async fn signed(
    till: &TestTill,
    provider: &Provider,
    cookies: &str,
    change: impl FnOnce(&mut Token),
) -> Answer {
    let begun = begin(till, "?next=%2Fconsole%2Flog").await;
    let code = provider.code(&begun.address, change);
    let cookies = format!("{cookies}; {}", begun.cookie);
    come_back(till, &cookies, &code, &begun.asked("state").unwrap()).await
}

fn of_groups(groups: Value) -> impl FnOnce(&mut Token) {
    move |token| token.claims["groups"] = groups
}

/// The browser that an answer signed in.
fn browser<'a>(till: &'a TestTill, answer: &Answer) -> Browser<'a> {
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console/log")), "{}", answer.body);
    let set = answer.header("set-cookie").unwrap();
    let (token, attributes) = set.strip_prefix("minitill_console=").unwrap().split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/console; HttpOnly; SameSite=Strict");
    till.browser_with(token.to_owned())
}

/// What makes a token wrong.
type Change = fn(&mut Token);

const USERS: &str = "SELECT count(*) FROM console_users";
const SESSIONS: &str = "SELECT count(*) FROM console_sessions";

/// Rules 8.6.20 to 8.6.23: the provider signs users in with the role of their groups, taken anew at each sign-in. The
/// subject is the identity. A name that somebody has is nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_signs_users_in() {
    let provider = Provider::start().await;
    let till = TestTill::start_with(|config| {
        provider.settings()(config);
        config.console.totp_required = true;
    })
    .await;
    user(&till, "alice", Role::Viewer).await;
    let page = Request::get("/console/sign-in?next=%2Fconsole%2Flog").send(till.operator_address).await;
    let link = "href=\"/console/sign-in/provider?next=%2Fconsole%2Flog\">Sign in with 127.0.0.1</a>";
    assert!(page.body.contains(link), "{}", page.body);
    let begun = begin(&till, "?next=%2Fconsole%2Flog").await;
    assert!(begun.address.as_str().starts_with(&format!("{}/authorize?", provider.issuer)));
    let asked = |name: &str| begun.asked(name).unwrap();
    assert_eq!((asked("client_id"), asked("redirect_uri")), (CLIENT_ID.to_owned(), REDIRECT_URL.to_owned()));
    assert_eq!(
        (asked("response_type"), asked("scope")),
        ("code".to_owned(), "openid profile groups".to_owned())
    );
    assert_eq!((asked("code_challenge_method"), begun.asked("prompt")), ("S256".to_owned(), None));

    // The local alice keeps her name and her role.
    let first = browser(
        &till,
        &signed(&till, &provider, "", |token| token.claims["email"] = json!("al@x.example")).await,
    );
    let page = first.get("/console").await.body;
    assert!(page.contains("al@x.example</a> <span class=\"tag\">admin</span>"), "no second factor: {page}");
    let account = first.get("/console/account").await.body;
    assert!(
        account.contains("by OpenID Connect")
            && !account.contains("assword")
            && !account.contains("second-factor")
    );
    assert_eq!(first.get("/console/account/second-factor").await.status, 303);
    assert_eq!(sign_in(&till, "al@x.example", "").await.status, 403, "the row has no password");
    assert_eq!(till.number(USERS).await, 2);

    // The subject counts, whatever the names are now. Another role ends the other sessions.
    let viewer = signed(&till, &provider, "", |token| {
        token.claims["preferred_username"] = json!("bob");
        token.claims["groups"] = json!("till-viewers");
    });
    let second = browser(&till, &viewer.await);
    let page = second.get("/console").await.body;
    assert!(page.contains("al@x.example</a> <span class=\"tag\">viewer</span>"), "{page}");
    assert_eq!(first.get("/console").await.status, 303);
    // The same role ends nothing but the session whose cookie came along.
    let viewers = || of_groups(json!(["till-viewers"]));
    let third = browser(&till, &signed(&till, &provider, "", viewers()).await);
    let cookie = format!("minitill_console={}", third.token);
    browser(&till, &signed(&till, &provider, &cookie, viewers()).await);
    assert_eq!((second.get("/console").await.status, third.get("/console").await.status), (200, 303));

    // Each role has a group; of several the first in the order of the settings counts. The apps stay.
    till.execute("UPDATE console_users SET apps = '{a1}' WHERE oidc_subject = 'subject-1'").await;
    for (groups, role) in [
        (json!(["till-support"]), "support"),
        (json!(["till-finance", "till-viewers"]), "finance"),
        (json!(["till-support", "till-finance", "till-developers"]), "developer"),
        (json!(["till-viewers"]), "viewer"),
    ] {
        browser(&till, &signed(&till, &provider, "", of_groups(groups)).await);
        let kept = format!("SELECT count(*) FROM console_users WHERE apps = '{{a1}}' AND role = '{role}'");
        assert_eq!(till.number(&kept).await, 1, "{role}");
    }

    // Without a usable name a user gets one of the subject. A subject of other people is another user.
    let nameless = signed(&till, &provider, "", |token| {
        token.claims["sub"] = json!("subject-2");
        token.claims["email"] = json!("no name");
    });
    browser(&till, &nameless.await);
    let named = "SELECT count(*) FROM console_users WHERE name ~ '^oidc-[0-9a-f]{16}$' AND role = 'admin'";
    assert_eq!((till.number(named).await, till.number(USERS).await), (1, 3));
    let lines = "SELECT count(*) FROM operator_log WHERE operator_kind = 'console' AND operator = 'al@x.example' AND subject = operator
                 AND (action, before, after) IN (('console_user.set_role', '{\"role\": \"admin\"}', '{\"role\": \"viewer\"}'))
                 OR action = 'console_user.add' AND after ->> 'oidc_subject' = 'subject-1' AND after ->> 'role' = 'admin'";
    assert_eq!(till.number(lines).await, 2);
    till.assert_audit_clean().await;
}

/// The browser of `subject-1`, who has this name at the provider now and has just proved who they are.
async fn signed_as<'a>(till: &'a TestTill, provider: &Provider, name: &str) -> Browser<'a> {
    let answer = signed(till, provider, "", |token| {
        token.claims["preferred_username"] = json!(name);
        token.claims["auth_time"] = json!(now() - 1);
    });
    browser(till, &answer.await)
}

/// Changes a user from the command line.
async fn change(till: &TestTill, name: &str, command: UserCommand) {
    let name = ConsoleUserName::parse(name).unwrap();
    till.store.change_console_user(&operator(), &name, command).await.unwrap();
}

async fn credit(browser: &Browser<'_>, coins: &str, reference: &str) -> Answer {
    let fields = [("charged", coins), ("reference", reference), ("reason", "late")];
    browser.post("/console/apps/a1/players/o1/credit", &fields).await
}

/// Rules 8.6.21 to 8.6.23: whoever was removed and signs in again is the same person, whatever the provider calls them now.
/// So 8.6.37 and 8.6.40 go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_user_comes_back_with_the_name_and_the_apps_of_before() {
    let provider = Provider::start().await;
    let till = TestTill::start_with(|config| {
        provider.settings()(config);
        config.console.second_person_above = 500;
    })
    .await;
    let app = till.app("a1").await;
    till.app("a2").await;
    till.player(&app, "o1", 0, 0).await;
    let is_there = async |name: &str, apps: &str| {
        let same = format!("name = '{name}' AND apps = '{apps}' AND oidc_subject = 'subject-1'");
        till.number(&format!("SELECT count(*) FROM console_users WHERE {same}")).await == 1
    };

    signed_as(&till, &provider, "alice").await;
    let of_a1 = Rights { role: Role::Admin, apps: Apps::parse("a1").unwrap() };
    change(&till, "alice", UserCommand::Rights(of_a1)).await;
    let alice = signed_as(&till, &provider, "alice").await;
    let made = credit(&alice, "500", "r1").await;
    assert_eq!((made.status, till.purses(&app, "o1").await), (303, (0, 500, 2)), "{}", made.body);
    change(&till, "alice", UserCommand::Remove).await;
    let again = signed_as(&till, &provider, "eve").await;
    assert!(is_there("alice", "{a1}").await);
    assert_eq!(again.get("/console/apps/a2").await.status, 404);
    let waits = credit(&again, "1", "r2").await;
    assert_eq!(waits.header("location"), Some("/console/apps/a1/request?ref=r2"), "{}", waits.body);
    assert_eq!(till.purses(&app, "o1").await, (0, 500, 2));
    let told = "SELECT count(*) FROM operator_log WHERE action = 'console_user.add' AND subject = 'alice' AND operator = subject
                AND after ->> 'role' = 'admin' AND after -> 'apps' = '[\"a1\"]' AND after ->> 'oidc_subject' = 'subject-1'";
    assert_eq!(till.number(told).await, 1, "the line of the second time has the apps");

    // Another user has the name now. So it is the next one, and the apps of before all the same.
    change(&till, "alice", UserCommand::Remove).await;
    user(&till, "alice", Role::Viewer).await;
    signed_as(&till, &provider, "eve").await;
    assert!(is_there("eve", "{a1}").await);
    // The last rights count, and who gave them is no second person of hers (8.6.45).
    let bob = till.browser(Role::Admin).await;
    let name = "SELECT name FROM console_users WHERE name LIKE 'admin-%'";
    let name: String = sqlx::query_scalar(name).fetch_one(&till.sql).await.unwrap();
    let (eve, hand) =
        (ConsoleUserName::parse("eve").unwrap(), Operator::new(OperatorKind::Console, &name).unwrap());
    till.store.change_console_user(&hand, &eve, UserCommand::Rights(Role::Admin.into())).await.unwrap();
    change(&till, "eve", UserCommand::Remove).await;
    let eve = signed_as(&till, &provider, "mallory").await;
    assert!(is_there("eve", "{}").await);
    let waits = credit(&eve, "501", "r3").await;
    assert_eq!(waits.header("location"), Some("/console/apps/a1/request?ref=r3"), "{}", waits.body);
    let refused = bob.post("/console/apps/a1/request/confirm", &[("ref", "r3")]).await;
    assert!(refused.body.contains("ne of you made or changed the account of the other"), "{}", refused.body);
    till.assert_audit_clean().await;
}

/// Rule 8.6.22: whoever is in none of the groups any more is out at the next sign-in, in every browser. Nobody else is.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_whom_the_provider_put_out_of_all_groups_loses_the_sessions() {
    let provider = Provider::start().await;
    let till = TestTill::start_with(provider.settings()).await;
    let lines =
        "SELECT count(*) FROM operator_log WHERE action = 'console_user.end_session' AND operator = 'alice'
                 AND subject = 'alice' AND after ->> 'sessions' = '2'";
    let (first, second) =
        (signed_as(&till, &provider, "alice").await, signed_as(&till, &provider, "alice").await);
    let other = till.browser(Role::Viewer).await;
    // A token that does not hold says nothing about the groups.
    let late = signed(&till, &provider, "", |token| {
        token.claims["groups"] = json!([]);
        token.claims["iat"] = json!(now() + 90);
    });
    assert_eq!(late.await.status, 403);
    assert_eq!(first.get("/console").await.status, 200);
    for _ in 0..2 {
        let refused = signed(&till, &provider, "", of_groups(json!([]))).await;
        assert!(refused.status == 403 && refused.body.contains("none of your groups"), "{}", refused.body);
        assert_eq!((first.get("/console").await.status, second.get("/console").await.status), (303, 303));
    }
    assert_eq!((other.get("/console").await.status, till.number(lines).await), (200, 1));
    // The account stays as it was, for whoever comes back.
    assert_eq!(signed_as(&till, &provider, "alice").await.get("/console").await.status, 200);
}

/// Rule 8.6.24: what does not hold signs nobody in.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_does_not_hold_is_refused() {
    let provider = Provider::start().await;
    let till = TestTill::start_with(provider.settings()).await;
    let oidc =
        SignInProvider::new(&till.till.config.oidc, ServiceClient::default(), till.clock.clone()).unwrap();
    let secret = SignInSecret("s".to_owned());
    let address = oidc.address(&secret, false).await.unwrap();
    let refused = OidcFault::Refused;
    let identity = ProvidedIdentity { issuer: provider.issuer.clone(), subject: "subject-1".to_owned() };
    let no_role = || OidcFault::NoRole(identity.clone());
    let cases: [(Change, OidcFault); 19] = [
        (|token| token.claims["nonce"] = json!("0"), refused("token_of_another_sign_in")),
        (|token| token.claims["nonce"] = Value::Null, refused("token_of_another_sign_in")),
        (|token| token.claims["aud"] = json!("other"), refused("token_for_another_client")),
        (|token| token.claims["aud"] = json!([CLIENT_ID, "other"]), refused("token_for_another_client")),
        (|token| token.claims["iss"] = json!("http://127.0.0.1"), refused("token_of_another_issuer")),
        (|token| token.claims["exp"] = json!(now()), refused("token_expired")),
        (|token| token.claims["iat"] = json!(now() + 90), refused("token_of_the_future")),
        (|token| token.claims["nbf"] = json!(now() + 90), refused("token_of_the_future")),
        (|token| token.claims["nbf"] = json!(1e10), refused("token_of_the_future")),
        (|token| token.claims["nbf"] = json!("tomorrow"), refused("token_of_the_future")),
        (|token| token.claims["auth_time"] = json!(now() + 90), refused("token_of_the_future")),
        (|token| token.key = 2, refused("token_signature")),
        (|token| token.header = json!({ "alg": "none" }), refused("token_signature")),
        (|token| (token.key, token.header) = (0, json!({ "alg": "HS256" })), refused("token_signature")),
        (|token| token.header["kid"] = json!("unknown"), refused("token_signature")),
        (|token| token.claims["sub"] = json!("s".repeat(256)), refused("token_unusable")),
        (|token| token.claims["groups"] = Value::Null, no_role()),
        (|token| token.claims["groups"] = json!(["till-admin", "", 7]), no_role()),
        (|token| token.claims["groups"] = json!({ "till-admins": true }), no_role()),
    ];
    for (index, (change, fault)) in cases.into_iter().enumerate() {
        let code = provider.code(&address, change);
        let found = oidc.user(Ipv4Addr::LOCALHOST.into(), &secret, &code).await;
        assert_eq!(found.unwrap_err(), fault, "case {index}");
        let answer = signed(&till, &provider, "", change).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "case {index}");
        let told = if fault == no_role() { "none of your groups" } else { "did not sign you in" };
        assert!(answer.body.contains(told), "case {index}: {}", answer.body);
    }
    assert_eq!(provider.asked(), 2, "each of the two clients asks for an unknown key once in ten seconds");

    let begun = begin(&till, "?next=https%3A%2F%2Fevil.example").await;
    let state = begun.asked("state").unwrap();
    let code = || provider.code(&begun.address, |_| {});
    let other = begin(&till, "").await;
    for (cookie, code, state, told) in [
        ("a=b", code(), state.as_str(), "This browser did not begin this sign-in"),
        (other.cookie.as_str(), code(), &state, "This browser did not begin this sign-in"),
        (&begun.cookie, code(), "", "This browser did not begin this sign-in"),
        (&begun.cookie, code(), &other.asked("state").unwrap(), "This browser did not begin this sign-in"),
        (&begun.cookie, String::new(), &state, "did not sign you in"),
        (&begun.cookie, "unknown".to_owned(), &state, "did not sign you in"),
        // The code of another sign-in has another PKCE challenge.
        (&begun.cookie, provider.code(&other.address, |_| {}), &state, "did not sign you in"),
    ] {
        let answer = come_back(&till, cookie, &code, state).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{told}: {}", answer.body);
        assert!(answer.body.contains(told), "{}", answer.body);
    }
    assert_eq!((till.number(USERS).await, till.number(SESSIONS).await), (0, 0));

    // A code works once, and the page to open afterwards is one of the console.
    let code = code();
    let done = come_back(&till, &begun.cookie, &code, &state).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/console")));
    let over = "minitill_sign_in=; Path=/console/sign-in; HttpOnly; SameSite=Strict; Max-Age=0";
    assert!(done.headers("set-cookie").any(|set| set == over));
    assert_eq!(come_back(&till, &begun.cookie, &code, &state).await.status, 403);
    assert_eq!(till.number(SESSIONS).await, 1);

    // A key that the provider makes later counts, and the key before it no longer.
    provider.rotate();
    till.clock.advance(Duration::from_secs(10));
    assert_eq!(signed(&till, &provider, "", |token| token.key = 1).await.status, 403);
    browser(&till, &signed(&till, &provider, "", |_| {}).await);
    assert_eq!(provider.asked(), 3);
}

/// Rule 8.6.24: a provider that is away holds up nothing but sign-ins at the provider. Without one there is no such
/// sign-in.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_leaves_passwords() {
    let till = TestTill::start_with(settings_of("http://127.0.0.1:9".to_owned())).await;
    user(&till, "alice", Role::Admin).await;
    for _ in 0..2 {
        let away = Request::get("/console/sign-in/provider").send(till.operator_address).await;
        assert_eq!((away.status, away.header("set-cookie")), (503, None));
        assert!(away.body.contains("The OpenID Connect provider sent an invalid answer."), "{}", away.body);
    }
    assert_eq!(sign_in(&till, "alice", PASSWORD).await.status, 303);
    let without = TestTill::start().await;
    let page = Request::get("/console/sign-in").send(without.operator_address).await;
    assert!(!page.body.contains("sign-in/provider"), "{}", page.body);
    for path in ["/console/sign-in/provider", OIDC_CALLBACK_PATH] {
        assert_eq!(Request::get(path).send(without.operator_address).await.status, 404, "{path}");
    }
}

/// Rule 8.6.25: keys, money and users ask a user of the provider to sign in there again, just now and as themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_provider_proves_who_they_are_there() {
    let provider = Provider::start().await;
    let till = TestTill::start_with(provider.settings()).await;
    let alice = browser(&till, &signed(&till, &provider, "", |_| {}).await);
    let new_app = async || alice.post("/console/new-app", &[("app_id", "a1"), ("category", "general")]).await;
    let asked = new_app().await;
    assert_eq!(asked.status, 403);
    let link =
        "href=\"/console/sign-in/provider?again=yes\" target=\"_blank\">Sign in again with 127.0.0.1</a>";
    assert!(
        asked.body.contains(link) && asked.body.contains("name=\"app_id\" value=\"a1\""),
        "{}",
        asked.body
    );
    assert!(!asked.body.contains("assword"), "{}", asked.body);
    let prove = async |cookie: &str, change: &dyn Fn(&mut Token)| {
        let begun = begin(&till, "?again=yes").await;
        assert_eq!(
            (begun.asked("prompt"), begun.asked("max_age")),
            (Some("login".to_owned()), Some("0".to_owned()))
        );
        let code = provider.code(&begun.address, |token| {
            token.claims["auth_time"] = json!(now() - 1);
            change(token);
        });
        come_back(&till, &format!("{cookie}; {}", begun.cookie), &code, &begun.asked("state").unwrap()).await
    };
    let cookie = format!("minitill_console={}", alice.token);
    let changes: [&dyn Fn(&mut Token); 4] = [
        &|token| token.claims["auth_time"] = Value::Null,
        &|token| token.claims["auth_time"] = json!(now() - 300),
        &|token| token.claims["sub"] = json!("subject-2"),
        &|token| token.claims["groups"] = json!(["till-viewers"]),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_eq!(prove(&cookie, change).await.status, 403, "case {index}");
    }
    assert_eq!(prove("", &|_| {}).await.status, 403, "no session");
    assert_eq!(new_app().await.status, 403);
    let done = prove(&cookie, &|_| {}).await;
    assert_eq!(done.status, 200);
    assert!(done.body.contains("Close this tab, and press Continue"), "{}", done.body);
    assert_eq!(new_app().await.status, 200);
    assert_eq!((till.number(USERS).await, till.number(SESSIONS).await), (1, 1), "a proof is no sign-in");
    // A sign-in at the provider just now is a proof too.
    // The clock of the provider may be a little ahead.
    let ahead = signed(&till, &provider, "", |token| {
        (token.claims["auth_time"], token.claims["nbf"]) = (json!(now() + 30), json!(1.5));
    })
    .await;
    assert_eq!(ahead.status, 303, "{}", ahead.body);
    let fresh = signed(&till, &provider, "", |token| token.claims["auth_time"] = json!(now() - 299)).await;
    assert_eq!(
        browser(&till, &fresh).post("/console/apps/a1/rotate-secret", &[]).await.status,
        400,
        "no proof is asked"
    );

    // Nobody gives such a user a password, and removing them ends their sessions.
    let (name, password) = (ConsoleUserName::parse("alice").unwrap(), PasswordHash::kept("other".to_owned()));
    let change = async |command| till.store.change_console_user(&operator(), &name, command).await;
    let refused = change(UserCommand::Password(password)).await;
    assert_eq!(refused, Err(OperationError::Refused(of_a_provider(&name))));
    change(UserCommand::Remove).await.unwrap();
    assert_eq!(alice.get("/console").await.status, 303);
}
