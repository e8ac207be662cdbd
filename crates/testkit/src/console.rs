//! A browser that is signed in to the console.

use std::net::Ipv4Addr;
use std::time::Instant;

use domain::console_user::{ConsoleUserName, PasswordHash, Role};
use domain::operation::user::UserCommand;
use domain::rights::Rights;
use store::NewSession;
use store::secrets::{random_token, token_hash};

use super::{Answer, PATIENCE, Request, TestTill, form, operator};

/// The origin of the console, as [`Request`] asks for it.
pub const ORIGIN: &str = "http://localhost";

/// A text that does something wherever it is not shown as text.
pub const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";
/// The same as a page must write it.
pub const ESCAPED: &str = "&#60;img src=x onerror=alert(1)&#62;&#34;&#39;&#38;";

/// A user's browser.
pub struct Browser<'a> {
    till: &'a TestTill,
    /// The session's token.
    pub token: String,
}

impl TestTill {
    /// A browser that holds the token of a session.
    pub fn browser_with(&self, token: String) -> Browser<'_> {
        Browser { till: self, token }
    }

    /// A browser of a fresh user with this role. It did not go through the sign-in, which takes long.
    pub async fn browser(&self, role: Role) -> Browser<'_> {
        self.browser_of(role.into()).await
    }

    /// The same for a user with these rights.
    pub async fn browser_of(&self, rights: Rights) -> Browser<'_> {
        let name = format!("{}-{}", rights.role.as_str(), &random_token()[..8]);
        let name = ConsoleUserName::parse(&name).unwrap();
        let password = PasswordHash::kept("none fits".to_owned());
        self.store
            .change_console_user(&operator(), &name, UserCommand::Add(rights, password.clone()))
            .await
            .unwrap();
        let token = random_token();
        assert!(self.store.begin_console_session(&name, &password, session(&token)).await.unwrap());
        Browser { till: self, token }
    }
}

/// A session that begins with this token.
pub fn session(token: &str) -> NewSession {
    NewSession { token_hash: token_hash(token), client: Ipv4Addr::LOCALHOST.into(), instead_of: None }
}

impl Browser<'_> {
    /// Asks for a page.
    pub async fn get(&self, path: &str) -> Answer {
        let started = Instant::now();
        let mut answer = self.send(Request::get(path)).await;
        // A page whose report is being made (contract 8.6.59).
        while answer.body.contains("<body data-refresh=\"1\"") {
            assert!(started.elapsed() < PATIENCE, "expected the report of {path}");
            answer = self.send(Request::get(path)).await;
        }
        answer
    }

    /// Sends a form from a page of the console, with the session's token.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let csrf = self.csrf_token().await;
        let fields: Vec<_> = [("csrf", csrf.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.send(Request::post(path).header("origin", ORIGIN).body(form(&fields))).await
    }

    /// Sends a request with the session's cookie.
    pub async fn send(&self, request: Request) -> Answer {
        let cookie = format!("theme=dark; minitill_console={}", self.token);
        request.header("cookie", &cookie).send(self.till.operator_address).await
    }

    /// What the session's forms carry.
    pub async fn csrf_token(&self) -> String {
        let page = self.get("/console/account").await;
        let (_, rest) = page.body.split_once("name=\"csrf\" value=\"").expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }
}
