//! A notification: its body, its signature, and what its answer means (contract 12.3 and 12.4).

use domain::event::EventType;
use domain::receiver::ReceiverFormat;
use domain::secret::Secret;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::StatusCode;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook, WebhookError,
};
use store::secrets::random_bytes;
use store::{Event, LeasedReceiver};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::outgoing::USER_AGENT;

/// Header of the platform's signature.
const KWAISIGN: HeaderName = HeaderName::from_static("kwaisign");

/// An event as it is sent to a receiver. The body is the same for every try.
#[derive(Debug, Clone)]
pub struct Message {
    /// Id of the event.
    pub id: String,
    /// The body.
    pub body: String,
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
    pub fn of(event: &Event, format: ReceiverFormat) -> Self {
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
    pub fn of_test(
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
                serde_json::to_string(&Standard { r#type, timestamp, app_id, is_mock, data })
            }
            ReceiverFormat::Platform => serde_json::to_string(&Platform {
                data,
                biz_type: r#type,
                is_mock,
                message_id: &id,
                app_id,
                timestamp: i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default(),
            }),
        };
        Self { body: body.expect("numbers and texts are JSON"), id }
    }

    /// The headers of a try at this time, with a signature under each secret of the receiver.
    ///
    /// # Errors
    /// A secret that is none.
    pub fn headers(&self, receiver: &LeasedReceiver, unix_seconds: i64) -> Result<HeaderMap, WebhookError> {
        let mut headers = HeaderMap::from_iter([
            (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        match receiver.format {
            ReceiverFormat::Standard => {
                let signed = receiver.secrets.iter().map(|secret| self.signature(secret, unix_seconds));
                let signatures = signed.collect::<Result<Vec<_>, _>>()?.join(" ");
                headers.insert(HEADER_WEBHOOK_ID, visible(&self.id));
                headers.insert(HEADER_WEBHOOK_TIMESTAMP, unix_seconds.into());
                headers.insert(HEADER_WEBHOOK_SIGNATURE, visible(&signatures));
            }
            ReceiverFormat::Platform => {
                let mut hasher = Md5::new();
                hasher.update(self.body.as_bytes());
                hasher.update(receiver.app_secret.expose().as_bytes());
                headers.insert(KWAISIGN, visible(&hex::encode(hasher.finalize())));
            }
        }
        Ok(headers)
    }

    fn signature(&self, secret: &Secret, unix_seconds: i64) -> Result<String, WebhookError> {
        Webhook::new(secret.expose())?.sign(&self.id, unix_seconds, self.body.as_bytes())
    }

    /// Why an answer does not mean that the message was taken. `None` when it was.
    #[must_use]
    pub fn refusal(&self, format: ReceiverFormat, status: StatusCode, body: &[u8]) -> Option<String> {
        if !status.is_success() {
            return Some(format!("expected 2xx, got {}", status.as_u16()));
        }
        let is_taken = match format {
            ReceiverFormat::Standard => true,
            ReceiverFormat::Platform => serde_json::from_slice::<PlatformAnswer>(body)
                .is_ok_and(|answer| answer.result == 1 && answer.message_id == self.id),
        };
        (!is_taken).then(|| "expected {\"result\":1} with this message_id".to_owned())
    }
}

/// What a receiver of the platform's format answers.
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
        let message = Message {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            body: r#"{"test": 2432232314}"#.to_owned(),
        };
        let known = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let headers = message.headers(&receiver(ReceiverFormat::Standard, &[known]), 1_614_265_330).unwrap();
        assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let both = receiver(ReceiverFormat::Standard, &["whsec_AAAA", known]);
        let signatures = message.headers(&both, 1_614_265_330).unwrap()["webhook-signature"].clone();
        let signatures: Vec<_> = signatures.to_str().unwrap().split(' ').collect();
        assert_eq!(signatures.len(), 2);
        assert_eq!(signatures[1], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// Rule: `kwaisign` is MD5 over body and app secret.
    #[test]
    fn the_signature_of_the_platform() {
        let message = Message { id: "evt_1".to_owned(), body: "{}".to_owned() };
        let headers = message.headers(&receiver(ReceiverFormat::Platform, &[]), 0).unwrap();
        // printf '{}app-secret' | md5sum
        assert_eq!(headers["kwaisign"], hex::encode(Md5::digest(b"{}app-secret")));
        assert!(!headers.contains_key("webhook-id"));
    }

    /// Rule: taken is any 2xx; in the platform's format only with result 1 and the message's id.
    #[test]
    fn what_means_taken() {
        use ReceiverFormat::{Platform, Standard};
        let message = Message { id: "evt_1".to_owned(), body: "{}".to_owned() };
        let refusal = |format, status: u16, body: &str| {
            message.refusal(format, StatusCode::from_u16(status).unwrap(), body.as_bytes())
        };
        assert_eq!(refusal(Standard, 204, ""), None);
        assert_eq!(refusal(Standard, 302, ""), Some("expected 2xx, got 302".to_owned()));
        assert_eq!(refusal(Platform, 200, r#"{"result":1,"message_id":"evt_1"}"#), None);
        for body in ["", "{}", r#"{"result":0,"message_id":"evt_1"}"#, r#"{"result":1,"message_id":"evt_2"}"#]
        {
            assert!(refusal(Platform, 200, body).is_some(), "{body}");
        }
        assert!(refusal(Platform, 500, r#"{"result":1,"message_id":"evt_1"}"#).is_some());
    }
}
