//! The admin API (docs/admin-api.md), on the operator's listener.

mod answers;
mod examples;
mod idempotency;
mod keys;
mod many_credits;
mod routes;

use domain::console_user::Role;
use domain::ids::ApiKeyName;
use domain::operation::key::{ApiKeyCommand, NewApiKey};
use domain::rights::Rights;
use serde_json::Value;
use store::{OperatorLogFilter, OperatorLogLine};

use crate::support::{Answer, Request, TestTill, operator};

/// A caller of the admin API.
pub(crate) struct Caller<'a> {
    till: &'a TestTill,
    pub(super) key: String,
}

impl<'a> Caller<'a> {
    pub(crate) async fn admin(till: &'a TestTill) -> Self {
        Self::new(till, "backend", Role::Admin).await
    }

    pub(crate) async fn new(till: &'a TestTill, name: &str, role: Role) -> Self {
        Self::of(till, name, role.into()).await
    }

    /// A caller whose key has these rights.
    pub(crate) async fn of(till: &'a TestTill, name: &str, rights: Rights) -> Self {
        let name = ApiKeyName::parse(name).unwrap();
        let command = ApiKeyCommand::Create(NewApiKey::new(name, rights));
        let made = till.store.change_api_keys(&operator(), command).await.unwrap();
        let key = made.api_key.unwrap().expose().to_owned();
        Self { till, key }
    }

    /// A caller with this key.
    pub(crate) fn with(till: &'a TestTill, key: String) -> Self {
        Self { till, key }
    }

    /// A request with the caller's key.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, &format!("/admin/v1{path}"))
            .header("authorization", &format!("Bearer {}", self.key))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send(self.till.operator_address).await
    }

    /// A write with a body and, where one is given, an idempotency key.
    pub(crate) async fn send(&self, method: &str, path: &str, once: Option<&str>, body: &Value) -> Answer {
        self.write(method, path, once, body).send(self.till.operator_address).await
    }

    pub(super) fn write(&self, method: &str, path: &str, once: Option<&str>, body: &Value) -> Request {
        let request = self.request(method, path).header("content-type", "application/json");
        let request = match once {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        request.body(body.to_string())
    }

    /// A DELETE, which has no body.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path).send(self.till.operator_address).await
    }

    /// A POST that takes effect once.
    pub(crate) async fn post(&self, path: &str, once: &str, body: Value) -> Answer {
        self.send("POST", path, Some(once), &body).await
    }
}

pub(super) async fn revoke(till: &TestTill, name: &str) {
    let name = ApiKeyName::parse(name).unwrap();
    till.store.change_api_keys(&operator(), ApiKeyCommand::Revoke(name)).await.unwrap();
}

/// A success with exactly this body.
#[track_caller]
pub(crate) fn assert_answer(answer: &Answer, status: u16, body: &Value) {
    assert_eq!((answer.status, &answer.json()), (status, body), "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("x-request-id").is_some());
}

/// A problem of this kind with this detail.
#[track_caller]
pub(crate) fn assert_problem(answer: &Answer, status: u16, name: &str, detail: &str) {
    let body = answer.json();
    assert_eq!((answer.status, &body["status"]), (status, &Value::from(status)), "{}", answer.body);
    assert_eq!(
        (&body["type"], &body["detail"]),
        (&format!("/docs/admin#problem-{name}").into(), &detail.into())
    );
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(body["instance"].as_str(), answer.header("x-request-id"));
    assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()));
}

/// What API keys did, oldest first.
pub(super) async fn log(till: &TestTill) -> Vec<OperatorLogLine> {
    let lines = till.store.operator_log(&OperatorLogFilter::default(), 1000).await.unwrap();
    lines.into_iter().filter(|line| line.operator_kind == "api_key").collect()
}
