//! The options that all reports share: a period with its time zone, and a format with its file (contract 13.8).

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use domain::period::{Period, TimeSpan, TimeZone};
use serde_json::json;
use store::SheetStyle;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::cli::Context;
use crate::cli::new_file::NewFile;
use crate::cli::output::write_out;
use crate::cli::span::WhenArguments;

/// The subject of a report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Period")]
pub(in crate::cli) struct PeriodArguments {
    #[command(flatten)]
    when: WhenArguments,
    /// Time zone of days, months and moments, and of a workbook's times: an IANA name, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = TimeZone::parse)]
    pub(in crate::cli) time_zone: TimeZone,
}

impl PeriodArguments {
    /// The day or the month. A report that is closed has no other period.
    pub(super) fn period(&self) -> Result<Period> {
        match self.when.period() {
            Some(period) => Ok(period),
            None => bail!("expected --day or --month"),
        }
    }

    /// The ends of the span, each where one was given.
    ///
    /// # Errors
    /// The end is not after the beginning.
    pub(in crate::cli) fn ends(&self) -> Result<[Option<OffsetDateTime>; 2]> {
        self.when.ends(&self.time_zone)
    }

    /// The span, of all time where no end was given.
    pub(super) fn span(&self) -> Result<TimeSpan> {
        let [since, until] = self.ends()?;
        let since = since.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Ok(TimeSpan { since, until: until.unwrap_or(datetime!(9999-12-31 0:00 UTC)) })
    }

    /// How workbooks of the command line speak.
    pub(in crate::cli) fn style(&self) -> SheetStyle {
        SheetStyle::english(self.time_zone.clone())
    }
}

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ReportFormat {
    /// Table for people
    Table,
    /// Comma-separated values with a heading, for programs
    Csv,
    /// One JSON object, as with `--json`
    Json,
    /// One JSON object for each entry, one a line; a report without entries is one line
    Jsonl,
    /// Workbook for spreadsheets, with times in the time zone of the report
    Xlsx,
}

/// What a report is written as, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Format")]
pub(in crate::cli) struct FormatArguments {
    /// Format of the report
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
    /// Short for `--format csv`
    #[arg(long, conflicts_with_all = ["format", "excel"])]
    csv: bool,
    /// Short for `--format xlsx`
    #[arg(long, conflicts_with = "format")]
    excel: bool,
    /// Write to this file instead of standard output; it appears when it is complete
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

impl FormatArguments {
    /// The format, which is this one where none was asked for. `--json` without a file is the JSON of the report.
    pub(in crate::cli) fn format(&self, context: &Context, unasked: ReportFormat) -> Result<ReportFormat> {
        let short = match (self.csv, self.excel) {
            (true, _) => Some(ReportFormat::Csv),
            (_, true) => Some(ReportFormat::Xlsx),
            _ => None,
        };
        let asked = self.format.or(short);
        let is_workbook = asked == Some(ReportFormat::Xlsx);
        if self.out.is_none() {
            ensure!(
                !(is_workbook && context.output.is_json),
                "a workbook is no JSON: with --json, write it with --out FILE"
            );
            ensure!(
                !(is_workbook && io::stdout().is_terminal()),
                "a workbook is no text: write it with --out FILE"
            );
            if context.output.is_json {
                return Ok(ReportFormat::Json);
            }
        }
        Ok(asked.unwrap_or(unasked))
    }

    /// Writes a whole report, and prints the name of its file where it has one.
    pub(in crate::cli) fn give(&self, context: &Context, report: &[u8]) -> Result<()> {
        let Some(path) = &self.out else { return write_out(|out| out.write_all(report)) };
        let file = NewFile::create(path)?;
        (&file.file).write_all(report).map_err(|error| file.failed(&error))?;
        file.finish()?;
        context.output.print(&json!({ "file": path }), path.display())
    }
}

/// Where a report goes that is written piece by piece.
pub(in crate::cli) fn to_out(file: Option<&NewFile<'_>>) -> io::Result<Box<dyn Write + Send>> {
    Ok(match file {
        Some(file) => Box::new(file.file.try_clone()?),
        None => Box::new(io::stdout()),
    })
}
