//! The heads of a `multipart/form-data` body (RFC 7578). They are the boundary in the content type, and the name and
//! file name in the head of a part. `multer` cuts a body into parts. Its reader of these parameters looks into quoted
//! values (<https://github.com/rwf2/multer/issues/72>), and its reader of boundaries wants quotes around `=` and `/`.
//! So both are read here.

use axum::http::{HeaderMap, header};
use domain::fields::shown;
use domain::text;
use domain::text::Text;

use self::file_name::{of_ext_value, said};
use super::refusal::{Code, Refusal};

mod file_name;

/// So much of a part's disposition is read: the names in it are short, and its head has no limit but that of its body.
const DISPOSITION_BYTES_MAX: usize = 8192;
/// The most headers of a part that `multer` reads.
const PART_HEADERS_MAX: usize = 32;
/// Transfer codings that change bytes. Other words of `Content-Transfer-Encoding` do not count.
const TRANSFER_CODINGS: [&str; 4] = ["base64", "quoted-printable", "x-uuencode", "uuencode"];
/// What browsers write in a quoted value for the three characters that must not stand there.
const BROWSER_ESCAPES: [(&str, &str); 3] = [("%22", "\""), ("%0D", "\r"), ("%0A", "\n")];

/// The boundary of a body that must be multipart.
///
/// # Errors
/// 10000200: the content type is another, or has no boundary that can be read.
pub fn boundary(headers: &HeaderMap) -> Result<String, Refusal> {
    boundary_if_multipart(headers)?.ok_or_else(|| not_multipart(headers))
}

/// The boundary of a body that came, `None` where it is not multipart. A content type that cannot be read counts where
/// the body begins as multipart does: some clients announce multipart and send a form.
///
/// # Errors
/// 10000200: it is multipart, and its boundary cannot be read.
pub fn boundary_of(headers: &HeaderMap, body: &[u8]) -> Result<Option<String>, Refusal> {
    let begins_with_boundary = body.trim_ascii_start().starts_with(b"--");
    boundary_if_multipart(headers)
        .or_else(|refusal| if begins_with_boundary { Err(refusal) } else { Ok(None) })
}

/// The boundary of every kind of multipart, because the parts are told by their own heads.
fn boundary_if_multipart(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(content_type) = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii())
    else {
        return Ok(None);
    };
    if !content_type.get(.."multipart".len()).is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart")) {
        return Ok(None);
    }
    let parameters = parameters(content_type);
    let Some(found) = parameters.iter().find(|parameter| parameter.name == b"boundary") else {
        return Err(without_boundary(content_type));
    };
    // A boundary may be anything that the sender wrote, so it is not repeated.
    if !found.is_closed {
        return Err(illegal(text!("content type: expected a quote behind the boundary too")));
    }
    match found.text() {
        Some(boundary) if boundary.is_empty() => Err(illegal(text!("content type: the boundary is empty"))),
        Some(boundary) => Ok(Some(boundary)),
        None => Err(illegal(text!("content type: expected a boundary of ASCII characters"))),
    }
}

/// The refusal of a body that should be multipart and whose content type is none or another. What stands behind the
/// kind is not repeated: a boundary may be anything that the sender wrote.
#[must_use]
pub fn not_multipart(headers: &HeaderMap) -> Refusal {
    let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.is_empty() { illegal(expected_multipart()) } else { without_boundary(kind) }
}

/// The refusal with the content type that came.
fn without_boundary(came: &[u8]) -> Refusal {
    illegal(text!(
        "{refusal}, got {came}; let the HTTP library write this header",
        refusal = expected_multipart(),
        came = shown(&String::from_utf8_lossy(came))
    ))
}

fn expected_multipart() -> Text {
    text!("content type: expected multipart/form-data with a boundary")
}

fn illegal(text: Text) -> Refusal {
    Refusal::new(Code::IllegalParameter, text)
}

/// What the head of a part says of it.
#[derive(Debug, PartialEq, Eq)]
pub struct PartHead {
    /// Its name.
    pub name: Option<String>,
    /// The name of its file, as a person would say it: decoded, without folders and without blanks around it. A name that
    /// cannot be decoded is none.
    pub file_name: Option<String>,
}

