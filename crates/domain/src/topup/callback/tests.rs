use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use sha2::Sha256;

use super::super::{FIGURE_MAX, RefundAmount};
use super::*;
use crate::text::Text;

const NOW: i64 = 1_800_000_000;
const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn provider(format: CallbackFormat, secrets: &[&str]) -> CallbackProvider {
    let secrets = secrets.iter().map(|text| CallbackSecret::parse(format, text).unwrap()).collect();
    CallbackProvider { provider: PaymentProvider::parse("pay").unwrap(), format, secrets }
}

impl CallbackProvider {
    /// The check of the headers, and then that of the body.
    fn verify<'a>(
        &'a self,
        header: impl Fn(&'static str) -> Option<&'a str>,
        body: &'a [u8],
        now: i64,
    ) -> Result<SignedCallback<'a>, Text> {
        self.claim(header, now)?.verify(body)
    }
}

fn english<T: std::fmt::Debug>(refused: Result<T, Text>) -> String {
    refused.unwrap_err().english()
}

/// Rule 19.4.3: the signature of the specification of Standard Webhooks, with its published example.
#[test]
fn the_published_example_of_standard_webhooks_is_signed() {
    let provider = provider(CallbackFormat::Standard, &[STANDARD_SECRET]);
    let header = |name| match name {
        "webhook-id" => Some("msg_p5jXN8AQM9LWM0D4loKWxJek"),
        "webhook-timestamp" => Some("1614265330"),
        "webhook-signature" => Some("v2,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        _ => None,
    };
    let body = br#"{"test": 2432232314}"#;
    for (now, is_right) in [
        (1_614_265_330, true),
        (1_614_265_330 + 300, true),
        (1_614_265_330 - 300, true),
        (1_614_265_330 + 301, false),
        (1_614_265_330 - 301, false),
    ] {
        assert_eq!(provider.verify(header, body, now).is_ok(), is_right, "{now}");
    }
    let refused = english(provider.verify(header, br#"{"test": 2432232315}"#, 1_614_265_330));
    assert_eq!(
        refused,
        "webhook-signature: no secret of this provider has signed the body; to set the one that signs, run: minitill topup provider"
    );
    let late = english(provider.verify(header, body, NOW));
    assert_eq!(
        late,
        "webhook-timestamp: expected a time within 5 minutes of the present, in Unix seconds, got \"1614265330\""
    );
    assert_eq!(english(provider.verify(|_| None, body, NOW)), "webhook-id is missing");
}

/// Rules 2.1.8 and 19.4.9: a signature that nobody can read is told how it is written, whatever signed it. No value is shown.
#[test]
fn a_signature_in_another_writing_is_told_so() {
    let mac = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let hexadecimal = hex::encode(STANDARD.decode(mac).unwrap());
    let standard = provider(CallbackFormat::Standard, &[STANDARD_SECRET]);
    for (value, got) in [
        (String::new(), "nothing"),
        ("v1,".into(), "nothing behind v1,"),
        (format!("v1,{hexadecimal}"), "hexadecimal"),
        (hexadecimal.clone(), "hexadecimal without v1,"),
        (mac.into(), "base64 without v1,"),
        (format!("v1={mac}"), "v1 in another writing"),
        (format!("v1;{mac}"), "v1 in another writing"),
        (format!("V1,{mac}"), "v1 in another writing"),
        (format!("v1 {mac}"), "v1 in another writing"),
        (format!("\"v1,{mac}\""), "quotes around it"),
        (format!("sha256={hexadecimal}"), "sha256= before it"),
        (format!("v1,{}", mac.replace('+', "-").replace('/', "_")), "url-safe base64"),
        (format!("v1,{}", mac.trim_end_matches('=')), "base64 without padding"),
        ("v2,AAAA".into(), "another version"),
        ("v1a,AAAA".into(), "another version"),
        ("v1,AAAA".into(), "something else"),
    ] {
        let header = |name| match name {
            "webhook-id" => Some("msg_p5jXN8AQM9LWM0D4loKWxJek"),
            "webhook-timestamp" => Some("1614265330"),
            "webhook-signature" => Some(value.as_str()),
            _ => None,
        };
        let refused = english(standard.verify(header, br#"{"test": 2432232314}"#, 1_614_265_330));
        let expected = not_signed("webhook-signature").english();
        assert_eq!(
            refused,
            format!("{expected}; expected v1, and 44 characters of base64, got {got}"),
            "{value}"
        );
    }
    let stripe = provider(CallbackFormat::Stripe, &["whsec_0123456789"]);
    for (signed, got) in [
        (String::new(), "nothing"),
        (format!(",v1={mac}"), "base64"),
        (format!(",v0={hexadecimal}"), "another version"),
        (format!(",V1={hexadecimal}"), "v1 in another writing"),
        (format!(",{hexadecimal}"), "hexadecimal without v1="),
        (",v1=00".into(), "something else"),
    ] {
        let value = format!("t={NOW}{signed}");
        let refused = english(stripe.verify(|_| Some(value.as_str()), b"{}", NOW));
        let expected = not_signed("stripe-signature").english();
        assert_eq!(refused, format!("{expected}; expected v1= and 64 hexadecimal digits, got {got}"));
    }
}

/// The signature of Stripe, made by hand here.
fn stripe_signature(secret: &str, at: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Rule 19.4.3: one of the signatures of Stripe's header is enough, and each valid secret signs.
#[test]
fn a_callback_of_stripe_is_signed_by_either_secret() {
    let (new, old) = ("whsec_new_secret_of_ours", "whsec_old_secret_of_ours");
    let both = provider(CallbackFormat::Stripe, &[new, old]);
    let body = b"{}";
    for (secret, is_right) in [(new, true), (old, true), ("whsec_secret_of_nobody", false)] {
        let sign = stripe_signature(secret, NOW, body);
        let value = format!("t={NOW}, v1={}, v1={sign},v0={sign}", "0".repeat(64));
        assert_eq!(both.verify(|_| Some(value.as_str()), body, NOW).is_ok(), is_right, "{secret}");
        let of_old_version = format!("t={NOW},v0={sign}");
        assert!(both.verify(|_| Some(of_old_version.as_str()), body, NOW).is_err());
    }
    assert_eq!(english(both.verify(|_| Some("v1=00"), body, NOW)), "stripe-signature: t is missing");
    assert_eq!(english(both.verify(|_| None, body, NOW)), "stripe-signature is missing");
}

/// Rule 19.4.3: a callback of the other format is told which header is expected, and which came.
#[test]
fn a_callback_of_the_other_format_is_named() {
    let standard = |name: &'static str| name.starts_with("webhook-").then_some("v1,AAAA");
    let of_stripe = provider(CallbackFormat::Stripe, &["whsec_0123456789"]);
    assert_eq!(
        english(of_stripe.verify(standard, b"{}", NOW)),
        "stripe-signature is missing; webhook-signature came: to take callbacks of Standard Webhooks, run: minitill topup provider --format standard"
    );
    let of_standard = provider(CallbackFormat::Standard, &[STANDARD_SECRET]);
    let header = |name: &'static str| (name == "stripe-signature").then_some("t=1,v1=00");
    assert_eq!(
        english(of_standard.verify(header, b"{}", NOW)),
        "webhook-id is missing; stripe-signature came: to take callbacks of Stripe, run: minitill topup provider --format stripe"
    );
}

/// Rule 19.4.2: what a secret looks like.
#[test]
fn a_secret_fits_its_format() {
    for (format, text, fits) in [
        (CallbackFormat::Standard, STANDARD_SECRET, true),
        (CallbackFormat::Standard, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
        (CallbackFormat::Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", false),
        (CallbackFormat::Standard, "whsec_c2hvcnQ=", false),
        (CallbackFormat::Stripe, "whsec_0123456789", true),
        (CallbackFormat::Stripe, "whsec_0123456 89", false),
        (CallbackFormat::Stripe, "whsec_012345678", false),
    ] {
        assert_eq!(CallbackSecret::parse(format, text).is_ok(), fits, "{text}");
    }
}

/// Rules 2.11.1, 2.11.2 and 19.4.2: what stands around a secret or before it is named. So is a placeholder, a key, an id or an
/// address in its place. No value is shown.
#[test]
fn a_secret_that_does_not_fit_is_told_why() {
    let standard = "expected whsec_ and 24 to 64 bytes in base64";
    let stripe = "expected 16 to 256 printable ASCII characters";
    let signing = "expected the signing secret of the endpoint (whsec_...), not";
    let named = "it has a name before it: send the value alone";
    let placeholder = "it is a placeholder, which nothing replaced";
    for (format, text, told) in [
        (
            CallbackFormat::Standard,
            format!("\"{STANDARD_SECRET}\""),
            format!("{standard}; it has quotes around it"),
        ),
        (
            CallbackFormat::Standard,
            format!("\u{feff}{STANDARD_SECRET}"),
            format!("{standard}; it has a zero-width character around it"),
        ),
        (CallbackFormat::Stripe, "\"whsec_0123456789\"".into(), format!("{stripe}; it has quotes around it")),
        (CallbackFormat::Stripe, "whsec_0123456789'".into(), format!("{stripe}; it has quotes around it")),
        (
            CallbackFormat::Stripe,
            "\u{feff}whsec_0123456789\u{200b}".into(),
            format!("{stripe}; it has a zero-width character around it"),
        ),
        (CallbackFormat::Stripe, "short".into(), stripe.into()),
        (CallbackFormat::Stripe, "sk_test_0123456789".into(), format!("{signing} an API key")),
        (CallbackFormat::Stripe, "rk_live_0123456789".into(), format!("{signing} an API key")),
        (CallbackFormat::Stripe, "we_0123456789abcdef".into(), format!("{signing} its id")),
        (
            CallbackFormat::Stripe,
            "\"sk_test_0123456789\"".into(),
            format!("{signing} an API key; it has quotes around it"),
        ),
        (CallbackFormat::Stripe, "acct_0123456789abcdef".into(), format!("{signing} another id of Stripe")),
        (CallbackFormat::Stripe, "evt_0123456789abcdef".into(), format!("{signing} another id of Stripe")),
        (CallbackFormat::Stripe, "cs_test_0123456789ab".into(), format!("{signing} another id of Stripe")),
        (CallbackFormat::Stripe, "https://game.example/notify".into(), format!("{signing} its address")),
        (
            CallbackFormat::Stripe,
            "whsec_0123456789;".into(),
            format!("{stripe}; it has a separator around it"),
        ),
        (
            CallbackFormat::Stripe,
            "STRIPE_WEBHOOK_SECRET=whsec_0123456789".into(),
            format!("{stripe}; {named}"),
        ),
        (CallbackFormat::Stripe, "secret=whsec_0123456789".into(), format!("{stripe}; {named}")),
        (CallbackFormat::Stripe, "YOUR_WEBHOOK_SECRET".into(), format!("{stripe}; {placeholder}")),
        (CallbackFormat::Stripe, "whsec_xxxxxxxx".into(), format!("{stripe}; {placeholder}")),
        (CallbackFormat::Stripe, format!("whsec_{}", "x".repeat(32)), format!("{stripe}; {placeholder}")),
        (CallbackFormat::Standard, format!("secret={STANDARD_SECRET}"), format!("{standard}; {named}")),
        (CallbackFormat::Standard, format!("whsec_{}", "x".repeat(32)), format!("{standard}; {placeholder}")),
    ] {
        assert_eq!(CallbackSecret::parse(format, &text).unwrap_err().to_string(), told, "{text:?}");
    }
}

fn told(format: CallbackFormat, body: &str) -> Result<CallbackEvent, Text> {
    let provider = provider(format, &[STANDARD_SECRET]);
    SignedCallback { provider: &provider, body: body.as_bytes(), now: NOW }.read()
}

/// Rule 19.4.5: each field of a callback that is absent or wrong is named by its place.
#[test]
fn a_wrong_field_is_named_by_its_place() {
    let standard = |body: &str| english(told(CallbackFormat::Standard, body));
    let stripe = |body: &str| english(told(CallbackFormat::Stripe, body));
    assert_eq!(standard("{}"), "type is missing");
    assert_eq!(standard(r#"{"type":"payment.succeeded"}"#), "data is missing");
    assert_eq!(standard(r#"{"type":"payment.succeeded","data":1}"#), "data: expected an object, got 1");
    let payment =
        r#""provider_order_id":"p1","currency":"CNY","amount":600,"paid_at":"2026-11-21T08:00:00Z""#;
    let of = |more: &str| format!(r#"{{"type":"payment.succeeded","data":{{{payment}{more}}}}}"#);
    assert_eq!(standard(&of("")), "data.biz_no is missing; without it, expected open_id and product_id");
    assert_eq!(
        standard(&of(r#","provider":"other","biz_no":"b1""#)),
        r#"data.provider: expected pay, got "other""#
    );
    let session = |more: &str| {
        format!(
            r#"{{"id":"evt_1","type":"checkout.session.completed","created":1,"data":{{"object":{{"payment_status":"paid"{more}}}}}}}"#
        )
    };
    assert_eq!(stripe(&session("")), "data.object.payment_intent is missing");
    let money = r#","payment_intent":"pi_1","currency":"cny","amount_total":600"#;
    assert_eq!(stripe(&session(money)), "data.object.metadata is missing");
    assert_eq!(
        stripe(&session(&format!(r#"{money},"metadata":{{}}"#))),
        "data.object.metadata.biz_no is missing"
    );
    assert_eq!(
        stripe(r#"{"id":"a/b","type":"charge.refunded","data":{"object":{}}}"#),
        r#"id: expected 1 to 64 printable ASCII characters without /, got "a/b""#
    );
}

/// Rules 19.3.1 and 19.4.5: a payment of a zero time or of a far future is refused where the time stands, after all else.
#[test]
fn a_payment_of_no_possible_time_is_named() {
    let expected = "expected a time from 2000-01-01 on and at most a day ahead of now, got";
    let standard = |paid_at: &str| {
        let order = r#""provider_order_id":"p1","currency":"CNY","amount":600,"biz_no":"b1""#;
        let body = format!(r#"{{"type":"payment.succeeded","data":{{{order},"paid_at":"{paid_at}"}}}}"#);
        told(CallbackFormat::Standard, &body)
    };
    for zero in ["0001-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] {
        assert_eq!(english(standard(zero)), format!("data.paid_at: {expected} \"{zero}\""));
    }
    // UTC where no offset stands.
    let told_in_utc = standard("2026-11-21T08:00:00Z");
    assert!(told_in_utc.is_ok());
    assert_eq!(standard("2026-11-21T08:00:00"), told_in_utc);
    let session = |created: i64| {
        let object = r#""payment_status":"paid","payment_intent":"pi_1","currency":"cny","amount_total":600,"metadata":{"biz_no":"b1"}"#;
        let kind = "checkout.session.completed";
        let body = format!(
            r#"{{"id":"evt_1","type":"{kind}","created":{created},"data":{{"object":{{{object}}}}}}}"#
        );
        told(CallbackFormat::Stripe, &body)
    };
    assert_eq!(english(session(0)), format!("created: {expected} \"1970-01-01T00:00:00Z\""));
    assert!(session(NOW).is_ok());
}

/// Rule 19.4.5: an amount of Stripe becomes minor units, where Stripe counts other units of a currency.
#[test]
fn an_amount_of_stripe_is_in_minor_units() {
    let paid = |currency: &str, amount: i64| {
        let object = format!(
            r#""payment_status":"paid","payment_intent":"pi_1","currency":"{currency}","amount_total":{amount},"metadata":{{"biz_no":"b1"}}"#
        );
        let body = format!(
            r#"{{"type":"checkout.session.completed","created":{NOW},"data":{{"object":{{{object}}}}}}}"#
        );
        told(CallbackFormat::Stripe, &body).map(|event| match event {
            CallbackEvent::Payment(payment) => payment.currency.in_units(payment.amount),
            other => panic!("{other:?}"),
        })
    };
    let refunded = |currency: &str, amount: i64| {
        let object = format!(r#""payment_intent":"pi_1","amount_refunded":{amount}{currency}"#);
        let body = format!(r#"{{"id":"evt_1","type":"charge.refunded","data":{{"object":{{{object}}}}}}}"#);
        told(CallbackFormat::Stripe, &body).map(|event| match event {
            CallbackEvent::Refund(refund) => refund.amount,
            other => panic!("{other:?}"),
        })
    };
    for (currencies, amount, units) in [
        ("usd eur huf twd", 500, "5.00"),
        ("isk ugx", 500, "5"),
        ("mga", 5, "5.00"),
        ("bif clp djf gnf jpy kmf krw pyg rwf vnd vuv xaf xof xpf", 5, "5"),
        ("bhd jod kwd omr tnd", 5000, "5.000"),
    ] {
        for currency in currencies.split(' ') {
            assert_eq!(paid(currency, amount), Ok(units.to_owned()), "{currency}");
        }
    }
    for (currency, amount, minor) in
        [("isk", 500, 5), ("UGX", 500, 5), ("mga", 5, 500), ("jpy", 5, 5), ("usd", 500, 500), ("zzz", 5, 5)]
    {
        let currency = format!(r#","currency":"{currency}""#);
        assert_eq!(refunded(&currency, amount), Ok(RefundAmount::SumOf(minor)), "{currency}");
    }
    assert_eq!(refunded("", 5), Ok(RefundAmount::SumOf(5)));
    let broken = "expected a multiple of 100, got 550";
    assert_eq!(english(paid("isk", 550)), format!("data.object.amount_total: {broken}"));
    let ugx = refunded(r#","currency":"ugx""#, 550);
    assert_eq!(english(ugx), format!("data.object.amount_refunded: {broken}"));
    let most = FIGURE_MAX / 100;
    assert_eq!(paid("mga", most), Ok(format!("{most}.00")));
    assert_eq!(
        english(paid("mga", most + 1)),
        format!("data.object.amount_total: expected an integer from 1 to {most}, got {}", most + 1)
    );
}

/// Rules 2.10.3 and 19.4.7: a body of another kind is named, whatever the format.
#[test]
fn a_body_of_another_kind_is_named() {
    for format in [CallbackFormat::Standard, CallbackFormat::Stripe] {
        let provider = provider(format, &[STANDARD_SECRET]);
        let read = |body: &[u8]| english(SignedCallback { provider: &provider, body, now: NOW }.read());
        for (body, got) in [
            (&b""[..], "nothing"),
            (b" \r\n", "nothing"),
            (b"[{\"type\":\"ping\"}]", "an array"),
            (b"null", "null"),
            (b"type=ping", "a form"),
            (b"ping", "plain text"),
            (b"{\0\"\0t\0", "UTF-16"),
        ] {
            assert_eq!(read(body), format!("body: expected a JSON object, got {got}"));
        }
        let in_gbk = b"{\"type\":\"payment.succeeded\",\"data\":{\"note\":\"\xb3\xe4\xd6\xb5\"}}";
        assert_eq!(read(in_gbk), "body: expected UTF-8 text");
    }
}

/// Rules 2.5.2 to 2.5.9, by 19.4.5, at each level that is read: a number may come as decimal text, and an identifier as
/// an integer. Empty is absent.
#[test]
fn fields_are_read_as_those_of_the_public_api() {
    let of = |data: &str| {
        told(CallbackFormat::Standard, &format!(r#"{{"type":"payment.succeeded","data":{data}}}"#))
    };
    let with = |more: &str| of(&format!(r#"{{"currency":"CNY","paid_at":"2026-11-21T08:00:00Z",{more}}}"#));
    let usual =
        with(r#""provider_order_id":"4200001234202611211234567890","amount":600,"fee":36,"biz_no":"123""#);
    assert!(matches!(usual, Ok(CallbackEvent::Payment(_))), "{usual:?}");
    let as_mapped = r#""provider_order_id":4200001234202611211234567890,"amount":"600","fee":"36","biz_no":123,
                       "provider":"","open_id":"","product_id":null,"os":"","note":"""#;
    assert_eq!(with(as_mapped), usual);
    let order = r#""provider_order_id":"p1","biz_no":"b1""#;
    let integer = "expected an integer from 1 to 1000000000000";
    for (more, refused) in [
        (r#""amount":"""#, "data.amount is empty".to_owned()),
        (r#""amount":null"#, "data.amount is missing".to_owned()),
        (r#""amount":"6.00""#, format!(r#"data.amount: {integer}, got "6.00""#)),
        (r#""amount":"0600""#, format!(r#"data.amount: {integer}, got "0600""#)),
        (r#""amount":6e2"#, format!("data.amount: {integer}, got 6e2")),
        (r#""amount":true"#, format!("data.amount: {integer}, got true")),
        (r#""amount":[600]"#, format!("data.amount: {integer}, got an array")),
        (r#""amount":600,"amount":600"#, "data.amount: expected each name once, got \"amount\"".to_owned()),
    ] {
        assert_eq!(english(with(&format!("{order},{more}"))), refused, "{more}");
    }
    assert_eq!(english(of(r#""""#)), "data is empty");
    assert_eq!(english(of("[]")), "data: expected an object, got an array");
}

/// Rule 2.5.5, by 19.4.5: a text and a name that are not UTF-8 are named by their place where their object is read.
#[test]
fn text_that_is_not_utf8_is_refused_only_in_an_object_that_is_read() {
    let session = |more: &str| {
        let body = format!(
            r#"{{"id":"evt_1","type":"checkout.session.completed","created":{NOW},"data":{{"object":{{"payment_status":"paid","payment_intent":"pi_1","currency":"cny","amount_total":600{more}}}}}}}"#
        );
        told(CallbackFormat::Stripe, &body)
    };
    let metadata = r#","metadata":{"biz_no":"b1"}"#;
    let usual = session(metadata);
    assert!(matches!(usual, Ok(CallbackEvent::Payment(_))), "{usual:?}");
    let many: Vec<String> = (0..300).map(|number| format!(r#""k{number}":1"#)).collect();
    let many = format!("{{{}}}", many.join(","));
    for unread in [r#"{"name":"a\ud83d"}"#, r#"{"\udc00":1}"#, r#"{"a":{"b":"\ud800"}}"#, &many] {
        assert_eq!(session(&format!(r#"{metadata},"customer_details":{unread}"#)), usual, "{unread}");
        let other = format!(r#"{{"type":"ping","data":{unread}}}"#);
        assert_eq!(told(CallbackFormat::Stripe, &other), Ok(CallbackEvent::Other), "{unread}");
    }
    let not_utf8 = "expected UTF-8 text";
    for (more, refused) in [
        (format!(r#"{metadata},"zz":"\ud800""#), format!("data.object.zz: {not_utf8}")),
        (format!(r#"{metadata},"\ud800":1"#), format!("data.object: a field name: {not_utf8}")),
        (
            r#","metadata":{"biz_no":"b\ud800"}"#.to_owned(),
            format!("data.object.metadata.biz_no: {not_utf8}"),
        ),
        (format!(r#","metadata":{many}"#), "data.object.metadata: expected at most 256 fields".to_owned()),
    ] {
        assert_eq!(english(session(&more)), refused, "{more}");
    }
    let of_body = told(CallbackFormat::Stripe, r#"{"type":"ping","zz":"\ud800"}"#);
    assert_eq!(english(of_body), format!("zz: {not_utf8}"));
}

/// An object that is not read may be as deep as it likes.
#[test]
fn a_deep_object_is_ignored() {
    let deep = format!("{}1{}", r#"{"data":"#.repeat(10_000), "}".repeat(10_000));
    for place in ["more", "data"] {
        let body = format!(r#"{{"type":"ping","{place}":{deep}}}"#);
        assert_eq!(told(CallbackFormat::Standard, &body), Ok(CallbackEvent::Other));
    }
}

/// Rule 19.4.6: a session that is not paid, and every other type, concern no purse.
#[test]
fn other_events_are_taken() {
    for body in [
        r#"{"type":"checkout.session.completed","created":1,"data":{"object":{"payment_status":"unpaid"}}}"#,
        r#"{"type":"customer.created","data":1}"#,
    ] {
        assert_eq!(told(CallbackFormat::Stripe, body), Ok(CallbackEvent::Other));
    }
    assert_eq!(told(CallbackFormat::Standard, r#"{"type":"ping"}"#), Ok(CallbackEvent::Other));
}

proptest! {
    /// Rule 19.4.3: without the secret nothing is signed, and nothing that comes makes the reader panic.
    #[test]
    fn nothing_is_signed_by_chance(
        signature in "[ -~]{0,200}",
        body in proptest::collection::vec(any::<u8>(), 0..200),
        is_stripe: bool,
    ) {
        let format = if is_stripe { CallbackFormat::Stripe } else { CallbackFormat::Standard };
        let provider = provider(format, &[STANDARD_SECRET]);
        let time = NOW.to_string();
        let with_time = format!("t={NOW},{signature}");
        let header = |name| match name {
            "webhook-timestamp" => Some(time.as_str()),
            "stripe-signature" => Some(with_time.as_str()),
            _ => Some(signature.as_str()),
        };
        prop_assert!(provider.verify(header, &body, NOW).is_err());
        let _ = SignedCallback { provider: &provider, body: &body, now: NOW }.read();
    }
}
