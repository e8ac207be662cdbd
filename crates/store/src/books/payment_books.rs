//! A payment provider's settlement file, compared with the payments of an app (contract 19.7).

#![expect(clippy::disallowed_methods, reason = "the macros do not know temporary tables")]

use std::borrow::Cow;

use domain::fields::{FieldError, FieldErrorKind, Fields};
use domain::input::Input;
use domain::moment;
use domain::period::TimeZone;
use domain::text::Text;
use domain::topup::{Currency, Payment, PaymentFields, PaymentProvider, ProviderOrderId};
use futures_util::TryStreamExt as _;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::book_column::{BookNumber, BookRows, ComparedBooks, FileColumn};
use super::reconcile::{MatchKind, Reconciled, list, name};
use super::their_file::TheirLine;
use crate::error::StoreError;
use crate::wallet::{bare_id, bare_value};

/// What a value of `money` is.
const MONEY: &str = "money in units of the currency, such as 6.00";

domain::word_enum! {
    /// A column of a settlement file: a field of a payment, or the money as people write it.
    pub enum PaymentColumn {
        /// The payment provider.
        Provider = "provider",
        /// The provider's id of the payment.
        ProviderOrderId = "provider_order_id",
        /// Code of the currency, in capitals or not.
        Currency = "currency",
        /// The money in minor units.
        Amount = "amount",
        /// The money in units of the currency, such as 6.00.
        Money = "money",
        /// When it was paid.
        PaidAt = "paid_at",
        /// The order.
        BizNo = "biz_no",
        /// The player.
        OpenId = "open_id",
        /// The product.
        ProductId = "product_id",
        /// Platform of the player.
        Os = "os",
        /// What the provider keeps, in minor units.
        Fee = "fee",
        /// Note for people.
        Note = "note",
    }
}

impl FileColumn for PaymentColumn {
    fn as_str(self) -> &'static str {
        Self::as_str(self)
    }

    fn is_number(self) -> bool {
        self == Self::ProviderOrderId
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::ProviderOrderId => "provider_order_id",
            Self::Currency => "currency",
            Self::Amount => "amount::text",
            // With its currency, which says how many digits are behind the point.
            Self::Money => "amount || ' ' || currency",
            Self::BizNo => "coalesce(biz_no, paid_biz_no, '')",
            Self::OpenId => "coalesce(open_id, '')",
            Self::ProductId => "coalesce(product_id, paid_product_id, '')",
            Self::PaidAt | Self::Os | Self::Fee | Self::Note => "''",
        }
    }

    fn is_same(self, here: &str, there: &str, _: &TimeZone) -> bool {
        let there = bare_value(there);
        match self {
            Self::Provider | Self::ProviderOrderId => here == there,
            Self::Currency => here.eq_ignore_ascii_case(there),
            Self::Amount => there.parse::<i64>().is_ok_and(|there| here.parse() == Ok(there)),
            Self::Money => here.split_once(' ').is_some_and(|(here, currency)| {
                Currency::parse(currency).is_ok_and(|of| minor_units(there, of).as_deref() == Some(here))
            }),
            // What one of both does not tell is no difference (19.3.2).
            Self::BizNo | Self::OpenId | Self::ProductId => {
                here.is_empty() || there.is_empty() || here == there
            }
            Self::PaidAt | Self::Os | Self::Fee | Self::Note => true,
        }
    }

    fn shown(self, here: String) -> String {
        if self == Self::Money { in_units(&here).unwrap_or(here) } else { here }
    }

    fn fault(self, here: &str, there: &str) -> Option<Text> {
        let there = bare_value(there);
        if self != Self::Money || there.is_empty() {
            return None;
        }
        let currency = Currency::parse(here.split_once(' ')?.1).ok()?;
        let is_money = minor_units(there, currency).is_some();
        (!is_money).then(|| FieldError::malformed("money", MONEY, there).text())
    }
}

