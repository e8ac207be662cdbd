//! The sums of a report, each beside that of the period before (contract 8.6.31).

use domain::text;
use domain::text::Text;
use store::RevenueSums;

use super::super::i18n::said;
use super::super::overview::times;
use super::super::page::Shown as _;

/// A sum, and how it compares with the period before.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) compared: Option<String>,
}

/// Sums of a period, and its paying players where they are counted.
type Counted = (RevenueSums, Option<i64>);

pub(super) fn figures((now, payers): Counted, before: Option<Counted>) -> Vec<Figure> {
    let figure = |name, value: fn(&RevenueSums) -> i64| Figure {
        name,
        value: value(&now).shown(),
        compared: before.map(|(before, _)| said(&compared(value(&now), value(&before)))),
    };
    let mut figures = vec![
        figure("Exchanges", |sums| sums.count),
        figure("Gifted coins taken", |sums| sums.free_taken),
        figure("Charged coins taken", |sums| sums.charge_taken),
        figure("Coins given back", |sums| sums.free_given_back.saturating_add(sums.charge_given_back)),
        figure("Taken less given back", |sums| sums.net),
    ];
    if let Some(payers) = payers {
        let before = before.and_then(|(sums, payers)| Some((sums, payers?)));
        figures.push(Figure {
            name: "Paying players",
            value: payers.shown(),
            compared: before.map(|(_, before)| said(&compared(payers, before))),
        });
        figures.push(Figure {
            name: "Coins per paying player",
            value: per_payer(&now, payers),
            compared: before
                .map(|(sums, payers)| said(&text!("before: {before}", before = per_payer(&sums, payers)))),
        });
    }
    figures
}

/// What was taken, less what was given back, by each who paid, with one place behind the point.
fn per_payer(sums: &RevenueSums, payers: i64) -> String {
    if payers <= 0 {
        return "\u{2013}".to_owned();
    }
    let tenths = (i128::from(sums.net) * 10 + i128::from(payers) / 2).div_euclid(payers.into());
    let whole = i64::try_from(tenths / 10).unwrap_or(i64::MAX);
    let sign = if tenths < 0 && whole == 0 { "\u{2212}" } else { "" };
    format!("{sign}{}.{}", whole.shown(), (tenths % 10).abs())
}

/// A number beside that of the period before. Per cent say something below twice as much, and of what is not negative.
fn compared(now: i64, before: i64) -> Text {
    if now == before {
        return text!("as much as before");
    }
    if before == 0 {
        return text!("before: none");
    }
    if now < 0 || before < 0 {
        return text!("before: {before}", before = before.shown());
    }
    if now == 0 {
        return text!("none, before: {before}", before = before.shown());
    }
    let (now, base) = (i128::from(now), i128::from(before));
    let before = before.shown();
    if let Some(times) = times(now, base) {
        return text!("{times} times as much as before ({before})", times, before);
    }
    let thousandths = ((now - base).abs() * 1000 + base / 2) / base;
    let per_cent = format!("{}.{}", thousandths / 10, thousandths % 10);
    if now > base {
        text!("{per_cent} % more than before ({before})", per_cent, before)
    } else {
        text!("{per_cent} % less than before ({before})", per_cent, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_compared_with_the_one_before() {
        for (now, before, words) in [
            (119, 100, "19.0 % more than before (100)"),
            (199, 100, "99.0 % more than before (100)"),
            (200, 100, "2 times as much as before (100)"),
            (254, 100, "2.5 times as much as before (100)"),
            (1_300, 100, "13 times as much as before (100)"),
            (11_900, 100, "119 times as much as before (100)"),
            (2, 3, "33.3 % less than before (3)"),
            (7, 7, "as much as before"),
            (7, 0, "before: none"),
            (0, 3, "none, before: 3"),
            (-5, 5, "before: 5"),
            (5, -5, "before: \u{2212}5"),
        ] {
            assert_eq!(compared(now, before).english(), words);
        }
    }

    #[test]
    fn coins_are_shared_by_those_who_paid() {
        let per = |net, payers| per_payer(&RevenueSums { net, ..RevenueSums::default() }, payers);
        assert_eq!([per(70, 2), per(100, 3), per(0, 5), per(7, 0)], ["35.0", "33.3", "0.0", "\u{2013}"]);
        assert_eq!([per(-5, 10), per(-25, 10)], ["\u{2212}0.5", "\u{2212}2.5"]);
    }
}
