//! Bars as SVG. Attributes draw them, and the style sheet sets the colours. The words around them are HTML, so that they
//! have their size at every width.

use super::super::page::Shown as _;

/// Bars of a list, the longest.
pub(super) const BARS_MAX: usize = 10;

/// What a bar shows: the part below or left, and the part above or right of it.
pub(super) struct Bar {
    /// What it is of.
    pub(super) name: String,
    pub(super) parts: [i64; 2],
    /// The same in words.
    pub(super) words: String,
    /// The list of what it counts, where there is one.
    pub(super) address: Option<String>,
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
    pub(super) address: Option<String>,
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
    pub(super) bars: Vec<Drawn>,
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
            address: bar.address,
        }
    });
    ReportChart { words, scale: [end.shown(), (end / 2).shown()], bars: bars.collect() }
}

/// The first round number that is not below a value. These are 2, 4, 6, 8, and from 10 on those of [`STEPS`] times 10,
/// 100 and so on. Half of it is a whole number.
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

fn units(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, parts: [i64; 2]) -> Bar {
        Bar { name: name.to_owned(), parts, words: String::new(), address: None }
    }

    fn drawn(rect: &Rect) -> [&str; 4] {
        [&rect.x, &rect.y, &rect.width, &rect.height]
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
