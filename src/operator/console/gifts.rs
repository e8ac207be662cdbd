//! Gifts: credits of a list (contract 8.6.52). A form takes the list; its page shows what it would do, and then what it does. A
//! large one waits for a second person.

use std::collections::BTreeMap;

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::routing::{get, post};
use csv::WriterBuilder;
use domain::csv::csv_text;
use domain::fields::{FieldError, FieldErrorKind};
use domain::ids::{AppId, CreditRef, Reason};
use domain::operation::unknown_app;
use domain::operation::wallet::{
    CreditStatus, CreditsForAll, REF_PREFIX_BYTES_MAX, credit_amount, ref_prefix, unknown_gift,
};
use domain::rights::Need;
use domain::text;
use domain::text::Text;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use spreadsheet::SheetCell;
use store::secrets::random_bytes;
use store::{ChangeRequest, Gift, GiftFault, GiftLine, ListFault, RequestState, Store, StoreError};

use super::super::download::report_file;
use super::super::workbook::{self, FileFormat};
use super::error::ConsoleError;
use super::i18n::{Moment as _, said, sheet_style};
use super::page::{LoadsAgain, Page, Section, Shown as _, render, render_search};
use super::request::{Answer, ConsoleRequest, lead_to};
use super::route::{ConsoleRoute, routes};
use super::upload::{LIST, ListUpload};
use super::wallet_change::requests::{class, gift_path};

pub(super) const ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Money, PATH).of_own_apps() => get(form);
    change(Need::Money, PATH).of_own_apps() => post(draft);
    page_for(Need::Money, "/console/apps/{app_id}/gifts/{gift}") => get(page);
    proven(Need::Money, "/console/apps/{app_id}/gifts/{gift}/start") => post(start);
    page_for(Need::Money, "/console/apps/{app_id}/gifts/{gift}/result.csv") => get(result);
    page_for(Need::Money, "/console/apps/{app_id}/gifts/{gift}/result.xlsx") => get(result_workbook);
};

const PATH: &str = "/console/gifts";
/// Newest gifts of an app on the form.
const GIFTS_MAX: u32 = 10;
/// New players, and lines, on the page of a gift.
const NAMED_MAX: u32 = 50;
const LINES_MAX: usize = 10;

#[derive(Template)]
#[template(path = "gift_form.html")]
struct GiftForm<'a> {
    page: Page<'a>,
    prefix: String,
    /// The lines that cannot be credited, each with what is wrong, and how many there are.
    faults: Vec<(u64, String)>,
    fault_count: usize,
    gifts: Vec<Gift>,
}

async fn form(request: ConsoleRequest) -> Answer {
    let page = request.search_page(Section::PLAYERS).await?;
    let prefix = format!("gift-{}", hex::encode(random_bytes::<6>()));
    let gifts = match AppId::parse(request.text("app_id")) {
        Ok(app_id) => request.state.store.started_gifts(&app_id, GIFTS_MAX).await?,
        Err(_) => Vec::new(),
    };
    let page = Page { title: said(&TITLE), loads_again: LoadsAgain::Never, ..page };
    render(&GiftForm { page, prefix, faults: Vec::new(), fault_count: 0, gifts })
}

const TITLE: Text = Text::new("Gift to a list");

/// Looks at a list, and leads to the page of its gift. Nothing is credited.
async fn draft(ListUpload { request, list }: ListUpload) -> Answer {
    let mut filters = request.filters();
    let app_id = filters.read("app_id", AppId::parse);
    let for_all = CreditsForAll {
        free: filters.read("gifted", credit_amount),
        charge: filters.read("charged", credit_amount),
        ref_prefix: filters.read("prefix", ref_prefix),
        note: filters.read("reason", Reason::parse).map(|reason| reason.to_string()).unwrap_or_default(),
        create: request.fields.flag("create")?.unwrap_or_default(),
    };
    let mut wrong = filters.wrong;
    for (name, is_there) in [("app_id", app_id.is_some()), ("reason", !for_all.note.is_empty())] {
        if !is_there && wrong.iter().all(|fault| fault.field != name) {
            wrong.push(FieldError { field: name.to_owned(), problem: FieldErrorKind::Missing });
        }
    }
    let (mut faults, mut fault_count) = (Vec::new(), 0);
    match (list, app_id) {
        (Err(fault), _) => wrong.push(fault),
        (Ok(list), Some(app_id)) if wrong.is_empty() => {
            match look_at(&request.state.store, &app_id, for_all, &list).await? {
                Ok(gift) => return lead_to(&gift_path(app_id.as_str(), &gift.name)),
                Err(fault) => {
                    if let GiftFault::Lines(lines, count) = &fault {
                        faults = lines.iter().map(|(line, why)| (*line, said(why))).collect();
                        fault_count = *count;
                    }
                    let expected = text!("a list that can be credited: {why}", why = fault.text(NAMES));
                    let problem = FieldErrorKind::Malformed { expected, got: None };
                    wrong.push(FieldError { field: LIST.to_owned(), problem });
                }
            }
        }
        (Ok(_), _) => {}
    }
    let page = request.search_page(Section::PLAYERS).await?.marking(&wrong);
    let page = Page { title: said(&TITLE), loads_again: LoadsAgain::Never, ..page };
    let prefix = request.text("prefix").to_owned();
    render_search(&GiftForm { page, prefix, faults, fault_count, gifts: Vec::new() }, &wrong)
}

