//! The style sheet of the console, its scripts, and the icon of the browser tab.

use std::sync::LazyLock;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use super::route::{ConsoleRoute, routes};

const STYLE: &str =
    concat!(include_str!("../../../assets/uplot/uPlot.min.css"), "\n", include_str!("style.css"));
const SCRIPT: &str = include_str!("keys.js");
/// The charts: uPlot, a file of `assets/`, and what draws with it.
const PLOTS: &str =
    concat!(include_str!("../../../assets/uplot/uPlot.iife.min.js"), "\n", include_str!("plots.js"));
const ICON: &str = include_str!("icon.svg");

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    anyone("GET", "/console/style.css") => get(style);
    anyone("GET", "/console/keys.js") => get(script);
    anyone("GET", "/console/plots.js") => get(plots);
    anyone("GET", "/console/icon.svg") => get(icon);
};

async fn style(headers: HeaderMap) -> Response {
    asset(&headers, STYLE, "text/css; charset=utf-8")
}

async fn script(headers: HeaderMap) -> Response {
    asset(&headers, SCRIPT, "text/javascript; charset=utf-8")
}

async fn plots(headers: HeaderMap) -> Response {
    asset(&headers, PLOTS, "text/javascript; charset=utf-8")
}

async fn icon(headers: HeaderMap) -> Response {
    asset(&headers, ICON, "image/svg+xml")
}

/// The query of the addresses, a hash of the content: new content gets a new address.
pub(super) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| hex::encode(&Sha256::digest([STYLE, SCRIPT, PLOTS, ICON].concat())[..8]));
    &VERSION
}

fn asset(headers: &HeaderMap, text: &'static str, media_type: &'static str) -> Response {
    let tag = format!("\"{}\"", version());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let (status, body) = if is_known { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, text) };
    let caching = "public, max-age=31536000, immutable";
    let headers =
        [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, caching), (header::ETAG, tag.as_str())];
    (status, headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::STYLE;

    /// The relative luminance of a colour such as `#0b6b63` (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Rule 8.6.26: the name on the band can be read in both themes (AA), and the band is seen beside the page.
    #[test]
    fn the_band_has_contrast_in_both_themes() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 0.01 && contrast("#777777", "#ffffff") < 4.5);
        let themes: Vec<&str> =
            STYLE.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
        // That of print has no band.
        let themes: Vec<&str> = themes.into_iter().filter(|theme| theme.contains("--band-")).collect();
        assert_eq!(themes.len(), 2, "light and dark");
        for theme in themes {
            let value = |name: &str| {
                let (_, rest) = theme.split_once(&format!(" --{name}: ")).unwrap();
                rest.split(';').next().unwrap()
            };
            for colour in crate::config::Colour::WORDS.into_iter().skip(1) {
                let band = value(&format!("band-{colour}"));
                assert!(contrast(band, value("on-band")) >= 4.5, "{colour}: {band}");
                assert!(contrast(band, value("panel")) >= 3.0, "{colour}: {band}");
                assert!(STYLE.contains(&format!(".band.{colour} {{ background: var(--band-{colour}); }}")));
            }
        }
    }
}
