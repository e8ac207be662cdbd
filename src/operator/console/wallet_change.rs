//! Changes of wallets by operators: credits, debits, and exchanges that are given back. Each has a form, a
//! preview, and the change itself. One reference takes effect only once, however often the form is sent. A large change
//! waits for a second person.

mod form;
pub(super) mod requests;
mod subject;

use askama::Template;
use axum::extract::Path;
use axum::routing::{get, post};
use domain::ledger::ReferenceKind;
use domain::operation::wallet::ref_used;
use domain::rights::Need;
use domain::text;
use domain::text::Text;
use domain::wallet::PurseChange;
use form::Wanted;
use store::ChangeRecord;
use store::secrets::random_bytes;
use subject::{AmountField, ChangeSubject};

use super::change_notice::address_after_change;
use super::error::ConsoleError;
use super::i18n::Moment as _;
use super::page::{Page, Section, Shown as _, render};
use super::player::{purses, signed};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Money, "/console/apps/{app_id}/players/{open_id}/credit") =>
        get(async |names, request| form(ChangeKind::Credit, names, request).await);
    change(Need::Money, "/console/apps/{app_id}/players/{open_id}/credit/check") =>
        post(async |names, request| check(ChangeKind::Credit, names, request).await);
    proven(Need::Money, "/console/apps/{app_id}/players/{open_id}/credit") =>
        post(async |names, request| change(ChangeKind::Credit, names, request).await);
    page_for(Need::Money, "/console/apps/{app_id}/players/{open_id}/debit") =>
        get(async |names, request| form(ChangeKind::Debit, names, request).await);
    change(Need::Money, "/console/apps/{app_id}/players/{open_id}/debit/check") =>
        post(async |names, request| check(ChangeKind::Debit, names, request).await);
    proven(Need::Money, "/console/apps/{app_id}/players/{open_id}/debit") =>
        post(async |names, request| change(ChangeKind::Debit, names, request).await);
    page_for(Need::GiveBack, "/console/apps/{app_id}/exchanges/{biz_no}/give-back") =>
        get(async |names, request| form(ChangeKind::GiveBack, names, request).await);
    change(Need::GiveBack, "/console/apps/{app_id}/exchanges/{biz_no}/give-back/check") =>
        post(async |names, request| check(ChangeKind::GiveBack, names, request).await);
    proven(Need::GiveBack, "/console/apps/{app_id}/exchanges/{biz_no}/give-back") =>
        post(async |names, request| change(ChangeKind::GiveBack, names, request).await);
};

/// Which change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Credit,
    Debit,
    GiveBack,
}

/// How a change is told.
struct ChangeWords {
    /// Its kind in the ledger.
    entry: ReferenceKind,
    section: Section,
    /// The last part of the address of its form.
    path: &'static str,
    /// The beginning of its heading, before the player or the exchange.
    verb: &'static str,
    /// The link back to the page of the player or the exchange.
    leave: &'static str,
    /// What an operator can do after a mistake.
    remedy: &'static str,
}

impl ChangeKind {
    const fn words(self) -> ChangeWords {
        match self {
            Self::Credit => ChangeWords {
                entry: ReferenceKind::Credit,
                section: Section::PLAYERS,
                path: "credit",
                verb: "Credit",
                leave: "Back to the player",
                remedy: "The ledger keeps every credit. A debit takes the coins back.",
            },
            Self::Debit => ChangeWords {
                entry: ReferenceKind::Debit,
                section: Section::PLAYERS,
                path: "debit",
                verb: "Debit",
                leave: "Back to the player",
                remedy: "The ledger keeps every debit. A credit gives the coins back.",
            },
            Self::GiveBack => ChangeWords {
                entry: ReferenceKind::Cancel,
                section: Section::EXCHANGES,
                path: "give-back",
                verb: "Give back",
                leave: "Back to the exchange",
                remedy: "The ledger keeps every cancel. A debit takes the coins back.",
            },
        }
    }
}

#[derive(Template)]
#[template(path = "wallet_change.html")]
struct FormTemplate<'a> {
    page: Page<'a>,
    words: ChangeWords,
    target: &'a ChangeSubject,
    amounts: Vec<AmountField>,
    reference: String,
}

async fn form(kind: ChangeKind, Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let target = ChangeSubject::find(kind, &request.state, &names).await?;
    let amounts = target.amount_fields(request.give_back_max())?;
    let words = kind.words();
    let page = request
        .page(words.section, text!("{verb} {target}", verb = Text::new(words.verb), target = target.name()));
    let reference = format!("console-{}", hex::encode(random_bytes::<8>()));
    render(&FormTemplate { page, words, target: &target, amounts, reference })
}

#[derive(Template)]
#[template(path = "wallet_change_check.html")]
struct ChangeCheckPage<'a> {
    page: Page<'a>,
    words: ChangeWords,
    target: &'a ChangeSubject,
    wanted: &'a Wanted,
    preview: Preview,
    /// Whether a second person must confirm the change.
    needs_second: bool,
}

/// What the form would do now.
enum Preview {
    /// This change.
    New(PurseChange),
    /// Nothing: it was done before.
    Made(ChangeRecord),
    /// Nothing: somebody asked for it before. This is the address of the request.
    Asked(String),
}

/// Shows a preview. Nothing changes.
async fn check(kind: ChangeKind, Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let target = ChangeSubject::find(kind, &request.state, &names).await?;
    let wanted = Wanted::read(&request, &target)?;
    let preview = preview(&request, &target, &wanted).await?;
    let needs_second = requests::needs_second_person(&request, &wanted).await?;
    let words = kind.words();
    let page = request
        .page(words.section, text!("{verb} {target}?", verb = Text::new(words.verb), target = target.name()));
    render(&ChangeCheckPage { page, words, target: &target, wanted: &wanted, preview, needs_second })
}

async fn preview(
    request: &ConsoleRequest,
    target: &ChangeSubject,
    wanted: &Wanted,
) -> Result<Preview, ConsoleError> {
    let (store, app_id, reference) = (&request.state.store, &target.app_id, wanted.command.reference());
    let made = store.change_by_ref(app_id, reference).await?;
    if made.is_none()
        && let Some(asked) = store.change_request(app_id.as_str(), reference).await?
    {
        let path = wanted.is_asked(&asked, target).then(|| requests::request_path(app_id, reference));
        return path.map(Preview::Asked).ok_or_else(|| ref_used(reference).into());
    }
    let change = store.foresee_change(&request.moving_operator()?, app_id, &wanted.command).await?;
    // Without both, somebody has just made it.
    change.map(Preview::New).or(made.map(Preview::Made)).ok_or_else(|| ref_used(reference).into())
}

async fn change(kind: ChangeKind, Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let operator = request.operator()?;
    let target = ChangeSubject::find(kind, &request.state, &names).await?;
    let wanted = Wanted::read(&request, &target)?;
    if let Some(answer) = requests::ask(&request, &target, &wanted).await? {
        return answer;
    }
    let reference = wanted.command.reference().clone();
    let report = request.state.store.change_wallet(&operator, &target.app_id, wanted.command).await?;
    lead_to(&address_after_change(&target.path(), &reference, report.is_replayed()))
}
