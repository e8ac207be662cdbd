//! Reports of what apps have sold.

use axum::response::Response;
use domain::fields::{FieldError, shown};
use domain::ids::{AppId, Os, ProductText};
use domain::moment::{self, GivenMoment};
use domain::operation::books::existing_span;
use domain::operation::{OperationRefusal, RefusalKind};
use domain::period::{Period, TimeZone};
use domain::rights::Apps;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use store::{
    ItemFilter, OperationError, RevenueFilter, RevenueGroup, RevenueQuery, RevenueReport, SheetStyle, Zone,
};
use time::OffsetDateTime;

use super::super::download::report_file;
use super::super::workbook::{self, FileFormat};
use super::books::{month_or_day, one_period};
use super::call::Call;
use super::describe::answers;
use super::messages::example;
use super::problem::Problem;
use super::routes::{AdminAnswer, Answers, routes};
use crate::openapi::{APP_ID, FieldReader, Input, Schema, schema};
use crate::state::AppState;

routes! { "Reports":
    /// Show revenue
    ///
    /// What exchanges have taken and what cancels have given back, in sums: of an app, or of all apps of the key. `since` is
    /// in the span and `until` is not. What a cancel gives back counts at the time of the cancel, under the product and the
    /// zone of its exchange. `count` is of exchanges. `net` is what was taken less what was given back, of both purses.
    /// With `format=csv` or `format=xlsx` the answer is a file, as `minitill report revenue` writes it.
    GET "/reports/revenue", "getRevenue", Read(Reports, OwnApps): revenue -> ReportAnswer<RevenueReport> =>
        answers("shown", "The revenue.", json!({
            "app_id": APP_ID, "since": null, "until": "2026-11-01T00:00:00Z", "time_zone": "UTC", "rows": [],
            "total": {
                "count": 0, "free_taken": 0, "charge_taken": 0, "free_given_back": 0, "charge_given_back": 0, "net": 0,
            },
            "payers": 0,
        }))
        .query(query)
        .wrong("time_zone", "expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got \"Mars\"")
        .refuses([example::no_app()]);
}

/// Time zone of a report that names none.
const TIME_ZONE: &str = "UTC";
/// A report, or the file of it.
pub(super) enum ReportAnswer<R> {
    Report(Box<R>),
    File(Response),
}

impl<R> ReportAnswer<R> {
    /// A file with this name, without its ending.
    pub(super) fn file(name: &str, format: FileFormat, bytes: Vec<u8>) -> Self {
        Self::File(report_file(name, format, bytes))
    }
}

impl<R: Serialize + JsonSchema> Answers for ReportAnswer<R> {
    fn schema() -> Schema {
        schema::<R>()
    }

    fn answer(self) -> AdminAnswer {
        match self {
            Self::Report(report) => report.answer(),
            Self::File(file) => AdminAnswer::File(file),
        }
    }
}

async fn revenue(state: &AppState, call: &Call) -> Result<ReportAnswer<RevenueReport>, Problem> {
    let asked = call.read(query)?;
    let apps = match &asked.app_id {
        Some(app_id) => Apps::of([app_id.clone()]).unwrap_or_default(),
        None => call.apps().clone(),
    };
    let period = asked.period()?;
    if period.is_some() && (asked.query.since.is_some() || asked.query.until.is_some()) {
        return Err(Problem::field("since", "expected a month, a day, or moments, got several of them"));
    }
    let span = period.map(|period| existing_span(period, &asked.query.time_zone)).transpose()?;
    let fixed = |end: Option<OffsetDateTime>, given| end.map(GivenMoment::Fixed).or(given);
    let query = RevenueQuery {
        apps,
        since: fixed(span.map(|span| span.since), asked.query.since),
        until: fixed(span.map(|span| span.until), asked.query.until),
        ..asked.query
    };
    let (group, zone) = (query.group.clone(), query.time_zone.clone());
    let report = state.store.revenue_with_payers(query).await.map_err(|error| match error {
        OperationError::Refused(OperationRefusal { kind: RefusalKind::Invalid(field), text, .. }) => {
            let got = shown(call.fields.text(field).unwrap_or_default());
            Problem::field(field, format!("{}, got {got}", text.english()))
        }
        error => error.into(),
    })?;
    let Some(format) = asked.format.file() else { return Ok(ReportAnswer::Report(Box::new(report))) };
    let of = period.map_or_else(String::new, |period| format!("-{period}"));
    let name = format!("revenue-{}{of}", report.app_id.as_deref().unwrap_or("apps"));
    let bytes = match format {
        FileFormat::Csv => report.csv(&group).map_err(|error| unwritten(&error))?,
        FileFormat::Xlsx => workbook::revenue(report, group, SheetStyle::english(zone)).await?,
    };
    Ok(ReportAnswer::file(&name, format, bytes))
}

