//! The names by which the operator's listener may be called (contract 1.2.6). A page of another site that
//! lets its own name lead here, as DNS rebinding does, is refused.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use domain::fields::shown;
use domain::language::Language;
use domain::text::Text;
use http_server::TlsIdentity;

use crate::http::refusal::{Envelope, Refusal};
use crate::state::AppState;

/// Passes a request with one `Host` header that names this listener.
///
/// 400 for none or two, and 421 for a name that is not this listener's.
pub(super) async fn check(
    State((state, tls)): State<(AppState, Option<TlsIdentity>)>,
    request: Request,
    next: Next,
) -> Response {
    let mut sent = request.headers().get_all(header::HOST).iter();
    let refused = match (sent.next().map(|host| host.to_str()), sent.next()) {
        (Some(Ok(host)), None) => {
            // The authority of an absolute address counts as well: a client may send both.
            let also = request.uri().authority().map(Authority::as_str);
            [Some(host), also].into_iter().flatten().find_map(|host| misfit(&state, tls.as_ref(), host))
        }
        _ => Some(Refusal::transport(StatusCode::BAD_REQUEST, "host: expected one Host header")),
    };
    match refused {
        None => next.run(request).await,
        Some(refusal) => refusal.render(Envelope::Open, Language::En),
    }
}

/// The refusal of a name that is not this listener's.
fn misfit(state: &AppState, tls: Option<&TlsIdentity>, authority: &str) -> Option<Refusal> {
    let host = without_port(authority).trim_end_matches('.').to_ascii_lowercase();
    let is_known = is_local(&host)
        || state.config.ops.hosts.iter().any(|known| known.eq_ignore_ascii_case(&host))
        || tls.is_some_and(|tls| tls.is_valid_for(&host));
    let text = || {
        let got = shown(&host);
        // Programs get English from this listener.
        Text::same(format_args!("host: expected a name of this listener (setting ops.hosts), got {got}"))
    };
    (!is_known).then(|| Refusal::transport(StatusCode::MISDIRECTED_REQUEST, text()))
}

/// `localhost` and address literals: no name of another site leads to them.
fn is_local(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || literal.parse::<IpAddr>().is_ok()
}

/// The host of an authority. An IPv6 literal stands in brackets.
fn without_port(authority: &str) -> &str {
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    authority[end..].find(':').map_or(authority, |colon| &authority[..end + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_without_its_port() {
        for (authority, host) in [
            ("till.example:8081", "till.example"),
            ("till.example", "till.example"),
            ("[::1]:8081", "[::1]"),
            ("[::1]", "[::1]"),
            ("127.0.0.1:1", "127.0.0.1"),
        ] {
            assert_eq!(without_port(authority), host);
        }
    }

    #[test]
    fn only_localhost_and_literals_are_local() {
        for host in ["localhost", "127.0.0.1", "10.2.3.4", "[::1]", "[2001:db8::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.example", "0x7f.1"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
