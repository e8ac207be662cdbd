//! Sign-in by OpenID Connect (contract 8.6.20 to 8.6.25): authorization code flow with PKCE, state and nonce. The
//! crate `openidconnect` speaks the protocol and checks ID tokens. No cause of a fault repeats what the provider
//! sent.

mod discovery;
mod protocol;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use domain::console_user::{ConsoleUserName, ProvidedIdentity, ProvidedUser, Role, SUBJECT_BYTES_MAX};
use guarded_fetch::bulkhead::Bulkhead;
use guarded_fetch::{FetchError, ServiceClient};
use hmac::{Hmac, KeyInit as _, Mac as _};
use openidconnect::core::{CoreAuthPrompt, CoreAuthenticationFlow};
use openidconnect::{
    AuthorizationCode, ClaimsVerificationError, CsrfToken, IssuerUrl, Nonce, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError, TokenResponse as _,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

use self::discovery::{ANSWER_TIMEOUT, ASKED_EVERY, Discovery, KNOWN_FOR};
use self::protocol::{Claims, client, refusal, verifier};
use crate::config;

/// Codes that are exchanged at once, of all browsers and of one address. Anybody can send codes.
const EXCHANGES_MAX: u32 = 8;
const EXCHANGES_PER_ADDRESS_MAX: u32 = 2;
/// How far the clock of the provider may be ahead. A proof with a later time would last for longer than it may.
const AHEAD_MILLIS_MAX: i64 = 60_000;

/// Why nobody is signed in. The cause is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OidcFault {
    /// The provider does not answer, or not as one.
    Unavailable(&'static str),
    /// The provider does not accept the code, or its token does not hold.
    Refused(&'static str),
    /// The user is in no group that has a role.
    NoRole(ProvidedIdentity),
    /// Too many codes are being exchanged.
    Busy,
}

/// The random secret of one sign-in, which the browser keeps. State, nonce and PKCE verifier are made of it. None
/// of them shows the secret or another one.
#[derive(Clone)]
pub struct SignInSecret(pub String);

impl SignInSecret {
    /// The text that the browser brings back from the provider.
    #[must_use]
    pub fn state(&self) -> String {
        self.derived(b"state")
    }

    fn nonce(&self) -> Nonce {
        Nonce::new(self.derived(b"nonce"))
    }

    fn verifier(&self) -> PkceCodeVerifier {
        PkceCodeVerifier::new(self.derived(b"verifier"))
    }

    fn derived(&self, purpose: &[u8]) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes a key of any length");
        hex::encode(mac.chain_update(purpose).finalize().into_bytes())
    }
}

/// The client of the provider that the settings name.
pub struct SignInProvider {
    settings: config::Oidc,
    redirect_url: RedirectUrl,
    discovery: Discovery,
    clock: Arc<dyn Clock>,
    exchanges: Bulkhead,
}

impl SignInProvider {
    /// The client of the settings; `None` if they name no provider. It asks the provider nothing before the first
    /// sign-in.
    #[must_use]
    pub fn new(settings: &config::Oidc, service: ServiceClient, clock: Arc<dyn Clock>) -> Option<Self> {
        // Both are URLs in checked settings. An empty issuer is none.
        let issuer = IssuerUrl::new(settings.issuer.clone()).ok()?;
        Some(Self {
            redirect_url: RedirectUrl::new(settings.redirect_url.clone()).ok()?,
            settings: settings.clone(),
            discovery: Discovery::new(issuer, service, Arc::clone(&clock)),
            clock,
            exchanges: Bulkhead::new(EXCHANGES_MAX, EXCHANGES_PER_ADDRESS_MAX),
        })
    }

    /// Whether browsers come to the console by https.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.redirect_url.url().scheme() == "https"
    }

    /// The address at the provider to which a browser goes to sign in. With `again` the provider must ask the user
    /// for a proof, even in the middle of a session there.
    ///
    /// # Errors
    /// The provider does not say where that is.
    pub async fn address(&self, secret: &SignInSecret, again: bool) -> Result<Url, OidcFault> {
        let provider = self.discovery.provider(KNOWN_FOR).await?;
        let client = client(&self.settings, &provider).set_redirect_uri(self.redirect_url.clone());
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let (state, nonce) = (CsrfToken::new(secret.state()), secret.nonce());
        let mut request = client.authorize_url(flow, || state, || nonce);
        // Some providers refuse a scope that they do not list.
        let known = provider.scopes_supported().map(Vec::as_slice).unwrap_or_default();
        for scope in ["profile", "email", self.settings.groups_claim.as_str()] {
            if known.iter().any(|known| known.as_str() == scope) {
                request = request.add_scope(Scope::new(scope.to_owned()));
            }
        }
        if again {
            request = request.set_max_age(Duration::ZERO).add_prompt(CoreAuthPrompt::Login);
        }
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&secret.verifier());
        let (address, _, _) = request.set_pkce_challenge(challenge).url();
        if self.discovery.is_private(address.scheme()) {
            Ok(address)
        } else {
            Err(OidcFault::Unavailable(FetchError::Scheme.cause()))
        }
    }

    /// The user whom the provider has signed in, for the code that the browser of `address` brought.
    ///
    /// # Errors
    /// The provider does not answer or does not accept the code, its token does not hold, or the user has no role.
    pub async fn user(
        &self,
        address: IpAddr,
        secret: &SignInSecret,
        code: &str,
    ) -> Result<ProvidedUser, OidcFault> {
        let turn = timeout(ANSWER_TIMEOUT, self.exchanges.acquire(&address.to_string(), 1)).await;
        let turn = turn.map_err(|_| OidcFault::Busy)?;
        let provider = self.discovery.provider(KNOWN_FOR).await?;
        let client = client(&self.settings, &provider).set_redirect_uri(self.redirect_url.clone());
        let exchange = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let exchange = exchange.map_err(|_| OidcFault::Unavailable("no_token_endpoint"))?;
        let ask = self.discovery.asker();
        let answer = exchange.set_pkce_verifier(secret.verifier()).request_async(&ask).await;
        let answer = answer.map_err(|error| match error {
            RequestTokenError::Request(FetchError::Status) => OidcFault::Refused("code_not_accepted"),
            RequestTokenError::Request(error) => OidcFault::Unavailable(error.cause()),
            _ => OidcFault::Refused("token_unreadable"),
        })?;
        drop(turn);
        let token = answer.id_token().ok_or(OidcFault::Refused("no_id_token"))?;
        let nonce = secret.nonce();
        let judged = match token.claims(&verifier(&self.settings, &provider, &*self.clock), &nonce) {
            // The provider may have a new key.
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                let renewed = self.discovery.provider(ASKED_EVERY).await?;
                token.claims(&verifier(&self.settings, &renewed, &*self.clock), &nonce)
            }
            judged => judged,
        };
        self.user_of(judged.map_err(|error| refusal(&error))?)
    }

    fn user_of(&self, claims: &Claims) -> Result<ProvidedUser, OidcFault> {
        let (issuer, subject) = (self.settings.issuer.clone(), claims.subject().to_string());
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
            return Err(OidcFault::Refused("token_unusable"));
        }
        let preferred = claims.preferred_username().map(|name| name.to_ascii_lowercase());
        let email = claims.email().map(|email| email.to_ascii_lowercase());
        // Nobody else has this one.
        let own = format!("oidc-{}", &hex::encode(Sha256::digest(format!("{issuer} {subject}")))[..16]);
        let names = [preferred, email, Some(own)].into_iter().flatten();
        let names = names.filter_map(|name| ConsoleUserName::parse(&name).ok()).collect();
        let now = self.clock.unix_millis();
        let proved = claims.auth_time().map(|at| at.timestamp_millis());
        let not_before = claims.additional_claims().all.get("nbf").filter(|at| !at.is_null()).map(millis);
        let times = [Some(claims.issue_time().timestamp_millis()), proved, not_before];
        if times.into_iter().flatten().any(|at| at.saturating_sub(now) > AHEAD_MILLIS_MAX) {
            return Err(OidcFault::Refused("token_of_the_future"));
        }
        // The last: whoever has no role loses their sessions, and only a token that holds says so.
        let role = self.role_in(claims.additional_claims().all.get(&self.settings.groups_claim));
        let Some(role) = role else { return Err(OidcFault::NoRole(ProvidedIdentity { issuer, subject })) };
        let authenticated =
            proved.map(|at| Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or_default()));
        Ok(ProvidedUser { issuer, subject, names, role, authenticated })
    }

    /// The role that these groups give: a list of texts, or one text.
    fn role_in(&self, groups: Option<&Value>) -> Option<Role> {
        let has = |group: &str| {
            !group.is_empty()
                && match groups {
                    Some(Value::Array(all)) => all.iter().any(|one| one == group),
                    only => only.is_some_and(|only| only == group),
                }
        };
        self.settings.groups().into_iter().find(|(group, _)| has(group)).map(|(_, role)| role)
    }
}

/// The milliseconds of a token's time, which may have a fraction. What is no time is never reached.
fn millis(seconds: &Value) -> i64 {
    let since = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(i64::MAX)
}