/// Money here in units, such as 6.00 CNY of 600 CNY. `None` where it is none.
fn in_units(here: &str) -> Option<String> {
    let (minor, code) = here.split_once(' ')?;
    let units = Currency::parse(code).ok()?.in_units(minor.parse().ok()?);
    Some(format!("{units} {code}"))
}

/// Money in minor units, of a text in units of the currency. `None` where it is none, or has too many digits.
fn minor_units(text: &str, currency: Currency) -> Option<String> {
    let digits = usize::try_from(currency.minor_digits()).ok()?;
    let (whole, behind) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = !whole.is_empty()
        && !behind.is_empty()
        && [whole, behind].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let behind = behind.trim_end_matches('0');
    if !is_number || behind.len() > digits {
        return None;
    }
    let minor = format!("{whole}{behind:0<digits$}");
    let minor = minor.trim_start_matches('0');
    Some(if minor.is_empty() { "0" } else { minor }.to_owned())
}

/// The payments of an app.
#[derive(Debug, Clone)]
pub struct PaymentBooks {
    /// The provider whose file it is. Without it, the file has a column of it.
    pub provider: Option<PaymentProvider>,
    /// The currency of all lines, where no column of the file tells it.
    pub currency: Option<Currency>,
}

impl ComparedBooks for PaymentBooks {
    type Column = PaymentColumn;

    fn column(&self) -> PaymentColumn {
        PaymentColumn::ProviderOrderId
    }

    fn second_column(&self) -> Option<PaymentColumn> {
        self.provider.is_none().then_some(PaymentColumn::Provider)
    }

    fn constant(&self) -> Option<(PaymentColumn, &str)> {
        self.currency.as_ref().map(|currency| (PaymentColumn::Currency, currency.as_str()))
    }

    fn bare<'a>(&self, number: &'a str) -> &'a str {
        let id = bare_id(bare_value(number), ProviderOrderId::parse);
        if ProviderOrderId::parse(id).is_ok() { id } else { number }
    }

    fn refuses_shortened(&self) -> bool {
        true
    }

    fn key<'a>(&self, line: &'a TheirLine<'_, PaymentColumn>) -> Cow<'a, str> {
        let provider = self.provider.as_ref().map(PaymentProvider::as_str);
        let provider = provider.or_else(|| line.value(PaymentColumn::Provider)).unwrap_or_default();
        format!("{}/{}", bare_value(provider), line.number).into()
    }

    fn rows(&self, _: &[PaymentColumn]) -> BookRows {
        let compared = match &self.provider {
            // The name has no quotes.
            Some(provider) => format!("provider = '{}'", provider.as_str()).into(),
            None => "provider IN (SELECT split_part(number, '/', 1) FROM their_lines)".into(),
        };
        let number = "provider || '/' || provider_order_id";
        BookRows { relation: "topup_payments", number, at: "paid_at", compared }
    }

    fn shown(&self, number: &str) -> BookNumber {
        BookNumber { biz_no: None, reference: Some(number.to_owned()) }
    }
}

/// A payment of a settlement file that is not here.
#[derive(Debug)]
pub struct MissingPayment {
    /// Its provider and its id there, with a slash between both.
    pub reference: String,
    /// The payment, or what keeps it from being one.
    pub payment: Result<Payment, FieldError>,
}

impl Reconciled<PaymentBooks> {
    /// Payments that are only in the file, in the order of their refs, as they are told at `now`, in Unix seconds. A time
    /// without an offset is in this zone.
    ///
    /// # Errors
    /// The database is away, or `each` has failed, which ends it.
    pub async fn each_missing<E: From<StoreError>>(
        &mut self,
        (zone, now): (&TimeZone, i64),
        mut each: impl AsyncFnMut(MissingPayment) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = list(&self.columns, |column| format!(", {}", name("there", column)));
        let only_there = MatchKind::OnlyThere as u8;
        let sql =
            format!("SELECT number, lines{columns} FROM compared WHERE found = {only_there} ORDER BY number");
        let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(&mut self.connection);
        while let Some(row) = rows.try_next().await.map_err(StoreError::from)? {
            each(missing_of(&row, &self.columns, (zone, now))?).await?;
        }
        Ok(())
    }
}

