//! The operator's judge of pictures: a service outside that allows or blocks each new picture
//! (10000303; docs/images.md, "A judge outside").

use std::time::Duration;

use bytes::Bytes;
use domain::body::without_mark;
use domain::ids::AppId;
use domain::signature::PayKey;
use domain::wallet::canonical_string;
use guarded_fetch::bulkhead::{Bulkhead, Permit};
use guarded_fetch::{ServiceClient, ServiceUrl};
use hyper::HeaderMap;
use hyper::header::{self, HeaderName};
use hyper::http::HeaderValue;
use pictures::{Format, Kept};
use serde::Deserialize;

use crate::config::{self, WhenUnavailable};
use crate::http::outgoing::USER_AGENT;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4096;
/// Characters of the judge's reason that the log repeats.
const REASON_CHARS_MAX: usize = 256;

/// The decision about a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// The judge allows it.
    Allow,
    /// The judge blocks it.
    Block,
    /// There is no verdict, and the setting allows such pictures.
    AllowUnjudged,
    /// There is no verdict, and the setting blocks such pictures.
    TryAgain {
        /// Why there is no verdict, for the log.
        cause: &'static str,
    },
}

/// The client of the judge.
pub struct JudgeClient {
    client: ServiceClient,
    url: ServiceUrl,
    timeout: Duration,
    key: PayKey,
    bulkhead: Bulkhead,
    when_unavailable: WhenUnavailable,
}

impl JudgeClient {
    /// The judge of the settings; `None` if they name none.
    #[must_use]
    pub fn new(settings: &config::ImageJudge, client: ServiceClient) -> Option<Self> {
        Some(Self {
            client,
            url: settings.url.clone()?,
            timeout: settings.timeout,
            key: PayKey::new(settings.secret.get().unwrap_or_default().to_owned()),
            bulkhead: Bulkhead::new(settings.concurrent_max, settings.concurrent_per_app_max),
            when_unavailable: settings.when_unavailable,
        })
    }

    /// Waits for a permit of this app. The caller bounds the time. A long wait does not count as an
    /// unavailable judge, or else an app could evade the judge by many uploads at once.
    pub async fn permit(&self, app_id: &AppId) -> Permit {
        self.bulkhead.acquire(app_id.as_str(), 1).await
    }

    /// Asks about a picture, at `now_millis` since the Unix epoch, and logs the verdict. The request's
    /// span names the app. It takes the `timeout` of the settings at most. Call it with a
    /// [`permit`](Self::permit).
    pub async fn rule(&self, app_id: &AppId, kept: &Kept, now_millis: i64) -> Ruling {
        let content_sha256 = hex::encode(kept.content_sha256);
        let headers = self.question(app_id, kept.format, &content_sha256, now_millis);
        let body = kept.contents.clone();
        let answer = self.client.post(&self.url, headers, body, self.timeout, ANSWER_BYTES_MAX).await;
        let cause = match answer.map(|bytes| JudgeAnswer::read(&bytes)) {
            Ok(Some(JudgeAnswer { verdict: JudgeVerdict::Allow, .. })) => {
                tracing::debug!(content_sha256, "the image judge allows a picture");
                return Ruling::Allow;
            }
            Ok(Some(JudgeAnswer { verdict: JudgeVerdict::Block, reason })) => {
                tracing::info!(content_sha256, ?reason, "the image judge blocks a picture");
                return Ruling::Block;
            }
            Ok(None) => "answer_unreadable",
            Err(error) => error.cause(),
        };
        match self.when_unavailable {
            WhenUnavailable::Allow => {
                tracing::warn!(content_sha256, cause, "no verdict of the image judge: allowed");
                Ruling::AllowUnjudged
            }
            WhenUnavailable::Block => {
                tracing::warn!(content_sha256, cause, "no verdict of the image judge: not kept");
                Ruling::TryAgain { cause }
            }
        }
    }

    /// The headers of a question. The signature is like that of an exchange.
    fn question(&self, app_id: &AppId, format: Format, content_sha256: &str, now_millis: i64) -> HeaderMap {
        let ts = now_millis.to_string();
        let signed = [("app_id", app_id.as_str()), ("content_sha256", content_sha256), ("ts", &ts)];
        let sign = self.key.sign(&canonical_string(signed.into_iter()));
        let value = |text: &str| {
            HeaderValue::from_str(text).expect("identifiers, digits and hexadecimal are visible ASCII")
        };
        HeaderMap::from_iter([
            (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
            (header::ACCEPT, HeaderValue::from_static("application/json")),
            (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
            (HeaderName::from_static("x-minitill-app-id"), value(app_id.as_str())),
            (HeaderName::from_static("x-minitill-content-sha256"), value(content_sha256)),
            (HeaderName::from_static("x-minitill-ts"), value(&ts)),
            (HeaderName::from_static("x-minitill-sign"), value(&sign)),
        ])
    }
}

/// The judge's answer.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct JudgeAnswer {
    verdict: JudgeVerdict,
    /// For the operator's log, never for the caller.
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JudgeVerdict {
    Allow,
    Block,
}

impl JudgeAnswer {
    /// `None` for anything that is not a verdict.
    fn read(bytes: &Bytes) -> Option<Self> {
        // An array of the values in their order would be read as well.
        let text = without_mark(bytes);
        text.trim_ascii_start().strip_prefix(b"{")?;
        let answer: Self = serde_json::from_slice(text).ok()?;
        Some(Self { reason: answer.reason.chars().take(REASON_CHARS_MAX).collect(), ..answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(JudgeVerdict, String)> {
        JudgeAnswer::read(&Bytes::copy_from_slice(text.as_bytes()))
            .map(|answer| (answer.verdict, answer.reason))
    }

    /// Rule: a verdict is one of two words; whatever else comes is none, and never taken for "allow".
    #[test]
    fn what_is_no_verdict_is_none() {
        for allowed in [r#"{"verdict":"allow"}"#, "\u{feff}{\"verdict\":\"allow\"}"] {
            assert_eq!(read(allowed), Some((JudgeVerdict::Allow, String::new())));
        }
        assert_eq!(
            read(r#"{"verdict":"block","reason":"r","x":1}"#),
            Some((JudgeVerdict::Block, "r".to_owned()))
        );
        for text in [
            "",
            "allow",
            r#""allow""#,
            "{}",
            r#"["allow"]"#,
            r#"{"verdict":"ALLOW"}"#,
            r#"{"verdict":true}"#,
            r#"{"verdict":"allow","verdict":"block"}"#,
            r#"{"verdict":"allow","reason":1}"#,
            r#"{"verdict":"allow"} x"#,
            r#"{"verdict":"allow""#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Rule: the log repeats a judge's reason in part only.
    #[test]
    fn a_long_reason_is_cut() {
        let (_, reason) = read(&format!(r#"{{"verdict":"block","reason":"{}"}}"#, "é".repeat(1000))).unwrap();
        assert_eq!(reason.chars().count(), REASON_CHARS_MAX);
    }
}
