//! The kind of a body (contract 2.10): what came, whatever its content type says. A refusal names it, so that a
//! right request in a wrong envelope does not read as one without fields.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::strays::without_unseen;
use crate::text;
use crate::text::Text;

/// The byte-order mark of UTF-8. Programs put it before a text.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// How much of a body is looked at for the headers of a part.
const PART_HEAD_BYTES: usize = 1024;

/// The fewest characters that are called base64. Shorter ones may be a word.
const BASE64_BYTES_MIN: usize = 16;

/// A text without the byte-order mark in front of it.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

/// The kind of a body. Those behind the first four are never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// No bytes, or blanks.
    Nothing,
    /// `name=value` joined with `&`.
    Form,
    /// It begins as an object or an array.
    Json,
    /// Parts between boundaries.
    Multipart,
    /// It begins with `<`.
    Xml,
    /// A text in quotes: something was serialised twice.
    JsonText,
    /// A form in which `&` and `=` are escaped as well.
    EscapedForm,
    /// JSON that was escaped, or sent as the name of a field.
    EscapedJson,
    /// Compressed, and no header says so.
    Gzip,
    /// Compressed with zlib or Zstandard.
    Compressed,
    /// A PNG or JPEG.
    Picture,
    /// Text in UTF-16, with a byte-order mark or without.
    Utf16,
    /// JSON behind characters that nobody sees, and that are no blanks of JSON.
    UnseenBeforeJson,
    /// JSON behind a name of a function, a remark or a guard.
    TextBeforeJson,
    /// A form or JSON in base64.
    Base64,
    /// None of these.
    PlainText,
}

impl BodyKind {
    /// The kind of a body.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let text = without_mark(body).trim_ascii();
        match text {
            [] => Self::Nothing,
            // Latin letters of either order.
            [0xff, 0xfe, ..]
            | [0xfe, 0xff, ..]
            | [0, 1..=255, 0, 1..=255, ..]
            | [1..=255, 0, 1..=255, 0, ..] => Self::Utf16,
            [b'{' | b'[', ..] => Self::Json,
            [b'<', ..] => Self::Xml,
            [b'"', ..] => Self::JsonText,
            [0x1f, 0x8b, ..] => Self::Gzip,
            // Fast levels of zlib begin as a text may.
            [b'x', b'^', data @ ..] if std::str::from_utf8(data).is_err() => Self::Compressed,
            [b'x', 0x01 | 0x9c | 0xda, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Compressed,
            [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => Self::Picture,
            _ if has_parts(text) => Self::Multipart,
            _ => Self::of_pairs(text),
        }
    }

    fn of_pairs(text: &[u8]) -> Self {
        let name = text.split(|byte| matches!(byte, b'=' | b'&')).next().unwrap_or_default();
        let decoded: Cow<'_, [u8]> = percent_encoding::percent_decode(name).into();
        if matches!(decoded.trim_ascii(), [b'{' | b'[', ..]) {
            Self::EscapedJson
        } else if is_behind_unseen(text) {
            Self::UnseenBeforeJson
        } else if is_behind_text(name) {
            Self::TextBeforeJson
        } else if is_base64(&decoded, &text[name.len()..]) {
            Self::Base64
        } else if name.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            // Lines such as those of YAML have a `=` somewhere, too.
            Self::PlainText
        } else if text.contains(&b'=') {
            Self::Form
        } else if decoded.contains(&b'=') {
            Self::EscapedForm
        } else {
            Self::PlainText
        }
    }

    /// The kind as a refusal names it, in words that follow "got".
    #[must_use]
    pub fn name(self) -> Text {
        match self {
            Self::Nothing => text!("nothing"),
            Self::Form => text!("a form"),
            Self::Json => Text::same("JSON"),
            Self::Multipart => Text::same("multipart"),
            Self::Xml => Text::same("XML"),
            Self::JsonText => text!("text in quotes"),
            Self::EscapedForm => text!("a form that is escaped as a whole"),
            Self::EscapedJson => text!("JSON that is escaped as a whole"),
            Self::Gzip => text!("gzip without a content-encoding"),
            Self::Compressed => text!("compressed data"),
            Self::Picture => text!("a picture"),
            Self::Utf16 => Text::same("UTF-16"),
            Self::UnseenBeforeJson => text!("JSON with an unseen character before it"),
            Self::TextBeforeJson => text!("JSON with text before it"),
            Self::Base64 => text!("base64 text"),
            Self::PlainText => text!("plain text"),
        }
    }
}

