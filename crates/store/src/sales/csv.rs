//! Revenue as CSV (contract 13.2.6).

use std::io;

use domain::csv::csv_text;

use super::revenue::{RevenueGroup, RevenueReport, RevenueRow, RevenueSums};
use crate::wallet::csv_of;

/// The columns of the sums.
const SUMS: [&str; 6] =
    ["count", "free_taken", "charge_taken", "free_given_back", "charge_given_back", "net"];

impl RevenueReport {
    /// The columns of a report with these groups.
    pub fn columns(groups: &[RevenueGroup]) -> impl Iterator<Item = &'static str> {
        groups.iter().map(|group| group.as_str()).chain(SUMS)
    }

    /// The cells of the rows in the order of the columns, and of the total at their end.
    #[must_use]
    pub fn lines(&self, groups: &[RevenueGroup]) -> Vec<Vec<String>> {
        let mut lines: Vec<Vec<String>> = self.rows.iter().map(|row| cells(row, groups)).collect();
        let names = (0..groups.len()).map(|place| if place == 0 { "total" } else { "" }.to_owned());
        lines.push(names.chain(figures(&self.total)).collect());
        lines
    }

    /// The report as CSV, with the groups that it was asked with. Free texts begin with nothing that a spreadsheet
    /// calculates; sums may be negative.
    ///
    /// # Errors
    /// None is known, because it writes into memory.
    pub fn csv(&self, groups: &[RevenueGroup]) -> io::Result<Vec<u8>> {
        let lines = self.lines(groups);
        let lines = lines.iter().map(|line| {
            let (texts, sums) = line.split_at(groups.len());
            let texts = texts.iter().map(|text| csv_text(text));
            texts.chain(sums.iter().map(|sum| sum.as_str().into())).collect::<Vec<_>>()
        });
        csv_of(Self::columns(groups), lines)
    }
}

fn cells(row: &RevenueRow, groups: &[RevenueGroup]) -> Vec<String> {
    let texts = groups.iter().map(|group| row.name(*group).to_owned());
    texts.chain(figures(&row.sums)).collect()
}

fn figures(sums: &RevenueSums) -> [String; 6] {
    let RevenueSums { count, free_taken, charge_taken, free_given_back, charge_given_back, net } = sums;
    [count, free_taken, charge_taken, free_given_back, charge_given_back, net].map(i64::to_string)
}