impl PartHead {
    /// Reads the headers of a part.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(header::CONTENT_DISPOSITION).map_or(&b""[..], |value| value.as_bytes());
        let parameters = parameters(&value[..value.len().min(DISPOSITION_BYTES_MAX)]);
        let find = |name: &str| parameters.iter().find(|parameter| parameter.name == name.as_bytes());
        // The form with a charset says more, so it goes before the other (RFC 6266, 4.3).
        let ext = |name: &str| find(name).and_then(|parameter| of_ext_value(&parameter.value));
        let plain = |name: &str| find(name).and_then(HeadParameter::text).map(unescaped);
        Self {
            name: plain("name").or_else(|| ext("name*")),
            file_name: ext("filename*").or_else(|| plain("filename")).and_then(|name| said(&name)),
        }
    }
}

/// The delimiter before each part of a body with this boundary.
#[must_use]
pub fn delimiter(boundary: &str) -> Vec<u8> {
    format!("--{boundary}").into_bytes()
}

/// The fault of a body that begins with these bytes and has this delimiter. The names of its parts are not told: they
/// may be anything, also a credential.
#[must_use]
pub fn fault(error: &multer::Error, start: &[u8], delimiter: &[u8]) -> String {
    // A head without its empty line reaches as far as the next one, or to the end of the body.
    let may_be_of_head = matches!(
        error,
        multer::Error::ReadHeaderFailed(_)
            | multer::Error::IncompleteHeaders
            | multer::Error::IncompleteStream
    );
    if may_be_of_head && let Some(fault) = head_fault(start, delimiter) {
        return fault.to_owned();
    }
    match error {
        multer::Error::IncompleteFieldData { .. } => "a part is cut".to_owned(),
        multer::Error::IncompleteStream => {
            "it does not end with the boundary of the content type, or its line ends are not CR LF".to_owned()
        }
        multer::Error::ReadHeaderFailed(_) | multer::Error::IncompleteHeaders => {
            format!(
                "the headers of a part cannot be read; each is one line, and an empty line ends them; a part has at most {PART_HEADERS_MAX}"
            )
        }
        multer::Error::DecodeHeaderName { .. } => "a header of a part has no name".to_owned(),
        other => other.to_string(),
    }
}

/// What is wrong with the first head of a part, among those in these bytes, that is folded or lacks its empty line.
fn head_fault(start: &[u8], delimiter: &[u8]) -> Option<&'static str> {
    let mut lines = PartLines(start);
    while let Some((line, _)) = lines.next() {
        if line.strip_prefix(delimiter).is_some_and(|padding| padding.trim_ascii().is_empty())
            && let Some(fault) = fault_of_lines(&mut lines, delimiter)
        {
            return Some(fault);
        }
    }
    None
}

/// The fault of the head whose lines begin here. They are read up to the empty line behind it.
fn fault_of_lines(lines: &mut PartLines<'_>, delimiter: &[u8]) -> Option<&'static str> {
    let mut has_header = false;
    for (line, is_whole) in lines {
        if line.is_empty() {
            return None;
        }
        let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
        if has_header && is_continued && !line.trim_ascii().is_empty() {
            return Some("a header of a part goes on in the next line; each is one line");
        }
        if line.starts_with(delimiter) || !may_be_header(line, is_whole) {
            return Some("no empty line stands between the headers of a part and its content");
        }
        // Lines that end with LF alone are another fault.
        if line.contains(&b'\n') {
            return None;
        }
        has_header = true;
    }
    None
}

/// Whether a line is a header, or may become one where it is not whole: a name, and a colon behind it.
fn may_be_header(line: &[u8], is_whole: bool) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    match line.iter().position(|byte| !is_of_name(byte)) {
        Some(end) => end > 0 && line[end..].trim_ascii_start().starts_with(b":"),
        None => !is_whole,
    }
}

/// Lines that end with CR LF, each with whether it has its end.
struct PartLines<'a>(&'a [u8]);