/// What the form calls the values for all lines.
const NAMES: [&str; 3] = ["Gifted coins for each", "Charged coins for each", "Beginning of the references"];

/// A list with refs of its own needs no beginning of them.
async fn look_at(
    store: &Store,
    app_id: &AppId,
    mut for_all: CreditsForAll,
    list: &[u8],
) -> Result<Result<Gift, GiftFault>, ConsoleError> {
    let found = store.draft_gift(app_id, &for_all, list).await?;
    if matches!(found, Err(GiftFault::List(ListFault::Twice("ref")))) {
        for_all.ref_prefix = None;
        return Ok(store.draft_gift(app_id, &for_all, list).await?);
    }
    Ok(found)
}

#[derive(Template)]
#[template(path = "gift.html")]
struct GiftPage<'a> {
    page: Page<'a>,
    gift: &'a Gift,
    path: String,
    /// The request for a second person, where there is one.
    asked: Option<ChangeRequest>,
    /// Whether this user asked.
    is_own: bool,
    needs_second: bool,
    /// Players whom the gift registers: how many, and the first of them.
    newcomers: (i64, Vec<String>),
    lines: Vec<GiftLine>,
    /// Each outcome, and how many lines have it.
    outcomes: Vec<(&'static str, i64)>,
}

impl GiftPage<'_> {
    /// Whether its request waits for somebody.
    fn waits(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.state == RequestState::Waiting)
    }
}

async fn find(
    request: &ConsoleRequest,
    (app_id, gift): &(String, String),
) -> Result<(AppId, Gift), ConsoleError> {
    let none = || ConsoleError::from(unknown_gift(app_id, gift));
    let (Ok(app), Ok(name)) = (AppId::parse(app_id), CreditRef::parse(gift)) else { return Err(none()) };
    if request.state.store.find_app(&app).await?.is_none() {
        return Err(unknown_app(app_id).into());
    }
    let gift = request.state.store.gift(&app, &name).await?.ok_or_else(none)?;
    Ok((app, gift))
}

async fn page(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, gift) = find(&request, &names).await?;
    let store = &request.state.store;
    let asked = store.change_request(app_id.as_str(), &gift.name).await?;
    let needs_second = store.needs_second_person(&request.moving_operator()?, gift.coins()).await?;
    let mut lines = store.gift_lines(&app_id, &gift.name, 0).await?;
    lines.truncate(LINES_MAX);
    let outcomes = outcomes_of(&gift, &store.gift_outcomes(&app_id, &gift.name).await?);
    let is_under_way = gift.started_at.is_some() && gift.ended_at.is_none();
    let title = match gift.lines {
        1 => text!("Gift to a list of 1 line"),
        lines => text!("Gift to a list of {lines} lines", lines),
    };
    let page = request.page(Section::PLAYERS, title);
    render(&GiftPage {
        page: Page {
            loads_again: if is_under_way { LoadsAgain::Regularly } else { LoadsAgain::Never },
            ..page
        },
        path: gift_path(app_id.as_str(), &gift.name),
        is_own: asked.as_ref().is_some_and(|asked| asked.asked_by == request.user.name.as_str()),
        asked,
        needs_second,
        newcomers: store.gift_newcomers(&app_id, &gift.name, NAMED_MAX).await?,
        lines,
        outcomes,
        gift: &gift,
    })
}

/// How many lines have each outcome so far, those without any left out.
fn outcomes_of(gift: &Gift, others: &[(String, i64)]) -> Vec<(&'static str, i64)> {
    let sum: i64 = others.iter().map(|(_, count)| count).sum();
    let count = |status: CreditStatus| match status {
        CreditStatus::Credited => i64::from(gift.done) - sum,
        other => others.iter().find(|(word, _)| word == other.as_str()).map_or(0, |(_, count)| *count),
    };
    let counts = CreditStatus::ALL.into_iter().map(|status| (outcome_in_words(status), count(status)));
    counts.filter(|(_, count)| *count > 0).collect()
}

const fn outcome_in_words(status: CreditStatus) -> &'static str {
    match status {
        CreditStatus::Credited => "Credited",
        CreditStatus::Replayed => "Credited before",
        CreditStatus::RefUsed => "Refused: the reference was used for something else",
        CreditStatus::UnknownPlayer => "Refused: the app does not know the player",
        CreditStatus::BalanceTooLarge => "Refused: the balance would be too large",
    }
}

