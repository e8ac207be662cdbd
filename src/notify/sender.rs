//! Sends one notification and judges its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::body::content_coding;
use domain::clock::Clock;
use domain::event::{EventData, EventType};
use domain::fields::Expected;
use domain::ids::WebUrl;
use domain::receiver::ReceiverFormat;
use domain::text;
use domain::text::Text;
use guarded_fetch::{FetchError, FetchSettings, GuardedClient, GuardedUrl};
use hyper::header::{self, HeaderMap};
use hyper::http::StatusCode;
use store::{Event, LeasedReceiver, ReceiverTry};
use time::OffsetDateTime;

use super::message::{ANSWER_BYTES_MAX, Message, Signer, random_id};
use super::trial::Trial;

/// Time limit of a try (contract 12.4).
const TRY_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of an answer that are kept (contract 12.4.8).
const KEPT_BYTES_MAX: usize = 4096;

/// Sends notifications.
#[derive(Clone)]
pub struct NotificationSender {
    client: GuardedClient,
    ports: Vec<u16>,
    clock: Arc<dyn Clock>,
}

/// A receiver, with what is prepared once and not for each message.
#[derive(Debug)]
pub(super) struct Recipient {
    /// The receiver.
    pub(super) receiver: LeasedReceiver,
    url: Result<GuardedUrl, FetchError>,
    signer: Option<Signer>,
}

/// The outcome of a try.
#[derive(Debug)]
pub struct Tried {
    /// The try as operators see it.
    pub shown: ReceiverTry,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
    /// The receiver wants nothing more: 410.
    pub is_gone: bool,
}

impl Tried {
    /// Whether the message was taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.shown.error.is_none()
    }
}

impl NotificationSender {
    /// A sender with the guard of these settings.
    #[must_use]
    pub fn new(settings: FetchSettings, clock: Arc<dyn Clock>) -> Self {
        Self { ports: settings.ports.clone(), client: GuardedClient::new(settings), clock }
    }

    /// Reads the URL of a new receiver.
    ///
    /// # Errors
    /// A URL to which nothing would be sent.
    pub fn read_url(&self, text: &str) -> Result<WebUrl, Expected> {
        let read = WebUrl::parse(text).ok().filter(|_| self.client.url(text).is_ok());
        read.ok_or_else(|| {
            let ports = ranges(&self.ports);
            Expected(text!(
                "{url}, without a user, on a port of notify.ports ({ports})",
                url = Text::new(WebUrl::EXPECTED),
                ports
            ))
        })
    }

    /// Prepares sending to a receiver.
    pub(super) fn recipient(&self, receiver: LeasedReceiver) -> Recipient {
        Recipient { url: self.client.url(&receiver.url), signer: Signer::of(&receiver), receiver }
    }

    /// Sends a message once.
    pub(super) async fn send(&self, recipient: &Recipient, message: &Message) -> Tried {
        let now = self.now();
        let headers = recipient.signer.as_ref().map(|signer| signer.headers(message, now.unix_timestamp()));
        self.send_with(recipient, message, headers, now).await
    }

    /// Sends an event once, to a receiver that need not be one of its app.
    pub async fn send_event(&self, receiver: &LeasedReceiver, event: &Event) -> Tried {
        self.send(&self.recipient(receiver.clone()), &Message::of(event, receiver.format)).await
    }

    /// Sends a notification that tries a receiver of the standard format, once.
    pub async fn send_trial(&self, receiver: &LeasedReceiver, trial: Trial<'_>) -> ReceiverTry {
        let now = self.now();
        let message = trial.message(receiver, now);
        let recipient = self.recipient(receiver.clone());
        let headers = recipient.signer.as_ref().map(|signer| {
            let mut headers = signer.headers(&message, now.unix_timestamp() - trial.age_seconds());
            trial.change(&mut headers);
            headers
        });
        self.send_with(&recipient, &message, headers, now).await.shown
    }

    async fn send_with(
        &self,
        recipient: &Recipient,
        message: &Message,
        headers: Option<HeaderMap>,
        now: OffsetDateTime,
    ) -> Tried {
        let began = Instant::now();
        let tried = |status: Option<StatusCode>, error: Option<String>, body: &[u8]| ReceiverTry {
            event_id: message.id.clone(),
            at: now,
            status: status.and_then(|status| i16::try_from(status.as_u16()).ok()),
            error,
            body: String::from_utf8_lossy(&body[..body.len().min(KEPT_BYTES_MAX)]).replace('\0', "\u{fffd}"),
            elapsed_ms: i64::try_from(began.elapsed().as_millis()).ok(),
        };
        let failed = |error: &str| Tried {
            shown: tried(None, Some(error.to_owned()), b""),
            retry_after: None,
            is_gone: false,
        };
        let Some(headers) = headers else { return failed("secret_unreadable") };
        let url = match &recipient.url {
            Ok(url) => url,
            Err(error) => return failed(cause(*error)),
        };
        let body = message.body.clone();
        // One byte more shows that there is more.
        match self.client.post(url, headers, body, TRY_TIMEOUT, ANSWER_BYTES_MAX + 1).await {
            Err(error) => failed(cause(error)),
            Ok(answer) => {
                let codings = answer.headers.get_all(header::CONTENT_ENCODING).iter();
                let coding = content_coding(codings.filter_map(|value| value.to_str().ok()));
                let error = message.refusal(recipient.receiver.format, answer.status, coding, &answer.body);
                Tried {
                    retry_after: error.as_ref().and_then(|_| retry_after(&answer.headers, now)),
                    is_gone: answer.status == StatusCode::GONE,
                    shown: tried(Some(answer.status), error, &answer.body),
                }
            }
        }
    }

