//! An OpenID Connect provider in the test's process: discovery, keys, and a token for each code, once. Tests write
//! the tokens themselves, so that every part of one can be wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use minitill::config::{Config, Oidc};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use url::Url;

use crate::support::NOW;

pub(super) const CLIENT_ID: &str = "till";
pub(super) const CLIENT_SECRET: &str = "the tests' secret of the client";
pub(super) const REDIRECT_URL: &str = "http://localhost/console/sign-in/callback";

#[derive(Clone)]
pub(super) struct Provider {
    pub(super) issuer: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    issuer: String,
    /// The key that it signs with and shows.
    key: u8,
    /// The token and the PKCE challenge of each code.
    codes: HashMap<String, (String, String)>,
    /// How often it was asked for its keys.
    asked: u32,
}

/// A token before it is signed.
pub(super) struct Token {
    pub(super) header: Value,
    pub(super) claims: Value,
    /// The signing key; 0 signs with the client secret, as HS256 does.
    pub(super) key: u8,
}

/// The seconds of the test's clock.
pub(super) fn now() -> i64 {
    NOW / 1000
}

impl Provider {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let shared = Shared { issuer: issuer.clone(), key: 1, codes: HashMap::new(), asked: 0 };
        let shared = Arc::new(Mutex::new(shared));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { issuer, shared }
    }

    /// The settings of a till that uses the provider.
    pub(super) fn settings(&self) -> impl FnOnce(&mut Config) + use<> {
        settings_of(self.issuer.clone())
    }

    /// A code for a sign-in that a till began with this address. `change` makes the token wrong.
    pub(super) fn code(&self, address: &Url, change: impl FnOnce(&mut Token)) -> String {
        let asked: HashMap<_, _> = address.query_pairs().into_owned().collect();
        let mut shared = self.shared.lock().unwrap();
        let mut token = Token {
            header: json!({ "alg": "ES256", "kid": shared.key.to_string(), "typ": "JWT" }),
            claims: json!({
                "iss": self.issuer, "aud": CLIENT_ID, "sub": "subject-1", "nonce": asked["nonce"],
                "iat": now(), "exp": now() + 300, "preferred_username": "Alice", "groups": ["staff", "till-admins"],
            }),
            key: shared.key,
        };
        change(&mut token);
        let code = format!("code-{}", shared.codes.len());
        shared.codes.insert(code.clone(), (token.signed(), asked["code_challenge"].clone()));
        code
    }

    /// It signs with another key from now on, and shows that one.
    pub(super) fn rotate(&self) {
        self.shared.lock().unwrap().key += 1;
    }

    pub(super) fn asked(&self) -> u32 {
        self.shared.lock().unwrap().asked
    }
}

pub(super) fn settings_of(issuer: String) -> impl FnOnce(&mut Config) + use<> {
    move |config| {
        config.oidc = Oidc {
            issuer,
            client_id: CLIENT_ID.to_owned(),
            client_secret: domain::secret::Secret::new(CLIENT_SECRET.to_owned()),
            redirect_url: REDIRECT_URL.to_owned(),
            groups_claim: "groups".to_owned(),
            admin_group: "till-admins".to_owned(),
            developer_group: "till-developers".to_owned(),
            payments_group: "till-payments".to_owned(),
            finance_group: "till-finance".to_owned(),
            support_group: "till-support".to_owned(),
            viewer_group: "till-viewers".to_owned(),
        };
    }
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number; 32]).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Token {
    fn signed(&self) -> String {
        let text = format!("{}.{}", encoded(self.header.to_string()), encoded(self.claims.to_string()));
        if self.header["alg"] == "none" {
            return format!("{text}.");
        }
        if self.key == 0 {
            let mac = Hmac::<Sha256>::new_from_slice(CLIENT_SECRET.as_bytes()).unwrap();
            return format!("{text}.{}", encoded(mac.chain_update(&text).finalize().into_bytes()));
        }
        let signature: Signature = key(self.key).sign(text.as_bytes());
        format!("{text}.{}", encoded(signature.to_bytes()))
    }
}

type Known = State<Arc<Mutex<Shared>>>;
type Said = (StatusCode, [(&'static str, &'static str); 1], String);

fn said(status: StatusCode, json: &Value) -> Said {
    (status, [("content-type", "application/json")], json.to_string())
}

async fn discovery(State(shared): Known) -> Said {
    let issuer = shared.lock().unwrap().issuer.clone();
    let at = |path: &str| format!("{issuer}{path}");
    let metadata = json!({
        "issuer": issuer, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "jwks_uri": at("/keys"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "HS256"], "scopes_supported": ["openid", "profile", "groups"],
    });
    said(StatusCode::OK, &metadata)
}

async fn keys(State(shared): Known) -> Said {
    let mut shared = shared.lock().unwrap();
    shared.asked += 1;
    let point = key(shared.key).verifying_key().to_sec1_point(false);
    let (x, y) = (encoded(point.x().unwrap()), encoded(point.y().unwrap()));
    let kid = shared.key.to_string();
    let key = json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": x, "y": y });
    said(StatusCode::OK, &json!({ "keys": [key] }))
}

/// A token for a code, once, to the client and the sign-in that the code is for.
async fn token(State(shared): Known, headers: HeaderMap, body: Bytes) -> Said {
    let fields: HashMap<_, _> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let secret = form_urlencoded::byte_serialize(CLIENT_SECRET.as_bytes()).collect::<String>();
    let client = format!("Basic {}", BASE64_STANDARD.encode(format!("{CLIENT_ID}:{secret}")));
    let is_client = headers.get("authorization").is_some_and(|value| value == client.as_str());
    let is_code = field("grant_type") == "authorization_code" && field("redirect_uri") == REDIRECT_URL;
    let known = shared.lock().unwrap().codes.remove(field("code"));
    let challenge = encoded(Sha256::digest(field("code_verifier")));
    match known.filter(|known| is_client && is_code && known.1 == challenge) {
        Some((id_token, _)) => {
            let token = json!({ "access_token": "a", "token_type": "Bearer", "id_token": id_token });
            said(StatusCode::OK, &token)
        }
        None => said(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_grant" })),
    }
}
