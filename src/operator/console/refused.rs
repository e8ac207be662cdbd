//! Numbers that were refused (contract 13.1): the page of one under which nothing was bought, and the words of a code.

use askama::Template;
use domain::code::Code;
use domain::ids::AppId;
use domain::text;
use store::{BizNoUse, RefusedNumber};

use super::exchange::times_in_words;
use super::i18n::{Moment as _, said, word};
use super::page::{Page, Section, render};
use super::player::player_path;
use super::request::{Answer, ConsoleRequest};

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusedTemplate<'a> {
    page: Page<'a>,
    number: &'a RefusedNumber,
    /// What the number was used for after all: a present, a cancel, or a query that closed it.
    usage: Option<BizNoUse>,
}

/// The page of a number that was refused, and under which no exchange has deducted.
pub(super) async fn page_of(request: &ConsoleRequest, app_id: &AppId, number: &RefusedNumber) -> Answer {
    let usage = request.state.store.number_use(app_id, &number.biz_no).await?;
    let page = request.page(Section::EXCHANGES, text!("Number {biz_no}", biz_no = number.biz_no));
    render(&RefusedTemplate { page, number, usage })
}

/// What a code means. Two codes share a number.
pub(super) fn code_in_words(code: i64) -> String {
    let mut meanings = Code::meanings(code).map(word);
    let Some(first) = meanings.next() else { return code.to_string() };
    meanings.fold(first, |one, other| said(&text!("{one}; or {other}", one, other)))
}
