//! The order report: its fields, and the rules by which a report makes or updates an order
//! (contract 4).

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fields::{Expected, parse_integer, with_bound};
use super::ids::{ImgId, OpenId, OrderNo, PoiId, ProductCity, ProductId, WebUrl};
use super::moment;
use crate::text;
use crate::text::Text;

/// Largest value that 10 digits hold: such a time was given in seconds.
pub const SECONDS_MAX: i64 = 9_999_999_999;
/// The values with 16 digits: such a time was given in microseconds.
const MICROSECONDS: RangeInclusive<i64> = 1_000_000_000_000_000..=9_999_999_999_999_999;
/// The values with 19 digits: such a time was given in nanoseconds. The largest number stands for no end, and is no time.
const NANOSECONDS: RangeInclusive<i64> = 1_000_000_000_000_000_000..=i64::MAX - 1;

/// An order status code of contract 4.3. Codes 7, 8 and 9 have no meaning there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, schemars::JsonSchema)]
#[schemars(inline, extend("enum" = OrderStatus::CODES))]
pub struct OrderStatus(i16);

crate::word_enum! {
    /// What kind of goods an order is about.
    pub enum GoodsKind {
        /// A status was 10 or 11.
        Virtual = "virtual",
        /// A status was 12 to 15.
        Physical = "physical",
    }
}

impl OrderStatus {
    /// Every code that has a meaning, in the order of contract 4.3.
    pub const CODES: [i64; 12] = [1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15];

    /// Accepts a code of contract 4.3.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        const EXPECTED: &str = "a status code: 1 to 6 or 10 to 15";
        let code = parse_integer(text, 1, 15, EXPECTED)?;
        if !Self::CODES.contains(&code) {
            return Err(Expected::new(EXPECTED));
        }
        i16::try_from(code).map(Self).map_err(|_| Expected::new(EXPECTED))
    }

    /// Reads a code from the database. `None` for a code without a meaning.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::CODES.contains(&i64::from(code)).then_some(Self(code))
    }

    /// The number on the wire (contract 4.3).
    #[must_use]
    pub fn code(self) -> i16 {
        self.0
    }

    /// The kind of goods that this status is for; `None` for a status of any kind.
    #[must_use]
    pub fn goods_kind(self) -> Option<GoodsKind> {
        match self.0 {
            10 | 11 => Some(GoodsKind::Virtual),
            12..=15 => Some(GoodsKind::Physical),
            _ => None,
        }
    }
}

/// When an order was made, in milliseconds, not after now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderCreateTime(i64);

impl OrderCreateTime {
    /// How far ahead of this server's clock a developer server's may be (contract 4.2.3). Clocks that are set over
    /// the network are never that far apart.
    pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);

    /// Accepts milliseconds up to `now_millis`, plus the clock skew that is allowed.
    ///
    /// # Errors
    /// A time in the future. 10 digits or fewer, which are seconds. 16 digits, which are microseconds. 19 digits, which
    /// are nanoseconds. Anything that is no integer.
    pub fn parse(text: &str, now_millis: i64) -> Result<Self, Expected> {
        let value = parse_integer(text, 0, i64::MAX, "milliseconds since 1970")?;
        let skew = i64::try_from(Self::CLOCK_SKEW_MAX.as_millis()).unwrap_or(i64::MAX);
        if value <= SECONDS_MAX {
            return Err(Expected::new("milliseconds (seconds given, milliseconds expected)"));
        }
        if MICROSECONDS.contains(&value) {
            return Err(Expected::new("milliseconds (microseconds given, milliseconds expected)"));
        }
        if NANOSECONDS.contains(&value) {
            return Err(Expected::new("milliseconds (nanoseconds given, milliseconds expected)"));
        }
        if value > now_millis.saturating_add(skew) {
            let ahead = moment::distance(value, now_millis);
            return Err(Expected(text!("a time in milliseconds at or before now ({ahead})", ahead)));
        }
        Ok(Self(value))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_millis(self) -> i64 {
        self.0
    }
}

/// A product category code.
///
/// # Errors
/// Anything but a positive integer.
pub fn parse_catalog_code(text: &str) -> Result<i64, Expected> {
    parse_integer(text, 1, i64::MAX, "a positive integer").map_err(|fault| with_bound(text, fault))
}

