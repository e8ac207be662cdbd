//! Forms: fields as a query or the body of a form has them, decoded once (contract 2.5).

use super::{FIELDS_MAX, Fields, Typing, UnreadableFields, check_name, shown_name};
use crate::body::{BodyKind, begins_as_json, without_mark};
use crate::text;

impl Fields {
    /// Reads `a=b&c=d` with percent and plus decoding, as a query or a form body has it.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, NUL, a name given twice, too many fields.
    pub fn from_urlencoded(encoded: &[u8]) -> Result<Self, UnreadableFields> {
        let mut fields = Self::default();
        let pairs = without_mark(encoded).split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        fields.values.reserve(pairs.clone().count().min(FIELDS_MAX));
        for pair in pairs {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
            let name = decode(name).ok_or_else(|| UnreadableFields::NotUtf8(text!("a field name")))?;
            check_name(&name)?;
            let value = decode(value).ok_or_else(|| UnreadableFields::NotUtf8(shown_name(&name)))?;
            fields.add_text(name, value)?;
        }
        Ok(fields)
    }

    /// Reads the body of a call that takes a form alone, whatever its content type says. Blanks before it and line ends
    /// around it do not count: they come from the file that the body was made of.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`], and a body of another kind.
    pub fn from_form_body(body: &[u8]) -> Result<Self, UnreadableFields> {
        match BodyKind::of(body) {
            BodyKind::Form | BodyKind::Nothing => {
                Self::from_urlencoded(without_line_end(without_mark(body).trim_ascii_start()))
            }
            BodyKind::Json if !begins_as_json(body) => Err(no_form(BodyKind::PlainText)),
            got => Err(no_form(got)),
        }
    }

    /// Reads a form of the console, or the query of a page.
    ///
    /// # Errors
    /// As [`Fields::from_urlencoded`].
    pub fn from_form(encoded: &[u8]) -> Result<Self, UnreadableFields> {
        Ok(Self { typing: Typing::Form, ..Self::from_urlencoded(encoded)? })
    }
}

/// The reason of a body that is no form.
#[must_use]
pub fn no_form(got: BodyKind) -> UnreadableFields {
    UnreadableFields::WrongKind { expected: text!("a form (application/x-www-form-urlencoded)"), got }
}

/// A body without the line ends behind it.
fn without_line_end(body: &[u8]) -> &[u8] {
    let end = body.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    &body[..end]
}

/// Decodes plus signs and percent escapes once; broken escapes stand for themselves. `None`: the result
/// is not UTF-8.
fn decode(encoded: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    // Every request is decoded, so what stands between two escapes is copied at once.
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'%' | b'+')) {
        bytes.extend_from_slice(&rest[..at]);
        let behind = &rest[at + 1..];
        let (byte, behind) =
            if rest[at] == b'+' { (b' ', behind) } else { escaped(behind).unwrap_or((b'%', behind)) };
        bytes.push(byte);
        rest = behind;
    }
    bytes.extend_from_slice(rest);
    String::from_utf8(bytes).ok()
}

/// The byte of an escape, and what follows it. `None`: what stands behind the percent sign is no escape.
fn escaped(behind: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = behind.split_first_chunk::<2>()?;
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    Some((u8::try_from(high? << 4 | low?).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Contract 2.5.10 and 3.2.1: decoded once, as every form decoder does it.
        #[test]
        fn a_value_is_decoded_as_a_form_decoder_would(
            encoded in prop::collection::vec(
                prop_oneof![Just(b'%'), Just(b'+'), Just(b'2'), Just(b'f'), Just(b'E'), any::<u8>()], 0..40),
        ) {
            let pair = [b"name=", &encoded[..]].concat();
            prop_assume!(!encoded.contains(&b'&'));
            let (_, expected) = form_urlencoded::parse(&pair).next().unwrap();
            match decode(&encoded) {
                Some(text) => prop_assert_eq!(text, expected),
                None => prop_assert!(expected.contains(char::REPLACEMENT_CHARACTER)),
            }
        }
    }
}