/// Whether a text that begins with a brace or a bracket goes on as JSON does. What languages print of a map, as
/// `{open_id=player-1}`, does not.
#[must_use]
pub fn begins_as_json(body: &[u8]) -> bool {
    let mut rest = without_mark(body).trim_ascii();
    loop {
        rest = match rest {
            [b'{', inner @ ..] => return matches!(inner.trim_ascii_start(), [] | [b'"' | b'}', ..]),
            [b'[', inner @ ..] => inner.trim_ascii_start(),
            // Cut behind its brackets.
            [] => return true,
            [first, ..] => {
                let is_word = ["true", "false", "null"].iter().any(|word| rest.starts_with(word.as_bytes()));
                return is_word || first.is_ascii_digit() || b"\"-]".contains(first);
            }
        }
    }
}

/// Whether JSON begins behind characters that nobody sees. A `=` in its values makes it no form.
fn is_behind_unseen(text: &[u8]) -> bool {
    // None of these characters is ASCII, so most forms are not looked at.
    text.first().is_some_and(|first| !first.is_ascii())
        && without_unseen(&String::from_utf8_lossy(text)).starts_with(['{', '['])
}

/// Whether the text before the first `=` has the beginning of an object in it, as `cb({"a":"x=1"})`. No form has these
/// characters unescaped.
fn is_behind_text(name: &[u8]) -> bool {
    let object = name.iter().position(|byte| *byte == b'{').map(|at| &name[at + 1..]);
    object.is_some_and(|inner| inner.trim_ascii_start().starts_with(b"\""))
}

/// Whether a text is a form or JSON in base64: `padding` is what follows the name that it reads as.
fn is_base64(name: &[u8], padding: &[u8]) -> bool {
    let is_padding = |bytes: &[u8]| bytes.len() <= 2 && bytes.iter().all(|byte| *byte == b'=');
    let end = name.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let (word, escaped_padding) = name.split_at(end);
    let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    if word.len() < BASE64_BYTES_MIN
        || !is_padding(padding)
        || !is_padding(escaped_padding)
        || !word.iter().all(is_of_it)
    {
        return false;
    }
    let usual = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let usual: Vec<u8> = word.iter().map(usual).collect();
    // Each word of these letters decodes to something: only what can be read was meant.
    STANDARD_NO_PAD.decode(usual).is_ok_and(|decoded| {
        std::str::from_utf8(&decoded)
            .is_ok_and(|text| !text.contains(|letter: char| letter.is_control() && !letter.is_whitespace()))
            && matches!(BodyKind::of(&decoded), BodyKind::Form | BodyKind::Json)
    })
}

/// Whether a text begins as parts do: a boundary, and the headers of a part behind it.
fn has_parts(text: &[u8]) -> bool {
    let head = &text[..text.len().min(PART_HEAD_BYTES)];
    text.starts_with(b"--")
        && String::from_utf8_lossy(head).to_ascii_lowercase().contains("content-disposition:")
}

