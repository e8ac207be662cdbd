//! The last calls of each sandbox app, in memory (contract 18.3): what a developer looks at who wonders why a call was
//! refused. Apps that take real money have none.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::fields::{Fields, holds_secret};
use domain::ids::AppId;
use domain::redaction::redacted;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

/// Calls of one app that are kept.
const CALLS_MAX: usize = 1_000;
/// Bytes of one app, and of all apps, that are kept. The oldest go first.
const BYTES_OF_APP_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 32 << 20;
/// Bytes of a value of a field that are kept, and of an answer.
const VALUE_BYTES_MAX: usize = 1_024;
pub(crate) const ANSWER_BYTES_MAX: usize = 4_096;
/// What a line takes besides its texts.
const LINE_BYTES: usize = 256;
/// The text in place of a secret.
const MASK: &str = "***";
/// The IP address of a player, which only admins see.
const USER_IP: &str = "user_ip";
/// Members of answers that are credentials, or the IP address.
const SECRET_MEMBERS: [&str; 4] = ["access_token", "session_key", "refresh_token", USER_IP];

/// A call of a sandbox app.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "LoggedRequest")]
pub struct LoggedRequest {
    /// When it came.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// The endpoint, as metrics and faults name it.
    pub endpoint: &'static str,
    /// The fields as they were read, in their order. Secrets and `user_ip` are `***`; what is long is cut.
    #[schemars(with = "BTreeMap<String, String>")]
    pub fields: IndexMap<String, String>,
    /// The HTTP status.
    pub status: u16,
    /// The JSON of the answer, before a fault. `null` where it is none, or long.
    pub answer: Value,
    /// The code of the answer: 1 is success.
    pub code: u32,
    /// The id in `X-Request-Id`.
    pub request_id: String,
    /// How long the answer took.
    pub milliseconds: u64,
    /// Whether a fault of 15.2 happened.
    pub fault: bool,
}

/// The calls that are shown. All that is named must fit.
#[derive(Debug, Clone, Default)]
pub struct RequestFilter {
    /// At this time or later.
    pub since: Option<OffsetDateTime>,
    /// With this code.
    pub code: Option<u32>,
    /// With this id.
    pub request_id: Option<String>,
}

/// The log. It is bounded for each app and in all.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<KeptCalls>);

#[derive(Debug, Default)]
struct KeptCalls {
    apps: HashMap<AppId, CallsOfApp>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct CallsOfApp {
    /// Each with its bytes, the oldest first.
    calls: VecDeque<(usize, Arc<LoggedRequest>)>,
    bytes: usize,
}

impl RequestLog {
    /// Adds a call of an app. What is too much goes, the oldest first: of this app, or of the app with the most.
    pub fn add(&self, app_id: &AppId, request: LoggedRequest) {
        let bytes = bytes_of(&request);
        let mut kept = self.lock();
        let kept = &mut *kept;
        let of_app = kept.apps.entry(app_id.clone()).or_default();
        of_app.calls.push_back((bytes, Arc::new(request)));
        (of_app.bytes, kept.bytes) = (of_app.bytes + bytes, kept.bytes + bytes);
        while of_app.calls.len() > CALLS_MAX || of_app.bytes > BYTES_OF_APP_MAX {
            kept.bytes -= of_app.drop_oldest();
        }
        if of_app.calls.is_empty() {
            kept.apps.remove(app_id);
        }
        // Calls of all apps share a lock, so the apps are gone through only here.
        while kept.bytes > BYTES_MAX {
            let Some((app_id, largest)) = kept.apps.iter_mut().max_by_key(|(_, of_app)| of_app.bytes) else {
                break;
            };
            kept.bytes -= largest.drop_oldest();
            if largest.calls.is_empty() {
                let app_id = app_id.clone();
                kept.apps.remove(&app_id);
            }
        }
    }

