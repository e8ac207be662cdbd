//! Identifiers and short texts. Each has one `parse`; a value of the type is a value that passed it.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::fields::Expected;
use super::ledger;
use super::strays::{unseen, without_unseen};
use crate::text;

/// Declares a text type whose only constructor is `parse`. If the full rule fits into a regular
/// expression (of ECMA 262, as JSON Schema has them), the type has it as `PATTERN`. What stands in braces
/// is the rest of its JSON Schema. A limit in bytes is no smaller one in characters. What follows `but` has its own words for
/// a fault of a text that fits otherwise. The name behind it is that of a constructor for texts which are kept already.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $expected:literal $(=> $pattern:literal)? $({ $($keyword:literal: $value:tt),* })?,
     $accepts:expr $(, but $fault:path $(=> $stored:ident)?)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The accepted form, in words that follow "expected".
            pub const EXPECTED: &'static str = $expected;
            $(
                /// The accepted form, as a regular expression for the document of the API.
                pub const PATTERN: &'static str = $pattern;
            )?

            #[doc = concat!("Accepts `", $expected, "`.\n\n# Errors\nAnything else.")]
            pub fn parse(text: &str) -> Result<Self, $crate::fields::Expected> {
                let fitting = Self::fitting(text)?;
                $(
                    let fault: fn(&str) -> Option<$crate::fields::Expected> = $fault;
                    if let Some(expected) = fault(text) {
                        return Err(expected);
                    }
                )?
                Ok(fitting)
            }

            fn fitting(text: &str) -> Result<Self, $crate::fields::Expected> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(text) { Ok(Self(text.to_owned())) } else { Err($crate::fields::Expected::new($expected)) }
            }

            $($(
                #[doc = concat!(
                    "Accepts `", $expected, "`: a text that is kept, or that names what is kept. It may be older than a rule ",
                    "that `parse` has.\n\n# Errors\nAnything else."
                )]
                pub fn $stored(text: &str) -> Result<Self, $crate::fields::Expected> {
                    Self::fitting(text)
                }
            )?)?

            /// The text as it came.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $crate::text_traits!($name, {
            "type": "string",
            $("pattern": $pattern,)?
            $($($keyword: $value),*)?
        });
    };
}
pub(crate) use text_type;

pub(crate) fn made_of(text: &str, min: usize, max: usize, allowed: impl Fn(u8) -> bool) -> bool {
    (min..=max).contains(&text.len()) && text.bytes().all(allowed)
}

fn id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The fault of a reason that nobody can read.
fn all_unseen(text: &str) -> Option<Expected> {
    without_unseen(text).is_empty().then_some(Expected::new("a reason that is more than blanks"))
}

fn free_text(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && !text.contains('\0')
}

/// Largest `zone_id`, in bytes.
pub const ZONE_ID_BYTES_MAX: usize = 128;
/// Largest name or description of what is bought, in bytes.
pub const PRODUCT_TEXT_BYTES_MAX: usize = 512;
/// Largest id of a point of interest, in bytes.
pub const POI_ID_BYTES_MAX: usize = 64;
/// Largest id of a product, in bytes.
pub const PRODUCT_ID_BYTES_MAX: usize = 64;
/// Longest name of a city, in characters.
pub const PRODUCT_CITY_CHARS_MAX: usize = 15;
/// Longest name of an app, in characters.
pub const APP_NAME_CHARS_MAX: usize = 128;
/// Longest reason of an operator, in characters.
pub const REASON_CHARS_MAX: usize = 500;
/// Longest version of a package, in bytes.
pub const PACKAGE_VERSION_BYTES_MAX: usize = 64;
/// Longest path of a page, in bytes.
pub const PAGE_PATH_BYTES_MAX: usize = 1024;
/// Longest reference of a credit, in bytes.
pub const CREDIT_REF_BYTES_MAX: usize = 128;
/// Longest web link, in bytes.
pub const WEB_URL_BYTES_MAX: usize = 2048;
/// Longest text that names a page, its query string included, in bytes.
pub const ORDER_PATH_BYTES_MAX: usize = 4096;
/// The beginning of a pseudonym.
const PSEUDONYM_START: &str = "erased-";
/// Longest path that others are compared with.
const COMPARED_BYTES_MAX: usize = 64;
/// Pages that a path is compared with.
const COMPARED_PAGES_MAX: usize = 100;

