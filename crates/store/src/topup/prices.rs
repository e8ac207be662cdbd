//! Lists of prices (contract 19.1). A new list is a new version; orders keep the figures they were made with.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;

use csv::{Position, StringRecord};
use domain::fields::{Expected, parse_integer};
use domain::ids::{AppId, AppNo};
use domain::operation::topup::{SetPrices, product_twice};
use domain::operator::Operator;
use domain::text;
use domain::text::Text;
use domain::topup::{Currency, FIGURE_MAX, Offer, PRICES_MAX, Price, PriceName, PricedProductId};
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::app_number::number_of;
use crate::error::{OperationError, Result, StoreError};
use crate::operator_log::{LogLine, OperatorAction};
use crate::store::Store;
use crate::wallet::{
    NamedFaults, QuoteCheck, bare_cell, csv_fault, csv_line, fault_line, fits_heading, is_separator_line,
    listed_id, names_of, not_csv, separator, shortened,
};

/// The columns of a file, in any order.
pub const PRICE_COLUMNS: [&str; 7] =
    ["product_id", "currency", "amount", "charge", "bonus", "name", "active"];
/// How many versions are listed.
const VERSIONS_MAX: i64 = 100;

/// A product of the newest list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Price")]
pub struct ListedPrice {
    /// The product.
    #[schemars(with = "PricedProductId")]
    pub product_id: String,
    /// Code of the currency.
    #[schemars(with = "Currency")]
    pub currency: String,
    /// The money, in minor units.
    pub amount: i64,
    /// Charged coins.
    pub charge: i64,
    /// Gifted coins.
    pub bonus: i64,
    /// Its name, for people.
    pub name: String,
    /// Whether it is for sale.
    pub active: bool,
}

/// The newest list of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Prices")]
pub struct PriceList {
    /// Its version, from 1. 0 for an app without prices.
    pub version: i32,
    /// Its products, in the order of their ids.
    pub prices: Vec<ListedPrice>,
}

impl Store {
    /// The newest list of prices.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn prices(&self, app_id: &AppId) -> Result<PriceList, OperationError> {
        let mut connection = self.pool.acquire().await?;
        let app_no = number_of(&mut *connection, app_id).await?;
        Ok(newest(&mut connection, app_no).await?)
    }

    /// A version of the list of prices, which may be an earlier one. Without products where there was none.
    ///
    /// # Errors
    /// There is no such app, or the database is away.
    pub async fn prices_of(&self, app_id: &AppId, version: i32) -> Result<PriceList, OperationError> {
        let mut connection = self.pool.acquire().await?;
        let app_no = number_of(&mut *connection, app_id).await?;
        Ok(list_of(&mut connection, app_no, version).await?)
    }

    /// The newest versions of the list of prices, newest first, each with its time.
    ///
    /// # Errors
    /// The database is away.
    pub async fn price_versions(&self, app_id: &AppId) -> Result<Vec<(i32, OffsetDateTime)>> {
        let versions = sqlx::query!(
            "SELECT version, created_at FROM topup_price_lists
             WHERE app_no = (SELECT app_no FROM apps WHERE app_id = $1) ORDER BY version DESC LIMIT $2",
            app_id.as_str(),
            VERSIONS_MAX
        );
        let versions = versions.fetch_all(&self.pool).await?;
        Ok(versions.into_iter().map(|row| (row.version, row.created_at)).collect())
    }

    /// What the app sells a product for now. `None` where it is not for sale. `ttl` is how long an order is shown as open.
    pub async fn offer(
        &self,
        app_no: AppNo,
        product_id: &PricedProductId,
        ttl: i64,
    ) -> Result<Option<Offer>> {
        let mut connection = self.pool.acquire().await?;
        let price = prices_of(&mut connection, app_no.0, &[product_id]).await?.remove(product_id);
        Ok(price.filter(|price| price.active).map(|price| price.offer(ttl)))
    }

    /// Replaces the list of prices of an app. A list that is there already changes nothing.
    ///
    /// # Errors
    /// There is no such app, a product stands twice, or the database is away.
    pub async fn set_prices(
        &self,
        operator: &Operator,
        app_id: &AppId,
        command: SetPrices,
    ) -> Result<PriceList, OperationError> {
        let context = (operator.clone(), app_id.clone(), command);
        self.transaction(context, |connection, (operator, app_id, command)| {
            Box::pin(write_prices(connection, operator, app_id, command))
        })
        .await
    }
}

