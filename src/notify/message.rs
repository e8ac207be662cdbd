//! A notification: its body, its signature, and what its answer means (contract 12.3 and 12.4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::body::{BodyKind, without_mark};
use domain::event::EventType;
use domain::fields::shown;
use domain::receiver::ReceiverFormat;
use domain::secret::Secret;
use domain::strays::{self, without_unseen};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::StatusCode;
use md5::{Digest as _, Md5};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use store::secrets::random_bytes;
use store::{Event, LeasedReceiver};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::http::outgoing::USER_AGENT;

/// How much of an answer is read for what it means.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Headers of the standard format.
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
pub(super) const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub(super) const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The prefix of the text of a signing secret. The rest is base64.
const SECRET_PREFIX: &str = "whsec_";
/// Header of the platform's signature.
const KWAISIGN: HeaderName = HeaderName::from_static("kwaisign");

/// An event as it is sent to a receiver. The body is the same for every try.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// Id of the event.
    pub(super) id: String,
    /// The body: JSON.
    pub(super) body: Bytes,
}

/// The body in the standard format.
#[derive(Serialize)]
struct Standard<'a, D> {
    r#type: &'a str,
    timestamp: String,
    app_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_mock: Option<bool>,
    data: &'a D,
}

/// The body in the platform's format.
#[derive(Serialize)]
struct Platform<'a, D> {
    data: &'a D,
    biz_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_mock: Option<bool>,
    message_id: &'a str,
    app_id: &'a str,
    timestamp: i64,
}

/// The id of a message that tells of no event.
pub(super) fn random_id() -> String {
    format!("evt_{}", hex::encode(random_bytes::<18>()))
}

impl Message {
    /// The message of an event.
    #[must_use]
    pub(super) fn of(event: &Event, format: ReceiverFormat) -> Self {
        Self::of_any(
            event.id.as_text(),
            (event.event_type.as_str(), event.app_id.as_str()),
            event.at,
            format,
            None,
            &event.data,
        )
    }

    /// The message of a test.
    #[must_use]
    pub(super) fn of_test(
        id: String,
        (event_type, app_id): (EventType, &str),
        at: OffsetDateTime,
        format: ReceiverFormat,
        data: &impl Serialize,
    ) -> Self {
        Self::of_any(id, (event_type.as_str(), app_id), at, format, Some(true), data)
    }

