//! The bars that Minitill sets itself, each with the figure of this run. They inform; a machine or
//! a minute may be to blame.

use crate::rounds::Results;
use crate::rows::Row;
use crate::sample::Sample;

/// A bar: what is compared, the figure, and whether less or more is better.
struct Bar {
    what: &'static str,
    figure: Option<f64>,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Limit {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(limit) => figure >= limit,
            Self::AtMost(limit) => figure <= limit,
            Self::Below(limit) => figure < limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::Below(limit) => format!("below {limit}"),
        }
    }
}

/// A line for each bar whose rows were measured.
pub(crate) fn text(results: &Results) -> String {
    let lines: Vec<String> = bars(results).iter().filter_map(Bar::line).collect();
    if lines.is_empty() {
        "no bar applies to the rows that were measured".to_owned()
    } else {
        lines.join("\n")
    }
}

impl Bar {
    fn line(&self) -> Option<String> {
        let figure = self.figure?;
        let verdict = if self.limit.holds(figure) { "met   " } else { "MISSED" };
        Some(format!("{verdict}  {figure:>7.2}  {:<60} {}", self.what, self.limit.text()))
    }
}

fn bars(results: &Results) -> Vec<Bar> {
    let figure = |row: Row, of: fn(&Sample) -> f64| results.fresh.get(&row).map(of);
    let rate = |row: Row| figure(row, |sample| sample.rate);
    let p50 = |row: Row| figure(row, |sample| sample.p50);
    let p99 = |row: Row| figure(row, |sample| sample.p99);
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let in_flight_64 = rate(Row::InFlight64);
    let times_fresh = |row: Row| {
        let when_filled = results.filled.get(&row).map(|sample| sample.rate);
        ratio(when_filled, rate(row))
    };
    let bar = |what, figure, limit| Bar { what, figure, limit };
    vec![
        bar("64 in flight, times classic", ratio(in_flight_64, rate(Row::Classic)), Limit::AtLeast(2.5)),
        bar(
            "64 in flight, times one statement",
            ratio(in_flight_64, rate(Row::OneStatement)),
            Limit::AtLeast(1.25),
        ),
        bar(
            "64 in flight, share of the ceiling",
            ratio(in_flight_64, rate(Row::Ceiling)),
            Limit::AtLeast(0.5),
        ),
        bar(
            "256 in flight, times 64 in flight",
            ratio(rate(Row::InFlight256), in_flight_64),
            Limit::AtLeast(1.0),
        ),
        bar(
            "one at a time, p50, times that of classic with one client",
            ratio(p50(Row::One), p50(Row::ClassicOne)),
            Limit::AtMost(1.3),
        ),
        bar(
            "one hot wallet, times 64 in flight",
            ratio(rate(Row::OneWallet), in_flight_64),
            Limit::AtLeast(0.6),
        ),
        bar("presents, times exchanges", ratio(rate(Row::Present), in_flight_64), Limit::AtLeast(0.9)),
        bar("cancels, times exchanges", ratio(rate(Row::Cancel), in_flight_64), Limit::AtLeast(0.8)),
        bar("balances, times exchanges", ratio(rate(Row::Balance), in_flight_64), Limit::AtLeast(1.5)),
        bar("queries, times exchanges", ratio(rate(Row::Query), in_flight_64), Limit::AtLeast(1.0)),
        bar("mix of calls, times exchanges", ratio(rate(Row::Mix), in_flight_64), Limit::AtLeast(0.9)),
        bar("payments, times exchanges", ratio(rate(Row::Payment), in_flight_64), Limit::AtLeast(0.5)),
        bar(
            "reports of new orders, times classic",
            ratio(rate(Row::ReportNew), rate(Row::ReportNewClassic)),
            Limit::AtLeast(1.0),
        ),
        bar(
            "reports of changed orders, times classic",
            ratio(rate(Row::ReportChanged), rate(Row::ReportChangedClassic)),
            Limit::AtLeast(1.0),
        ),
        bar("imported credits a second", rate(Row::Import), Limit::AtLeast(30_000.0)),
        bar("64 in flight, p99 in ms", p99(Row::InFlight64), Limit::Below(15.0)),
        bar("paced at half of the highest rate, p99 in ms", p99(Row::Paced), Limit::Below(5.0)),
        bar("64 in flight on filled tables, times fresh", times_fresh(Row::InFlight64), Limit::AtLeast(0.8)),
        bar("cancels on filled tables, times fresh", times_fresh(Row::Cancel), Limit::AtLeast(0.8)),
        bar("queries on filled tables, times fresh", times_fresh(Row::Query), Limit::AtLeast(0.8)),
    ]
}
