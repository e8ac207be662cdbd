//! Credentials (contract 2.8.5 and 2.11): no answer repeats one, wherever the client put it, and what is around one
//! that does not fit is named.

use domain::console_user::Role;
use serde_json::{Value, json};

use crate::admin::Caller;
use crate::game::{BAD_SIGNATURE, Game, PATH};
use crate::support::{PICTURE, Request, TestApp, TestTill};

const TOKEN: &str = "/oauth2/access_token";
const LOGIN: &str = "/oauth2/mp/code2session";
const REPORT: &str = "/openapi/mp/developer/order/v1/report";
const WITH_FILE: &str = "/openapi/mp/developer/file/img/uploadWithFile";
const WITH_URL: &str = "/openapi/mp/developer/file/img/uploadWithUrl";
const REPORT_FIELDS: [&str; 12] = [
    "out_biz_order_no",
    "out_order_no",
    "open_id",
    "order_create_time",
    "order_status",
    "order_path",
    "product_cover_img_id",
    "order_backup_url",
    "poi_id",
    "product_id",
    "product_catalog_code",
    "product_city",
];

/// Each place of each endpoint that an answer could repeat, with this text in it.
fn requests(app: &TestApp, text: &str) -> Vec<Request> {
    let credentials = format!("app_id={}&access_token={}", app.id, app.token);
    let secret = format!("app_id={}&app_secret={}&grant_type=client_credentials", app.id, app.secret);
    let mut requests = vec![
        Request::post(PATH).header("x-request-id", text).body("a=1"),
        Request::post(PATH).header("content-encoding", text).body("a=1"),
        Request::post(&format!("/oauth2/{text}")),
        Request::get(&format!("/img/{text}")),
        Request::post(&format!("{REPORT}?{credentials}&{text}={text}&{text}=")).body("{}"),
        Request::post(&format!("{REPORT}?{credentials}")).body(format!("{{\"{text}\":1,\"{text}\":2}}")),
        Request::post(&format!("{REPORT}?{credentials}")).body(text.to_owned()),
        Request::post(PATH).body(text.to_owned()),
        Request::post(PATH).body(format!("{text}=1&{text}=2")),
        Request::post(PATH).body(format!("{text}=%ff")),
        Request::post(PATH).body(format!("app_id={text}&access_token=x")),
        Request::post(PATH).body(format!("app_id=x%20{text}&access_token=x")),
        Request::post(&format!("{WITH_URL}?{credentials}")).body(format!("url=http://{text}.example/{text}")),
    ];
    let game = || Game::new(app, "o1", "b1", 1);
    let names: Vec<&'static str> = game().fields.keys().copied().filter(|name| *name != "biz_no").collect();
    requests.extend(names.iter().map(|name| game().with(name, text).request()));
    // A value that cannot be one, so that it is repeated.
    requests.extend(names.iter().map(|name| game().with(name, format!("{text} {text}")).request()));
    requests.push(game().with("biz_no", format!("{text} ")).request());
    requests.push(Game::query(app, "o1", &format!("/{text}")).request());
    for name in REPORT_FIELDS {
        for value in [json!(text), json!(format!(" {text}")), json!([text])] {
            let mut report = report();
            report[name] = value;
            requests.push(Request::post(&format!("{REPORT}?{credentials}")).body(report.to_string()));
        }
    }
    for name in ["app_id", "app_secret", "grant_type"] {
        requests.push(Request::post(TOKEN).body(format!("{secret}x&{name}={text}")));
        requests.push(Request::get(&format!("{TOKEN}?{}", secret.replace(name, text))));
        requests.push(Request::post(LOGIN).body(format!("{secret}&js_code={text}")));
    }
    let upload = |head: &str, file: &[u8]| {
        Request::post(&format!("{WITH_FILE}?{credentials}")).multipart(&[(head, file)])
    };
    let picture = |head: String| upload(&head, PICTURE);
    let no_picture = |text: &str| {
        upload("content-disposition: form-data; name=\"file\"; filename=\"a.png\"", text.as_bytes())
    };
    requests.extend([
        no_picture(text),
        no_picture(&format!("app_secret={text}\n")),
        picture(format!("content-disposition: form-data; name=\"{text}\"")),
        picture(format!("content-disposition: form-data; name=\"file\"; filename=\"{text}.gif\"")),
        picture(format!("content-disposition: form-data; name=\"file\"; filename=\"a.{text}\"")),
        picture(format!("content-disposition: {text}")),
        Request::post(&format!("{WITH_FILE}?{credentials}")).header("content-type", text).body("x"),
    ]);
    requests
}