fn missing_of(
    row: &PgRow,
    columns: &[PaymentColumn],
    (zone, now): (&TimeZone, i64),
) -> Result<MissingPayment, StoreError> {
    let (reference, lines): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    let mut values = Vec::with_capacity(columns.len());
    for (place, column) in columns.iter().enumerate() {
        values.push((*column, row.try_get::<String, _>(place + 2)?));
    }
    let payment = payment_of(&reference, lines, &values, (zone, now));
    Ok(MissingPayment { reference, payment })
}

/// The payment of a line, by the same rules as those of the admin API.
fn payment_of(
    reference: &str,
    lines: i64,
    values: &[(PaymentColumn, String)],
    (zone, now): (&TimeZone, i64),
) -> Result<Payment, FieldError> {
    if lines > 1 {
        let expected = "a line for each payment";
        return Err(FieldError::malformed("provider_order_id", expected, &format!("{lines} lines")));
    }
    let (provider, id) = reference.split_once('/').unwrap_or_default();
    let provider = PaymentProvider::parse(provider)
        .map_err(|expected| FieldError::malformed("provider", expected, provider))?;
    // Before the money: a line of totals has money, and its id says that it is no payment.
    ProviderOrderId::parse(id)
        .map_err(|expected| FieldError::malformed("provider_order_id", expected, id))?;
    let value = |column| values.iter().find(|(of, _)| *of == column).map(|(_, value)| bare_value(value));
    let currency = value(PaymentColumn::Currency).map(str::to_ascii_uppercase);
    let minor = value(PaymentColumn::Money).filter(|money| !money.is_empty());
    let minor = minor.map(|money| minor_of(money, currency.as_deref())).transpose()?;
    let mut fields = Fields::default();
    let mut add = |name: &str, value: String| {
        if value.is_empty() {
            return;
        }
        // Columns stand once, and no value has a NUL.
        fields.add_text(name.to_owned(), value).unwrap_or_default();
    };
    add("provider_order_id", id.to_owned());
    for (column, cell) in values {
        let value = bare_value(cell);
        match column {
            PaymentColumn::Provider | PaymentColumn::ProviderOrderId | PaymentColumn::Money => {}
            PaymentColumn::Currency => add("currency", currency.clone().unwrap_or_default()),
            // A file may tell the money twice. Which of two would be right, nobody knows here.
            PaymentColumn::Amount if minor.as_deref().is_some_and(|minor| !is_amount(value, minor)) => {
                let expected = "the same money as in money";
                return Err(FieldError::malformed("amount", expected, value));
            }
            PaymentColumn::Amount if minor.is_some() => {}
            PaymentColumn::PaidAt => {
                let at = moment::parse_given(value).map(|given| moment::rfc3339(zone.moment(given)));
                add("paid_at", at.unwrap_or_else(|_| value.to_owned()));
            }
            // An apostrophe may be the first letter of a text of people.
            PaymentColumn::Note => {
                let note = cell.trim();
                add("note", note.strip_prefix('`').unwrap_or(note).to_owned());
            }
            other => add(other.as_str(), value.to_owned()),
        }
    }
    add("amount", minor.unwrap_or_default());
    PaymentFields::read(&mut Input::of(&fields))?.of(provider, now)
}