text_type!(
    /// An app: the tenant that everything belongs to (contract 2.9).
    AppId, "1 to 64 of 0-9A-Za-z_-" => "^[0-9A-Za-z_-]{1,64}$",
    |text| made_of(text, 1, 64, id_byte)
);
/// Number of an app. It stands for the app id in the tables of money, because it is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppNo(pub i32);

/// Number of a wallet in its app. It stands for the open id in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WalletNo(pub i64);

/// The texts that say what an exchange bought, as a hash: the first 128 bits of SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(pub [u8; 16]);

impl ItemId {
    /// The id of these texts. Four bytes with the length precede each text, the highest byte first.
    #[must_use]
    pub fn of(product_name: &str, product_info: &str, product_desc: &str) -> Self {
        let mut hasher = Sha256::new();
        for text in [product_name, product_info, product_desc] {
            ledger::add(&mut hasher, text.as_bytes());
        }
        let hash: [u8; 32] = hasher.finalize().into();
        Self(std::array::from_fn(|place| hash[place]))
    }
}

text_type!(
    /// Name of an app, for people; may be empty.
    #[derive(Default)]
    AppName, "at most 128 characters, none of them a control character" { "maxLength": APP_NAME_CHARS_MAX },
    |text| text.chars().count() <= APP_NAME_CHARS_MAX && !text.contains(char::is_control)
);
text_type!(
    /// A player of an app.
    OpenId, "1 to 64 of 0-9A-Za-z_-" => "^[0-9A-Za-z_-]{1,64}$",
    |text| made_of(text, 1, 64, id_byte)
);
text_type!(
    /// A person across the apps of one operator, who gives it (contract 11.3).
    UnionId, "1 to 64 of 0-9A-Za-z_-" => "^[0-9A-Za-z_-]{1,64}$",
    |text| made_of(text, 1, 64, id_byte)
);
text_type!(
    /// Business order number of an exchange, its idempotency key (contract 3.1 and 3.3.3).
    BizNo, "1 to 63 of 0-9A-Za-z" => "^[0-9A-Za-z]{1,63}$",
    |text| made_of(text, 1, 63, |byte| byte.is_ascii_alphanumeric())
);
text_type!(
    /// Zone and role of a player, `<zone>_<role>` (contract 3.1).
    ZoneId,
    "<zone>_<role>, at most 128 bytes, without &, = and control characters"
        => r"^[^_&=\u0000-\u001f\u007f-\u009f]+_[^&=\u0000-\u001f\u007f-\u009f]+$" { "maxLength": ZONE_ID_BYTES_MAX },
    |text| {
        text.len() <= ZONE_ID_BYTES_MAX
            && !text.contains(|c: char| c == '&' || c == '=' || c.is_control())
            && text.split_once('_').is_some_and(|(zone, role)| !zone.is_empty() && !role.is_empty())
    }
);
text_type!(
    /// Platform of the player.
    Os, "1 to 32 of 0-9A-Za-z._-" => "^[0-9A-Za-z._-]{1,32}$",
    |text| made_of(text, 1, 32, |byte| id_byte(byte) || byte == b'.')
);
text_type!(
    /// Address of the player, as sent. It stays out of logs and errors.
    UserIp, "an IPv4 or IPv6 address" { "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }] }, |text| text.parse::<IpAddr>().is_ok()
);
text_type!(
    /// Name or description of what is bought.
    ProductText, "1 to 512 bytes" { "minLength": 1, "maxLength": PRODUCT_TEXT_BYTES_MAX }, |text| free_text(text, PRODUCT_TEXT_BYTES_MAX)
);
text_type!(
    /// An order number or payment number of an order report (contract 4.2).
    OrderNo, "6 to 32 of 0-9A-Za-z_-*" => "^[0-9A-Za-z_*-]{6,32}$",
    |text| made_of(text, 6, 32, |byte| id_byte(byte) || byte == b'*')
);
text_type!(
    /// Id of an uploaded picture: 192 random bits (contract 5.6.2).
    ImgId, "48 lower-case hexadecimal characters" => "^[0-9a-f]{48}$",
    |text| made_of(text, 48, 48, is_lower_hex)
);
text_type!(
    /// A point of interest that the operator registered for an app.
    PoiId, "1 to 64 bytes without control characters" { "minLength": 1, "maxLength": POI_ID_BYTES_MAX },
    |text| free_text(text, POI_ID_BYTES_MAX) && !text.contains(char::is_control),
    but unseen => stored
);
text_type!(
    /// Id of a product in the platform's product library.
    ProductId, "1 to 64 bytes" { "minLength": 1, "maxLength": PRODUCT_ID_BYTES_MAX }, |text| free_text(text, PRODUCT_ID_BYTES_MAX)
);
text_type!(
    /// Full name of a product's city; characters count, not bytes (contract 4.2).
    ProductCity, "1 to 15 characters" { "minLength": 1, "maxLength": PRODUCT_CITY_CHARS_MAX },
    |text| (1..=PRODUCT_CITY_CHARS_MAX).contains(&text.chars().count()) && !text.contains('\0')
);
text_type!(
    /// An operator's reference of a credit, unique within its app.
    CreditRef, "1 to 128 bytes without control characters" { "minLength": 1, "maxLength": CREDIT_REF_BYTES_MAX },
    |text| free_text(text, CREDIT_REF_BYTES_MAX) && !text.contains(char::is_control),
    but unseen => stored
);
text_type!(
    /// Name of a key of the admin API, as the operator's log has it.
    ApiKeyName, "1 to 64 of 0-9A-Za-z._@-" => "^[0-9A-Za-z._@-]{1,64}$",
    |text| made_of(text, 1, 64, |byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte))
);
text_type!(
    /// What a caller of the admin API names a write, so that it takes effect once.
    IdempotencyKey, "1 to 128 visible ASCII characters" => "^[!-~]{1,128}$",
    |text| made_of(text, 1, 128, |byte| byte.is_ascii_graphic())
);
text_type!(
    /// Why an operator changes something, for whoever reads the operator's log.
    Reason, "a reason of 1 to 500 characters, none of them a control character" { "minLength": 1, "maxLength": REASON_CHARS_MAX },
    |text| (1..=REASON_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control),
    but all_unseen
);
text_type!(
    /// Version of a published package.
    PackageVersion, "1 to 64 bytes without control characters" { "minLength": 1, "maxLength": PACKAGE_VERSION_BYTES_MAX },
    |text| free_text(text, PACKAGE_VERSION_BYTES_MAX) && !text.contains(char::is_control),
    but unseen
);
text_type!(
    /// An absolute http or https URL with a host, as sent (contract 4.2).
    WebUrl, "an absolute http or https URL with a host, at most 2048 bytes" { "minLength": 1, "maxLength": WEB_URL_BYTES_MAX, "format": "uri" }, |text| {
        text.len() <= WEB_URL_BYTES_MAX
            && !text.contains(|c: char| c.is_control() || c.is_whitespace())
            // A browser reads `http:a` and `http:///a` as `http://a`. Other programs do not.
            && has_authority(text)
            && url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
    }
);

