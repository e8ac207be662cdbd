//! Accessibility of every page for whoever uses a keyboard, a screen reader or a phone, as far as the text of
//! a page shows it. `tests/proofs/console_in_browser` looks at the same pages in a browser.

use std::collections::BTreeSet;

use domain::console_user::Role;
use minitill::operator::console::routes;

use super::path;
use crate::support::{Request, TestTill};

/// A tag with its attributes.
struct Tag<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Tag<'a> {
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let (_, rest) = self.rest.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()
    }

    fn has_name(&self) -> bool {
        self.attribute("aria-label").is_some_and(|label| !label.trim().is_empty())
    }
}

/// The opening tags of a page, in order.
fn tags(page: &str) -> Vec<Tag<'_>> {
    let pieces = page.split('<').skip(1).filter(|piece| piece.starts_with(|c: char| c.is_ascii_alphabetic()));
    let tags = pieces.map(|piece| {
        let tag = piece.split('>').next().unwrap();
        let end = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
        Tag { name: &tag[..end], rest: &tag[end..] }
    });
    tags.collect()
}

pub(super) fn faults(page: &str) -> Vec<String> {
    let (tags, mut faults) = (tags(page), Vec::new());
    let mut fault = |is_fault: bool, words: String| {
        if is_fault {
            faults.push(words);
        }
    };
    let count = |name: &str| tags.iter().filter(|tag| tag.name == name).count();
    // Shapes of a drawing have titles, too.
    let in_head = page.split("<body").next().unwrap_or_default();
    let titles = in_head.matches("<title>").count();
    fault(!page.contains("<html lang=\"en\">"), "no language".to_owned());
    fault(count("h1") != 1 || count("main") != 1 || titles != 1, "not one h1, main, title".to_owned());
    let labelled: BTreeSet<&str> =
        tags.iter().filter(|tag| tag.name == "label").filter_map(|tag| tag.attribute("for")).collect();
    let (mut ids, mut level) = (BTreeSet::new(), 1);
    for tag in &tags {
        let shown = format!("<{}{}>", tag.name, tag.rest);
        if let Some(id) = tag.attribute("id") {
            fault(!ids.insert(id), format!("{shown}: the id is there twice"));
        }
        match tag.name {
            "input" if tag.attribute("type") == Some("hidden") => {}
            "input" | "select" | "textarea" => {
                let is_labelled = tag.attribute("id").is_some_and(|id| labelled.contains(id));
                fault(!is_labelled && !tag.has_name(), format!("{shown}: no label"));
            }
            "img" => fault(tag.attribute("alt").is_none(), format!("{shown}: no alt")),
            "svg" => fault(
                tag.attribute("aria-hidden").is_none()
                    && !(["img", "group"].map(Some).contains(&tag.attribute("role")) && tag.has_name()),
                format!("{shown}: no name"),
            ),
            "th" => fault(tag.attribute("scope").is_none(), format!("{shown}: no scope")),
            "nav" => fault(!tag.has_name(), format!("{shown}: no name")),
            "a" => fault(tag.attribute("href").is_none(), format!("{shown}: leads nowhere")),
            "button" => fault(tag.attribute("type").is_none(), format!("{shown}: no type")),
            "h1" | "h2" | "h3" | "h4" => {
                let next: i32 = tag.name[1..].parse().unwrap();
                fault(next > level + 1, format!("{shown}: a level is skipped"));
                level = next;
            }
            _ => fault(tag.attribute("tabindex").is_some_and(|index| !matches!(index, "0" | "-1")), shown),
        }
    }
    faults
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_what_a_keyboard_and_a_screen_reader_need() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 10, 20).await;
    for role in [Role::Admin, Role::Viewer] {
        let browser = till.browser(role).await;
        for route in routes().filter(|route| route.method == "GET") {
            let answer = browser.get(&path(route)).await;
            if answer.header("content-type") == Some("text/html; charset=utf-8") {
                assert_eq!(faults(&answer.body), Vec::<String>::new(), "{}", route.path);
            }
        }
    }
    let stranger = Request::get("/console/sign-in").send(till.operator_address).await;
    assert_eq!(faults(&stranger.body), Vec::<String>::new());
}

#[test]
fn faults_are_found() {
    let page = |body: &str| format!("<html lang=\"en\"><title>t</title><main><h1>t</h1>{body}</main>");
    assert_eq!(faults(&page("<label for=\"a\">A</label><input id=\"a\">")), Vec::<String>::new());
    for body in [
        "<input id=\"a\">",
        "<h3>skips</h3>",
        "<h1>again</h1>",
        "<img src=\"/x\">",
        "<svg></svg>",
        "<th>x</th>",
        "<nav></nav>",
        "<button>x</button>",
        "<a>x</a>",
        "<p id=\"a\"></p><p id=\"a\"></p>",
        "<p tabindex=\"3\"></p>",
    ] {
        assert_eq!(faults(&page(body)).len(), 1, "{body}: {:?}", faults(&page(body)));
    }
}