/// One report. Each field is checked by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderReport {
    /// Order number shown to the user.
    pub out_biz_order_no: OrderNo,
    /// Payment pre-order number.
    pub out_order_no: OrderNo,
    /// Owner of the order.
    pub open_id: OpenId,
    /// When the order was made.
    pub order_create_time: OrderCreateTime,
    /// Its status.
    pub order_status: OrderStatus,
    /// In-app path of its detail page, as sent.
    pub order_path: String,
    /// Its cover image.
    pub product_cover_img_id: ImgId,
    /// Fallback web link.
    pub order_backup_url: Option<WebUrl>,
    /// Point of interest.
    pub poi_id: Option<PoiId>,
    /// Product id.
    pub product_id: Option<ProductId>,
    /// Product category code.
    pub product_catalog_code: Option<i64>,
    /// City of the product.
    pub product_city: Option<ProductCity>,
}

/// The state of an order after all reports so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Order {
    /// Payment pre-order number of the last report.
    #[schemars(with = "OrderNo")]
    pub out_order_no: String,
    /// The player.
    #[schemars(with = "OpenId")]
    pub open_id: String,
    /// Time of the order in Unix milliseconds, as reported.
    pub order_create_time: i64,
    /// Status code of contract 4.3.
    #[schemars(with = "OrderStatus")]
    pub order_status: i16,
    /// `virtual` or `physical`, after a status that decides it.
    #[schemars(with = "Option<String>")]
    pub goods_kind: Option<GoodsKind>,
    /// In-app path, as reported.
    pub order_path: String,
    /// Cover image.
    pub product_cover_img_id: String,
    /// Fallback web link, as reported.
    pub order_backup_url: Option<String>,
    /// Point of interest.
    pub poi_id: Option<String>,
    /// Product id.
    pub product_id: Option<String>,
    /// Product category code.
    pub product_catalog_code: Option<i64>,
    /// City of the product.
    pub product_city: Option<String>,
}

/// Why a report does not fit the order that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportConflict {
    /// The owner of an order does not change.
    OwnerChanged,
    /// Virtual goods do not become physical goods, nor the other way round.
    GoodsKindChanged {
        /// The subject of the order.
        kind: GoodsKind,
        /// The status of this report.
        got: i16,
    },
}

impl ReportConflict {
    /// The conflict as a text.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::OwnerChanged => text!("open_id: expected the owner of the order, who does not change"),
            Self::GoodsKindChanged { kind: GoodsKind::Virtual, got } => {
                text!("order_status: expected a status of virtual goods, got {got}", got)
            }
            Self::GoodsKindChanged { kind: GoodsKind::Physical, got } => {
                text!("order_status: expected a status of physical goods, got {got}", got)
            }
        }
    }
}

impl Order {
    /// The order that `report` makes of what is there. An optional field that the report leaves
    /// out keeps the value of an earlier one, and the creation time is always that of the first.
    ///
    /// # Errors
    /// The report does not fit the order.
    pub fn after(existing: Option<&Self>, report: &OrderReport) -> Result<Self, ReportConflict> {
        if let Some(order) = existing {
            order.check(report)?;
        }
        let create_time = report.order_create_time.unix_millis();
        let kept = existing.cloned().unwrap_or_default();
        Ok(Self {
            out_order_no: report.out_order_no.to_string(),
            open_id: report.open_id.to_string(),
            order_create_time: existing.map_or(create_time, |order| order.order_create_time),
            order_status: report.order_status.code(),
            goods_kind: report.order_status.goods_kind().or(kept.goods_kind),
            order_path: report.order_path.clone(),
            product_cover_img_id: report.product_cover_img_id.to_string(),
            order_backup_url: text(report.order_backup_url.as_ref()).or(kept.order_backup_url),
            poi_id: text(report.poi_id.as_ref()).or(kept.poi_id),
            product_id: text(report.product_id.as_ref()).or(kept.product_id),
            product_catalog_code: report.product_catalog_code.or(kept.product_catalog_code),
            product_city: text(report.product_city.as_ref()).or(kept.product_city),
        })
    }