impl OpenId {
    /// The form of the pseudonym of an erased player, as a regular expression (contract 13.7). A player may be named
    /// `erased-fan`.
    pub const PSEUDONYM_PATTERN: &'static str = "^erased-[0-9a-f]{20}$";

    /// The pseudonym made of 10 random bytes.
    #[must_use]
    pub fn pseudonym(bytes: [u8; 10]) -> Self {
        Self(format!("{PSEUDONYM_START}{}", hex::encode(bytes)))
    }

    /// Whether this is the pseudonym of an erased player. No player is registered under that form, so it tells enough.
    #[must_use]
    pub fn is_pseudonym(&self) -> bool {
        let digits = self.0.strip_prefix(PSEUDONYM_START);
        digits.is_some_and(|digits| made_of(digits, 20, 20, is_lower_hex))
    }

    /// Reads the name of a player who is registered.
    ///
    /// # Errors
    /// It is no `open_id`, or [`OpenId::check_new`] refuses it.
    pub fn of_new_player(text: &str) -> Result<Self, Expected> {
        let open_id = Self::parse(text)?;
        open_id.check_new()?;
        Ok(open_id)
    }

    /// Whether a player may be registered under this name (contract 13.7.12).
    ///
    /// # Errors
    /// It has the form of a pseudonym.
    pub fn check_new(&self) -> Result<(), Expected> {
        const EXPECTED: &str = "another open_id: the form erased-... is kept for erased players";
        if self.is_pseudonym() { Err(Expected::new(EXPECTED)) } else { Ok(()) }
    }
}