/// Starts a gift, or asks a second person for it. Sent again it does nothing more.
async fn start(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let operator = request.operator()?;
    let (app_id, gift) = find(&request, &names).await?;
    let store = &request.state.store;
    if gift.started_at.is_none() {
        if store.needs_second_person(&operator, gift.coins()).await? {
            store.ask_for_gift(&operator, &app_id, &gift.name).await?;
        } else {
            store.start_gift(&operator, &app_id, &gift.name).await?;
        }
    }
    lead_to(&gift_path(app_id.as_str(), &gift.name))
}

/// The result as a file: each line with what became of it.
async fn result(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, gift) = find(&request, &names).await?;
    let name = result_name(&app_id, &gift);
    let heading = stream::iter([Ok(Bytes::from_static(HEADING.as_bytes()))]);
    let done = gift.done;
    let pieces = pages(&request, app_id, gift).map(move |lines| {
        let piece = csv_of(&lines?, done).map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok::<_, StoreError>(Bytes::from(piece))
    });
    Ok(report_file(&name, FileFormat::Csv, Body::from_stream(heading.chain(pieces))))
}

/// The same as a workbook.
async fn result_workbook(Path(names): Path<(String, String)>, request: ConsoleRequest) -> Answer {
    let (app_id, gift) = find(&request, &names).await?;
    let name = result_name(&app_id, &gift);
    let done = gift.done;
    let lines = pages(&request, app_id, gift).try_concat().await?;
    let style = sheet_style();
    let content = workbook::made(move |book| {
        let outcome = style.column(&text!("Outcome"), 18);
        let coins = || [style.column(&text!("Gifted"), 14), style.column(&text!("Charged"), 14)];
        let columns = [style.column(&text!("Line"), 10), style.column(&text!("Player"), 24)];
        let columns = columns.into_iter().chain(coins());
        let columns = columns.chain([style.column(&text!("Reference"), 24), outcome.clone()]);
        book.sheet(&(style.words)(&text!("Lines")), columns.collect())?;
        let mut sums: BTreeMap<&str, [i128; 3]> = BTreeMap::new();
        for line in &lines {
            let outcome = outcome_of(line, done);
            let coins = [line.free, line.charge].map(i128::from);
            book.row([
                SheetCell::Integer(line.line.into()),
                SheetCell::Text(&line.open_id),
                SheetCell::Integer(coins[0]),
                SheetCell::Integer(coins[1]),
                SheetCell::Text(&line.reference),
                SheetCell::Text(outcome),
            ])?;
            let sum = sums.entry(outcome).or_default();
            *sum = [sum[0] + 1, sum[1] + coins[0], sum[2] + coins[1]];
        }
        let columns = [outcome, style.column(&text!("Lines"), 10)].into_iter().chain(coins());
        book.sheet(&(style.words)(&text!("Sums")), columns.collect())?;
        for (outcome, sum) in sums {
            let cells = [SheetCell::Text(outcome)].into_iter().chain(sum.map(SheetCell::Integer));
            book.row(cells.collect::<Vec<_>>())?;
        }
        Ok(())
    });
    Ok(report_file(&name, FileFormat::Xlsx, content.await?))
}

/// The lines of a gift, some at once.
fn pages(
    request: &ConsoleRequest,
    app_id: AppId,
    gift: Gift,
) -> impl Stream<Item = Result<Vec<GiftLine>, StoreError>> + use<> {
    let start = (request.state.store.clone(), app_id, gift, 0);
    stream::try_unfold(start, |(store, app_id, gift, after)| async move {
        let lines = store.gift_lines(&app_id, &gift.name, after).await?;
        let Some(last) = lines.last().map(|line| line.line) else { return Ok(None) };
        Ok(Some((lines, (store, app_id, gift, last))))
    })
}

/// The name of both files, without its ending.
fn result_name(app_id: &AppId, gift: &Gift) -> String {
    format!("{app_id}-{}", gift.name)
}

const HEADING: &str = "line,open_id,free,charge,ref,outcome\n";

/// What became of a line of a gift that is done to this line.
fn outcome_of(line: &GiftLine, done: i32) -> &str {
    match &line.outcome {
        Some(outcome) => outcome,
        None if line.line <= done => CreditStatus::Credited.as_str(),
        None => "waiting",
    }
}

fn csv_of(lines: &[GiftLine], done: i32) -> Result<Vec<u8>, csv::Error> {
    let mut writer = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for line in lines {
        let outcome = outcome_of(line, done);
        let texts = (csv_text(&line.open_id), line.free, line.charge, csv_text(&line.reference));
        writer.serialize((line.line, texts, outcome))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}
