//! Revenue over time, as a chart that a script draws, and by name, as bars; and the same as tables.

use std::collections::HashMap;
use std::time::Duration;

use domain::operation::OperationRefusal;
use domain::text;
use domain::text::Text;
use store::{RevenueGroup, RevenueReport, RevenueSums, time_groups};
use time::OffsetDateTime;

use super::super::i18n::{said, sentence, zone};
use super::super::page::Shown as _;
use super::super::plots::{Plot, PlotAxis, PlotPoint, PlotSeries, label, of_point};
use super::asked::ReportQuery;
use super::chart::{BARS_MAX, Bar, ReportChart, list};

/// Rows of a table on the page. The file has all of them.
pub(super) const ROWS_MAX: usize = 100;
/// Bars of a chart, the newest.
const POINTS_MAX: usize = 400;

/// A row of a table.
pub(super) struct TableRow {
    pub(super) name: String,
    /// The list of what it counts, where there is one.
    pub(super) address: Option<String>,
    pub(super) sums: RevenueSums,
}

/// Revenue over time.
pub(super) struct TimeTable {
    pub(super) title: &'static str,
    /// The name of the first column.
    pub(super) column: &'static str,
    pub(super) plot: Plot,
    pub(super) axis: PlotAxis,
    pub(super) rows: Vec<TableRow>,
    pub(super) total: RevenueSums,
    /// Rows of the file, where the page has not all of them.
    pub(super) all_rows: Option<usize>,
    pub(super) csv: String,
}

/// Revenue by app, item, zone or platform.
pub(super) struct NameTable {
    pub(super) title: &'static str,
    /// Why there is no table, in a sentence.
    pub(super) refused: Option<String>,
    /// The name of the first column.
    pub(super) column: &'static str,
    pub(super) picture: ReportChart,
    pub(super) rows: Vec<TableRow>,
    pub(super) total: RevenueSums,
    /// Rows of the file, where the page has not all of them.
    pub(super) all_rows: Option<usize>,
    pub(super) csv: String,
}

/// The title and the first column of a table.
const fn names(group: RevenueGroup) -> (&'static str, &'static str) {
    match group {
        RevenueGroup::Hour => ("Coins taken by hour", "Hour"),
        RevenueGroup::Day => ("Coins taken by day", "Day"),
        RevenueGroup::Week => ("Coins taken by week", "Week from"),
        RevenueGroup::App => ("Coins taken by app", "App"),
        RevenueGroup::ProductName => ("Coins taken by item", "Item"),
        RevenueGroup::Zone => ("Coins taken by zone", "Zone"),
        RevenueGroup::Os => ("Coins taken by platform", "Platform"),
    }
}

/// The usual length of a step.
const fn length(group: RevenueGroup) -> Duration {
    match group {
        RevenueGroup::Hour => Duration::from_hours(1),
        RevenueGroup::Week => Duration::from_hours(7 * 24),
        _ => Duration::from_hours(24),
    }
}

impl TimeTable {
    /// A step without an exchange has a place in the chart, and no row in the table.
    pub(super) fn new(
        asked: &ReportQuery,
        first: Option<OffsetDateTime>,
        report: &RevenueReport,
        csv: String,
    ) -> Self {
        let group = asked.step(first);
        let (title, column) = names(group);
        let until = asked.until();
        let since = asked.times.since.or(first).filter(|since| *since < until);
        let mut steps = since.map(|since| time_groups(group, &zone(), (since, until))).unwrap_or_default();
        let starts: HashMap<String, [OffsetDateTime; 2]> = steps
            .iter()
            .zip(steps.iter().skip(1).map(|(_, start)| *start).chain([until]))
            .map(|((name, start), end)| (name.clone(), [*start, end]))
            .collect();
        steps.drain(..steps.len().saturating_sub(POINTS_MAX));
        let sums: HashMap<&str, RevenueSums> =
            report.rows.iter().map(|row| (row.name(group), row.sums)).collect();
        let part = |part: fn(&RevenueSums) -> i64| {
            let values = steps.iter().map(|(name, _)| sums.get(name.as_str()).map_or(0, part));
            values.map(|value| Some(float(value))).collect::<Vec<_>>().into_iter()
        };
        let series = |name: Text, class, values| PlotSeries::new(said(&name), class, values);
        let plot = Plot {
            title: said(&Text::new(title)),
            unit: "",
            series: vec![
                series(text!("gifted"), "", part(|sums| sums.free_taken)),
                series(text!("charged"), "second", part(|sums| sums.charge_taken)),
            ],
            link: asked.exchanges(&[("from", ""), ("to", "")]).as_deref().map(of_point),
            bars: true,
        };
        let points = steps.iter().map(|(name, at)| PlotPoint {
            at: *at,
            label: called(group, name, *at),
            has_values: sums.contains_key(name.as_str()),
            started: false,
            bad: false,
        });
        let axis = PlotAxis::new(points.collect(), until, length(group));
        let mut rows: Vec<TableRow> = report
            .rows
            .iter()
            .map(|row| {
                let name = row.name(group);
                let span = starts.get(name).map(|span| span.map(domain::moment::rfc3339));
                let address = span.and_then(|[from, to]| asked.exchanges(&[("from", &from), ("to", &to)]));
                let name = starts
                    .get(name)
                    .map_or_else(|| name.to_owned(), |[start, _]| called(group, name, *start));
                TableRow { name, address, sums: row.sums }
            })
            .collect();
        let all_rows = (rows.len() > ROWS_MAX).then_some(rows.len());
        rows.drain(..rows.len().saturating_sub(ROWS_MAX));
        Self { title, column, plot, axis, rows, total: report.total, all_rows, csv }
    }
}

