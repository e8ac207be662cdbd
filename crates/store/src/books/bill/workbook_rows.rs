//! Ledger entries as rows of a workbook: those of a bill, and those of a wallet.

use domain::ledger::EXCHANGE;
use domain::period::TimeZone;
use domain::text;
use domain::text::Text;
use spreadsheet::{SheetCell, SheetColumn};

use super::workbook::{EntryChanges, SheetStyle, SheetWords, WorkbookRow};
use super::{BillColumn, BillLine};
use crate::wallet::LedgerRow;

impl BillColumn {
    /// Its heading in a workbook.
    fn heading(self, zone: &str) -> Text {
        match self {
            Self::At => text!("Time ({zone})", zone),
            Self::OpenId => text!("Player"),
            Self::Seq => text!("Entry"),
            Self::Kind => text!("Kind"),
            Self::BizNo => text!("Order number"),
            Self::Ref => text!("Ref"),
            Self::FreeChange => text!("Gifted change"),
            Self::ChargeChange => text!("Charged change"),
            Self::FreeBalance => text!("Gifted balance"),
            Self::ChargeBalance => text!("Charged balance"),
            Self::ZoneId => text!("Zone and role"),
            Self::ProductName => text!("Item"),
        }
    }

    /// The time zone of a workbook with these headings, in one of these languages. `None`: it is no bill.
    pub(in super::super) fn zone_of_workbook(
        headings: &[String],
        languages: &[SheetWords],
    ) -> Option<TimeZone> {
        let (_, zone) = headings.first()?.strip_suffix(')')?.rsplit_once('(')?;
        let in_words = |words: &SheetWords| Self::ALL.map(|column| words(&column.heading(zone)));
        let is_one = languages.iter().any(|words| headings == in_words(words));
        TimeZone::parse(zone).ok().filter(|_| is_one)
    }

    fn in_workbook(self, style: &SheetStyle) -> SheetColumn {
        let width = match self {
            Self::At | Self::OpenId | Self::BizNo | Self::Ref => 24,
            Self::ZoneId | Self::ProductName => 20,
            _ if self.is_integer() => 14,
            _ => 10,
        };
        style.column(&self.heading(style.zone.as_str()), width)
    }
}

impl WorkbookRow for BillLine {
    fn columns(style: &SheetStyle) -> Vec<SheetColumn> {
        BillColumn::ALL.map(|column| column.in_workbook(style)).into()
    }

    fn cells<'a>(&'a self, style: &SheetStyle) -> Vec<SheetCell<'a>> {
        vec![
            style.moment(self.at),
            text_cell(self.open_id.as_deref()),
            SheetCell::Integer(self.seq.into()),
            SheetCell::Text(&self.kind),
            text_cell(self.biz_no.as_deref()),
            text_cell(self.r#ref.as_deref()),
            SheetCell::Integer(self.free_change.into()),
            SheetCell::Integer(self.charge_change.into()),
            SheetCell::Integer(self.free_balance.into()),
            SheetCell::Integer(self.charge_balance.into()),
            text_cell(self.zone_id.as_deref()),
            text_cell(self.product_name.as_deref()),
        ]
    }

    fn changes(&self) -> EntryChanges<'_> {
        let Self { at, kind, free_change, charge_change, .. } = self;
        EntryChanges { at: *at, kind, free: *free_change, charge: *charge_change }
    }
}

impl WorkbookRow for LedgerRow {
    fn columns(style: &SheetStyle) -> Vec<SheetColumn> {
        use BillColumn as Bill;
        let columns = [
            Bill::At,
            Bill::Seq,
            Bill::Kind,
            Bill::BizNo,
            Bill::Ref,
            Bill::FreeChange,
            Bill::ChargeChange,
            Bill::FreeBalance,
            Bill::ChargeBalance,
            Bill::ProductName,
        ];
        let more = [text!("Note"), text!("Operator")];
        let columns = columns.into_iter().map(|column| column.in_workbook(style));
        columns.chain(more.iter().map(|heading| style.column(heading, 20))).collect()
    }

    fn cells<'a>(&'a self, style: &SheetStyle) -> Vec<SheetCell<'a>> {
        let line = &self.line;
        let text = SheetCell::Text(&self.text);
        let (product, note) =
            if line.kind == EXCHANGE { (text, SheetCell::Empty) } else { (SheetCell::Empty, text) };
        vec![
            style.moment(line.at),
            SheetCell::Integer(line.seq.into()),
            SheetCell::Text(&line.kind),
            text_cell(line.biz_no.as_deref()),
            text_cell(line.reference.as_deref()),
            SheetCell::Integer(line.free_change.into()),
            SheetCell::Integer(line.charge_change.into()),
            SheetCell::Integer(line.free_balance.into()),
            SheetCell::Integer(line.charge_balance.into()),
            product,
            note,
            text_cell(self.operator.as_deref()),
        ]
    }

    fn changes(&self) -> EntryChanges<'_> {
        let line = &self.line;
        EntryChanges { at: line.at, kind: &line.kind, free: line.free_change, charge: line.charge_change }
    }
}

fn text_cell(text: Option<&str>) -> SheetCell<'_> {
    text.map_or(SheetCell::Empty, SheetCell::Text)
}