    /// The message of these parts, of a type that may be none of the contract's.
    pub(super) fn of_any(
        id: String,
        (r#type, app_id): (&str, &str),
        at: OffsetDateTime,
        format: ReceiverFormat,
        is_mock: Option<bool>,
        data: &impl Serialize,
    ) -> Self {
        let body = match format {
            ReceiverFormat::Standard => {
                let timestamp = at.format(&Rfc3339).unwrap_or_default();
                serde_json::to_vec(&Standard { r#type, timestamp, app_id, is_mock, data })
            }
            ReceiverFormat::Platform => serde_json::to_vec(&Platform {
                data,
                biz_type: r#type,
                is_mock,
                message_id: &id,
                app_id,
                timestamp: i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default(),
            }),
        };
        Self { body: body.expect("numbers and texts are JSON").into(), id }
    }

    /// Why an answer with this content coding does not mean that the message was taken. `None` when it was. A body above
    /// [`ANSWER_BYTES_MAX`] counts as far as that.
    #[must_use]
    pub(super) fn refusal(
        &self,
        format: ReceiverFormat,
        status: StatusCode,
        coding: Option<&str>,
        body: &[u8],
    ) -> Option<String> {
        if !status.is_success() {
            return Some(format!("expected 2xx, got {}", status.as_u16()));
        }
        let is_taken = match format {
            ReceiverFormat::Standard => true,
            ReceiverFormat::Platform => {
                let read = without_mark(&body[..body.len().min(ANSWER_BYTES_MAX)]);
                serde_json::from_slice::<PlatformAnswer>(read)
                    .is_ok_and(|answer| answer.result == 1 && answer.message_id == self.id)
            }
        };
        // What nobody sees in the shown answer is named.
        (!is_taken).then(|| {
            let expected = "expected {\"result\":1} with this message_id";
            if let Some(got) = unreadable(coding, body) {
                return format!("{expected}, got {got}");
            }
            let text = String::from_utf8_lossy(body);
            match around_json(&text) {
                _ if begins_as_text(&text) => format!("{expected}; it has text before the JSON"),
                _ if body.len() > ANSWER_BYTES_MAX => {
                    format!("{expected}; it has more than 64 KiB, and no more is read")
                }
                _ if ends_as_text(&text) => format!("{expected}; it has text behind the JSON"),
                Some(strays) => format!("{expected}; it has {strays} around it"),
                None => expected.to_owned(),
            }
        })
    }
}

/// What an answer is that would be shown as rubbish, because its bytes are no text of ours.
fn unreadable(coding: Option<&str>, body: &[u8]) -> Option<String> {
    match (BodyKind::of(body), coding) {
        (BodyKind::Json, _) => None,
        (_, Some(coding)) => Some(format!("content-encoding {}", shown(coding))),
        (kind @ (BodyKind::Gzip | BodyKind::Compressed | BodyKind::Utf16), None) => {
            Some(kind.name().english())
        }
        (_, None) => None,
    }
}

/// Whether text begins in front of an object, such as a warning of PHP or the name of a function. What a page has in braces
/// is no object.
fn begins_as_text(body: &str) -> bool {
    let is_object = |(_, inner): (&str, &str)| inner.trim_start().starts_with('"');
    without_unseen(body).starts_with(|first: char| first == '<' || first.is_alphabetic())
        && body.split_once('{').is_some_and(is_object)
}

/// Whether words stand behind a JSON object.
fn ends_as_text(body: &str) -> bool {
    let object = body.find('{').map_or("", |start| &body[start..]);
    let mut values = serde_json::Deserializer::from_str(object).into_iter::<IgnoredAny>();
    matches!(values.next(), Some(Ok(_)))
        && without_unseen(&object[values.byte_offset()..]).contains(char::is_alphanumeric)
}

/// The text around a JSON object that does not belong to it.
fn around_json(body: &str) -> Option<String> {
    let (start, end) = (body.find('{')?, body.rfind('}')? + 1);
    let outside = [&body[..start], body.get(end..)?].concat();
    let is_control = |letter: &char| letter.is_control() && !letter.is_whitespace();
    let (controls, rest): (String, String) = outside.chars().partition(is_control);
    let strays = strays::around(&rest).map(|strays| strays.english());
    let controls = (!controls.is_empty()).then(|| "a control character".to_owned());
    let found: Vec<String> = strays.into_iter().chain(controls).collect();
    (!found.is_empty()).then(|| found.join(" and "))
}

/// Signs the messages for a receiver. Its keys are read once, not for each message.
#[derive(Debug)]
pub(super) enum Signer {
    /// A signature under each of these keys (contract 12.3).
    Standard(Vec<Hmac<Sha256>>),
    /// MD5 of body and this secret of the app.
    Platform(Secret),
}

impl Signer {
    /// The signer of a receiver. `None` when one of its secrets is no secret.
    #[must_use]
    pub(super) fn of(receiver: &LeasedReceiver) -> Option<Self> {
        match receiver.format {
            ReceiverFormat::Platform => Some(Self::Platform(receiver.app_secret.clone())),
            ReceiverFormat::Standard => {
                receiver.secrets.iter().map(signing_key).collect::<Option<_>>().map(Self::Standard)
            }
        }
    }

    /// The headers of a try at this time.
    #[must_use]
    pub(super) fn headers(&self, message: &Message, unix_seconds: i64) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([
            (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        match self {
            Self::Standard(keys) => {
                let signed = |key: &Hmac<Sha256>| {
                    let head = format!("{}.{unix_seconds}.", message.id);
                    let signing = key.clone().chain_update(head).chain_update(&message.body);
                    format!("v1,{}", STANDARD.encode(signing.finalize().into_bytes()))
                };
                let signatures = keys.iter().map(signed).collect::<Vec<_>>().join(" ");
                headers.insert(WEBHOOK_ID, visible(&message.id));
                headers.insert(WEBHOOK_TIMESTAMP, unix_seconds.into());
                headers.insert(WEBHOOK_SIGNATURE, visible(&signatures));
            }
            Self::Platform(app_secret) => {
                let mut hasher = Md5::new();
                hasher.update(&message.body);
                hasher.update(app_secret.expose().as_bytes());
                headers.insert(KWAISIGN, visible(&hex::encode(hasher.finalize())));
            }
        }
        headers
    }
}

fn signing_key(secret: &Secret) -> Option<Hmac<Sha256>> {
    let key = STANDARD.decode(secret.expose().strip_prefix(SECRET_PREFIX)?).ok()?;
    Hmac::new_from_slice(&key).ok()
}

/// The answer of a receiver of the platform's format.
#[derive(Deserialize)]
struct PlatformAnswer {
    result: i64,
    message_id: String,
}

fn visible(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("ids and signatures are visible ASCII")
}

#[cfg(test)]
mod tests {
    use domain::event::{EventData, EventId, ImageData};
    use domain::ids::AppId;
    use domain::receiver::ReceiverId;
    use standardwebhooks::Webhook;
    use time::macros::datetime;

    use super::*;

    fn event() -> Event {
        Event {
            no: 7,
            id: EventId { row: [0xab; 16], place: 3 },
            event_type: EventType::ImageBlocked,
            app_id: AppId::parse("game").unwrap(),
            at: datetime!(2026-11-24 06:00:00.123456 UTC),
            data: EventData::Image(ImageData { img_id: "0f".repeat(24) }),
        }
    }

    fn receiver(format: ReceiverFormat, secrets: &[&str]) -> LeasedReceiver {
        LeasedReceiver {
            app_id: AppId::parse("game").unwrap(),
            sandbox: None,
            id: ReceiverId::new([0; 8]),
            url: "https://game.example/".to_owned(),
            types: Vec::new(),
            format,
            secrets: secrets.iter().map(|secret| Secret::new((*secret).to_owned())).collect(),
            app_secret: Secret::new("app-secret".to_owned()),
            through_no: 0,
            waiting: 0,
            is_away: false,
            has_just_failed: false,
        }
    }

    /// Rule: the bytes of both formats (contract 12.3).
    #[test]
    fn the_bodies_of_both_formats() {
        let img_id = "0f".repeat(24);
        let id = format!("evt_{}0003", "ab".repeat(16));
        assert_eq!(
            Message::of(&event(), ReceiverFormat::Standard).body,
            format!(
                r#"{{"type":"image.blocked","timestamp":"2026-11-24T06:00:00.123456Z","app_id":"game","data":{{"img_id":"{img_id}"}}}}"#
            )
        );
        assert_eq!(
            Message::of(&event(), ReceiverFormat::Platform).body,
            format!(
                r#"{{"data":{{"img_id":"{img_id}"}},"biz_type":"image.blocked","message_id":"{id}","app_id":"game","timestamp":1795500000123}}"#
            )
        );
    }

    /// Rule: the signature of Standard Webhooks 1.0.0, with the public test vector of its libraries.
    #[test]
    fn the_signature_of_the_public_vector() {
        let message =
            Message { id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(), body: r#"{"test": 2432232314}"#.into() };
        let known = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let headers = |secrets: &[&str]| {
            Signer::of(&receiver(ReceiverFormat::Standard, secrets)).unwrap().headers(&message, 1_614_265_330)
        };
        let both = headers(&["whsec_AAAA", known]);
        let headers = headers(&[known]);
        assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let signatures: Vec<_> = both["webhook-signature"].to_str().unwrap().split(' ').collect();
        assert_eq!(signatures.len(), 2);
        assert_eq!(signatures[1], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let library = Webhook::new(known).unwrap();
        let theirs = library.sign(&message.id, 1_614_265_330, &message.body).unwrap();
        assert_eq!(theirs, headers["webhook-signature"].to_str().unwrap(), "the reference library agrees");
        for damaged in ["whsec_A", "AAAA", ""] {
            assert!(Signer::of(&receiver(ReceiverFormat::Standard, &[damaged])).is_none(), "{damaged}");
        }
    }

    /// Rule: `kwaisign` is MD5 over body and app secret.
    #[test]
    fn the_signature_of_the_platform() {
        let message = Message { id: "evt_1".to_owned(), body: "{}".into() };
        let headers = Signer::of(&receiver(ReceiverFormat::Platform, &[])).unwrap().headers(&message, 0);
        // printf '{}app-secret' | md5sum
        assert_eq!(headers["kwaisign"], hex::encode(Md5::digest(b"{}app-secret")));
        assert!(!headers.contains_key("webhook-id"));
    }

    /// Rule 12.4.1: a right answer is told what stands behind it, or that it is too long.
    #[test]
    fn a_right_answer_with_more_behind_it_is_told_so() {
        let message = Message { id: "evt_1".to_owned(), body: "{}".into() };
        let right = r#"{"result":1,"message_id":"evt_1"}"#;
        let refusal =
            |body: String| message.refusal(ReceiverFormat::Platform, StatusCode::OK, None, body.as_bytes());
        let expected = "expected {\"result\":1} with this message_id";
        for (behind, told) in [
            ("\0", "a control character around it"),
            ("\u{1}", "a control character around it"),
            ("\u{a0}\0", "a blank and a control character around it"),
            ("\0\u{200b}", "a zero-width character and a control character around it"),
            (" OK", "text behind the JSON"),
            ("\r\n<!-- 3 ms -->", "text behind the JSON"),
            ("{\"took\":3}", "text behind the JSON"),
            (");", "brackets and a separator around it"),
        ] {
            let told = format!("{expected}; it has {told}");
            assert_eq!(refusal(format!("{right}{behind}")), Some(told), "{behind:?}");
        }
        let blanks = " ".repeat(ANSWER_BYTES_MAX);
        let too_long = format!("{expected}; it has more than 64 KiB, and no more is read");
        assert_eq!(refusal(format!("{blanks}{right}")), Some(too_long));
        // The beginning has all of it.
        assert_eq!(refusal(format!("{right}{blanks}")), None);
    }

    /// Rule: taken is any 2xx; in the platform's format only with result 1 and the message's id.
    #[test]
    fn what_means_taken() {
        use ReceiverFormat::{Platform, Standard};
        let message = Message { id: "evt_1".to_owned(), body: "{}".into() };
        let refusal = |format, status: u16, body: &str| {
            message.refusal(format, StatusCode::from_u16(status).unwrap(), None, body.as_bytes())
        };
        assert_eq!(refusal(Standard, 204, ""), None);
        assert_eq!(refusal(Standard, 302, ""), Some("expected 2xx, got 302".to_owned()));
        assert_eq!(refusal(Platform, 200, r#"{"result":1,"message_id":"evt_1"}"#), None);
        for body in ["", "{}", r#"{"result":0,"message_id":"evt_1"}"#, r#"{"result":1,"message_id":"evt_2"}"#]
        {
            assert!(refusal(Platform, 200, body).is_some(), "{body}");
        }
        let strays = refusal(Platform, 200, "\u{200b}{\"result\":1,\"message_id\":\"evt_1\"}\u{a0}").unwrap();
        let expected = "expected {\"result\":1} with this message_id";
        assert_eq!(strays, format!("{expected}; it has a zero-width character and a blank around it"));
        for before in ["<br />Warning: x", "cb(", "Warning: x"] {
            let told = refusal(Platform, 200, &format!("{before}{{\"result\":1,\"message_id\":\"evt_1\"}})"));
            assert_eq!(told.unwrap(), format!("{expected}; it has text before the JSON"), "{before}");
        }
        assert!(refusal(Platform, 500, r#"{"result":1,"message_id":"evt_1"}"#).is_some());
        let gzip = |coding| message.refusal(Platform, StatusCode::OK, coding, b"\x1f\x8b\x08\x00").unwrap();
        assert_eq!(gzip(None), format!("{expected}, got gzip without a content-encoding"));
        assert_eq!(gzip(Some("gzip")), format!("{expected}, got content-encoding \"gzip\""));
    }
}
