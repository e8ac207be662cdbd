//! The types of `openidconnect` with the claims and the algorithms of ours, and what a token must be.

use domain::clock::Clock;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim,
    CoreIdTokenVerifier, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse,
    CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthType, ClaimsVerificationError, Client, ClientId, ClientSecret,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenClaims, IdTokenFields,
    StandardErrorResponse, StandardTokenResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::{Duration, UNIX_EPOCH};

use super::OidcFault;
use crate::config;

/// Signatures of ID tokens. A shared secret signs none, because every copy of it could.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The claims that OpenID Connect does not define. The groups are one of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OtherClaims {
    #[serde(flatten)]
    pub(super) all: Map<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

pub(super) type Claims = IdTokenClaims<OtherClaims, CoreGenderClaim>;

type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

pub(super) type OidcClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<TokenFields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Minitill as a client of the provider.
pub(super) fn client(settings: &config::Oidc, provider: &CoreProviderMetadata) -> OidcClient {
    let id = ClientId::new(settings.client_id.clone());
    let secret = settings.client_secret.get().map(|secret| ClientSecret::new(secret.to_owned()));
    let methods = provider.token_endpoint_auth_methods_supported();
    let has = |method| methods.is_some_and(|methods| methods.contains(&method));
    let in_body =
        has(CoreClientAuthMethod::ClientSecretPost) && !has(CoreClientAuthMethod::ClientSecretBasic);
    OidcClient::from_provider_metadata(provider.clone(), id, secret).set_auth_type(if in_body {
        AuthType::RequestBody
    } else {
        AuthType::BasicAuth
    })
}

/// Checks signature, issuer, audience, expiry and nonce of a token.
pub(super) fn verifier(
    settings: &config::Oidc,
    provider: &CoreProviderMetadata,
    clock: &dyn Clock,
) -> CoreIdTokenVerifier<'static> {
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(clock.unix_millis()).unwrap_or_default());
    let (id, issuer) = (ClientId::new(settings.client_id.clone()), provider.issuer().clone());
    // Of a public client: then no token counts that the client secret signs.
    let verifier = CoreIdTokenVerifier::new_public_client(id, issuer, provider.jwks().clone());
    verifier.set_allowed_algs(ALGORITHMS).set_time_fn(move || now.into())
}

/// Why a token does not hold. The error itself may repeat parts of the token.
pub(super) fn refusal(error: &ClaimsVerificationError) -> OidcFault {
    OidcFault::Refused(match error {
        ClaimsVerificationError::Expired(_) => "token_expired",
        ClaimsVerificationError::InvalidAudience(_) => "token_for_another_client",
        ClaimsVerificationError::InvalidIssuer(_) => "token_of_another_issuer",
        ClaimsVerificationError::InvalidNonce(_) => "token_of_another_sign_in",
        ClaimsVerificationError::SignatureVerification(_) => "token_signature",
        _ => "token_unusable",
    })
}