/// CSV is written into memory, so this does not happen.
pub(super) fn unwritten(error: &std::io::Error) -> Problem {
    Problem::internal(format!("no csv: {error}"))
}

domain::word_enum! {
    /// What a report is answered as.
    pub(super) enum AnswerFormat {
        /// An object.
        Json = "json",
        /// A file for programs.
        Csv = "csv",
        /// A workbook for spreadsheets.
        Xlsx = "xlsx",
    }
}

impl AnswerFormat {
    /// Reads it.
    pub(super) fn read(query: &mut Input<'_>) -> Result<Self, FieldError> {
        let format = query.field("format", "What is answered: an object, or a file.");
        Ok(format.demand("default", "json").optional(Self::parse)?.unwrap_or(Self::Json))
    }

    /// That of the file, where it is one.
    pub(super) const fn file(self) -> Option<FileFormat> {
        match self {
            Self::Json => None,
            Self::Csv => Some(FileFormat::Csv),
            Self::Xlsx => Some(FileFormat::Xlsx),
        }
    }
}

/// The request. The query has no apps yet.
struct RevenueFields {
    app_id: Option<AppId>,
    month: Option<Period>,
    day: Option<Period>,
    format: AnswerFormat,
    query: RevenueQuery,
}

impl RevenueFields {
    fn period(&self) -> Result<Option<Period>, Problem> {
        one_period(self.month, self.day)
    }
}

fn query(query: &mut Input<'_>) -> Result<RevenueFields, FieldError> {
    let words = "What each row is of: one of `hour`, `day` and `week`, `app_id`, `product_name`, `zone` and `os`, with \
                 commas between them.";
    let group = query.field("group", words);
    let group =
        group.demand("default", "day").example("day").optional_as::<String, _>(RevenueQuery::parse_groups)?;
    let words = "IANA name of the time zone in which hours, days and weeks begin.";
    let time_zone = query.field("time_zone", words).demand("default", TIME_ZONE).example(TIME_ZONE);
    let time_zone = time_zone.optional_as::<String, _>(TimeZone::parse)?;
    let words = "The app. Without it the sums are of all apps of the key.";
    let app_id = query.field("app_id", words).example(APP_ID).optional(AppId::parse)?;
    let words = "At or after this moment. Without an offset it is in `time_zone`.";
    let since = given(query.field("since", words))?;
    let words = "Before this moment. Without an offset it is in `time_zone`.";
    let until = given(query.field("until", words).example("2026-11-01"))?;
    let (month, day) = month_or_day(query, None)?;
    let words = "Of this zone: what `zone_id` has before its first underscore. The role of a `zone_id` does not count.";
    let zone = query.field("zone", words).optional_as::<String, _>(Zone::parse)?;
    let item = query.field("product_name", "Of this product.").optional(ProductText::parse)?;
    let item = item.map(|text| ItemFilter { text, is_part: false });
    let words =
        "Of products with this text in their names, without `product_name`. ASCII letters in any case.";
    let part = query.field("item", words).optional(ProductText::parse)?;
    let item = item.or_else(|| part.map(|text| ItemFilter { text, is_part: true }));
    let os = query.field("os", "Of players on this platform, such as `ios`.").optional(Os::parse)?;
    let format = AnswerFormat::read(query)?;
    let group = group.unwrap_or_else(|| vec![RevenueGroup::Day]);
    let filter = RevenueFilter { zone, item, os };
    let time_zone = time_zone.unwrap_or_default();
    let query = RevenueQuery { apps: Apps::ALL, filter, since, until, group, time_zone };
    Ok(RevenueFields { app_id, month, day, format, query })
}

fn given(field: FieldReader<'_, '_>) -> Result<Option<moment::GivenMoment>, FieldError> {
    field.optional_as::<String, _>(moment::parse_given)
}
