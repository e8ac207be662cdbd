//! Branding of the console: how one installation is told from others (contract 8.6.26).

use std::collections::BTreeSet;
use std::time::Duration;

use domain::console_user::Role;
use minitill::config::{Colour, InstallationName};
use minitill::operator::console::routes;

use super::path;
use crate::support::{Request, TestTill};

/// Rule 8.6.26: the name stands in the title and in the header of each page, and on the band.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_says_which_installation_it_is() {
    let till = TestTill::start_with(|config| {
        config.console.name = InstallationName::parse("<b>Live</b>").unwrap();
        config.console.colour = Colour::Red;
    })
    .await;
    till.app("a1").await;
    let strip = "<div class=\"band red\" aria-hidden=\"true\">&#60;b&#62;Live&#60;/b&#62;</div>";
    let brand = "<p class=\"brand\"><a href=\"/console\" title=\"&#60;b&#62;Live&#60;/b&#62;\">\
                 &#60;b&#62;Live&#60;/b&#62;</a></p>";
    let admin = till.browser(Role::Admin).await;
    let mut pages = vec![Request::get("/console/sign-in").send(till.operator_address).await];
    for route in routes().filter(|route| route.method == "GET") {
        pages.push(admin.get(&path(route)).await);
    }
    pages.push(admin.get("/console/none/such").await);
    pages.push(Request::post("/console/sign-in").send(till.operator_address).await);
    pages.retain(|page| page.header("content-type") == Some("text/html; charset=utf-8"));
    assert!(pages.len() > 25, "{}", pages.len());
    for page in pages {
        for part in [strip, brand, " · &#60;b&#62;Live&#60;/b&#62;</title>"] {
            assert!(page.body.contains(part), "{part} in {}", page.body);
        }
    }
}

/// Rule 8.6.26: without settings there is no band, and the name is the product's.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_no_band_by_default() {
    let till = TestTill::start().await;
    let page = Request::get("/console/sign-in").send(till.operator_address).await.body;
    assert!(page.contains("<title>Sign in · Minitill</title>") && !page.contains("class=\"band"), "{page}");
    assert!(page.contains("<p class=\"brand\"><a href=\"/console\" title=\"Minitill\">Minitill</a></p>"));
}

/// The value of `data-refresh`.
fn refresh(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<body data-refresh=\"")?;
    rest.split('"').next()
}

/// Rule 8.6.6: with `console.refresh` the overview and the lists load themselves again, and no page with a form of a
/// change does.
#[tokio::test(flavor = "multi_thread")]
async fn only_pages_that_show_what_goes_on_load_themselves_again() {
    const LISTS: [&str; 8] = [
        "/console",
        "/console/exchanges",
        "/console/images",
        "/console/log",
        "/console/orders",
        "/console/orders/center",
        "/console/players",
        "/console/topups",
    ];
    let till = TestTill::start_with(|config| config.console.refresh = Duration::from_secs(30)).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 1, 2).await;
    let admin = till.browser(Role::Admin).await;
    let mut found = BTreeSet::new();
    for route in routes().filter(|route| route.method == "GET") {
        let page = admin.get(&path(route)).await;
        if let Some(seconds) = refresh(&page.body) {
            assert_eq!(seconds, "30", "{}", route.path);
            let changes = page.body.matches("method=\"post\"").count();
            assert_eq!(changes, 2, "{}: only sign-out and the language", route.path);
            found.insert(route.path);
        }
    }
    assert_eq!(found, LISTS.into());
    let till = TestTill::start().await;
    assert_eq!(refresh(&till.browser(Role::Admin).await.get("/console").await.body), None);
}

/// Rule 8.6.6: a page that loads itself again does not keep the session alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_is_no_use_of_a_session() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    till.execute("UPDATE console_sessions SET used_at = now() - interval '20 minutes'").await;
    let just_used = async || {
        till.number("SELECT count(*) FROM console_sessions WHERE used_at > now() - interval '1 minute'").await
    };
    let again = viewer.send(Request::get("/console").header("minitill-refresh", "1")).await;
    assert_eq!((again.status, just_used().await), (200, 0));
    assert_eq!((viewer.get("/console").await.status, just_used().await), (200, 1));
}

/// Rule 16.3.5: the library of the charts is the file that the readme names, and the script begins with it.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_drawn_by_the_file_that_the_readme_names() {
    use sha2::{Digest as _, Sha256};
    let till = TestTill::start().await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/");
    let readme = std::fs::read_to_string(format!("{root}README.md")).unwrap();
    let viewer = till.browser(Role::Viewer).await;
    for (path, name) in [("plots.js", "uPlot.iife.min.js"), ("style.css", "uPlot.min.css")] {
        let file = std::fs::read_to_string(format!("{root}uplot/{name}")).unwrap();
        let line = format!("| SHA-256 of `{name}` | `{}` |", hex::encode(Sha256::digest(&file)));
        assert!(readme.contains(&line), "{line}");
        let served = viewer.get(&format!("/console/{path}")).await;
        assert!(served.status == 200 && served.body.starts_with(&file), "{path}");
    }
    assert!(viewer.get("/console").await.body.contains("<script src=\"/console/plots.js?"));
}

/// Rule 8.6.28: the script is a file of the console that a browser keeps, and the page lists its keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_lists_the_keys_and_names_the_script() {
    let till = TestTill::start().await;
    let viewer = till.browser(Role::Viewer).await;
    let script = viewer.get("/console/keys.js").await;
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert!(script.body.contains("\"use strict\";"));
    // An id of 13 characters keeps its end in a narrow column too: its beginning is that of others.
    assert!(script.body.contains("text.length < 2 * TAIL"));
    let stranger = Request::get("/console/sign-in").send(till.operator_address).await.body;
    assert!(!stranger.contains("<script") && !stranger.contains("<dialog"));
    let keys = "<dl>\n<dt><kbd>/</kbd></dt><dd>Search</dd>\n<dt><kbd>g</kbd> <kbd>p</kbd></dt><dd>Players</dd>\n\
                <dt><kbd>g</kbd> <kbd>e</kbd></dt><dd>Exchanges</dd>\n<dt><kbd>g</kbd> <kbd>o</kbd></dt><dd>Orders</dd>\n\
                <dt><kbd>?</kbd></dt><dd>This list</dd>\n</dl>";
    let page = viewer.get("/console").await.body;
    assert!(page.contains(keys), "{page}");
    for link in [
        "/console/players\" data-key=\"p\"",
        "/console/exchanges\" data-key=\"e\"",
        "/console/orders\" data-key=\"o\"",
    ] {
        assert!(page.contains(&format!("<a href=\"{link}")), "{link}");
    }
    let zh = viewer.send(Request::get("/console").header("accept-language", "zh")).await.body;
    for text in [
        "<h2 id=\"key_list_title\">快捷键</h2>",
        "<dd>玩家</dd>",
        "<dd>本列表</dd>",
        "<button type=\"submit\">关闭</button>",
    ] {
        assert!(zh.contains(text), "{text}");
    }
}
