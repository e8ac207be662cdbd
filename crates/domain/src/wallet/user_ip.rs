//! The address of a player in a call: reading it, and naming what proxies and libraries send in its place (contract 3.1.8).

use std::net::{IpAddr, SocketAddr};

use crate::fields::Expected;
use crate::ids::UserIp;
use crate::strays;
use crate::text;

/// What languages and proxies write for no address.
const WORDS_FOR_NONE: [&str; 5] = ["unknown", "null", "undefined", "none", "nil"];

/// Reads an address.
///
/// # Errors
/// Anything else. What came in its place is named, and never repeated.
pub(super) fn parse(text: &str) -> Result<UserIp, Expected> {
    UserIp::parse(text).map_err(|Expected(expected)| {
        Expected(if text.parse::<SocketAddr>().is_ok() || has_behind(text, ':', is_number) {
            text!("{expected}; it has a port", expected)
        } else if is_list(text) {
            text!("{expected}; it is a list: send the player's alone", expected)
        } else if WORDS_FOR_NONE.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            text!("{expected}; it is a word for none", expected)
        } else if is_host_name(text) {
            text!("{expected}; it is a host name", expected)
        } else if text.split_once("://").is_some_and(|(scheme, _)| is_label(scheme)) {
            text!("{expected}; it is a URL: send the address alone", expected)
        } else if has_behind(text, '/', is_number) {
            text!("{expected}; it has the length of a network", expected)
        } else if has_behind(text, '%', |zone| !zone.is_empty()) {
            text!("{expected}; it has a zone", expected)
        } else {
            let strays = is_address(strays::without_strays(text)).then(|| strays::around(text)).flatten();
            strays::told(expected, strays)
        })
    })
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether several values came, as each proxy adds one to `X-Forwarded-For`.
fn is_list(text: &str) -> bool {
    let mut pieces = text.split([',', ';', ' ']).map(str::trim).filter(|piece| !piece.is_empty());
    // Behind a comma a proxy may write any word.
    let is_next = |next: &str| text.contains(',') || is_address(next);
    pieces.next().is_some_and(is_address) && pieces.next().is_some_and(is_next)
}

/// Whether this sign and such a text follow an address.
fn has_behind(text: &str, sign: char, fits: impl Fn(&str) -> bool) -> bool {
    text.rsplit_once(sign).is_some_and(|(address, rest)| is_address(address) && fits(rest))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text may be a part of a host name.
fn is_label(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether it is a name as those of hosts are, with a port or without. The last part of one begins with a letter.
fn is_host_name(text: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = text.rsplit_once(':').filter(|pair| is_port(pair.1)).map_or(text, |(name, _)| name);
    // A name of one part has what hexadecimal digits have not: else it may be a part of an address.
    let is_no_digits = |letter: char| letter == '-' || ('g'..='z').contains(&letter.to_ascii_lowercase());
    (is_label(name) && !name.starts_with('-') && name.contains(is_no_digits))
        || name.rsplit_once('.').is_some_and(|(before, last)| {
            last.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && is_label(last)
                && before.split('.').all(is_label)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 3.1.8: what came in place of an address is named, and nothing else is guessed.
    #[test]
    fn what_came_in_place_of_an_address_is_named() {
        let address = "expected an IPv4 or IPv6 address";
        for (text, told) in [
            ("203.0.113.7:51234", "; it has a port"),
            ("[2001:db8::7]:443", "; it has a port"),
            ("203.0.113.7, 10.0.0.1", "; it is a list: send the player's alone"),
            ("2001:db8::7,unknown", "; it is a list: send the player's alone"),
            ("game-1.example.com", "; it is a host name"),
            ("game.example.com:8080", "; it is a host name"),
            ("localhost", "; it is a host name"),
            ("[2001:db8::7]", "; it has brackets around it"),
            (" 203.0.113.7\n", "; it has a blank and a line end around it"),
            ("\"203.0.113.7\"", "; it has quotes around it"),
            ("203.0.113.7,", "; it has a separator around it"),
            ("1.2.3", ""),
            ("1.2.3.4.5", ""),
            ("1.2.3.4&x=1", ""),
            ("my-host", "; it is a host name"),
            ("host:80", "; it is a host name"),
            ("203.0.113.7;10.0.0.1", "; it is a list: send the player's alone"),
            ("203.0.113.7 10.0.0.1", "; it is a list: send the player's alone"),
            ("::ffff:203.0.113.7:80", "; it has a port"),
            ("fe80::1%eth0", "; it has a zone"),
            ("203.0.113.7/32", "; it has the length of a network"),
            ("http://203.0.113.7", "; it is a URL: send the address alone"),
            ("unknown", "; it is a word for none"),
            ("NULL", "; it is a word for none"),
            ("203.0.113.7 x", ""),
            ("beef:1", ""),
            ("12345", ""),
            ("[x]", ""),
            ("a..b", ""),
            (",", ""),
            ("", ""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), format!("{address}{told}"), "{text:?}");
        }
        for taken in ["203.0.113.7", "::1", "2001:db8::7", "::ffff:203.0.113.7"] {
            assert_eq!(parse(taken).unwrap().as_str(), taken);
        }
    }
}
