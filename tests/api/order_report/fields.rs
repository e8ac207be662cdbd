//! The fields of a report, each by its own rule and code (contract 4.2).

use std::time::Duration;

use serde_json::{Value, json};

use super::{SUCCESS, Scene, request, unknown_player};
use crate::support::{NOW, PAGE, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn each_required_field_is_named_when_it_is_absent_null_or_empty() {
    let scene = Scene::new().await;
    for name in scene.report().keys() {
        let mut absent = scene.report();
        absent.remove(name);
        for report in [absent, scene.with(&[(name, json!(null))])] {
            scene.send(&report).await.assert_refused(10_000_200, &format!("{name} is missing"));
        }
        let empty = scene.with(&[(name, json!(""))]);
        scene.send(&empty).await.assert_refused(10_000_200, &format!("{name} is empty"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

fn unregistered(got: &str) -> String {
    format!(
        "expected one registered for this app; the operator's `minitill app poi add` registers it, got \"{got}\""
    )
}

/// Field, value, code and the text after the field's name.
#[expect(clippy::too_many_lines, reason = "a table, a row for each rule")]
pub(super) fn bad_fields() -> Vec<(&'static str, Value, u64, String)> {
    let number = "6 to 32 of 0-9A-Za-z_-*";
    let url = "an absolute http or https URL with a host, at most 2048 bytes";
    let later = NOW + 5_001;
    vec![
        ("out_biz_order_no", json!("12345"), 10_000_200, format!("expected {number}, got \"12345\"")),
        (
            "out_biz_order_no",
            json!("x".repeat(33)),
            10_000_200,
            format!("expected {number}, got \"{}\"", "x".repeat(33)),
        ),
        ("out_order_no", json!("order 1"), 10_000_200, format!("expected {number}, got \"order 1\"")),
        ("out_order_no", json!({}), 10_000_200, format!("expected {number}, got an object")),
        ("open_id", json!("o 1"), 10_000_423, "expected 1 to 64 of 0-9A-Za-z_-, got \"o 1\"".to_owned()),
        ("open_id", json!("nobody"), 10_000_423, unknown_player("nobody").replace("open_id: ", "")),
        ("open_id", json!(false), 10_000_200, "expected 1 to 64 of 0-9A-Za-z_-, got false".to_owned()),
        (
            "order_create_time",
            json!(1_700_000_000),
            10_000_200,
            "expected milliseconds (seconds given, milliseconds expected), got 1700000000".to_owned(),
        ),
        (
            "order_create_time",
            json!(1_700_000_000_000_000_i64),
            10_000_200,
            "expected milliseconds (microseconds given, milliseconds expected), got 1700000000000000"
                .to_owned(),
        ),
        (
            "order_create_time",
            json!(1_700_000_000_000_000_000_i64),
            10_000_200,
            "expected milliseconds (nanoseconds given, milliseconds expected), got 1700000000000000000"
                .to_owned(),
        ),
        (
            "order_create_time",
            json!(later),
            10_000_200,
            format!(
                "expected a time in milliseconds at or before now (5.0 s ahead of this server's clock), got {later}"
            ),
        ),
        (
            "order_create_time",
            json!("soon"),
            10_000_200,
            "expected milliseconds since 1970, got \"soon\"".to_owned(),
        ),
        (
            "order_create_time",
            json!(1.7e12),
            10_000_200,
            "expected milliseconds since 1970, got 1700000000000.0".to_owned(),
        ),
        (
            "product_cover_img_id",
            json!("short"),
            10_000_417,
            "\"short\" is unknown here: upload the picture again; the id of an image has 48 lower-case hexadecimal characters"
                .to_owned(),
        ),
        (
            "product_cover_img_id",
            json!("0".repeat(48)),
            10_000_417,
            format!("\"{}\" is unknown here: upload the picture again", "0".repeat(48)),
        ),
        (
            "product_cover_img_id",
            json!("https://a.example/cover.png"),
            10_000_417,
            "\"https://a.example/cover.png\" is no id of an image: send the imgId that an upload answered"
                .to_owned(),
        ),
        (
            "product_cover_img_id",
            json!(format!("{}\n", "0".repeat(48))),
            10_000_417,
            format!(
                "expected 48 lower-case hexadecimal characters, got \"{}\\n\"; it has a line end around it",
                "0".repeat(48)
            ),
        ),
        (
            "product_cover_img_id",
            json!(format!("\u{feff}{} ", "0".repeat(48))),
            10_000_417,
            format!(
                "expected 48 lower-case hexadecimal characters, got \"\\u{{feff}}{} \"; it has a zero-width character and a \
                 blank around it",
                "0".repeat(48)
            ),
        ),
        (
            "order_backup_url",
            json!("ftp://a.example"),
            10_000_419,
            format!("expected {url}, got \"ftp://a.example\""),
        ),
        ("order_backup_url", json!("/orders"), 10_000_419, format!("expected {url}, got \"/orders\"")),
        (
            "poi_id",
            json!("unknown"),
            10_002_003,
            unregistered("unknown"),
        ),
        (
            "poi_id",
            json!("\u{feff}p2 "),
            10_002_003,
            unregistered("\\u{feff}p2 "),
        ),
        (
            "poi_id",
            json!("x".repeat(65)),
            10_002_003,
            format!("expected 1 to 64 bytes without control characters, got \"{}\"...", "x".repeat(64)),
        ),
        (
            "product_id",
            json!("x".repeat(65)),
            10_000_200,
            format!("expected 1 to 64 bytes, got \"{}\"...", "x".repeat(64)),
        ),
        ("product_catalog_code", json!(0), 10_000_200, "expected a positive integer, got 0".to_owned()),
        ("product_catalog_code", json!(-3), 10_000_200, "expected a positive integer, got -3".to_owned()),
        (
            "product_city",
            json!("市".repeat(16)),
            10_000_200,
            format!("expected 1 to 15 characters, got \"{}\"", "市".repeat(16)),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_is_refused_by_its_own_rule_and_code() {
    let scene = Scene::new().await;
    for (name, value, code, message) in bad_fields() {
        let answer = scene.send_with(&[(name, value)]).await;
        answer.assert_refused(code, &format!("{name}: {message}"));
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_may_come_as_text_identifiers_as_integers_and_unknown_fields_are_ignored() {
    let scene = Scene::new().await;
    let body = format!(
        r#"{{"out_biz_order_no":20231101123456789012,"out_order_no":123456,"open_id":"o1","order_create_time":"{}",
            "order_status":"2","order_path":"/{PAGE}?id=1","product_cover_img_id":"{}","order_backup_url":"https://a.example/x?y=1",
            "poi_id":null,"product_id":77,"product_catalog_code":"5","product_city":"{}","sign":"x","app_id":[1,{{"a":2}}]}}"#,
        NOW + 5000,
        scene.img_id,
        "市".repeat(15)
    );
    scene.send_text(&body).await.assert_body(SUCCESS);
    let kept = format!(
        "SELECT count(*) FROM orders WHERE out_biz_order_no = '20231101123456789012' AND out_order_no = '123456' \
         AND order_create_time = {} AND order_path = '/{PAGE}?id=1' AND product_id = '77' AND product_catalog_code = 5 \
         AND poi_id IS NULL AND order_backup_url = 'https://a.example/x?y=1'",
        NOW + 5000
    );
    assert_eq!(scene.till.number(&kept).await, 1);
    // Whatever the content type says.
    let plain = request(&scene.app, body.as_bytes()).header("content-type", "text/plain");
    scene.till.send(plain).await.assert_body(SUCCESS);
}

/// Every field, and what its refusals say was expected.
const EXPECTED: [(&str, &str); 12] = [
    ("out_biz_order_no", "6 to 32 of 0-9A-Za-z_-*"),
    ("out_order_no", "6 to 32 of 0-9A-Za-z_-*"),
    ("open_id", "1 to 64 of 0-9A-Za-z_-"),
    ("order_create_time", "milliseconds since 1970"),
    ("order_status", "a status code: 1 to 6 or 10 to 15"),
    ("order_path", "an in-app path of 1 to 1024 bytes, and at most 4096 with its query"),
    ("product_cover_img_id", "48 lower-case hexadecimal characters"),
    ("order_backup_url", "an absolute http or https URL with a host, at most 2048 bytes"),
    ("poi_id", "1 to 64 bytes without control characters"),
    ("product_id", "1 to 64 bytes"),
    ("product_catalog_code", "a positive integer"),
    ("product_city", "1 to 15 characters"),
];

/// Contract 2.5: whatever code a malformed value has, a value of a wrong type is 10000200.
#[tokio::test(flavor = "multi_thread")]
async fn a_boolean_an_object_an_array_a_float_or_a_sign_is_refused_in_every_field() {
    let scene = Scene::new().await;
    for (name, expected) in EXPECTED {
        for (value, got) in [
            ("false", "false"),
            ("true", "true"),
            ("{}", "an object"),
            (r#"{"a":"b"}"#, "an object"),
            ("[]", "an array"),
            ("[1]", "an array"),
            ("1.0", "1.0"),
            ("1000000.5", "1000000.5"),
            ("1e3", "1e3"),
            ("1E+3", "1E+3"),
            ("-1", "-1"),
            ("-0", "-0"),
        ] {
            let answer = scene.send_raw(name, value).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected {expected}, got {got}"));
        }
        // No JSON at all.
        for value in ["01", "+1", "0x1", ".5", "1.", "NaN", "'1'", ""] {
            let answer = scene.send_raw(name, value).await;
            assert_eq!((answer.status, answer.code()), (200, 10_000_200), "{name} {value}: {}", answer.body);
            let start = "body: expected a JSON object, got a fault at line 1 column ";
            assert!(answer.message().starts_with(start), "{name} {value}: {}", answer.body);
        }
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}

/// Contract 2.5: integers are canonical when they come as text, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_as_text_has_no_sign_leading_zero_exponent_or_space() {
    let scene = Scene::new().await;
    for (name, expected) in EXPECTED {
        if !["order_create_time", "order_status", "product_catalog_code"].contains(&name) {
            continue;
        }
        for text in ["+1", "-1", "01", "1.0", "1e0", " 1", "1 ", "0x1", "１", "1_0", "9223372036854775808"] {
            // The bound is named where it is the cause.
            let is_above = name == "product_catalog_code" && text.len() == 19;
            let bound = if is_above { " and at most 9223372036854775807" } else { "" };
            let answer = scene.send_with(&[(name, json!(text))]).await;
            answer.assert_refused(10_000_200, &format!("{name}: expected {expected}{bound}, got \"{text}\""));
        }
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    let largest = scene.send_with(&[("product_catalog_code", json!(i64::MAX.to_string()))]).await;
    largest.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_time_is_in_milliseconds_and_at_most_five_seconds_ahead() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 0).await;
    let img_id = till.image(&app).await.to_string();
    let scene = Scene { till, app, img_id };
    let send = async |time: i64, number: &str| {
        let changes = [
            ("order_create_time", json!(time)),
            ("out_biz_order_no", json!(number)),
            ("out_order_no", json!(number)),
        ];
        scene.send_with(&changes).await
    };
    for seconds in [0, 1, NOW / 1000, 9_999_999_999] {
        let message = format!(
            "order_create_time: expected milliseconds (seconds given, milliseconds expected), got {seconds}"
        );
        send(seconds, "order_0000").await.assert_refused(10_000_200, &message);
    }
    let later = [(NOW + 5_001, "5.0"), (NOW + 6_000, "6.0"), (i64::MAX, "9223370236854775.8")];
    for (later, ahead) in later {
        let message = format!(
            "order_create_time: expected a time in milliseconds at or before now \
             ({ahead} s ahead of this server's clock), got {later}"
        );
        send(later, "order_0000").await.assert_refused(10_000_200, &message);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
    send(10_000_000_000, "order_0001").await.assert_body(SUCCESS);
    send(NOW + 5_000, "order_0002").await.assert_body(SUCCESS);
    // Time goes on.
    scene.till.clock.advance(Duration::from_millis(1));
    send(NOW + 5_001, "order_0003").await.assert_body(SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_six_and_32_characters_are_accepted_and_no_other_characters() {
    let scene = Scene::new().await;
    for (biz, payment) in [("a-_*Z9", "000000"), (&"9".repeat(32), &"*".repeat(32))] {
        let changes = [("out_biz_order_no", json!(biz)), ("out_order_no", json!(payment))];
        scene.send_with(&changes).await.assert_body(SUCCESS);
    }
    let books = scene.books().await;
    for name in ["out_biz_order_no", "out_order_no"] {
        for bad in ["a.bcde", "a/bcde", " order1", "order1 ", "order号", "order\n1", "１２３４５６", "a+bcde"]
        {
            let answer = scene.send_with(&[(name, json!(bad))]).await;
            let message = format!("{name}: expected 6 to 32 of 0-9A-Za-z_-*, got {bad:?}");
            answer.assert_refused(10_000_200, &message);
        }
        let integer = scene.send_raw(name, "12345").await;
        let message = format!("{name}: expected 6 to 32 of 0-9A-Za-z_-*, got 12345");
        integer.assert_refused(10_000_200, &message);
    }
    assert_eq!(scene.books().await, books);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_url_is_absolute_http_or_https_with_a_host_and_at_most_2048_bytes() {
    let scene = Scene::new().await;
    let of = |length: usize| format!("https://a.example/{}", "p".repeat(length - 18));
    let good = ["http://a.example", "HTTPS://a.example:8443/b?c=d&e=f#g", "http://[2001:db8::1]/", &of(2048)];
    for url in good {
        scene.send_with(&[("order_backup_url", json!(url))]).await.assert_body(SUCCESS);
    }
    let books = scene.books().await;
    let expected = "an absolute http or https URL with a host, at most 2048 bytes";
    for url in [
        "a.example",
        "//a.example/b",
        "http://",
        "https:///",
        "http:// a.example",
        "http://a.example/b c",
        "http://a.example/\n",
        "http://[::1",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "wss://a.example",
        "77",
    ] {
        let message = format!("order_backup_url: expected {expected}, got {url:?}");
        scene.send_with(&[("order_backup_url", json!(url))]).await.assert_refused(10_000_419, &message);
    }
    let long = of(2049);
    let message = format!("order_backup_url: expected {expected}, got \"{}\"...", &long[..64]);
    scene.send_with(&[("order_backup_url", json!(long))]).await.assert_refused(10_000_419, &message);
    // An identifier may come as an integer, and this one is no URL.
    let integer = scene.send_raw("order_backup_url", "77").await;
    integer.assert_refused(10_000_419, &format!("order_backup_url: expected {expected}, got 77"));
    assert_eq!(scene.books().await, books);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_id_is_taken_exactly_as_it_was_given() {
    let scene = Scene::new().await;
    let (upper, short, long) =
        (scene.img_id.to_uppercase(), scene.img_id[1..].to_owned(), format!("{}0", scene.img_id));
    for bad in [upper, short, long, format!(" {}", &scene.img_id[1..]), format!("{}%", &scene.img_id[1..])] {
        let message = format!(
            "product_cover_img_id: \"{bad}\" is unknown here: upload the picture again; the id of an image has 48 lower-case \
             hexadecimal characters"
        );
        scene.send_with(&[("product_cover_img_id", json!(bad))]).await.assert_refused(10_000_417, &message);
    }
    assert_eq!(scene.rows().await, (0, 0, 0));
}