    /// Sends nothing, and says that the message was taken: a fault that a sandbox app asked for.
    pub(super) fn pretend(&self, message: &Message) -> Tried {
        let body = "not sent: a fault that this sandbox app asked for".to_owned();
        let (event_id, at) = (message.id.clone(), self.now());
        let shown = ReceiverTry { event_id, at, status: None, error: None, body, elapsed_ms: None };
        Tried { shown, retry_after: None, is_gone: false }
    }

    /// Sends an event that is marked as a test, once.
    pub async fn send_test(&self, receiver: &LeasedReceiver) -> ReceiverTry {
        let id = random_id();
        let event_type = receiver.types.first().copied().unwrap_or(EventType::ExchangeSucceeded);
        let data = EventData::example(event_type);
        let about = (event_type, receiver.app_id.as_str());
        let message = Message::of_test(id, about, self.now(), receiver.format, &data);
        self.send(&self.recipient(receiver.clone()), &message).await.shown
    }

    /// The body that tells a receiver of this format of an event.
    #[must_use]
    pub fn body_of(event: &Event, format: ReceiverFormat) -> String {
        String::from_utf8_lossy(&Message::of(event, format).body).into_owned()
    }

    /// How long ago this was.
    #[must_use]
    pub fn since(&self, at: OffsetDateTime) -> Duration {
        Duration::try_from(self.now() - at).unwrap_or_default()
    }

    fn now(&self) -> OffsetDateTime {
        let nanos = i128::from(self.clock.unix_millis()) * 1_000_000;
        OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

/// Ports as a text. Three or more that follow each other are a range, because a sandbox has all of them.
fn ranges(ports: &[u16]) -> String {
    let runs = ports.chunk_by(|before, after| before.checked_add(1) == Some(*after)).map(|run| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Why there was no answer. A name that leads nowhere and one that leads inside have one word, so that nobody asks for the
/// names of the operator's network.
fn cause(error: FetchError) -> &'static str {
    match error {
        FetchError::NameNotFound | FetchError::AddressNotPublic => "not_reachable",
        other => other.cause(),
    }
}

/// How long a receiver asks to wait: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        // Only a number above 64 bits does not parse. The longest wait bounds it as any other.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    // A leap second is legal in a date, and the parser has none.
    let text = text.replacen(":60 ", ":59 ", 1);
    let at = OffsetDateTime::from(httpdate::parse_http_date(&text).ok()?);
    Duration::try_from(at - now).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use time::macros::datetime;

    use super::*;

    /// Rule 12.2.8: a refusal of a URL names the ports, and is short where there are many.
    #[test]
    fn ports_that_follow_each_other_are_a_range() {
        let all: Vec<u16> = (1..=u16::MAX).collect();
        for (ports, expected) in [
            (&all[..], "1-65535"),
            (&[80, 443][..], "80, 443"),
            (&[443, 80][..], "443, 80"),
            (&[80, 81][..], "80, 81"),
            (&[22, 80, 81, 82, 443, 8000, 8001][..], "22, 80-82, 443, 8000, 8001"),
            (&[65535, 0, 1][..], "65535, 0, 1"),
            (&[][..], ""),
        ] {
            assert_eq!(ranges(ports), expected);
        }
    }

    /// Rule: `Retry-After` is seconds or a date; anything else asks for nothing.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = datetime!(2026-11-24 06:00 UTC);
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now)
        };
        assert_eq!(read("120"), Some(Duration::from_mins(2)));
        assert_eq!(read("99999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(read("Tue, 24 Nov 2026 06:01:00 GMT"), Some(Duration::from_mins(1)));
        for text in
            ["Tue, 24 Nov 2026 06:00:60 GMT", "Tuesday, 24-Nov-26 06:00:60 GMT", "Tue Nov 24 06:00:60 2026"]
        {
            assert_eq!(read(text), Some(Duration::from_secs(59)), "{text}");
        }
        for text in ["Tue, 24 Nov 2026 05:00:00 GMT", "-1", "+30", "1.5", "soon", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
