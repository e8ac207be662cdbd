//! Bars as SVG. Attributes draw them, and the style sheet sets the colours. The words around them are HTML, so that they
//! have their size at every width.

use super::super::page::Shown as _;

/// The size of the drawing of days, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 160.0;
/// Days that a picture shows, the newest. More would be narrower than a point of a small screen.
pub(super) const DAYS_MAX: usize = 400;
/// Bars of a list, the longest.
pub(super) const BARS_MAX: usize = 10;

/// What a bar shows: the part below or left, and the part above or right of it.
pub(super) struct Bar {
    /// What it is of.
    pub(super) name: String,
    pub(super) parts: [i64; 2],
    /// The same in words.
    pub(super) words: String,
}

impl Bar {
    fn sum(&self) -> i64 {
        self.parts[0].saturating_add(self.parts[1])
    }
}

/// A rectangle.
pub(super) struct Rect {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// A bar that is ready to draw.
pub(super) struct Drawn {
    pub(super) name: String,
    pub(super) words: String,
    pub(super) sum: String,
    /// Where the pointer finds it.
    pub(super) slot: Rect,
    pub(super) parts: [Rect; 2],
}

/// A picture that is ready to draw.
pub(super) struct ReportChart {
    /// The picture as a text, for screen readers.
    pub(super) words: String,
    /// Labels of the axis of values: its end, its middle.
    pub(super) scale: [String; 2],
    /// Labels of the other axis: first, middle and last day. Empty in a list, whose bars have names.
    pub(super) axis: Vec<String>,
    pub(super) bars: Vec<Drawn>,
}

/// Bars that stand beside each other, from left to right.
pub(super) fn columns(bars: Vec<Bar>, words: String) -> ReportChart {
    let end = end_of_scale(bars.iter().map(Bar::sum).max().unwrap_or_default());
    let labels = [0, bars.len() / 2, bars.len().saturating_sub(1)];
    let mut axis: Vec<String> =
        labels.into_iter().filter_map(|place| bars.get(place)).map(|bar| bar.name.clone()).collect();
    axis.dedup();
    let slot = WIDTH / to_float(bars.len().max(1));
    let bars = bars.into_iter().enumerate().map(|(place, bar)| {
        let (left, height) = (slot * to_float(place), |value: i64| HEIGHT * share(value, end));
        let rect = |top: f64, height: f64| Rect {
            x: units(left + slot * 0.1),
            y: units(top),
            width: units(slot * 0.8),
            height: units(height),
        };
        let [low, high] = bar.parts.map(height);
        Drawn {
            sum: bar.sum().shown(),
            slot: Rect { x: units(left), y: units(0.0), width: units(slot), height: units(HEIGHT) },
            parts: [rect(HEIGHT - low, low), rect(HEIGHT - low - high, high)],
            name: bar.name,
            words: bar.words,
        }
    });
    ReportChart { words, scale: [end.shown(), (end / 2).shown()], axis, bars: bars.collect() }
}

/// Bars below each other, each 100 units long at the end of the scale.
pub(super) fn list(mut bars: Vec<Bar>, words: String) -> ReportChart {
    bars.truncate(BARS_MAX);
    let end = end_of_scale(bars.iter().map(Bar::sum).max().unwrap_or_default());
    let bars = bars.into_iter().map(|bar| {
        let [first, second] = bar.parts.map(|value| 100.0 * share(value, end));
        let rect = |x: f64, width: f64| Rect {
            x: units(x),
            y: units(0.0),
            width: units(width),
            height: units(10.0),
        };
        Drawn {
            sum: bar.sum().shown(),
            slot: rect(0.0, 100.0),
            parts: [rect(0.0, first), rect(first, second)],
            name: bar.name,
            words: bar.words,
        }
    });
    ReportChart { words, scale: [end.shown(), (end / 2).shown()], axis: Vec::new(), bars: bars.collect() }
}

/// The first round number that is not below a value: 2, 4, 6, 8, and from 10 on those of [`STEPS`] times 10, 100 and so on.
/// Half of it is a whole number.
fn end_of_scale(highest: i64) -> i64 {
    if highest < 10 {
        return (highest + highest % 2).max(2);
    }
    let mut ten: i64 = 1;
    loop {
        for step in STEPS {
            let Some(end) = ten.checked_mul(step) else { return i64::MAX };
            if end >= highest {
                return end;
            }
        }
        ten = ten.saturating_mul(10);
    }
}

const STEPS: [i64; 11] = [10, 12, 14, 16, 18, 20, 30, 40, 50, 60, 80];

#[expect(clippy::cast_precision_loss, reason = "a picture has a few hundred points")]
fn share(value: i64, end: i64) -> f64 {
    (value.max(0) as f64 / end as f64).min(1.0)
}

fn to_float(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn units(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, parts: [i64; 2]) -> Bar {
        Bar { name: name.to_owned(), parts, words: String::new() }
    }

    fn drawn(rect: &Rect) -> [&str; 4] {
        [&rect.x, &rect.y, &rect.width, &rect.height]
    }

    #[test]
    fn columns_stand_on_each_other_up_to_a_round_number() {
        let picture = columns(vec![bar("1st", [25, 50]), bar("2nd", [0, 0])], "w".to_owned());
        assert_eq!(
            (picture.scale, picture.axis),
            (["80", "40"].map(str::to_owned), vec!["1st".into(), "2nd".into()])
        );
        assert_eq!(drawn(&picture.bars[0].parts[0]), ["30.00", "110.00", "240.00", "50.00"]);
        assert_eq!(drawn(&picture.bars[0].parts[1]), ["30.00", "10.00", "240.00", "100.00"]);
        assert_eq!(drawn(&picture.bars[1].slot), ["300.00", "0.00", "300.00", "160.00"]);
    }

    #[test]
    fn a_list_has_ten_bars_at_most() {
        let picture = list((0..12).map(|_| bar("x", [5, 1])).collect(), String::new());
        assert_eq!((picture.bars.len(), picture.scale[0].as_str()), (10, "6"));
        assert_eq!(drawn(&picture.bars[0].parts[1]), ["83.33", "0.00", "16.67", "10.00"]);
    }

    #[test]
    fn a_scale_ends_at_a_round_number() {
        let ends = [0, 1, 3, 7, 9, 10, 11, 61, 1_000_001, i64::MAX].map(end_of_scale);
        assert_eq!(ends, [2, 2, 4, 8, 10, 10, 12, 80, 1_200_000, i64::MAX]);
    }
}
