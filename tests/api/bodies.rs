//! Bodies are what they are (contract 2.10): a byte-order mark does not count, a content coding is refused, and a
//! wrong envelope is named.

use serde_json::json;

use crate::admin::Caller;
use crate::game::{Game, PATH};
use crate::support::{Answer, Request, TestApp, TestTill};

const MARK: &[u8] = b"\xef\xbb\xbf";
const TOKEN: &str = "/oauth2/access_token";
const LOGIN: &str = "/oauth2/mp/code2session";
const REPORT: &str = "/openapi/mp/developer/order/v1/report";
const WITH_FILE: &str = "/openapi/mp/developer/file/img/uploadWithFile";
const WITH_URL: &str = "/openapi/mp/developer/file/img/uploadWithUrl";
const FAULTS: &str = "/sandbox/v1/faults";

fn marked(text: impl AsRef<[u8]>) -> Vec<u8> {
    [MARK, text.as_ref()].concat()
}

fn with_credentials(path: &str, app: &TestApp) -> String {
    format!("{path}?app_id={}&access_token={}", app.id, app.token)
}

fn secret_of(app: &TestApp) -> String {
    format!("app_id={}&app_secret={}&grant_type=client_credentials", app.id, app.secret)
}

/// Rule 2.10.1: a mark in front of a form, of JSON, and of the JSON text in a field.
#[tokio::test(flavor = "multi_thread")]
async fn a_byte_order_mark_does_not_count() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let exchange = Request::post(PATH).body(marked(Game::new(&app, "o1", "b1", 10).body()));
    assert_eq!(till.send(exchange).await.code(), 1);
    let items = format!("\u{feff}{}", crate::game::ITEMS);
    assert_eq!(Game::new(&app, "o1", "b2", 10).with("product_info", &items).send(&till).await.code(), 1);
    let stored: String =
        sqlx::query_scalar("SELECT product_info FROM exchange_texts WHERE product_info LIKE '%1%' LIMIT 1")
            .fetch_one(&till.sql)
            .await
            .unwrap_or_default();
    assert!(!stored.starts_with('\u{feff}'), "{stored}");
    let json =
        json!({ "app_id": app.id, "app_secret": app.secret, "grant_type": "client_credentials" }).to_string();
    for body in [marked(&json), marked(secret_of(&app))] {
        assert_eq!(till.send(Request::post(TOKEN).body(body)).await.code(), 1);
    }
    let report = Request::post(&with_credentials(REPORT, &app)).body(marked("{}"));
    till.send(report).await.assert_refused(10_000_200, "out_biz_order_no is missing");
    let key = Caller::admin(&till).await;
    let create = key.request("POST", "/apps").header("content-type", "application/json");
    let create = create.header("idempotency-key", "mark-1").body(marked(r#"{"app_id":"a9"}"#));
    let made = create.send(till.operator_address).await;
    assert_eq!(made.status, 201, "{}", made.body);
    // The same key with other content behind the mark is another request.
    let create = key.request("POST", "/apps").header("content-type", "application/json");
    let other = create.header("idempotency-key", "mark-1").body(marked(r#"{"app_id":"a8"}"#));
    assert_eq!(other.send(till.operator_address).await.status, 422);
}

/// Rule 2.10.2: no coding is taken, whatever the endpoint, and the body is not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_coding_is_refused_before_the_body() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let text = "content-encoding: expected none, got \"gzip\"";
    let paths = [
        PATH.to_owned(),
        "/api/kpay/minigame/balance".to_owned(),
        TOKEN.to_owned(),
        LOGIN.to_owned(),
        with_credentials(REPORT, &app),
        with_credentials(WITH_FILE, &app),
        with_credentials(WITH_URL, &app),
        with_credentials(FAULTS, &app),
    ];
    for path in &paths {
        // The announced body never comes.
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: till\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: 5000\r\n\r\n"
        );
        crate::support::raw(till.address, head.as_bytes()).await.assert_refused(10_000_200, text);
        let identity = Request::post(path).header("content-encoding", "identity").body("{}");
        assert!(!till.send(identity).await.body.contains("content-encoding"), "{path}");
    }
    let listed = Request::post(PATH).header("content-encoding", "identity, BR").body("a=1");
    till.send(listed).await.assert_refused(10_000_200, "content-encoding: expected none, got \"BR\"");
    let key = Caller::admin(&till).await;
    let apps = key.request("POST", "/apps").header("content-encoding", "gzip").body("{}");
    let refused = apps.send(till.operator_address).await;
    assert_eq!((refused.status, &refused.json()["detail"]), (415, &json!(text)));
    let sign_in = Request::post("/console/sign-in").header("content-encoding", "gzip").body("name=a");
    let refused = sign_in.header("origin", "http://localhost").send(till.operator_address).await;
    assert_eq!(refused.status, 415, "{}", refused.body);
}

/// Rule 2.10.3: what is no form where a form belongs is named, and does not read as a missing field.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_form_is_named() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let form = Game::new(&app, "o1", "b1", 10).body();
    let escaped: String = form_urlencoded::byte_serialize(form.as_bytes()).collect();
    let part = |name: &str| format!("content-disposition: form-data; name=\"{name}\"");
    let multipart = Request::post("").multipart(&[(&part("app_id"), b"a1")]).bytes();
    let multipart =
        multipart[multipart.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4..].to_vec();
    for call in ["pay", "balance", "present", "cancel", "query"] {
        let path = format!("/api/kpay/minigame/{call}");
        for (body, got) in [
            (multipart.clone(), "multipart"),
            (b"<xml><app_id>a1</app_id></xml>".to_vec(), "XML"),
            (br#"{"app_id":"a1"}"#.to_vec(), "JSON"),
            (format!("\"{form}\"").into_bytes(), "text in quotes"),
            (escaped.clone().into_bytes(), "a form that is escaped as a whole"),
            (b"%7B%22app_id%22%3A%22a1%22%7D=".to_vec(), "JSON that is escaped as a whole"),
            (b"\x1f\x8b\x08\x00".to_vec(), "gzip without a content-encoding"),
            (b"\xff\xfea\0=\x001\0".to_vec(), "UTF-16"),
            (b"app_id: a1".to_vec(), "plain text"),
            ("\u{200b}{\"app_id\":\"a=1\"}".into(), "JSON with an unseen character before it"),
            (b"YXBwX2lkPWExJmI9MjI=".to_vec(), "base64 text"),
            (Vec::new(), "nothing"),
        ] {
            let text = format!("body: expected a form (application/x-www-form-urlencoded), got {got}");
            let request =
                Request::post(&path).header("content-type", "multipart/form-data; boundary=test-boundary");
            till.send(request.body(body)).await.assert_refused(10_000_200, &text);
        }
    }
    // Rule 2.10.4: a line end behind the whole form does not count.
    assert_eq!(till.send(Request::post(PATH).body(format!("{form}\r\n\n"))).await.code(), 1);
    for (body, got) in [
        ("a=1", "a form"),
        ("<a/>", "XML"),
        ("%7B%7D", "JSON that is escaped as a whole"),
        ("\u{a0}{\"order_path\":\"a?id=1\"}", "JSON with an unseen character before it"),
        ("cb({\"order_path\":\"a?id=1\"})", "JSON with text before it"),
    ] {
        let report = Request::post(&with_credentials(REPORT, &app)).body(body);
        let text = format!("body: expected a JSON object, got {got}");
        till.send(report).await.assert_refused(10_000_200, &text);
    }
    let key = Caller::admin(&till).await;
    let apps = key.request("POST", "/apps").header("content-type", "application/json").body("[]");
    let refused = apps.send(till.operator_address).await;
    let text = "body: expected a JSON object, got an array";
    assert_eq!((refused.status, &refused.json()["detail"]), (400, &json!(text)));
    for (path, code) in [(TOKEN, 100_200_100), (LOGIN, 100_200_100), (WITH_URL, 10_000_200)] {
        for (body, got) in [("<xml/>", "XML"), ("hello", "plain text")] {
            let text = format!("body: expected a form, JSON or multipart, got {got}");
            till.send(Request::post(path).body(body)).await.assert_refused(code, &text);
        }
    }
}

/// Rule 2.10.5: a field whose name or separator is written wrong is named.
#[tokio::test(flavor = "multi_thread")]
async fn separators_that_are_none_are_named() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let (id, token) = (&app.id, &app.token);
    let form = Game::new(&app, "o1", "b1", 10).body();
    let send = async |path: &str, body: &str| till.send(Request::post(path).body(body)).await;
    let missing = |answer: Answer, field: &str, why: &str| {
        answer.assert_refused(100_200_102, &format!("{field} is missing; {why}"));
    };
    missing(send(PATH, &form.replace('&', "&amp;")).await, "app_id", r#""amp;app_id" came"#);
    missing(send(PATH, &format!("appId={id}&access_token={token}")).await, "app_id", r#""appId" came"#);
    missing(
        send(PATH, &format!("app_id={id}&accessToken={token}")).await,
        "access_token",
        r#""accessToken" came"#,
    );
    missing(
        send(PATH, &format!("app_id={id}&+access_token={token}")).await,
        "access_token",
        r#"" access_token" came"#,
    );
    for separator in [";", "\n", "?", " ", "\r\n", "&amp%3B", "%26", ","] {
        let answer = send(PATH, &format!("app_id={id}{separator}access_token={token}")).await;
        let why = "it came in the value of app_id: join fields with \"&\"";
        if separator == "&amp%3B" {
            missing(answer, "access_token", r#""amp;access_token" came"#);
        } else {
            missing(answer, "access_token", why);
        }
    }
    missing(
        send(PATH, &format!(r#"data={{"app_id":"{id}"}}"#)).await,
        "app_id",
        "it came inside the JSON of data: send that as it is",
    );
    for separator in ["%26%23038%3B", "\\u0026", "%26%2338%3B", "\\x26"] {
        let answer = send(PATH, &format!("app_id={id}{separator}access_token={token}")).await;
        missing(answer, "access_token", "it came in the value of app_id: join fields with \"&\"");
    }
    missing(
        send(PATH, &format!("app_id={id}&#038;access_token={token}")).await,
        "access_token",
        r##""#038;access_token" came"##,
    );
    for name in ["params[app_id]", "app_id[]", "app_id[0]"] {
        missing(send(PATH, &format!("{name}={id}")).await, "app_id", &format!("\"{name}\" came"));
    }
    missing(send(PATH, &format!("params[app_id][]={id}")).await, "app_id", "\"params[app_id][]\" came");
    // A query that is escaped as a whole is one name, which has the token and is not told.
    for path in [REPORT, WITH_FILE, WITH_URL] {
        let escaped = with_credentials(path, &app).replace('=', "%3D").replace('&', "%26");
        let answer = send(&escaped, "").await;
        assert!(!answer.body.contains(token.as_str()), "{}", answer.body);
        missing(answer, "app_id", "it came in a form that is escaped as a whole");
    }
    let json = json!({ "app_id": id, "access_token": token }).to_string();
    let json: String = form_urlencoded::byte_serialize(json.as_bytes()).collect();
    let answer = send(&format!("{REPORT}?{json}"), "{}").await;
    assert!(!answer.body.contains(token.as_str()), "{}", answer.body);
    missing(answer, "app_id", "it came in JSON that is escaped as a whole");
    let amp = with_credentials(REPORT, &app).replace('&', "&amp;");
    missing(send(&amp, "{}").await, "access_token", r#""amp;access_token" came"#);
    let twice = with_credentials(WITH_FILE, &app).replace('&', "?");
    missing(send(&twice, "").await, "access_token", "it came in the value of app_id: join fields with \"&\"");
    // In a body of any kind.
    let text = r#"app_secret is missing; "amp;app_secret" came"#;
    send(TOKEN, &secret_of(&app).replace('&', "&amp;")).await.assert_refused(100_200_100, text);
}

/// Rule 2.10.6: a signature over fields of which one came otherwise says which. Rule 2.11.2: and so does a credential.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_lacks_a_field_says_how_it_came() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let form = Game::new(&app, "o1", "b1", 10).body();
    for (from, to, fault) in [
        ("&user_ip=", "&amp;user_ip=", r#"user_ip is missing; "amp;user_ip" came"#),
        ("&open_id=", "&openId=", r#"open_id is missing; "openId" came"#),
        ("&user_ip=", ";user_ip=", "user_ip is missing; it came in the value of"),
        (
            "&product_info=",
            "&product_info[0][product_id]=",
            r#"product_info is missing; "product_info[0][product_id]" came"#,
        ),
    ] {
        let wrong = form.replacen(from, to, 1);
        assert_ne!(wrong, form, "{from}");
        let refused = till.send(Request::post(PATH).body(wrong)).await;
        assert_eq!(refused.code(), 100_200_114, "{}", refused.body);
        let message = refused.message();
        assert!(message.contains(&format!("; {fault}")), "{message}");
    }
    // Rule 2.10.4: blanks and line ends before a form do not count.
    assert_eq!(till.send(Request::post(PATH).body(format!("\r\n {form}"))).await.code(), 1);
    assert!(form.starts_with("access_token="), "{form}");
    let swallowed = till.send(Request::post(PATH).body(form.replacen("&amount=", ";amount=", 1))).await;
    let is_wrong = "access_token: expected a token of this app from /oauth2/access_token";
    let text = format!("{is_wrong}; amount came in its value: join fields with \"&\"");
    swallowed.assert_refused(100_200_102, &text);
}

/// Rule 2.6.4: credentials in a header are not read, and the refusal says so.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_a_header_are_told_so() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let bearer = format!("Bearer {}", app.token);
    for (path, body, place) in [
        (PATH.to_owned(), "app_id=a1", "form"),
        (format!("{REPORT}?app_id=a1"), "{}", "query"),
        (format!("{WITH_FILE}?app_id=a1"), "", "query"),
    ] {
        let text = format!("access_token: expected in the {place}, it came in the header");
        let request = Request::post(&path).header("authorization", &bearer).body(body);
        till.send(request).await.assert_refused(100_200_102, &text);
    }
    let text = "access_token: expected in the query or body, it came in the header";
    for (name, value) in
        [("authorization", &bearer), ("x-access-token", &app.token), ("access-token", &app.token)]
    {
        for (path, body) in [
            (WITH_URL.to_owned(), "app_id=a1&url=https%3A%2F%2Fexample.com%2Fa.png"),
            (WITH_URL.to_owned(), r#"{"app_id":"a1","url":"https://example.com/a.png"}"#),
            (format!("{WITH_URL}?app_id=a1&url=https://example.com/a.png"), ""),
        ] {
            let request = Request::post(&path).header(name, value).body(body);
            till.send(request).await.assert_refused(100_200_102, text);
        }
    }
    let basic = Request::post(TOKEN)
        .header("authorization", "Basic YTpi")
        .body("app_id=a1&grant_type=client_credentials");
    let text = "app_secret: expected in the query or body, it came in the header";
    till.send(basic).await.assert_refused(100_200_100, text);
}

/// Rule 2.7.10: a body that announces more than its limit is refused, and is not asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_announces_too_much_is_not_asked_for() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    for path in [
        PATH.to_owned(),
        "/api/kpay/minigame/balance".to_owned(),
        TOKEN.to_owned(),
        LOGIN.to_owned(),
        with_credentials(REPORT, &app),
        with_credentials(WITH_URL, &app),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: till\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 65537\r\n\r\n"
        );
        let answer = crate::support::raw(till.address, head.as_bytes()).await;
        assert_eq!((answer.status, answer.code()), (413, 10_000_200), "{path}: {}", answer.body);
    }
}

/// Rules 2.6.1 and 2.6.5: a wrong credential in the query is refused before a body comes, at each POST.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_in_the_query_does_not_wait_for_the_body() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let wrong = format!("app_id={}&app_secret=wrong", app.id);
    let token = format!("app_id={}&access_token=wrong", app.id);
    for (path, code) in [
        (format!("{LOGIN}?{wrong}"), 100_200_101),
        (format!("/game/minigame/jscode2session?{wrong}"), 100_200_101),
        (format!("{TOKEN}?{wrong}"), 100_200_101),
        (format!("{REPORT}?{token}"), 100_200_102),
        (format!("{WITH_FILE}?{token}"), 100_200_102),
        (format!("{WITH_URL}?{token}"), 100_200_102),
        (format!("{FAULTS}?{token}"), 100_200_102),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: till\r\nconnection: close\r\ncontent-length: 5000\r\n\r\n"
        );
        let answer = crate::support::raw(till.address, head.as_bytes()).await;
        assert_eq!(answer.code(), code, "{path}: {}", answer.body);
    }
}
