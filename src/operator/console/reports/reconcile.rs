//! Comparing the books with those of others: a file of CSV, which of its columns is which, and what was found (contract
//! 8.6.43 and 13.5).

use askama::Template;
use axum::routing::{get, post};
use domain::fields::{FieldError, FieldErrorKind};
use domain::ids::AppId;
use domain::period::Period;
use domain::rights::Need;
use domain::text;
use store::{
    BillColumn, BookColumn, ComparedBooks as _, ComparedBy, Comparison, FileFault, ReconcileError, StoreError,
};

use super::super::error::ConsoleError;
use super::super::i18n::{said, zone};
use super::super::page::{LoadsAgain, Page, Section, Shown as _, render_search};
use super::super::request::{Answer, ConsoleRequest};
use super::super::route::{ConsoleRoute, routes};
use super::super::upload::{FilePart, Upload, missing, wrong as wrong_file};
use super::app_of;
use super::statement::{period_of, refused_period};
use crate::operator::reconcile_upload::{COLUMN_FIELDS, compared, field_of};

pub(in super::super) const RECONCILE_ROUTES: &[ConsoleRoute] = routes! {
    page_for(Need::Reports, PATH).of_own_apps() => get(form);
    // It is a POST because of its file, and changes nothing.
    change(Need::Reports, PATH).of_own_apps() => post(compare);
};

pub(super) const PATH: &str = "/console/reports/reconcile";
/// Members of a list on the page.
const MEMBERS_MAX: u16 = 100;

#[derive(Template)]
#[template(path = "reconcile.html")]
struct ReconcilePage<'a> {
    page: Page<'a>,
    /// The app that the form proposes.
    app_id: String,
    /// The column of order numbers, and the others.
    number: Column,
    columns: Vec<Column>,
    /// `None` where no file was compared.
    found: Option<ReconcileResult>,
}

/// An input for the name of a column in their file.
struct Column {
    label: &'static str,
    /// Its name in the bill.
    name: BookColumn,
    field: &'static str,
    /// What was typed.
    value: String,
}

struct ReconcileResult {
    app: AppId,
    by: ComparedBy,
    period: Option<Period>,
    comparison: Comparison,
}

impl ReconcilePage<'_> {
    /// Whether the inputs of other columns are open.
    fn has_columns(&self) -> bool {
        let is_used = |column: &Column| !column.value.is_empty() || self.page.wrong(column.field).is_some();
        self.columns.iter().any(is_used)
    }
}

impl ReconcileResult {
    /// What the numbers are, in words.
    fn number_in_words(&self) -> String {
        crate::word(label(self.by.column()))
    }

    /// Whether refs were compared, and not order numbers.
    fn is_by_ref(&self) -> bool {
        self.by == ComparedBy::Ref
    }

    /// What an address of a number in our books begins with.
    fn path(&self) -> String {
        match self.by {
            ComparedBy::BizNo => format!("/console/apps/{}/exchanges/", self.app),
            ComparedBy::Ref => format!("/console/exchanges?app_id={}&number=", self.app),
        }
    }
}

/// A column of the books in words.
const fn label(column: BookColumn) -> &'static str {
    match column {
        BookColumn::Bill(BillColumn::At) => "Time",
        BookColumn::Bill(BillColumn::OpenId) => "Player",
        BookColumn::Bill(BillColumn::Seq) => "Sequence number",
        BookColumn::Bill(BillColumn::Kind) => "Kind",
        BookColumn::Bill(BillColumn::BizNo) => "Order number",
        BookColumn::Bill(BillColumn::Ref) => "Reference",
        BookColumn::Amount => "Amount",
        BookColumn::Bill(BillColumn::FreeChange) => "Gifted coins",
        BookColumn::Bill(BillColumn::ChargeChange) => "Charged coins",
        BookColumn::Bill(BillColumn::FreeBalance) => "Gifted balance",
        BookColumn::Bill(BillColumn::ChargeBalance) => "Charged balance",
        BookColumn::Bill(BillColumn::ZoneId) => "Zone and role",
        BookColumn::Bill(BillColumn::ProductName) => "Item",
    }
}