async fn write_prices(
    connection: &mut PgConnection,
    operator: &Operator,
    app_id: &AppId,
    command: &SetPrices,
) -> Result<PriceList, OperationError> {
    // Lists of one app take turns.
    let app_no = sqlx::query_scalar!("SELECT app_no FROM apps WHERE app_id = $1 FOR UPDATE", app_id.as_str());
    let app_no = app_no.fetch_optional(&mut *connection).await.map_err(StoreError::from)?;
    let app_no = app_no.ok_or_else(|| domain::operation::unknown_app(app_id))?;
    let before = newest(connection, app_no).await?;
    let mut seen = HashSet::new();
    if let Some(twice) = command.prices.iter().find(|price| !seen.insert(&price.product_id)) {
        return Err(product_twice(&twice.product_id).into());
    }
    let mut prices: Vec<ListedPrice> = command.prices.iter().map(ListedPrice::of).collect();
    prices.sort_unstable_by(|one, other| one.product_id.cmp(&other.product_id));
    if before.version > 0 && before.prices == prices {
        return Ok(before);
    }
    let version = before.version + 1;
    sqlx::query!("INSERT INTO topup_price_lists (app_no, version) VALUES ($1, $2)", app_no, version)
        .execute(&mut *connection)
        .await?;
    let texts =
        |of: fn(&ListedPrice) -> &str| prices.iter().map(|price| of(price).to_owned()).collect::<Vec<_>>();
    let numbers = |of: fn(&ListedPrice) -> i64| prices.iter().map(of).collect::<Vec<_>>();
    sqlx::query!(
        "INSERT INTO topup_prices (app_no, version, product_id, currency, amount, charge, bonus, name, active)
         SELECT $1, $2, unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[]), unnest($6::bigint[]),
             unnest($7::bigint[]), unnest($8::text[]), unnest($9::boolean[])",
        app_no,
        version,
        &texts(|price| &price.product_id),
        &texts(|price| &price.currency),
        &numbers(|price| price.amount),
        &numbers(|price| price.charge),
        &numbers(|price| price.bonus),
        &texts(|price| &price.name),
        &prices.iter().map(|price| price.active).collect::<Vec<_>>()
    )
    .execute(&mut *connection)
    .await?;
    let list = PriceList { version, prices };
    let summary = |list: &PriceList| {
        let active = list.prices.iter().filter(|price| price.active).count();
        json!({ "version": list.version, "products": list.prices.len(), "active": active })
    };
    let line = LogLine::new(operator, OperatorAction::PriceSet, app_id.as_str()).of_app(app_id);
    let line = line.before(Some(summary(&before)).filter(|_| before.version > 0)).after(summary(&list));
    line.answer(&list).record(connection).await?;
    Ok(list)
}

async fn newest(connection: &mut PgConnection, app_no: i32) -> Result<PriceList> {
    let version = sqlx::query_scalar!(
        r#"SELECT coalesce(max(version), 0) AS "version!" FROM topup_price_lists WHERE app_no = $1"#,
        app_no
    );
    let version = version.fetch_one(&mut *connection).await?;
    list_of(connection, app_no, version).await
}

async fn list_of(connection: &mut PgConnection, app_no: i32, version: i32) -> Result<PriceList> {
    let prices = sqlx::query_as!(
        ListedPrice,
        "SELECT product_id, currency, amount, charge, bonus, name, active FROM topup_prices
         WHERE app_no = $1 AND version = $2 ORDER BY product_id",
        app_no,
        version
    );
    Ok(PriceList { version, prices: prices.fetch_all(connection).await? })
}