    /// The calls of an app that fit, the newest first.
    #[must_use]
    pub fn of(&self, app_id: &AppId, filter: &RequestFilter) -> Vec<Arc<LoggedRequest>> {
        let kept = self.lock();
        let calls = kept.apps.get(app_id).map(|of_app| of_app.calls.iter().rev()).into_iter().flatten();
        let fits = |call: &LoggedRequest| {
            filter.since.is_none_or(|since| call.at >= since)
                && filter.code.is_none_or(|code| call.code == code)
                && filter.request_id.as_ref().is_none_or(|id| call.request_id == *id)
        };
        calls.map(|(_, call)| call).filter(|call| fits(call)).cloned().collect()
    }

    /// Forgets all calls.
    pub fn forget(&self) {
        *self.lock() = KeptCalls::default();
    }

    fn lock(&self) -> MutexGuard<'_, KeptCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallsOfApp {
    fn drop_oldest(&mut self) -> usize {
        let dropped = self.calls.pop_front().map_or(0, |(bytes, _)| bytes);
        self.bytes -= dropped;
        dropped
    }
}

fn bytes_of(request: &LoggedRequest) -> usize {
    let fields = request.fields.iter().map(|(name, value)| name.len() + value.len() + LINE_BYTES / 4);
    LINE_BYTES + fields.sum::<usize>() + request.answer.to_string().len() * 2 + request.request_id.len()
}

/// The fields as the log has them.
#[must_use]
pub fn masked_fields(fields: &Fields) -> Vec<(String, String)> {
    let masked = |name: &str, value: &str| {
        if holds_secret(name, value) { MASK.to_owned() } else { cut(&redacted(value), VALUE_BYTES_MAX) }
    };
    fields.texts().map(|(name, value)| (cut(&redacted(name), VALUE_BYTES_MAX), masked(name, value))).collect()
}

/// The answer as the log has it. It may repeat fields, such as those of a string to sign.
#[must_use]
pub fn masked_answer(bytes: &[u8]) -> Value {
    let mut answer: Value = serde_json::from_slice(bytes).unwrap_or_default();
    // An address may also stand in texts before the one that tells whose it is.
    let mut addresses: Vec<String> = Vec::new();
    mask_members(&mut answer, &mut |text| addresses.extend(addresses_in(text)));
    mask_members(&mut answer, &mut |text| *text = masked_text(text, &addresses));
    answer
}

/// Masks the secret members of an answer, and does something with each text in the others.
fn mask_members(value: &mut Value, act: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => act(text),
        Value::Array(items) => {
            for item in items {
                mask_members(item, act);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if SECRET_MEMBERS.contains(&name.as_str()) {
                    *member = MASK.into();
                } else {
                    mask_members(member, act);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The IP addresses of players in a text of an answer.
fn addresses_in(text: &str) -> impl Iterator<Item = String> {
    let pairs = text.split('&').filter_map(|piece| piece.split_once('='));
    let of_player = pairs.filter(|(name, value)| *name == USER_IP && value.parse::<IpAddr>().is_ok());
    of_player.map(|(_, value)| value.to_owned())
}

/// A text of an answer: what a field of it would hide is hidden here too.
fn masked_text(text: &str, addresses: &[String]) -> String {
    let pieces = text.split('&').map(|piece| match piece.split_once('=') {
        Some((name, value)) if !value.is_empty() && holds_secret(name, value) => format!("{name}={MASK}"),
        _ => piece.to_owned(),
    });
    let masked = pieces.collect::<Vec<_>>().join("&");
    let masked = addresses.iter().fold(masked, |text, address| text.replace(address, MASK));
    redacted(&masked).into_owned()
}

fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(no: u32, value: &str) -> LoggedRequest {
        LoggedRequest {
            at: OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_secs(no.into()),
            endpoint: "exchange",
            fields: [("a".to_owned(), value.to_owned())].into_iter().collect(),
            status: 200,
            answer: json!({}),
            code: no % 2,
            request_id: no.to_string(),
            milliseconds: 1,
            fault: false,
        }
    }

    fn app(no: u32) -> AppId {
        AppId::parse(&format!("a{no}")).unwrap()
    }

    #[test]
    fn the_newest_thousand_calls_of_an_app_are_kept() {
        let log = RequestLog::default();
        (0..2_500).for_each(|no| log.add(&app(1), call(no, "")));
        let kept = log.of(&app(1), &RequestFilter::default());
        assert_eq!((kept.len(), &*kept[0].request_id, &*kept[999].request_id), (1_000, "2499", "1500"));
        let of = |filter: &RequestFilter| log.of(&app(1), filter).len();
        assert_eq!(of(&RequestFilter { code: Some(1), ..RequestFilter::default() }), 500);
        let since = Some(OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_secs(2_490));
        assert_eq!(of(&RequestFilter { since, ..RequestFilter::default() }), 10);
        assert_eq!(of(&RequestFilter { request_id: Some("1501".to_owned()), ..RequestFilter::default() }), 1);
        assert!(log.of(&app(2), &RequestFilter::default()).is_empty());
        log.forget();
        assert_eq!(of(&RequestFilter::default()), 0);
    }

    #[test]
    fn the_bytes_of_an_app_and_of_all_apps_are_bounded() {
        let (log, large) = (RequestLog::default(), "x".repeat(10_000));
        log.add(&app(0), call(0, ""));
        for no in 0..100 {
            (0..200).for_each(|of| log.add(&app(1 + no), call(of, &large)));
            assert!(log.of(&app(1 + no), &RequestFilter::default()).len() >= 20);
        }
        let bytes = log.lock().bytes;
        assert!((BYTES_MAX - 20_000..=BYTES_MAX).contains(&bytes), "{bytes}");
        assert!(log.lock().apps.values().all(|of_app| of_app.bytes <= BYTES_OF_APP_MAX));
        assert_eq!(log.of(&app(0), &RequestFilter::default()).len(), 1, "a flood of others leaves it alone");
    }

    #[test]
    fn an_app_without_calls_takes_no_memory() {
        let log = RequestLog::default();
        log.add(&app(1), call(0, &"x".repeat(BYTES_OF_APP_MAX)));
        let kept = log.lock();
        assert_eq!((kept.apps.len(), kept.bytes), (0, 0));
    }

    #[test]
    fn secrets_are_masked_and_what_is_long_is_cut() {
        let form = format!(
            "access_token=t0ken&sign=abc&user_ip=192.0.2.1&app_secret=s&js_code=c&note={}",
            "币".repeat(400)
        );
        let masked = masked_fields(&Fields::from_urlencoded(form.as_bytes()).unwrap());
        assert!(masked[..5].iter().all(|(_, value)| value == MASK), "{masked:?}");
        assert_eq!(masked[5].1, format!("{}…", "币".repeat(341)));
        let answer = masked_answer(br#"{"result":1,"access_token":"t0ken","session_key":"k"}"#);
        assert_eq!(answer, json!({"result": 1, "access_token": "***", "session_key": "***"}));
        assert_eq!(masked_answer(b"\xff"), Value::Null);
    }

    /// Contract 18.3.2: the string that the server signed has the fields once more.
    #[test]
    fn what_the_fields_hide_is_hidden_in_the_answer_too() {
        let key = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
        let answer = json!({
            "err_no": 100_200_103,
            "err_tips": "sign: 198.51.100.99 came",
            "data": {
                "bytes": 9,
                "string_to_sign":
                    format!("amount=1&extension={key}&note=a&scene={{\"user_ip\":\"9\"}}&ts=&user_ip=198.51.100.99"),
                "list": ["user_ip=198.51.100.99&x=1", { "user_ip": "198.51.100.99", "session_key": "k" }],
            },
        });
        assert_eq!(
            masked_answer(answer.to_string().as_bytes()),
            json!({
                "err_no": 100_200_103,
                "err_tips": "sign: *** came",
                "data": {
                    "bytes": 9,
                    "string_to_sign": "amount=1&extension=B7Y0...&note=a&scene=***&ts=&user_ip=***",
                    "list": ["user_ip=***&x=1", { "user_ip": "***", "session_key": "***" }],
                },
            })
        );
    }
}