fn report() -> Value {
    json!({
        "out_biz_order_no": "order-1", "out_order_no": "order-1", "open_id": "o1", "order_create_time": 1, "order_status": 2,
        "order_path": "pages/a", "product_cover_img_id": "0".repeat(48),
    })
}

/// Rule 2.8.5.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_repeats_a_credential() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let key = Caller::new(&till, "dashboard", Role::Admin).await;
    let sign = "9b2d71e4c05fa836".repeat(4);
    let credentials = [&app.token, &app.secret, &app.pay_key, &key.key, &sign];
    for credential in credentials {
        // The second is what is left of a quote that was escaped.
        let sent = [credential.to_owned(), format!("u0022{credential}")];
        for request in sent.iter().flat_map(|text| requests(&app, text)) {
            assert_silent(&till.send(request.clone()).await.bytes, credential, &request);
        }
        for (method, path, body) in [
            ("POST", "/apps".to_owned(), json!({ credential.as_str(): 1 })),
            ("POST", "/apps".to_owned(), json!({ "app_id": format!("{credential} ") })),
            ("POST", "/apps".to_owned(), json!({ "app_id": "a9", "scopes": [credential] })),
            ("GET", format!("/apps?{credential}=1"), Value::Null),
            ("GET", format!("/apps/{credential}"), Value::Null),
            ("GET", format!("/apps/a1/wallets/{credential}"), Value::Null),
            ("GET", format!("/apps/a1/exchanges/{credential}"), Value::Null),
            (
                "POST",
                "/apps/a1/wallets/o1/credits".to_owned(),
                json!({ "ref": credential, "free": credential }),
            ),
        ] {
            let request = key.request(method, &path).header("idempotency-key", credential);
            let request =
                request.header("content-type", "application/json").header("x-request-id", credential);
            let request = request.body(if body.is_null() { String::new() } else { body.to_string() });
            assert_silent(&request.send(till.operator_address).await.bytes, credential, &request);
        }
    }
}

#[track_caller]
fn assert_silent(answer: &[u8], credential: &str, request: &Request) {
    let answer = String::from_utf8_lossy(answer);
    let repeats = answer.to_ascii_lowercase().contains(&credential.to_ascii_lowercase()[..24]);
    assert!(!repeats, "{answer}\nto {}", String::from_utf8_lossy(&request.bytes()));
}

/// Rule 2.11.2: a name before a credential, and a placeholder in its place, are named.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_before_a_credential_and_a_placeholder_are_named() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let (token, secret) = (&app.token, &app.secret);
    let is_wrong = "access_token: expected a token of this app from /oauth2/access_token";
    let placeholder = "is a placeholder, which nothing replaced";
    let named = "has a name before it: send the value alone";
    let before = |name: &str, value: &str| format!("{name}={value}");
    for (wrong, why) in [("YOUR_ACCESS_TOKEN", placeholder), (&before("access_token", token), named)] {
        let refused = Game::new(&app, "o1", "b1", 1).with("access_token", wrong);
        refused.send(&till).await.assert_refused(100_200_102, &format!("{is_wrong}; it {why}"));
    }
    let fields = [
        ("app_id", app.id.as_str()),
        ("app_secret", &before("app_secret", secret)),
        ("grant_type", "client_credentials"),
    ];
    let refused = till.send(Request::post(TOKEN).body(crate::support::form(&fields))).await;
    let text = format!(
        "app_id or app_secret is wrong; use those that the operator of this till gave you; app_secret {named}; app_id \"a1\" came"
    );
    refused.assert_refused(100_200_101, &text);
}