    fn check(&self, report: &OrderReport) -> Result<(), ReportConflict> {
        if self.open_id != report.open_id.as_str() {
            return Err(ReportConflict::OwnerChanged);
        }
        match (self.goods_kind, report.order_status.goods_kind()) {
            (Some(kind), Some(other)) if kind != other => {
                Err(ReportConflict::GoodsKindChanged { kind, got: report.order_status.code() })
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

fn text(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(status: &str) -> OrderReport {
        OrderReport {
            out_biz_order_no: OrderNo::parse("order_1").unwrap(),
            out_order_no: OrderNo::parse("pay_01").unwrap(),
            open_id: OpenId::parse("o1").unwrap(),
            order_create_time: OrderCreateTime::parse("1700000000000", 1_700_000_000_000).unwrap(),
            order_status: OrderStatus::parse(status).unwrap(),
            order_path: "pages/a".to_owned(),
            product_cover_img_id: ImgId::from_random([1; 24]),
            order_backup_url: None,
            poi_id: None,
            product_id: None,
            product_catalog_code: None,
            product_city: None,
        }
    }

    #[test]
    fn only_the_codes_of_the_spec_are_statuses() {
        let taken: Vec<i16> = (-1..=20)
            .filter_map(|code| OrderStatus::parse(&code.to_string()).ok())
            .map(OrderStatus::code)
            .collect();
        assert_eq!(taken, [1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn a_create_time_is_in_milliseconds_and_not_after_now() {
        let parse = |text: &str| OrderCreateTime::parse(text, 1_700_000_000_000);
        assert!(parse("1700000000000").is_ok() && parse("1700000005000").is_ok());
        assert!(
            parse("1700000005001").unwrap_err().0.english().contains("5.0 s ahead of this server's clock")
        );
        assert!(
            parse("1700000000").unwrap_err().0.english().contains("seconds given, milliseconds expected")
        );
        assert!(
            parse("9999999999").unwrap_err().0.english().contains("seconds given, milliseconds expected")
        );
        let nanoseconds = "milliseconds (nanoseconds given, milliseconds expected)";
        assert_eq!(parse("1700000000000000000").unwrap_err().0.english(), nanoseconds);
        // It stands for no end, and is a time that is far ahead.
        assert!(
            parse("9223372036854775807").unwrap_err().0.english().contains("ahead of this server's clock")
        );
        assert!(parse("10000000000").is_ok());
        assert!(parse("1700000000000.0").is_err() && parse("-1").is_err());
    }

    #[test]
    fn virtual_and_physical_goods_do_not_mix_and_no_other_transition_is_refused() {
        let codes = ["1", "2", "3", "4", "5", "6", "10", "11", "12", "13", "14", "15"];
        for before in codes {
            for after in codes {
                let order = Order::after(None, &report(before)).unwrap();
                let (kind, other) = (order.goods_kind, report(after).order_status.goods_kind());
                let mixes = kind.is_some() && other.is_some() && kind != other;
                assert_eq!(Order::after(Some(&order), &report(after)).is_err(), mixes, "{before} to {after}");
            }
        }
        // The kind is remembered through statuses of any kind.
        let used = Order::after(None, &report("11")).unwrap();
        let refunded = Order::after(Some(&used), &report("6")).unwrap();
        assert_eq!(
            Order::after(Some(&refunded), &report("12")),
            Err(ReportConflict::GoodsKindChanged { kind: GoodsKind::Virtual, got: 12 })
        );
    }

    #[test]
    fn the_owner_does_not_change_and_the_first_create_time_stays() {
        let order = Order::after(None, &report("1")).unwrap();
        let mut stolen = report("1");
        stolen.open_id = OpenId::parse("o2").unwrap();
        assert_eq!(Order::after(Some(&order), &stolen), Err(ReportConflict::OwnerChanged));
        let mut moved = report("1");
        moved.order_create_time = OrderCreateTime::parse("1699999999999", i64::MAX).unwrap();
        assert_eq!(Order::after(Some(&order), &moved), Ok(order));
    }

    proptest! {
        #[test]
        fn the_same_report_again_changes_nothing_and_what_is_left_out_stays(
            status in prop::sample::select(vec!["1", "2", "6", "10"]),
            city in prop::option::of("[a-z]{1,15}"), code in prop::option::of(1_i64..1000),
        ) {
            let mut full = report(status);
            full.product_city = city.map(|city| ProductCity::parse(&city).unwrap());
            full.product_catalog_code = code;
            let order = Order::after(None, &full).unwrap();
            prop_assert_eq!(&Order::after(Some(&order), &full).unwrap(), &order);
            prop_assert_eq!(&Order::after(Some(&order), &report(status)).unwrap(), &order);
        }
    }
}
