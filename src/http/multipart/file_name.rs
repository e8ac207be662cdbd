//! File names as a person would say them. Encoded-words of mails (RFC 2047) and values with a charset (RFC 8187) are
//! decoded, and folders and blanks around them go. Decoders of mails want blanks around each word, and leave what
//! they cannot decode as it is. They mend letters that two words share by breaking them. So the words are read here,
//! and `encoding_rs` knows the charsets.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use domain::strays::without_strays;
use encoding_rs::Encoding;
use percent_encoding::percent_decode;

/// Takes base64 with and without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The name that a person would say: decoded, behind the last separator of folders, without blanks and quotes around it.
/// `None` where an encoded-word cannot be decoded.
pub(super) fn said(name: &str) -> Option<String> {
    let decoded = decoded(name)?;
    let of_folder = decoded.rsplit(['/', '\\']).next().unwrap_or_default();
    Some(without_strays(of_folder.trim_matches(char::is_control)).to_owned())
}

/// The text of a value such as `UTF-8''%E5%B0%81.png`.
pub(super) fn of_ext_value(value: &[u8]) -> Option<String> {
    let mut parts = value.splitn(3, |byte| *byte == b'\'');
    let (charset, _language, coded) = (parts.next()?, parts.next()?, parts.next()?);
    text_of(encoding(charset)?, &percent_decode(coded).collect::<Vec<u8>>())
}

/// A piece of a name.
enum NamePiece<'a> {
    /// As it is.
    Plain(&'a str),
    /// Bytes of neighbouring words of one charset, which may share a letter.
    Coded(&'static Encoding, Vec<u8>),
}

/// A text with its encoded-words decoded. Blanks between two words go (RFC 2047, 6.2).
fn decoded(text: &str) -> Option<String> {
    let mut pieces: Vec<NamePiece<'_>> = Vec::new();
    let (mut rest, mut searched) = (text, 0);
    while let Some(at) = rest[searched..].find("=?").map(|at| searched + at) {
        let Some(word) = Word::at_start(&rest[at..]) else {
            searched = at + 2;
            continue;
        };
        let (encoding, bytes) = word.bytes()?;
        let before = &rest[..at];
        match pieces.last_mut() {
            Some(NamePiece::Coded(last, all)) if *last == encoding && before.trim().is_empty() => {
                all.extend(bytes);
            }
            Some(NamePiece::Coded(..)) if before.trim().is_empty() => {
                pieces.push(NamePiece::Coded(encoding, bytes));
            }
            _ => pieces.extend([NamePiece::Plain(before), NamePiece::Coded(encoding, bytes)]),
        }
        (rest, searched) = (&rest[at + word.length..], 0);
    }
    pieces.push(NamePiece::Plain(rest));
    let texts = pieces.into_iter().map(|piece| match piece {
        NamePiece::Plain(text) => Some(text.to_owned()),
        NamePiece::Coded(encoding, bytes) => text_of(encoding, &bytes),
    });
    texts.collect()
}

/// A text of the form of an encoded-word: `=?charset?coding?text?=`.
struct Word<'a> {
    charset: &'a str,
    coding: &'a str,
    text: Option<&'a str>,
    length: usize,
}

impl<'a> Word<'a> {
    /// The word that begins with these characters. One that was cut has no text.
    fn at_start(from: &'a str) -> Option<Self> {
        let (charset, behind) = from.strip_prefix("=?")?.split_once('?')?;
        let (coding, behind) = behind.split_once('?')?;
        // A language may stand behind the charset (RFC 2231, 5).
        let charset = charset.split('*').next().unwrap_or_default();
        let is_charset = |letter: char| letter.is_ascii_alphanumeric() || "-_.:+".contains(letter);
        if charset.is_empty() || !charset.chars().all(is_charset) || coding.len() != 1 {
            return None;
        }
        let start = from.len() - behind.len();
        let (text, length) = match behind.find("?=") {
            Some(end) => (Some(&behind[..end]), start + end + 2),
            None => (None, from.len()),
        };
        Some(Self { charset, coding, text, length })
    }

    fn bytes(&self) -> Option<(&'static Encoding, Vec<u8>)> {
        let text = self.text?;
        let bytes = match self.coding {
            "B" | "b" => BASE64.decode(text.split_ascii_whitespace().collect::<String>()).ok()?,
            "Q" | "q" => of_q(text)?,
            _ => return None,
        };
        Some((encoding(self.charset.as_bytes())?, bytes))
    }
}

/// The bytes of the coding Q: `_` is a blank, and `=` stands before two hexadecimal digits.
fn of_q(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'_' => bytes.push(b' '),
            b'=' => {
                let (digits, behind) = rest.split_first_chunk::<2>()?;
                bytes.extend(hex::decode(digits).ok()?);
                rest = behind;
            }
            other => bytes.push(*other),
        }
    }
    Some(bytes)
}

fn encoding(charset: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(charset)
}

/// `None` for bytes that the charset does not have.
fn text_of(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    let (text, has_faults) = encoding.decode_with_bom_removal(bytes);
    (!has_faults).then(|| text.into_owned())
}