impl<'a> Iterator for PartLines<'a> {
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        if let Some(end) = self.0.windows(2).position(|pair| pair == b"\r\n") {
            let line = &self.0[..end];
            self.0 = &self.0[end + 2..];
            return Some((line, true));
        }
        let line = std::mem::take(&mut self.0);
        Some((line.strip_suffix(b"\r").unwrap_or(line), false))
    }
}

/// Refuses a part whose bytes came in another form, as those of mails do. Browsers and servers of forms do not decode it
/// either (RFC 7578, 4.7).
///
/// # Errors
/// 10000200, which names `field`.
pub fn check_transfer_coding(headers: &HeaderMap, field: &str) -> Result<(), Refusal> {
    let value =
        headers.get("content-transfer-encoding").map_or(&b""[..], |value| value.as_bytes()).trim_ascii();
    match TRANSFER_CODINGS.iter().find(|coding| value.eq_ignore_ascii_case(coding.as_bytes())) {
        None => Ok(()),
        Some(coding) => Err(illegal(text!(
            "{field}: expected the bytes as they are, got {coding} (Content-Transfer-Encoding)",
            field,
            coding
        ))),
    }
}

/// A parameter of a header.
struct HeadParameter {
    /// In small letters.
    name: Vec<u8>,
    value: Vec<u8>,
    /// Whether a quoted value has its second quote.
    is_closed: bool,
}

impl HeadParameter {
    fn text(&self) -> Option<String> {
        String::from_utf8(self.value.clone()).ok()
    }
}

/// The parameters of a header, in any order (RFC 9110, 5.6.6). A value without quotes ends at the next `;`. What stands
/// before a name, such as the kind of the header with a comma behind it, is no part of the name.
fn parameters(header: &[u8]) -> Vec<HeadParameter> {
    let (mut found, mut rest) = (Vec::new(), header);
    while !rest.is_empty() {
        let end = position(rest, b"=;").unwrap_or(rest.len());
        let (before, behind) = rest.split_at(end);
        let Some(value) = behind.strip_prefix(b"=") else {
            rest = behind.get(1..).unwrap_or_default();
            continue;
        };
        let name = before.trim_ascii_end().rsplit(|byte| b" \t,".contains(byte)).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        if let Some(quoted) = value.trim_ascii_start().strip_prefix(b"\"") {
            let (value, length, is_closed) = of_quoted(quoted);
            found.push(HeadParameter { name, value, is_closed });
            rest = &quoted[length..];
        } else {
            let (value, behind) = value.split_at(position(value, b";").unwrap_or(value.len()));
            found.push(HeadParameter { name, value: value.trim_ascii().to_vec(), is_closed: true });
            rest = behind;
        }
    }
    found
}

/// The value in quotes that begins here, how long it is with the second quote, and whether there is one.
///
/// A backslash makes the next quote or backslash a part of the value. Some clients escape nothing: then the value ends
/// at the first quote that the header ends with, or a `;`.
fn of_quoted(text: &[u8]) -> (Vec<u8>, usize, bool) {
    // It looks behind a quote alone: then each blank is passed once, however many there are.
    let closes = |at: usize| {
        text[at] == b'"' && {
            let behind = text[at + 1..].trim_ascii_start();
            behind.is_empty() || behind.starts_with(b";")
        }
    };
    let (mut value, mut at) = (Vec::new(), 0);
    while at < text.len() && text[at] != b'"' {
        let is_escape = text[at] == b'\\' && matches!(text.get(at + 1), Some(b'"' | b'\\'));
        at += usize::from(is_escape);
        value.push(text[at]);
        at += 1;
    }
    if at < text.len() && closes(at) {
        return (value, at + 1, true);
    }
    match (0..text.len()).find(|at| closes(*at)) {
        Some(end) => (text[..end].to_vec(), end + 1, true),
        None => (text.to_vec(), text.len(), false),
    }
}

fn position(bytes: &[u8], of: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| of.contains(byte))
}

fn unescaped(value: String) -> String {
    BROWSER_ESCAPES.iter().fold(value, |value, (escape, meant)| value.replace(escape, meant))
}

#[cfg(test)]
mod tests;
