//! Identifiers and integers against a second definition of each: what is accepted is accepted by both,
//! and reads as it came.

#![no_main]

use libfuzzer_sys::fuzz_target;
use domain::fields::{is_canonical_integer, parse_integer};
use domain::ids::{
    AppId, BizNo, ImgId, OpenId, OrderNo, Os, PagePath, ProductCity, WebUrl, ZoneId,
};

/// Between `min` and `max` characters, each a letter of ASCII, a digit or one of `others`.
fn is_made_of(text: &str, min: usize, max: usize, others: &str) -> bool {
    let count = text.chars().count();
    count >= min && count <= max && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

macro_rules! check {
    ($text:expr, $name:ident, $expected:expr) => {
        let parsed = $name::parse($text);
        assert_eq!(parsed.is_ok(), $expected, "{} {:?}", stringify!($name), $text);
        if let Ok(parsed) = parsed {
            assert_eq!(parsed.as_str(), $text);
            assert_eq!($text.parse::<$name>().as_ref(), Ok(&parsed));
        }
    };
}

fuzz_target!(|text: &str| {
    check!(text, AppId, is_made_of(text, 1, 64, "_-"));
    check!(text, OpenId, is_made_of(text, 1, 64, "_-"));
    check!(text, BizNo, is_made_of(text, 1, 63, ""));
    check!(text, Os, is_made_of(text, 1, 32, "_-."));
    check!(text, OrderNo, is_made_of(text, 6, 32, "_-*"));
    let is_hex = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    check!(text, ImgId, text.chars().count() == 48 && text.chars().all(is_hex));
    let parts = text.find('_').map(|at| (at, text.len() - at - 1));
    let is_clean = text.len() <= 128 && !text.chars().any(|c| c == '&' || c == '=' || c.is_control());
    check!(text, ZoneId, is_clean && parts.is_some_and(|(zone, role)| zone > 0 && role > 0));
    let characters = text.chars().count();
    check!(text, ProductCity, characters > 0 && characters < 16 && !text.contains('\0'));

    if let Ok(url) = WebUrl::parse(text) {
        let scheme = url.as_str().split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        assert!(url.as_str() == text && matches!(scheme.as_deref(), Some("http" | "https")));
    }
    if let Ok(page) = PagePath::parse(text) {
        assert!(
            !page.as_str().is_empty() && !page.as_str().contains(['?', '#']) && page.as_str().len() <= 1024
        );
        assert!(text.trim_start_matches('/').starts_with(page.as_str().trim_start_matches('/')));
        assert_eq!(PagePath::parse(&format!("/{}?x", page.as_str())), Ok(page));
    }

    let as_written = |value: &i64| *value >= 0 && value.to_string() == text;
    let integer = text.parse::<i64>().ok().filter(as_written);
    assert_eq!(parse_integer(text, 0, i64::MAX, "").ok(), integer);
    assert_eq!(parse_integer(text, 6, 32, "").ok(), integer.filter(|value| (6..=32).contains(value)));
    assert!(integer.is_none() || is_canonical_integer(text));
});