/// Money in minor units, of a value of `money`. Without its currency nobody knows the units. `None` is no column of it.
fn minor_of(money: &str, currency: Option<&str>) -> Result<String, FieldError> {
    let lacks = |problem| FieldError { field: "currency".to_owned(), problem };
    let currency = match currency {
        None => return Err(lacks(FieldErrorKind::Missing)),
        Some("") => return Err(lacks(FieldErrorKind::Empty)),
        Some(code) => {
            Currency::parse(code).map_err(|expected| FieldError::malformed("currency", expected, code))?
        }
    };
    minor_units(money, currency).ok_or_else(|| FieldError::malformed("money", MONEY, money))
}

/// Whether a value of `amount` is empty or this money.
fn is_amount(value: &str, minor: &str) -> bool {
    value.is_empty() || value.parse::<i64>().is_ok_and(|value| minor.parse() == Ok(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 19.7.5: a line that is no payment is named with the field at fault, the id first and the currency before the money.
    #[test]
    fn a_line_of_totals_is_named_with_the_field_at_fault() {
        let money = (PaymentColumn::Money, "6.00".to_owned());
        let with = |currency: &str| vec![(PaymentColumn::Currency, currency.to_owned()), money.clone()];
        for (reference, values, expected) in [
            (
                "e1/\u{5408}\u{8ba1}",
                with(""),
                "provider_order_id: expected 1 to 128 printable ASCII characters, got \"\u{5408}\u{8ba1}\"",
            ),
            ("e1/total", with(""), "currency is empty"),
            ("e1/total", vec![money.clone()], "currency is missing"),
            (
                "e1/p1",
                with("yuan"),
                "currency: expected a code of ISO 4217 in capitals, such as CNY or USD, got \"YUAN\"",
            ),
        ] {
            let wrong = payment_of(reference, 1, &values, (&TimeZone::default(), 0)).unwrap_err();
            assert_eq!(wrong.text().english(), expected, "{reference} {values:?}");
        }
    }

    /// Rule 19.7.4.
    #[test]
    fn money_here_is_shown_in_units_and_what_is_no_money_there_is_named() {
        for (here, shown) in [
            ("600 CNY", "6.00 CNY"),
            ("5 CNY", "0.05 CNY"),
            ("120 JPY", "120 JPY"),
            ("1234 KWD", "1.234 KWD"),
        ] {
            assert_eq!(PaymentColumn::Money.shown(here.to_owned()), shown);
            assert_eq!(PaymentColumn::Amount.shown(here.to_owned()), here);
        }
        let fault = |there: &str| PaymentColumn::Money.fault("600 CNY", there).map(|fault| fault.english());
        let expected = "money: expected money in units of the currency, such as 6.00, got \"6,00\"";
        assert_eq!(fault("`6,00").as_deref(), Some(expected));
        assert_eq!((fault("7.00"), fault("")), (None, None));
        let utc = TimeZone::default();
        for same in ["6.00", "6", "=\"6.00\"", "'6.0"] {
            assert!(PaymentColumn::Money.is_same("600 CNY", same, &utc), "{same}");
        }
        for other in ["600", "6.01", "6,00", ""] {
            assert!(!PaymentColumn::Money.is_same("600 CNY", other, &utc), "{other}");
        }
    }

    #[test]
    fn money_of_people_is_in_minor_units() {
        for (text, currency, minor) in [
            ("6.00", "CNY", Some("600")),
            ("6", "CNY", Some("600")),
            ("0.5", "CNY", Some("50")),
            ("6.500", "CNY", Some("650")),
            ("0", "CNY", Some("0")),
            ("600", "JPY", Some("600")),
            ("6.000", "JPY", Some("6")),
            ("1.234", "KWD", Some("1234")),
            ("6.001", "CNY", None),
            ("6.5", "JPY", None),
            ("6,50", "CNY", None),
            ("1,000.00", "CNY", None),
            ("-6.00", "CNY", None),
            (".5", "CNY", None),
            ("6.", "CNY", None),
            ("", "CNY", None),
        ] {
            let currency = Currency::parse(currency).unwrap();
            assert_eq!(minor_units(text, currency).as_deref(), minor, "{text} {currency}");
        }
    }
}