/// The content coding of a request that changes its bytes, as its header names it. None is taken.
#[must_use]
pub fn content_coding<'a>(values: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut codings = values.flat_map(|value| value.split(',')).map(str::trim);
    codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_it_is() {
        for (body, kind) in [
            (&b""[..], BodyKind::Nothing),
            (b"\xef\xbb\xbf \r\n", BodyKind::Nothing),
            (b"a=1&b=2", BodyKind::Form),
            (b"\xef\xbb\xbfa=1", BodyKind::Form),
            (b"a%3D1=", BodyKind::Form),
            (b" {\"a\":1}", BodyKind::Json),
            (b"\xef\xbb\xbf[]", BodyKind::Json),
            (b"<xml><a>1</a></xml>", BodyKind::Xml),
            (b"\"a=1&b=2\"", BodyKind::JsonText),
            (b"a%3D1%26b%3D2", BodyKind::EscapedForm),
            (b"%7B%22a%22%3A1%7D", BodyKind::EscapedJson),
            (b"%7B%22a%22%3A1%7D=", BodyKind::EscapedJson),
            (b"%5B1%5D&b=2", BodyKind::EscapedJson),
            (b"\x1f\x8b\x08\x00", BodyKind::Gzip),
            (b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1", BodyKind::Multipart),
            (b"--a=1", BodyKind::Form),
            (b"x\x9c\x4b\x2c", BodyKind::Compressed),
            (b"x\x5e\x4b\xb4", BodyKind::Compressed),
            (b"x^2=4", BodyKind::Form),
            (b"\x89PNG\r\n\x1a\n=", BodyKind::Picture),
            (b"a\0=\x001\0", BodyKind::Utf16),
            (b"\0{\0}", BodyKind::Utf16),
            (b"\xff\xfe{\0}\0", BodyKind::Utf16),
            (b"\xfe\xff\0a\0=", BodyKind::Utf16),
            (b"app_id: sb1", BodyKind::PlainText),
            // Rule 2.10.3: a `=` in a value makes no form.
            ("\u{200b}{\"a\":\"x?id=1\"}".as_bytes(), BodyKind::UnseenBeforeJson),
            ("\u{a0}{\"a\":1}".as_bytes(), BodyKind::UnseenBeforeJson),
            ("\u{200b}app_id=a1".as_bytes(), BodyKind::Form),
            (b"cb({\"a\":\"x?id=1\"})", BodyKind::TextBeforeJson),
            (b")]}',\n{\"a\":\"x?id=1&b=2\"}", BodyKind::TextBeforeJson),
            (b"//c\n{ \"a\":\"x?id=1\"}", BodyKind::TextBeforeJson),
            (b"app_id: a1\norder_path: x?id=1", BodyKind::PlainText),
            (b"data={\"a\":\"x=1\"}", BodyKind::Form),
            (b"product_info[0][product_id]=1", BodyKind::Form),
            (b"a b=1&app_id=a1", BodyKind::Form),
            // app_id=a1&b=22, {"app_id":"a1"}, and bytes that are no text.
            (b"YXBwX2lkPWExJmI9MjI=", BodyKind::Base64),
            (b"YXBwX2lkPWExJmI9MjI", BodyKind::Base64),
            (b"YXBwX2lkPWExJmI9MjI%3D", BodyKind::Base64),
            (b"eyJhcHBfaWQiOiJhMSJ9", BodyKind::Base64),
            (b"9b2d71e4c05fa8369b2d71e4c05fa836", BodyKind::PlainText),
            (b"order_path_of_the_game=", BodyKind::Form),
        ] {
            assert_eq!(BodyKind::of(body), kind, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn what_languages_print_of_a_map_is_no_json() {
        for json in ["{", "[", "[{", "{\"a\":1}", "{ }", "[]", " [ [ -1", "[null]", "[{\"a\":1,"] {
            assert!(begins_as_json(json.as_bytes()), "{json}");
        }
        for printed in
            ["{open_id=player-1, os=ios}", "{'open_id': 'player-1'}", "[{a=1}]", "[map[a:1]]", "{a:1}"]
        {
            assert!(!begins_as_json(printed.as_bytes()), "{printed}");
        }
    }

    #[test]
    fn a_coding_that_changes_nothing_is_none() {
        for (header, coding) in [
            (&["identity"][..], None),
            (&["", "Identity, identity"], None),
            (&["gzip"], Some("gzip")),
            (&["identity, br"], Some("br")),
            (&["identity", "x-gzip"], Some("x-gzip")),
        ] {
            assert_eq!(content_coding(header.iter().copied()), coding, "{header:?}");
        }
    }
}