impl NameTable {
    /// In the order of what was taken.
    pub(super) fn new(asked: &ReportQuery, group: RevenueGroup, report: &RevenueReport, csv: String) -> Self {
        let (title, column) = names(group);
        let rows = report.rows.iter().map(|row| {
            let name = row.name(group).to_owned();
            let address = (!name.is_empty()).then(|| asked.exchanges(&[(field(group), &name)])).flatten();
            TableRow { name, address, sums: row.sums }
        });
        let mut rows: Vec<TableRow> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(taken(&row.sums)));
        let sold = rows.iter().filter(|row| taken(&row.sums) > 0).take(BARS_MAX);
        let bars: Vec<Bar> = sold.map(bar).collect();
        let title_text = Text::new(title);
        let most = bars.first();
        let most = most
            .map(|first| text!("{title}. The most for {words}.", title = title_text, words = first.words));
        let words = most.unwrap_or_else(|| text!("{title}. There were none.", title = title_text));
        let all_rows = (rows.len() > ROWS_MAX).then_some(rows.len());
        rows.truncate(ROWS_MAX);
        let picture = list(bars, said(&words));
        Self { title, refused: None, column, picture, rows, total: report.total, all_rows, csv }
    }

    /// A table that is refused. The rest of the page stands.
    pub(super) fn refused(group: RevenueGroup, refusal: &OperationRefusal) -> Self {
        let (title, column) = names(group);
        Self {
            title,
            refused: Some(sentence(&text!("{sentence}.", sentence = refusal.text))),
            column,
            picture: list(Vec::new(), String::new()),
            rows: Vec::new(),
            total: RevenueSums::default(),
            all_rows: None,
            csv: String::new(),
        }
    }
}

/// The field of the list that a name fills in.
const fn field(group: RevenueGroup) -> &'static str {
    match group {
        RevenueGroup::ProductName => "product_name",
        RevenueGroup::Zone => "zone",
        RevenueGroup::Os => "os",
        RevenueGroup::Hour | RevenueGroup::Day | RevenueGroup::Week | RevenueGroup::App => "app_id",
    }
}

/// What a step is called on the page.
fn called(group: RevenueGroup, name: &str, at: OffsetDateTime) -> String {
    if group == RevenueGroup::Hour { label(at) } else { name.to_owned() }
}

/// The words of a bar, which show when the pointer is on it.
fn words_of(name: &str, sums: &RevenueSums) -> String {
    said(&text!(
        "{name}: {free} gifted and {charge} charged coins, exchanges: {count}",
        name,
        free = sums.free_taken.shown(),
        charge = sums.charge_taken.shown(),
        count = sums.count.shown()
    ))
}

fn bar(row: &TableRow) -> Bar {
    Bar {
        name: row.name.clone(),
        parts: [row.sums.free_taken, row.sums.charge_taken],
        words: words_of(&row.name, &row.sums),
        address: row.address.clone(),
    }
}

fn taken(sums: &RevenueSums) -> i64 {
    sums.free_taken.saturating_add(sums.charge_taken)
}

#[expect(clippy::cast_precision_loss, reason = "a chart has no room for the difference")]
fn float(value: i64) -> f64 {
    value as f64
}
