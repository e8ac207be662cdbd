//! Line and bar charts over time (contract 16.3.5): values as data of the page, which `plots.js` draws. The page has the
//! same figures as a table, for screen readers and browsers without script.

use serde::Serialize;
use time::OffsetDateTime;

use super::i18n::{local, zone};

/// What the charts of a page share: the points of time.
#[derive(Debug, Default, Serialize)]
pub(super) struct PlotAxis {
    /// The beginning of each point, in seconds.
    at: Vec<i64>,
    /// The end of the last one.
    end: i64,
    /// The usual time from a point to the next, in seconds.
    step: u64,
    /// The place of the newest point that has values.
    newest: usize,
    /// What each point is called.
    labels: Vec<String>,
    /// The time zone of the page.
    zone: String,
    /// Points in which an instance started.
    started: Vec<i64>,
    /// Points in which something was wrong.
    bad: Vec<i64>,
}

/// A point of the axis.
pub(super) struct PlotPoint {
    pub(super) at: OffsetDateTime,
    pub(super) label: String,
    /// Whether it has values.
    pub(super) has_values: bool,
    pub(super) started: bool,
    pub(super) bad: bool,
}

impl PlotAxis {
    /// The axis of these points, oldest first, until an end.
    pub(super) fn new(points: Vec<PlotPoint>, end: OffsetDateTime, step: std::time::Duration) -> Self {
        let mut axis = Self {
            end: end.unix_timestamp(),
            step: step.as_secs(),
            zone: zone().as_str().to_owned(),
            ..Self::default()
        };
        axis.newest = points.iter().rposition(|point| point.has_values).unwrap_or_default();
        for point in points {
            let at = point.at.unix_timestamp();
            axis.at.push(at);
            axis.labels.push(point.label);
            axis.started.extend(point.started.then_some(at));
            axis.bad.extend(point.bad.then_some(at));
        }
        axis
    }

    /// The value of `data-axis`.
    pub(super) fn data(&self) -> String {
        json(self)
    }

    /// What the newest point with values is called.
    pub(super) fn newest(&self) -> &str {
        self.labels.get(self.newest).map_or("", String::as_str)
    }
}

/// A line of a chart, or the parts of its bars.
#[derive(Debug, Serialize)]
pub(super) struct PlotSeries {
    #[serde(skip)]
    pub(super) name: String,
    /// The class of the style sheet, which sets the colour.
    pub(super) class: &'static str,
    /// A value for each point of the axis.
    pub(super) values: Vec<Option<f64>>,
}

impl PlotSeries {
    /// A line of these values, with two places behind the point.
    pub(super) fn new(name: String, class: &'static str, values: impl Iterator<Item = Option<f64>>) -> Self {
        let round = |value: f64| (value * 100.0).round() / 100.0;
        Self { name, class, values: values.map(|value| value.map(round)).collect() }
    }

    /// The value of the newest point that has one.
    pub(super) fn newest(&self, axis: &PlotAxis) -> String {
        self.values
            .get(axis.newest)
            .copied()
            .flatten()
            .map_or_else(|| "\u{2013}".to_owned(), |value| value.to_string())
    }
}

/// A chart.
#[derive(Debug, Serialize)]
pub(super) struct Plot {
    #[serde(skip)]
    pub(super) title: String,
    /// The unit behind each value.
    #[serde(skip)]
    pub(super) unit: &'static str,
    pub(super) series: Vec<PlotSeries>,
    /// Where a point leads: an address with the places `{from}` and `{to}`.
    pub(super) link: Option<String>,
    /// Whether bars stand on each other, instead of lines.
    pub(super) bars: bool,
}

impl Plot {
    /// The value of `data-plot`.
    pub(super) fn data(&self) -> String {
        json(self)
    }
}

fn json(value: &impl Serialize) -> String {
    // Numbers and texts are always written.
    serde_json::to_string(value).unwrap_or_default()
}

/// The address of what a point counts: that of a list, with places for the times of the point.
pub(super) fn of_point(list: &str) -> String {
    format!("{list}{}from={{from}}&to={{to}}", if list.contains('?') { '&' } else { '?' })
}

/// The moment of a point, to the minute.
pub(super) fn label(at: OffsetDateTime) -> String {
    let label = local(at);
    label.rsplit_once(':').map_or(label.as_str(), |(minute, _)| minute).to_owned()
}