/// The prices of those of these products that the newest list has.
pub(super) async fn prices_of(
    connection: &mut PgConnection,
    app_no: i32,
    products: &[&PricedProductId],
) -> Result<HashMap<PricedProductId, Price>> {
    if products.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query_as!(
        ListedPrice,
        "SELECT product_id, currency, amount, charge, bonus, name, active FROM topup_prices
         WHERE app_no = $1 AND product_id = ANY ($2)
             AND version = (SELECT version FROM topup_price_lists WHERE app_no = $1 ORDER BY version DESC LIMIT 1)",
        app_no,
        &products.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    let damaged = |_| StoreError::damaged("topup_prices");
    let prices = rows.fetch_all(connection).await?.into_iter().map(|row| {
        let product_id = PricedProductId::parse(&row.product_id).map_err(damaged)?;
        let price = Price {
            product_id: product_id.clone(),
            currency: Currency::parse(&row.currency).map_err(damaged)?,
            amount: row.amount,
            charge: row.charge,
            bonus: row.bonus,
            name: PriceName::parse(&row.name).map_err(damaged)?,
            active: row.active,
        };
        Ok((product_id, price))
    });
    prices.collect()
}

impl ListedPrice {
    fn of(price: &Price) -> Self {
        Self {
            product_id: price.product_id.to_string(),
            currency: price.currency.to_string(),
            amount: price.amount,
            charge: price.charge,
            bonus: price.bonus,
            name: price.name.to_string(),
            active: price.active,
        }
    }
}

/// Reads the prices of a CSV file with the heading of contract 19.1.2.
///
/// # Errors
/// What is wrong with it, one text for each fault. What follows a product too many is not read.
pub fn prices_of_csv(bytes: &[u8]) -> Result<Vec<Price>, NamedFaults<Text>> {
    let mut wrong = NamedFaults::default();
    let prices = read_prices(bytes, &mut wrong).unwrap_or_else(|fault| {
        wrong.add(fault);
        Vec::new()
    });
    if wrong.count == 0 { Ok(prices) } else { Err(wrong) }
}

fn of_line(line: u64, cause: &Text) -> Text {
    text!("line {line}: {cause}", line, cause)
}

/// Reads prices, and adds what is wrong with their lines.
///
/// # Errors
/// What follows cannot be read, or is not.
fn read_prices(bytes: &[u8], wrong: &mut NamedFaults<Text>) -> Result<Vec<Price>, Text> {
    if let Some(kind) = not_csv(bytes) {
        return Err(kind);
    }
    let number = |at: Option<&Position>, none: u64| at.map_or(none, |at| csv_line(Cursor::new(bytes), at));
    let separator = separator(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .trim(csv::Trim::All)
        .flexible(true)
        .has_headers(false)
        .from_reader(QuoteCheck::new(bytes, separator));
    let unreadable = |error: csv::Error| {
        of_line(fault_line(&error, Cursor::new(bytes), &Position::new()), &csv_fault(&error))
    };
    let mut heading = StringRecord::new();
    reader.read_record(&mut heading).map_err(unreadable)?;
    if is_separator_line(&heading) {
        reader.read_record(&mut heading).map_err(unreadable)?;
    }
    let places = price_places(&heading).map_err(|fault| of_line(number(heading.position(), 1), &fault))?;
    let (mut prices, mut products, mut lines) = (Vec::new(), HashSet::new(), 0);
    let mut record = StringRecord::new();
    loop {
        if !reader.read_record(&mut record).map_err(unreadable)? {
            break;
        }
        if record.iter().all(str::is_empty) {
            continue;
        }
        let line = number(record.position(), 0);
        lines += 1;
        if lines > PRICES_MAX {
            let max = PRICES_MAX;
            return Err(text!(
                "a list has at most {max} products, and line {line} is one too many",
                max,
                line
            ));
        }
        let mut faults = Vec::new();
        let price = price(&record, places, &mut faults);
        if let Some(price) = price {
            if !products.insert(price.product_id.clone()) {
                let twice = text!("{product_id} stands twice", product_id = &price.product_id);
                faults.push(of_column("product_id", &twice));
            }
            prices.push(price);
        }
        for fault in &faults {
            wrong.add(of_line(line, fault));
        }
    }
    if lines == 0 {
        return Err(text!("expected 1 to {max} products, got {got}", max = PRICES_MAX, got = lines));
    }
    Ok(prices)
}

/// The place of each of [`PRICE_COLUMNS`] in the heading. The first that is not there is named.
fn price_places(heading: &StringRecord) -> Result<[usize; 7], Text> {
    let names = names_of(heading);
    let place = |column: &str| names.iter().position(|name| *name == column);
    let lacking = PRICE_COLUMNS.into_iter().find(|column| place(column).is_none());
    let is_empty = names.iter().all(|name| name.is_empty());
    match lacking {
        Some(name) if !is_empty => {
            Err(text!("there is no column {name}; there are {columns}", name, columns = names.join(", ")))
        }
        None if names.len() == PRICE_COLUMNS.len() => {
            Ok(PRICE_COLUMNS.map(|column| place(column).unwrap_or_default()))
        }
        Some(_) | None => {
            let got = if is_empty { text!("nothing") } else { Text::same(names.join(",")) };
            Err(text!("expected the heading {heading}, got {got}", heading = PRICE_COLUMNS.join(","), got))
        }
    }
}

fn of_column(column: &str, fault: &Text) -> Text {
    text!("{column}: {fault}", column, fault)
}

fn price(record: &StringRecord, places: [usize; 7], faults: &mut Vec<Text>) -> Option<Price> {
    if !fits_heading(record, PRICE_COLUMNS.len()) {
        faults.push(text!(
            "expected {expected} columns, got {got}",
            expected = PRICE_COLUMNS.len(),
            got = record.len()
        ));
        return None;
    }
    let [product_id, currency, amount, charge, bonus, name, active] = places;
    let text = |place: usize| bare_cell(record.get(place).unwrap_or_default());
    let mut fault = |column: usize, expected: Expected, got: &str| {
        let got = format!("{got:?}");
        let fault = text!("expected {expected}, got {got}", expected = expected.0, got);
        faults.push(of_column(PRICE_COLUMNS[column], &fault));
    };
    let coins = |text: &str| parse_integer(text, 0, FIGURE_MAX, "an integer from 0 to 1000000000000");
    let money = |text: &str| parse_integer(text, 1, FIGURE_MAX, "an integer from 1 to 1000000000000");
    // A spreadsheet writes them in capitals and in its language.
    let truth = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" | "wahr" => Ok(true),
        "false" | "falsch" => Ok(false),
        _ => Err(Expected::new("true or false")),
    };
    macro_rules! cell {
        ($column:literal, $place:expr, $parse:expr) => {{
            let text = text($place);
            $parse(text).map_err(|expected| fault($column, expected, text)).ok()
        }};
    }
    let id = listed_id(text(product_id));
    let product_id = PricedProductId::parse(id).map_err(|expected| fault(0, expected, id)).ok();
    let currency = cell!(1, currency, Currency::parse);
    let amount = cell!(2, amount, money);
    let (charge, bonus) = (cell!(3, charge, coins), cell!(4, bonus, coins));
    let name = cell!(5, name, PriceName::parse);
    let active = cell!(6, active, truth);
    if let Some(why) = product_id.as_ref().and_then(|id| shortened(id.as_str())) {
        faults.push(of_column("product_id", &why));
    }
    if let (Some(charge), Some(bonus)) = (charge, bonus)
        && let Err(expected) = Price::check_coins(charge, bonus)
    {
        faults.push(text!("expected {expected}, got {got}", expected = expected.0, got = "0, 0"));
        return None;
    }
    Some(Price {
        product_id: product_id?,
        currency: currency?,
        amount: amount?,
        charge: charge?,
        bonus: bonus?,
        name: name?,
        active: active?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 19.1.2: a wrong file names its wrong lines.
    #[test]
    fn every_wrong_line_of_a_file_is_named() {
        let heading = "\u{feff}name,product_id,currency,amount,charge,bonus,active\n";
        let good = format!("{heading}Gems,gems60,CNY,600,60,6,true\n,,,,,,\n\"A, b\",g.2,JPY,1,0,1,false\n");
        let prices = prices_of_csv(good.as_bytes()).unwrap();
        let shown: Vec<_> =
            prices.iter().map(|price| (price.product_id.as_str(), price.name.as_str())).collect();
        assert_eq!(shown, [("gems60", "Gems"), ("g.2", "A, b")]);
        let bad = format!(
            "{heading}x,a b,CNY,600,60,6,true\nx,g1,cny,0,-1,+6,yes\nx,g2,CNY,600,0,0,true\nx,g3,CNY\n\
             x,g4,CNY,1,1,0,true\nx,g4,CNY,1,1,0,true\nx,1.8e16,CNY,1,1,0,true\n"
        );
        let faults = |file: &[u8]| -> Vec<String> {
            prices_of_csv(file).unwrap_err().named.iter().map(Text::english).collect()
        };
        assert_eq!(
            faults(bad.as_bytes()),
            [
                r#"line 2: product_id: expected 1 to 64 of 0-9A-Za-z._-, got "a b""#,
                r#"line 3: currency: expected a code of ISO 4217 in capitals, such as CNY or USD, got "cny""#,
                r#"line 3: amount: expected an integer from 1 to 1000000000000, got "0""#,
                r#"line 3: charge: expected an integer from 0 to 1000000000000, got "-1""#,
                r#"line 3: bonus: expected an integer from 0 to 1000000000000, got "+6""#,
                r#"line 3: active: expected true or false, got "yes""#,
                "line 4: expected 1 or more in charge or bonus, got 0, 0",
                "line 5: expected 7 columns, got 3",
                "line 7: product_id: g4 stands twice",
                "line 8: product_id: expected the digits of a number, got \"1.8e16\", which a spreadsheet has shortened",
            ]
        );
        let columns = PRICE_COLUMNS.join(",");
        let lacks = "line 1: there is no column amount; there are product_id, currency";
        assert_eq!(faults(b"product_id,currency\n"), [lacks]);
        assert_eq!(faults(b""), [format!("line 1: expected the heading {columns}, got nothing")]);
        let more = format!("line 2: expected the heading {columns}, got {columns},note");
        assert_eq!(faults(format!("sep=;\n{};note\n", PRICE_COLUMNS.join(";")).as_bytes()), [more]);
        let marked = format!("sep=;\n{}\ng1;CNY;600;60;0;Gems;true\n", PRICE_COLUMNS.join(";"));
        assert_eq!(prices_of_csv(marked.as_bytes()).unwrap().len(), 1);
        // As spreadsheets write them.
        let words = [("TRUE", true), ("WAHR", true), ("False", false), ("FALSCH", false)];
        for (word, is_active) in words {
            let file = format!("{}\ng1\tCNY\t600\t60\t0\tGems\t{word}\n", PRICE_COLUMNS.join("\t"));
            assert_eq!(prices_of_csv(file.as_bytes()).unwrap()[0].active, is_active, "{word}");
        }
        assert_eq!(faults(format!("{columns}\n").as_bytes()), ["expected 1 to 1000 products, got 0"]);
    }

    /// Rule 8.3.14: a quote that is not around a whole cell is a fault of its line, so a file that was cut replaces nothing.
    /// Empty columns at the end do not count.
    #[test]
    fn a_list_that_was_cut_in_a_quoted_cell_is_refused() {
        let heading = "product_id,currency,amount,charge,bonus,active,name";
        let read = |lines: &str| {
            let prices = prices_of_csv(format!("{heading}\n{lines}").as_bytes());
            let fault =
                |faults: NamedFaults<Text>| faults.named.iter().map(Text::english).collect::<Vec<_>>();
            prices.map(|prices| prices.len()).map_err(fault)
        };
        let unclosed = "line 3: a cell opens with a quote that nothing closes".to_owned();
        let good = "g1,CNY,600,60,0,true,Gems\n";
        assert_eq!(read(&format!("{good}g2,CNY,600,60,0,true,\"Gold")), Err(vec![unclosed]));
        let behind = "line 4: a quoted cell has text behind its quote".to_owned();
        assert_eq!(read(&format!("{good}\ng2,CNY,600,60,0,true,\"5\" gun\"\n")), Err(vec![behind]));
        assert_eq!(read(&format!("{good}g2,CNY,600,60,0,true,5\" gun\n")), Ok(2));
        let in_heading = |before: &str| {
            let list = format!("{before}product_id,\"currency\n{good}");
            prices_of_csv(list.as_bytes()).unwrap_err().named[0].english()
        };
        for (before, line) in [("", 1), ("\r\n\n", 3), ("sep=,\r\n\r\n", 3)] {
            let unclosed = format!("line {line}: a cell opens with a quote that nothing closes");
            assert_eq!(in_heading(before), unclosed, "{before:?}");
        }
        let emptied = format!("{heading},,\ng1,CNY,600,60,0,true,Gems,,\ng2,CNY,600,60,0,true,Gold\n");
        assert_eq!(prices_of_csv(emptied.as_bytes()).unwrap().len(), 2);
    }

    /// Rule 19.1.2: a list takes no memory for each of its lines at fault, and is read as far as a list may go.
    #[test]
    fn the_first_hundred_faults_are_named_and_all_are_counted() {
        let list = |lines: usize| format!("{}\n{}", PRICE_COLUMNS.join(","), "x\n".repeat(lines));
        let wrong = prices_of_csv(list(300).as_bytes()).unwrap_err();
        assert_eq!((wrong.named.len(), wrong.count), (100, 300));
        assert_eq!(wrong.named[99].english(), "line 101: expected 7 columns, got 1");
        let wrong = prices_of_csv(list(100_000).as_bytes()).unwrap_err();
        assert_eq!((wrong.named.len(), wrong.count), (100, 1_001));
        let good: Vec<_> = (0..=1_000).map(|no| format!("g{no},CNY,1,1,0,x,true\n")).collect();
        let good = good.concat();
        let wrong = prices_of_csv(format!("{}{good}", list(0)).as_bytes()).unwrap_err();
        let too_many = "a list has at most 1000 products, and line 1002 is one too many";
        assert_eq!((wrong.count, wrong.named[0].english().as_str()), (1, too_many));
    }
}
