//! The operator's judge of pictures, a service outside that says of each new picture whether an app
//! may use it (10000303; docs/images.md, "A judge outside").

use bytes::Bytes;
use domain::ids::AppId;
use domain::signature::{PayKey, canonical_string};
use guarded_fetch::Service;
use guarded_fetch::bulkhead::{Place, Shares};
use hyper::HeaderMap;
use hyper::header::{self, HeaderName};
use hyper::http::HeaderValue;
use pictures::{Format, Kept};
use serde::Deserialize;

use crate::config::{self, WhenUnavailable};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4096;
/// Characters of the judge's reason that the log repeats.
const REASON_CHARS_MAX: usize = 256;

/// What is to be done with a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// The judge allows it.
    Allow,
    /// The judge blocks it.
    Block,
    /// There is no verdict, and the operator keeps such pictures.
    AllowUnjudged,
    /// There is no verdict, and the operator does not keep such pictures.
    TryAgain {
        /// Why there is none, for the log.
        cause: &'static str,
    },
}

/// The judge, ready to be asked.
pub struct ImageJudge {
    service: Service,
    key: PayKey,
    places: Shares,
    when_unavailable: WhenUnavailable,
}

impl ImageJudge {
    /// The judge of the settings, `None` where they name none.
    #[must_use]
    pub fn new(settings: &config::ImageJudge) -> Option<Self> {
        let url = settings.url.clone()?;
        Some(Self {
            service: Service::new(url, settings.timeout, ANSWER_BYTES_MAX),
            key: PayKey::new(settings.secret.get().unwrap_or_default().to_owned()),
            places: Shares::new(settings.concurrent_max, settings.concurrent_per_app_max),
            when_unavailable: settings.when_unavailable,
        })
    }

    /// Waits, as long as the caller lets it, until this app may ask: no app takes more than its share
    /// of the judge. To wait here does not make the judge unavailable, or an app could slip pictures
    /// past it by uploading many at once.
    ///
    /// # Panics
    /// Never: nobody closes the places.
    pub async fn place(&self, app_id: &AppId) -> Place {
        self.places.place(self.places.share(app_id.as_str(), 1).await).await
    }

    /// Asks about a picture, at `now_millis` since the Unix epoch, and logs the verdict; the request's
    /// span names the app. It takes the
    /// `timeout` of the settings at most. To be called with a [`place`](Self::place).
    pub async fn rule(&self, app_id: &AppId, kept: &Kept, now_millis: i64) -> Ruling {
        let content_sha256 = hex::encode(kept.content_sha256);
        let headers = self.question(app_id, kept.format, &content_sha256, now_millis);
        let answer = self.service.post(headers, kept.contents.clone()).await;
        let cause = match answer.map(|bytes| Answer::read(&bytes)) {
            Ok(Some(Answer { verdict: Verdict::Allow, .. })) => {
                tracing::debug!(content_sha256, "the image judge allows a picture");
                return Ruling::Allow;
            }
            Ok(Some(Answer { verdict: Verdict::Block, reason })) => {
                tracing::info!(content_sha256, ?reason, "the image judge blocks a picture");
                return Ruling::Block;
            }
            Ok(None) => "answer_unreadable",
            Err(refused) => refused.cause(),
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

    /// The headers of a question, signed as an exchange is.
    fn question(&self, app_id: &AppId, format: Format, content_sha256: &str, now_millis: i64) -> HeaderMap {
        let ts = now_millis.to_string();
        let signed = [("app_id", app_id.as_str()), ("content_sha256", content_sha256), ("ts", &ts)];
        let sign = self.key.sign(&canonical_string(signed.into_iter()));
        let value = |text: &str| {
            HeaderValue::from_str(text).expect("identifiers, digits and hexadecimal are visible ASCII")
        };
        HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
            (HeaderName::from_static("x-minitill-app-id"), value(app_id.as_str())),
            (HeaderName::from_static("x-minitill-content-sha256"), value(content_sha256)),
            (HeaderName::from_static("x-minitill-ts"), value(&ts)),
            (HeaderName::from_static("x-minitill-sign"), value(&sign)),
        ])
    }
}

/// What the judge answers.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Answer {
    verdict: Verdict,
    /// For the operator's log, never for the caller.
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Allow,
    Block,
}

impl Answer {
    /// `None` for whatever is no verdict.
    fn read(bytes: &Bytes) -> Option<Self> {
        // An array of the values in their order would be read as well.
        let text = bytes.trim_ascii_start().strip_prefix(b"{").map(|_| bytes)?;
        let answer: Self = serde_json::from_slice(text).ok()?;
        Some(Self { reason: answer.reason.chars().take(REASON_CHARS_MAX).collect(), ..answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Verdict, String)> {
        Answer::read(&Bytes::copy_from_slice(text.as_bytes())).map(|answer| (answer.verdict, answer.reason))
    }

    /// Rule: a verdict is one of two words; whatever else comes is none, and never taken for "allow".
    #[test]
    fn what_is_no_verdict_is_none() {
        assert_eq!(read(r#"{"verdict":"allow"}"#), Some((Verdict::Allow, String::new())));
        assert_eq!(read(r#"{"verdict":"block","reason":"r","x":1}"#), Some((Verdict::Block, "r".to_owned())));
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
