//! A line chart of the last hour as SVG. Attributes draw the lines, and the style sheet sets the colours.

use domain::text;
use domain::text::Text;

use crate::i18n::said;
use crate::metrics::Sample;

/// The size of the drawing, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 60.0;
/// One hour in milliseconds.
const SPAN_MILLIS: f64 = 3_600_000.0;
/// Samples in one point of a line.
const MINUTE_SAMPLES: usize = 6;

/// A chart that is ready to draw.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// The highest value, at the upper edge.
    pub(super) highest: String,
    /// The chart as a text, for screen readers.
    pub(super) words: String,
    pub(super) lines: Vec<Line>,
}

/// One line of a chart.
pub(super) struct Line {
    pub(super) name: &'static str,
    /// The class of the style sheet, which sets the colour.
    pub(super) class: &'static str,
    /// The drawn parts. Between them are gaps without a value.
    pub(super) parts: Vec<String>,
    pub(super) latest: String,
}

/// Values of a line, each with its position from left (0) to right (1).
type LinePoints = Vec<(f64, Option<f64>)>;

/// A value for each minute of the last hour.
pub(super) fn minutes(samples: &[Sample], value: impl Fn(&Sample, &Sample) -> Option<f64>) -> LinePoints {
    let Some(now) = samples.last() else { return Vec::new() };
    // Counted from the right, so that the last minute is complete.
    let mut ends: Vec<&Sample> = samples.iter().rev().step_by(MINUTE_SAMPLES).collect();
    ends.reverse();
    let points = ends.windows(2).map(|pair| {
        let age = u32::try_from(now.at_millis.saturating_sub(pair[1].at_millis)).unwrap_or(u32::MAX);
        (1.0 - f64::from(age) / SPAN_MILLIS, value(pair[0], pair[1]))
    });
    points.filter(|(place, _)| (0.0..=1.0).contains(place)).collect()
}

/// Draws lines with one scale: the name, the class and the values of each. `unit` follows each number.
pub(super) fn chart(
    title: &'static str,
    unit: &str,
    lines: Vec<(&'static str, &'static str, LinePoints)>,
) -> Chart {
    let values = lines.iter().flat_map(|(.., values)| values.iter().filter_map(|(_, value)| *value));
    let highest = values.fold(0.0_f64, f64::max);
    let lines = lines.into_iter().map(|(name, class, values)| {
        let latest = values.last().and_then(|(_, value)| *value);
        let latest = latest.map_or_else(|| said(&text!("none")), |value| number(value, unit));
        Line { name, class, parts: parts(&values, highest.max(f64::MIN_POSITIVE)), latest }
    });
    let lines: Vec<Line> = lines.collect();
    let latest: Vec<String> =
        lines.iter().map(|line| format!("{}: {}", said(&Text::new(line.name)), line.latest)).collect();
    let highest = number(highest, unit);
    let words = said(&text!(
        "{title} in the last hour. Highest {highest}. Last minute: {latest}.",
        title = Text::new(title),
        highest,
        latest = latest.join(", ")
    ));
    Chart { title, highest, words, lines }
}

fn parts(values: &[(f64, Option<f64>)], highest: f64) -> Vec<String> {
    let drawn = values.split(|(_, value)| value.is_none()).filter(|part| !part.is_empty());
    drawn
        .map(|part| {
            let points = part.iter().map(|(place, value)| {
                let height = HEIGHT * (1.0 - value.unwrap_or_default() / highest);
                format!("{:.1},{height:.1}", place * WIDTH)
            });
            let points: Vec<String> = points.collect();
            // A line of a single point would be invisible.
            if let [only] = points.as_slice() { format!("{only} {only}") } else { points.join(" ") }
        })
        .collect()
}

fn number(value: f64, unit: &str) -> String {
    if value == 0.0 || value >= 100.0 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_drawn_in_parts_with_gaps_where_nothing_was() {
        let values = vec![(0.0, Some(0.0)), (0.25, Some(10.0)), (0.5, None), (1.0, Some(5.0))];
        let chart = chart("Queue", "", vec![("waiting", "", values)]);
        assert_eq!(chart.lines[0].parts, ["0.0,60.0 150.0,0.0", "600.0,30.0 600.0,30.0"]);
        assert_eq!((chart.highest.as_str(), chart.lines[0].latest.as_str()), ("10.0", "5.0"));
        assert_eq!(chart.words, "Queue in the last hour. Highest 10.0. Last minute: waiting: 5.0.");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let chart = chart("Queue", " ms", vec![("waiting", "", Vec::new())]);
        assert!(chart.lines[0].parts.is_empty());
        assert_eq!((chart.highest.as_str(), chart.lines[0].latest.as_str()), ("0 ms", "none"));
    }
}