/// A field that differs, in words.
fn field_in_words(field: &str) -> String {
    crate::word(BookColumn::parse(field).map_or("Lines of the file", label))
}

fn render(
    request: &ConsoleRequest,
    page: Page<'_>,
    app: Option<AppId>,
    found: Option<ReconcileResult>,
    wrong: &[FieldError],
) -> Answer {
    let column =
        |(name, field)| Column { label: label(name), name, field, value: request.text(field).to_owned() };
    let [number, others @ ..] = COLUMN_FIELDS;
    let title = said(&text!("Compare with other books"));
    let page = Page { title, loads_again: LoadsAgain::Never, ..page.marking(wrong) };
    let page = ReconcilePage {
        page,
        app_id: app.map(|app| app.to_string()).unwrap_or_default(),
        number: column(number),
        columns: others.map(column).into(),
        found,
    };
    render_search(&page, wrong)
}

async fn form(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    period_of(&mut filters);
    let page = request.search_page(Section::REPORTS).await?;
    let app = app_of(&page, &mut filters);
    render(&request, page, app, None, &filters.wrong)
}

async fn compare(Upload { request, file }: Upload) -> Answer {
    let mut filters = request.filters();
    let period = period_of(&mut filters);
    let by = filters.read("by", ComparedBy::parse).unwrap_or_default();
    let page = request.search_page(Section::REPORTS).await?;
    let app = app_of(&page, &mut filters);
    let mut wrong = filters.wrong;
    if let Some(app) = &app
        && page.apps.iter().all(|known| known.app_id != *app)
    {
        return Err(ConsoleError::no_such_app(app.as_str()));
    }
    let mut found = None;
    match (&app, file, wrong.is_empty()) {
        (Some(app), Some(file), true) => match find(&request, (app, by), period, file).await? {
            Ok(comparison) => found = Some(ReconcileResult { app: app.clone(), by, period, comparison }),
            Err(of_file) => wrong.push(of_file),
        },
        (_, None, _) => wrong.push(missing()),
        // There is no app at all.
        (None, Some(_), true) => wrong.extend(request.fields.required("app_id", AppId::parse).err()),
        (_, Some(_), false) => {}
    }
    render(&request, page, app, found, &wrong)
}

/// What the comparison has found, or what is wrong with a field.
async fn find(
    request: &ConsoleRequest,
    (app, by): (&AppId, ComparedBy),
    period: Option<Period>,
    file: FilePart,
) -> Result<Result<Comparison, FieldError>, ConsoleError> {
    let map = COLUMN_FIELDS.into_iter().filter_map(|(column, field)| Some((request.filled(field)?, column)));
    let compared = match (compared(app.clone(), period, &zone(), (by, map.collect()), MEMBERS_MAX), period) {
        (Ok(compared), _) => compared,
        (Err(refusal), Some(period)) => return Ok(Err(refused_period(period, &refusal.text))),
        (Err(refusal), None) => return Err(refusal.into()),
    };
    let busy =
        |error| if matches!(error, StoreError::Overloaded) { ConsoleError::COMPARING } else { error.into() };
    let mut permit = request.state.store.comparison_permit(app).await.map_err(busy)?;
    let file = match file.keep(&mut permit).await? {
        Ok(file) => file,
        Err(wrong) => return Ok(Err(wrong)),
    };
    match request.state.store.comparison(permit, compared, file).await {
        Ok(comparison) => Ok(Ok(comparison)),
        Err(ReconcileError::File(refusal)) => Ok(Err(of_file(&refusal.fault))),
        Err(ReconcileError::Operation(error)) => Err(error.into()),
        Err(ReconcileError::Output(error)) => Err(StoreError::Internal(error.to_string()).into()),
    }
}

/// What is wrong with the file, at the field where it is to be corrected.
fn of_file(fault: &FileFault) -> FieldError {
    let why = fault.text();
    match fault.column() {
        Some(column) => {
            let expected = text!("the name of a column of the file: {why}", why);
            let field = field_of(column).to_owned();
            FieldError { field, problem: FieldErrorKind::Malformed { expected, got: None } }
        }
        None => wrong_file(text!("a file that can be compared: {why}", why)),
    }
}