/// Whether a host can stand where RFC 3986 looks for it.
fn has_authority(url: &str) -> bool {
    let authority = url.split_once(':').and_then(|(_, rest)| rest.strip_prefix("//"));
    authority.is_some_and(|authority| !authority.is_empty() && !authority.starts_with(['/', '\\', '?', '#']))
}

impl ImgId {
    /// The id made of 24 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 24]) -> Self {
        Self(hex::encode(bytes))
    }
}

/// A page of a package: a path without its leading slash, query string and fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct PagePath(#[schemars(length(min = 1, max = PAGE_PATH_BYTES_MAX))] String);

impl PagePath {
    /// Reads the path part of an `order_path` or of an item in a list of pages, with or without the leading slash. A
    /// query string or fragment after it is not part of the page.
    ///
    /// # Errors
    /// An empty path, one with two leading slashes, or one of over 1,024 bytes, of over 4,096 with what
    /// follows it, or with control characters.
    pub fn parse(text: &str) -> Result<Self, Expected> {
        let path = text.split(['?', '#']).next().unwrap_or_default();
        let path = path.strip_prefix('/').unwrap_or(path);
        if free_text(path, PAGE_PATH_BYTES_MAX)
            && !path.starts_with('/')
            && text.len() <= ORDER_PATH_BYTES_MAX
            && !text.contains(char::is_control)
        {
            Ok(Self(path.to_owned()))
        } else {
            let expected =
                Expected::new("an in-app path of 1 to 1024 bytes, and at most 4096 with its query");
            // NUL comes in no request: it stands for a value that is no text.
            let is_control = |character: char| character.is_control() && character != '\0';
            Err(if path.starts_with('/') || text.contains(is_control) {
                Expected(text!(
                    "{expected}, without control characters and without // at its beginning",
                    expected = expected.0
                ))
            } else {
                expected
            })
        }
    }

    /// Reads a page of a package that is published. A list of pages with commas would be one page that no order names.
    ///
    /// # Errors
    /// As [`PagePath::parse`], a comma, a blank at an end, or a character that nobody sees.
    pub fn of_package(text: &str) -> Result<Self, Expected> {
        let page = Self::parse(text)?;
        if let Some(expected) = unseen(text).or_else(|| unseen(&page.0)) {
            return Err(expected);
        }
        if page.0.contains(',') { Err(Expected::new("one path without a comma")) } else { Ok(page) }
    }

