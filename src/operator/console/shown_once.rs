//! The page of secrets that were just made. No other page shows them.

use askama::Template;

use domain::text;
use domain::text::Text;

use super::page::{Page, Section, render};
use super::request::{Answer, ConsoleRequest};

/// What the page shows.
pub(super) struct ShownOnce<'a> {
    /// What they belong to: its kind, its name and its page.
    pub(super) owner: (&'a str, &'a str, &'a str),
    /// The name of each secret, and the secret.
    pub(super) secrets: &'a [(&'a str, String)],
    pub(super) what_next: &'a [&'a str],
    /// The page of the next rotation, which retires the secret before this one.
    pub(super) rotation: Option<String>,
}

#[derive(Template)]
#[template(path = "shown_once.html")]
struct ShownOncePage<'a> {
    page: Page<'a>,
    shown: ShownOnce<'a>,
}

impl ShownOnce<'_> {
    /// The page.
    pub(super) fn render(self, request: &ConsoleRequest, section: Section, title: &'static str) -> Answer {
        let page =
            request.page(section, text!("{title} {owner}", title = Text::new(title), owner = self.owner.1));
        render(&ShownOncePage { page, shown: self })
    }
}
