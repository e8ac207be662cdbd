//! The path of a request: how slashes are normalised, and how an unknown path is shown (contract 2.2.6 and 2.4).

use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// The most bytes of a path that an answer or the log repeats.
const SHOWN_BYTES_MAX: usize = 200;
/// A run of this many characters of an identifier may be a token that a client put behind the path.
const SECRET_CHARS_MIN: usize = 32;
/// How many characters of such a run are shown.
const SECRET_CHARS_SHOWN: usize = 4;

/// Makes one slash of a run of slashes, and removes the slash at the end: real clients send both.
pub(super) fn normalise(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    let ends_in_slash = path.len() > 1 && path.ends_with('/');
    if !ends_in_slash && !path.contains("//") {
        return request;
    }
    let mut normal: String = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    if let Some(query) = request.uri().query() {
        normal.push('?');
        normal.push_str(query);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(normal).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

/// An unknown path as the answer and the log repeat it: cut, escaped, and without what may be a token. A query that no `?`
/// began ends where it names a credential.
pub(super) fn shown(path: &str) -> String {
    let path = match credential_at(path) {
        Some(at) => &path[..at],
        None => path,
    };
    let is_of_identifier =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let mut shown = String::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let run = rest.find(|character| !is_of_identifier(character)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(run.max(first.len_utf8()));
        rest = after;
        match piece.len() {
            SECRET_CHARS_MIN.. => {
                let _ = write!(shown, "{}...", &piece[..SECRET_CHARS_SHOWN]);
            }
            _ => shown.extend(piece.chars().flat_map(char::escape_debug)),
        }
    }
    if shown.len() > SHOWN_BYTES_MAX {
        shown.truncate(shown.floor_char_boundary(SHOWN_BYTES_MAX));
        shown.push_str("...");
    }
    shown
}

/// The position at which the value of a credential begins.
fn credential_at(path: &str) -> Option<usize> {
    let lower = path.to_ascii_lowercase();
    let values = ["access_token", "accesstoken", "app_secret", "appsecret", "js_code", "sign"];
    let ends = values.iter().flat_map(|name| ["=", "%3d"].map(|equals| format!("{name}{equals}")));
    ends.filter_map(|end| Some(lower.find(&end)? + end.len())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &str) -> String {
        normalise(Request::get(path).body(Body::empty()).unwrap()).uri().to_string()
    }

    #[test]
    fn runs_of_slashes_count_as_one_and_one_at_the_end_as_none() {
        for (path, expected) in [
            ("/a/b", "/a/b"),
            ("//a///b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/a/b//?x=//&y=/", "/a/b?x=//&y=/"),
            ("/", "/"),
            ("///", "/"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }

    #[test]
    fn an_unknown_path_is_shown_without_tokens_and_cut() {
        let hidden = ["/oauth2/access_token/", &"ab_-".repeat(8), "/x"].concat();
        assert_eq!(shown(&hidden), "/oauth2/access_token/ab_-.../x");
        let visible = format!("/{}", "a".repeat(31));
        assert_eq!(shown(&visible), visible);
        assert_eq!(shown("/\u{1}\"é"), r#"/\u{1}\"é"#);
        assert_eq!(shown(&"/a".repeat(200)), format!("{}...", "/a".repeat(100)));
        let joined = shown("/oauth2/access_token&app_id=a1&app_secret=short");
        assert_eq!(joined, "/oauth2/access_token&app_id=a1&app_secret=");
        assert_eq!(shown("/pay%3FappSecret%3Dshort"), "/pay%3FappSecret%3D");
        // A character is never cut in two.
        assert_eq!(shown(&format!("/{}", "é".repeat(200))), format!("/{}...", "é".repeat(99)));
    }
}
