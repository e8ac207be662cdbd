//! The viewer of OpenAPI documents: a page for people with search, samples and, where it can, sending.
//! It is Scalar's API reference, a file of `assets/`, so that a page needs nothing from another host.

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// Version of the viewer; part of its address, so that browsers may cache it for ever.
pub const VERSION: &str = "1.72.1";
/// The viewer, compressed with gzip.
const SCRIPT: &[u8] = include_bytes!("../../assets/scalar-api-reference/standalone.js.gz");
/// Starts the viewer on a page.
const START: &str = include_str!("viewer/start.js");
/// The keys that sign calls of the wallet (contract 2.2.8).
const KEYS: &str = include_str!("viewer/keys.html");
/// Style of what stands around the viewer.
const STYLE: &str = include_str!("viewer/style.css");
/// Scripts come from this server alone and make no code of text. The viewer writes its own styles into the
/// page.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What a page says of sending when it can.
pub const SENDS_IN_EARNEST: &str = "<b>Send request</b> calls this server in earnest.";
/// A page may be cached, and is asked for again when it is shown.
const ASK_AGAIN: &str = "no-cache";
/// The same answer for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The files that every page of the viewer loads.
pub fn files<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let script = async || ([(header::CONTENT_ENCODING, "gzip")], file(SCRIPT, JAVASCRIPT, FOR_EVER));
    Router::new()
        .route(&format!("/docs/viewer-{VERSION}.js"), get(script))
        .route("/docs/start.js", get(async || file(START, JAVASCRIPT, ASK_AGAIN)))
        .route("/docs/style.css", get(async || file(STYLE, "text/css; charset=utf-8", ASK_AGAIN)))
}

/// The answer with a page.
#[must_use]
pub fn response(shown: &ViewerPage<'_>) -> Response {
    let headers = [(header::CONTENT_SECURITY_POLICY, POLICY), (header::REFERRER_POLICY, "no-referrer")];
    (headers, file(page(shown), "text/html; charset=utf-8", ASK_AGAIN)).into_response()
}

fn file(content: impl Into<Body>, media_type: &'static str, caching: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, caching),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content.into()).into_response()
}

/// The content of a page.
#[derive(Debug, Clone, Copy)]
pub struct ViewerPage<'a> {
    /// Its title.
    pub title: &'a str,
    /// The document, as the page reaches it.
    pub document: &'a str,
    /// The folder of the viewer's files, likewise.
    pub files: &'a str,
    /// The page of the other API and its name, where there is one.
    pub other: Option<(&'a str, &'a str)>,
    /// Whether calls are sent to the server that the page comes from; else the page cannot send any.
    pub sends: bool,
    /// Whether the page has a form for the keys that sign calls of the wallet.
    pub signs: bool,
    /// What is said of sending, in HTML.
    pub note: &'a str,
    /// Places that addresses lead to: the name of each, and its words in HTML.
    pub places: &'a [(String, String)],
}

/// The page, in HTML.
fn page(page: &ViewerPage<'_>) -> String {
    let ViewerPage { title, document, files, other, sends, signs, note, places } = page;
    let other = other.map(|(address, name)| format!(", <a href=\"{address}\">{name}</a>"));
    let other = other.unwrap_or_default();
    let place = |(name, words): &(String, String)| format!("<p class=\"place\" id=\"{name}\">{words}</p>\n");
    let places = places.iter().map(place).collect::<Vec<_>>().concat();
    let keys = if *signs { KEYS } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"{files}style.css\">\n</head>\n<body>\n\
         <header>\n<p>{note} <a href=\"{document}\">OpenAPI document</a>{other}.</p>\n\
         {keys}{places}</header>\n\
         <noscript><p>This page needs JavaScript.</p></noscript>\n\
         <main id=\"viewer\" data-document=\"{document}\" data-sends=\"{sends}\"></main>\n\
         <script src=\"{files}viewer-{VERSION}.js\"></script>\n<script src=\"{files}start.js\"></script>\n\
         </body>\n</html>\n"
    )
}