    /// The path without its leading slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The page of a package that is most similar to this path: one below it, if there are any. Comparing takes time, so only
    /// short paths are compared, with the first pages of the list.
    #[must_use]
    pub fn nearest<'a>(&self, pages: &'a [String]) -> Option<&'a str> {
        let compared = if self.0.len() <= COMPARED_BYTES_MAX { COMPARED_PAGES_MAX } else { 0 };
        let candidates = pages.iter().take(compared).filter(|page| page.len() <= COMPARED_BYTES_MAX);
        let folder = self.0.trim_end_matches('/');
        let is_below = |page: &str| page.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let nearness = |page: &&String| (!is_below(page), strsim::osa_distance(page, &self.0));
        candidates.min_by_key(nearness).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_identifier_takes_its_limits_and_refuses_one_beyond() {
        let of = |length: usize| "a".repeat(length);
        assert!(AppId::parse(&of(64)).is_ok() && AppId::parse(&of(65)).is_err() && AppId::parse("").is_err());
        assert!(OpenId::parse("o_-9Z").is_ok() && OpenId::parse("o.1").is_err());
        assert!(
            BizNo::parse(&of(63)).is_ok() && BizNo::parse(&of(64)).is_err() && BizNo::parse("a_b").is_err()
        );
        assert!(Os::parse(&of(32)).is_ok() && Os::parse(&of(33)).is_err() && Os::parse("i os").is_err());
        assert!(OrderNo::parse("12345").is_err() && OrderNo::parse("12_-*6").is_ok());
        assert!(OrderNo::parse(&of(32)).is_ok() && OrderNo::parse(&of(33)).is_err());
        assert!(ImgId::parse(&of(48)).is_ok() && ImgId::parse(&of(47)).is_err());
        assert!(ImgId::parse(&"A".repeat(48)).is_err());
        assert!(ProductText::parse(&of(512)).is_ok() && ProductText::parse(&of(513)).is_err());
        assert!(ProductId::parse(&of(64)).is_ok() && ProductId::parse(&of(65)).is_err());
    }

    /// Rule 13.7.12: the form of a pseudonym is that of erased players alone.
    #[test]
    fn no_player_is_registered_under_a_pseudonym() {
        let pseudonym = OpenId::pseudonym([0x5f; 10]);
        assert_eq!(pseudonym.as_str(), "erased-5f5f5f5f5f5f5f5f5f5f");
        assert!(pseudonym.is_pseudonym() && OpenId::parse(pseudonym.as_str()).is_ok());
        let expected = Expected::new("another open_id: the form erased-... is kept for erased players");
        assert_eq!(OpenId::of_new_player(pseudonym.as_str()), Err(expected));
        for other in
            ["erased-fan", "erased-", "player", "erased-5f0c1a2b3c4d5e6f7a8B", "erased-5f0c1a2b3c4d5e6f7a8b0"]
        {
            let open_id = OpenId::of_new_player(other).unwrap();
            assert!(!open_id.is_pseudonym(), "{other}");
        }
    }

    #[test]
    fn a_reason_and_a_name_count_characters_and_have_no_control_characters() {
        let of = |length: usize| "é".repeat(length);
        assert!(Reason::parse("a <b> reason").is_ok() && Reason::parse(&of(500)).is_ok());
        assert!(
            Reason::parse("").is_err() && Reason::parse(&of(501)).is_err() && Reason::parse("a\nb").is_err()
        );
        for blank in [" ", "\u{3000}", "\u{200b} \u{a0}"] {
            let expected = Err(Expected::new("a reason that is more than blanks"));
            assert_eq!(Reason::parse(blank), expected, "{blank:?}");
        }
        assert!(AppName::parse("").is_ok() && AppName::parse(&of(128)).is_ok());
        assert!(AppName::parse(&of(129)).is_err() && AppName::parse("a\tb").is_err());
    }

    /// Rule 8.3.17: what looks like the same number is the same number, and rows that are kept are read all the same.
    #[test]
    fn a_number_of_operators_has_nothing_around_it_that_nobody_sees() {
        const AROUND: &str = "no blank or unseen character around it";
        const WITHIN: &str = "no unseen character in it";
        for (text, expected) in [
            (" case-1", AROUND),
            ("case-1 ", AROUND),
            ("\u{a0}case-1", AROUND),
            ("case-1\u{3000}", AROUND),
            ("\u{feff}case-1", AROUND),
            ("case-1\u{200b}", AROUND),
            (" ", AROUND),
            ("case\u{ad}-1", WITHIN),
            ("case-\u{200d}1", WITHIN),
            ("case\u{a0}1", WITHIN),
            ("case\u{2003}1", WITHIN),
            ("case\u{2009}1", WITHIN),
            ("case\u{2028}1", WITHIN),
            ("case\u{2029}1", WITHIN),
            ("case\u{3000}1", WITHIN),
            ("case-1\u{e000}", WITHIN),
            ("case-1\u{fdd0}", WITHIN),
            ("case-1\u{fffe}", WITHIN),
            ("case-1\u{10ffff}", WITHIN),
        ] {
            let expected = Expected::new(expected);
            assert_eq!(CreditRef::parse(text).as_ref(), Err(&expected), "{text:?}");
            assert_eq!(PoiId::parse(text).as_ref(), Err(&expected), "{text:?}");
            assert_eq!(PackageVersion::parse(text).as_ref(), Err(&expected), "{text:?}");
            assert_eq!(PagePath::of_package(text).as_ref(), Err(&expected), "{text:?}");
            assert_eq!(CreditRef::stored(text).unwrap().as_str(), text);
            assert_eq!(PoiId::stored(text).unwrap().as_str(), text);
        }
        for text in ["case 1", "=x;-y", "'case", "\"case\"", "案件1"] {
            assert!(CreditRef::parse(text).is_ok() && PoiId::parse(text).is_ok(), "{text:?}");
        }
        for text in ["", "a\n", "\0"] {
            let control = Expected::new(CreditRef::EXPECTED);
            assert_eq!(CreditRef::parse(text).as_ref(), Err(&control), "{text:?}");
            assert_eq!(CreditRef::stored(text).as_ref(), Err(&control), "{text:?}");
        }
    }

    #[test]
    fn a_page_of_a_package_is_one_path() {
        let expected = Err(Expected::new("one path without a comma"));
        assert_eq!(PagePath::of_package("pages/order,pages/b"), expected);
        for text in ["pages/c ", " /pages/c", "/ pages/c", "pages/c ?x"] {
            let expected = Err(Expected::new("no blank or unseen character around it"));
            assert_eq!(PagePath::of_package(text), expected, "{text:?}");
        }
        assert_eq!(PagePath::of_package("/pages/b?x=1,2").unwrap().as_str(), "pages/b");
        // A path of an order is compared with the pages, whatever it is.
        assert!(PagePath::parse("pages/c ").is_ok() && PagePath::parse("pages/a,b").is_ok());
    }

    #[test]
    fn zone_id_splits_at_the_first_underscore_and_both_parts_are_there() {
        for good in ["z_r", "z__", "z_r_r", "区_角色", &format!("{}_r", "z".repeat(126))] {
            assert!(ZoneId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "z", "_r", "z_", "z_r&a=b", "z_r=", "z_\n", &format!("{}_r", "z".repeat(127))] {
            assert!(ZoneId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_city_counts_characters_not_bytes() {
        assert!(ProductCity::parse(&"市".repeat(15)).is_ok());
        assert!(ProductCity::parse(&"市".repeat(16)).is_err());
    }

    #[test]
    fn a_backup_url_is_absolute_http_with_a_host() {
        for good in ["http://a", "https://a.example/b?c=d#e", "HTTPS://A.example:8443/", "http://[::1]/"] {
            assert!(WebUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "//a.example",
            "ftp://a.example",
            "javascript:alert(1)",
            "http://",
            "https:///",
            "https:///a.example",
            "http:a.example",
            "https:/a.example/x",
            "http:\\\\a.example",
            "http:a.example/?b=://c",
            "http://?a",
            "http://a b",
        ] {
            assert!(WebUrl::parse(bad).is_err(), "{bad}");
        }
        assert!(WebUrl::parse(&format!("http://a/{}", "b".repeat(2039))).is_ok());
        assert!(WebUrl::parse(&format!("http://a/{}", "b".repeat(2040))).is_err());
    }

    #[test]
    fn a_page_path_has_no_leading_slash_and_no_query() {
        for text in [
            "pages/order/detail",
            "/pages/order/detail",
            "/pages/order/detail?id=1&b=/x",
            "pages/order/detail#top",
        ] {
            assert_eq!(PagePath::parse(text).unwrap().as_str(), "pages/order/detail");
        }
        for text in ["/", "?a=b", "//", "//pages/order/detail", "//?"] {
            assert!(PagePath::parse(text).is_err(), "{text}");
        }
        let pages = ["pages/index".to_owned(), "pages/order/detail".to_owned()];
        assert_eq!(
            PagePath::parse("pages/order/detial").unwrap().nearest(&pages),
            Some("pages/order/detail")
        );
    }

    proptest! {
        #[test]
        fn what_parses_prints_as_it_came(text in "\\PC{0,80}") {
            if let Ok(id) = AppId::parse(&text) { prop_assert_eq!(id.to_string(), text.clone()); }
            if let Ok(zone) = ZoneId::parse(&text) { prop_assert_eq!(zone.to_string(), text.clone()); }
            if let Ok(number) = OrderNo::parse(&text) { prop_assert_eq!(OrderNo::parse(number.as_str()).unwrap(), number); }
            if let Ok(path) = PagePath::parse(&text) { prop_assert!(PagePath::parse(path.as_str()).is_ok()); }
        }
    }
}
