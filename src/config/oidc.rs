//! Sign-in to the console by OpenID Connect: `[oidc]`.

use anyhow::{Result, ensure};
use domain::console_user::Role;
use domain::secret::Secret;
use serde::Deserialize;
use url::{Host, Url};

use super::Config;

/// The path to which the provider sends browsers back.
pub const OIDC_CALLBACK_PATH: &str = "/console/sign-in/callback";

/// `[oidc]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each setting is documented where its default stands, in config/default.toml"
)]
pub struct Oidc {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Secret,
    pub redirect_url: String,
    pub groups_claim: String,
    pub admin_group: String,
    pub developer_group: String,
    pub payments_group: String,
    pub finance_group: String,
    pub support_group: String,
    pub viewer_group: String,
}

impl Oidc {
    /// The provider's host, by which people know it; `None` where the settings name no provider.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        Url::parse(&self.issuer).ok()?.host_str().map(str::to_owned)
    }

    /// The role of each group, the one that counts first first. An empty name is no group.
    #[must_use]
    pub fn groups(&self) -> [(&str, Role); Role::ALL.len()] {
        [
            (&self.admin_group, Role::Admin),
            (&self.developer_group, Role::Developer),
            (&self.payments_group, Role::Payments),
            (&self.finance_group, Role::Finance),
            (&self.support_group, Role::Support),
            (&self.viewer_group, Role::Viewer),
        ]
    }
}

impl Config {
    pub(super) fn check_oidc(&self) -> Result<()> {
        let Oidc { issuer, client_id, redirect_url, groups_claim, .. } = &self.oidc;
        if issuer.is_empty() {
            return Ok(());
        }
        ensure!(
            private_url(issuer).is_some(),
            "oidc.issuer: expected an https URL such as https://login.example.com (http only on this machine)"
        );
        ensure!(!client_id.is_empty(), "oidc.client_id: expected an id, because oidc.issuer is set");
        ensure!(
            private_url(redirect_url).is_some_and(|url| url.path() == OIDC_CALLBACK_PATH),
            "oidc.redirect_url: expected an https URL (http only on this machine) with the path {OIDC_CALLBACK_PATH}"
        );
        ensure!(!groups_claim.is_empty(), "oidc.groups_claim: expected the name of a claim");
        ensure!(
            self.oidc.groups().iter().any(|(group, _)| !group.is_empty()),
            "oidc.admin_group to oidc.viewer_group: expected a group in one of them, because oidc.issuer is set"
        );
        Ok(())
    }
}

/// A URL without user, query and fragment over which nobody on the network can read: https, or http to this
/// machine.
fn private_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    };
    let is_private = url.scheme() == "https" || (url.scheme() == "http" && is_local);
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    (is_private && is_plain && url.fragment().is_none()).then_some(url)
}