/// Rules 2.11.1 and 2.11.2: the refusal of a credential says what is around it, and not what it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_around_a_credential_is_named() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let (token, secret) = (&app.token, &app.secret);
    let is_wrong = "access_token: expected a token of this app from /oauth2/access_token";
    for (before, after, strays) in [
        ("", "\n", "a line end"),
        ("", "\r\n", "a line end"),
        (" ", "", "a blank"),
        ("\"", "\"", "quotes"),
        ("Bearer ", "", "\"Bearer\""),
        ("\u{feff}", "", "a zero-width character"),
        ("", "\u{200b}", "a zero-width character"),
        ("", ";", "a separator"),
        ("<", ">", "brackets"),
    ] {
        let around = format!("it has {strays} around it");
        let refused = Game::new(&app, "o1", "b1", 1).with("access_token", format!("{before}{token}{after}"));
        refused.send(&till).await.assert_refused(100_200_102, &format!("{is_wrong}; {around}"));
        let game = Game::new(&app, "o1", "b1", 1);
        let sign = domain::signature::PayKey::new(app.pay_key.clone()).sign(&game.string_to_sign());
        let refused = game.with("sign", format!("{before}{sign}{after}")).send(&till).await;
        refused.assert_refused(100_200_114, &format!("{BAD_SIGNATURE}; {around}"));
        let fields = [
            ("app_id", app.id.as_str()),
            ("app_secret", &format!("{before}{secret}{after}")),
            ("grant_type", "client_credentials"),
            ("js_code", "x"),
        ];
        let text = format!(
            "app_id or app_secret is wrong; use those that the operator of this till gave you; app_secret has {strays} around it; app_id \"a1\" came"
        );
        for path in [TOKEN, LOGIN] {
            let fields = &fields[..if path == TOKEN { 3 } else { 2 }];
            let code = [("js_code", "x")];
            let fields = fields.iter().chain(&code).copied().collect::<Vec<_>>();
            let refused = till.send(Request::post(path).body(crate::support::form(&fields))).await;
            refused.assert_refused(100_200_101, &text);
        }
        let login =
            [("app_id", app.id.as_str()), ("app_secret", secret), ("js_code", &format!("{before}x{after}"))];
        let refused = till.send(Request::post(LOGIN).body(crate::support::form(&login))).await;
        let text = "js_code: expected a code of this app that was not used and has not expired; a new login gives one";
        refused.assert_refused(100_200_103, &format!("{text}; {around}"));
    }
    let blank = Game::new(&app, "o1", "b1", 1).with("app_id", "a1 ");
    blank.send(&till).await.assert_refused(
        100_200_102,
        r#"app_id: unknown app "a1 "; use the id that the operator of this till gave you"#,
    );
    let key = Caller::admin(&till).await.key;
    let quoted = Request::get("/admin/v1/apps").header("authorization", &format!("Bearer \"{key}\""));
    let refused = quoted.send(till.operator_address).await;
    let text = "there is no such API key; it has quotes around it";
    assert_eq!((refused.status, &refused.json()["detail"]), (401, &json!(text)));
    // Characters that are no ASCII.
    for (value, strays) in [
        (format!("Bearer \u{200b}{key}"), "a zero-width character"),
        (format!("Bearer {key}\u{feff}"), "a zero-width character"),
        (format!("Bearer \u{a0}{key}"), "a blank"),
        (format!("Bearer\u{a0}{key}"), "a blank"),
        (format!("Bearer \u{201c}{key}\u{201d}"), "quotes"),
    ] {
        let request = Request::get("/admin/v1/apps").header("authorization", &value);
        let refused = request.send(till.operator_address).await;
        let text = format!("there is no such API key; it has {strays} around it");
        assert_eq!((refused.status, &refused.json()["detail"]), (401, &json!(text)), "{value:?}");
    }
}

/// Rule 2.11.2: a name before an API key is named, and so is a placeholder.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_in_place_of_an_api_key_is_named() {
    let till = TestTill::start().await;
    let key = Caller::admin(&till).await.key;
    for (value, mistaken) in [
        (format!("Bearer api_key={key}"), "has a name before it: send the value alone"),
        ("Bearer YOUR_API_KEY".to_owned(), "is a placeholder, which nothing replaced"),
    ] {
        let request = Request::get("/admin/v1/apps").header("authorization", &value);
        let refused = request.send(till.operator_address).await;
        let text = format!("there is no such API key; it {mistaken}");
        assert_eq!((refused.status, &refused.json()["detail"]), (401, &json!(text)), "{value:?}");
    }
}
