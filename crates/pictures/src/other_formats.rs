//! The names of formats that are sent instead of a PNG or JPEG, by their first bytes.

/// How many bytes are looked at, behind blanks too.
const LOOKED_AT: usize = 4096;
/// A word of base64 that is at least as long is called base64, whatever it holds.
const BASE64_BYTES_MIN: usize = 64;

/// Formats with a signature at their beginning.
const SIGNATURES: [(&[u8], &str); 38] = [
    (b"GIF87a", "a GIF"),
    (b"GIF89a", "a GIF"),
    (b"II*\0", "a TIFF"),
    (b"MM\0*", "a TIFF"),
    (b"II+\0", "a TIFF"),
    (b"MM\0+", "a TIFF"),
    (b"\xff\x0a", "a JPEG XL"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000"),
    (b"\0\0\x01\0", "an ICO"),
    (b"8BPS", "a PSD"),
    // KTX, DDS with the length of its head, PVR, ASTC, PKM and Basis.
    (b"\xabKTX ", "a texture of a game engine"),
    (b"DDS \x7c\0\0\0", "a texture of a game engine"),
    (b"PVR\x03", "a texture of a game engine"),
    (b"\x13\xab\xa1\x5c", "a texture of a game engine"),
    (b"PKM 10", "a texture of a game engine"),
    (b"PKM 20", "a texture of a game engine"),
    (b"sB\x13\0", "a texture of a game engine"),
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    // The sender read the bytes as text: each that is no letter there became another character, or went.
    (b"\xef\xbf\xbdPNG", "a PNG that was damaged as text"),
    (b"\xc2\x89PNG", "a PNG that was damaged as text"),
    (b"\xe2\x80\xb0PNG", "a PNG that was damaged as text"),
    (b"?PNG\r\n", "a PNG that was damaged as text"),
    (b"PNG\r\n\x1a\n", "a PNG that was damaged as text"),
    (b"\x89PNG\n\x1a\n", "a PNG that was damaged as text"),
    (b"\x89PNG\r\r\n", "a PNG that was damaged as text"),
    (b"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "a JPEG that was damaged as text"),
    (b"\xc3\xbf\xc3\x98\xc3\xbf", "a JPEG that was damaged as text"),
    (b"????\0", "a JPEG that was damaged as text"),
    (b"\0\x10JFIF", "a JPEG that was damaged as text"),
    (b"version https://git-lfs", "a pointer of Git LFS"),
    (b"@/", "the path of a file"),
    (b"OggS", "a video"),
    (b"\x1a\x45\xdf\xa3", "a video"),
];

/// The first characters of well-known files in base64.
const BASE64_STARTS: [&str; 8] =
    ["iVBORw0KGgo", "/9j/", "_9j_", "R0lGOD", "UklGR", "PHN2Zy", "PD94bWw", "JVBERi0"];

/// The beginnings of a PNG and a JPEG in hexadecimal.
const HEXADECIMAL_STARTS: [&str; 2] = ["89504e47", "ffd8ff"];

/// The first tags of a page.
const PAGE_TAGS: [&str; 10] =
    ["!doctype html", "html", "head", "body", "title", "meta", "script", "style", "div", "p"];
/// The signs of UTF-8, and of UTF-16 in either order.
const BYTE_ORDER_MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

/// The name of a known format that is neither PNG nor JPEG, in words that follow "it is".
pub(crate) fn name(bytes: &[u8]) -> Option<&'static str> {
    let signature = SIGNATURES.iter().find(|(signature, _)| bytes.starts_with(signature));
    let name = signature.map(|(_, name)| *name).or_else(|| of_container(bytes));
    name.or_else(|| behind_strays(bytes)).or_else(|| of_text(bytes))
}

/// A picture behind what a program wrote before it.
fn behind_strays(bytes: &[u8]) -> Option<&'static str> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let (mut rest, mut has_mark) = (bytes.trim_ascii_start(), false);
    while let Some(shorter) = rest.strip_prefix(MARK) {
        (rest, has_mark) = (shorter.trim_ascii_start(), true);
    }
    let is_picture = rest.starts_with(b"\x89PNG") || rest.starts_with(b"\xff\xd8\xff");
    match (is_picture && rest.len() < bytes.len(), has_mark) {
        (false, _) => None,
        (true, true) => Some("a picture with a byte-order mark before it"),
        (true, false) => Some("a picture with blanks or line ends before it"),
    }
}

/// Formats that share their beginning with others.
fn of_container(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") {
        return match bytes.get(8..12)? {
            b"WEBP" => Some("a WebP"),
            b"AVI " => Some("a video"),
            _ => None,
        };
    }
    // The length of a BMP has zeros, or the two numbers behind it, which text has not.
    if bytes.starts_with(b"BM") && bytes.iter().take(14).any(|byte| *byte == 0) {
        return Some("a BMP");
    }
    // A cursor has pictures, where the same beginning of a TGA has zeros.
    if bytes.starts_with(b"\0\0\x02\0") && bytes.get(4..6)? != b"\0\0" {
        return Some("a cursor");
    }
    if bytes.get(4..8)? == b"moov" {
        return Some("a video");
    }
    if bytes.get(4..8)? != b"ftyp" {
        return None;
    }
    // A file names its main brand, and behind a version those that it is compatible with.
    let length = usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()?;
    let brands = bytes.get(8..length.clamp(12, 64).min(bytes.len()))?.as_chunks::<4>().0;
    let has = |known: &[&[u8; 4]]| brands.iter().any(|brand| known.contains(&brand));
    if has(&[b"avif", b"avis"]) {
        Some("an AVIF")
    } else if has(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"])
    {
        Some("a HEIC")
    } else {
        (!brands.is_empty()).then_some("a video")
    }
}

/// Formats that are text. A byte-order mark, and blanks around it, do not count.
fn of_text(bytes: &[u8]) -> Option<&'static str> {
    let bytes = bytes[..bytes.len().min(LOOKED_AT)].trim_ascii_start();
    let mark = BYTE_ORDER_MARKS.iter().find(|mark| bytes.starts_with(mark));
    let bytes = bytes[mark.map_or(0, |mark| mark.len())..].trim_ascii_start();
    // Of UTF-16 the letters of Latin remain.
    let text: String = bytes.iter().filter(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    let text = text.trim_start();
    if text.starts_with('<') {
        return of_markup(text);
    }
    if text.starts_with("%PDF-") {
        return Some("a PDF");
    }
    if is_json(text) {
        return Some("JSON");
    }
    let text = text.trim_start_matches('"');
    if has_start(text, "data:") {
        return Some("a data: URL");
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("\\x")).unwrap_or(text);
    if HEXADECIMAL_STARTS.iter().any(|start| has_start(digits, start)) {
        return Some("hexadecimal text");
    }
    is_base64(text).then_some("base64 text")
}

/// Formats of angle brackets. What stands before the first tag does not count.
fn of_markup(text: &str) -> Option<&'static str> {
    let mut rest = text;
    loop {
        let end = if rest.starts_with("<!--") {
            "-->"
        } else if rest.starts_with("<?") {
            "?>"
        } else {
            break;
        };
        let Some((_, behind)) = rest.split_once(end) else { break };
        rest = behind.trim_start();
    }
    let tag = rest.strip_prefix('<').unwrap_or_default();
    let is_tag = |name: &&str| {
        has_start(tag, name) && !tag[name.len()..].starts_with(|letter: char| letter.is_ascii_alphanumeric())
    };
    if ["svg", "!doctype svg"].iter().any(is_tag) {
        Some("an SVG")
    } else if PAGE_TAGS.iter().any(is_tag) {
        Some("an HTML page")
    } else {
        let is_xml = has_start(text, "<?xml") || tag.starts_with(|letter: char| letter.is_ascii_alphabetic());
        is_xml.then_some("XML")
    }
}

/// Whether it begins as an object, or as an array of what JSON has.
fn is_json(text: &str) -> bool {
    let behind = |open: char| text.strip_prefix(open).map(str::trim_start);
    behind('{').is_some_and(|rest| rest.starts_with(['"', '}']))
        || behind('[')
            .is_some_and(|rest| rest.starts_with(['{', '[', ']', '"', '-']) || starts_with_digit(rest))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Whether it begins with a well-known file in base64, or with a long word of base64.
fn is_base64(text: &str) -> bool {
    let is_of_it = |letter: char| letter.is_ascii_alphanumeric() || ['+', '/', '-', '_'].contains(&letter);
    let word = &text[..text.find(|letter| !is_of_it(letter)).unwrap_or(text.len())];
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    BASE64_STARTS.iter().any(|start| word.starts_with(start)) || (is_mixed && word.len() >= BASE64_BYTES_MIN)
}

/// Whether a text begins with these letters, small or large.
fn has_start(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule (contract 5.4.13): what people send instead of a PNG or JPEG has its name.
    #[test]
    fn known_formats_have_names() {
        let utf_16: Vec<u8> = "\u{feff}<svg/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let page = b"<!-- saved --> <!DOCTYPE html><html><svg></svg>";
        for (bytes, expected) in [
            (&b"RIFF\x24\0\0\0WEBPVP8 "[..], "a WebP"),
            (b"GIF87a\x01\0", "a GIF"),
            (b"GIF89a", "a GIF"),
            (b"BM\x36\0\0\0\0\0\0\0", "a BMP"),
            (b"II*\0\x08\0\0\0", "a TIFF"),
            (b"MM\0*\0\0\0\x08", "a TIFF"),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a HEIC"),
            (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "an AVIF"),
            (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "an AVIF"),
            (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "a video"),
            (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL"),
            (b"\0\0\x01\0\x01\0", "an ICO"),
            (b"%PDF-1.7", "a PDF"),
            (b"\xef\xbb\xbf\r\n%PDF-1.7", "a PDF"),
            (b"PK\x03\x04", "a ZIP archive"),
            (b"\x1f\x8b\x08", "gzip data"),
            (b"\xef\xbf\xbdPNG\r\n", "a PNG that was damaged as text"),
            (b"\xe2\x80\xb0PNG\r\n", "a PNG that was damaged as text"),
            (b"PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG that was damaged as text"),
            (
                b"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\0\x10JFIF",
                "a JPEG that was damaged as text",
            ),
            (b"????\0\x10JFIF", "a JPEG that was damaged as text"),
            (b"????\0C\0", "a JPEG that was damaged as text"),
            (b"\0\x10JFIF\0\x01", "a JPEG that was damaged as text"),
            (b"\xef\xbb\xbf\r\n\x89PNG\r\n\x1a\n", "a picture with a byte-order mark before it"),
            (b"\n\n\xff\xd8\xff\xe0", "a picture with blanks or line ends before it"),
            (b"<svg xmlns='x'>", "an SVG"),
            (b"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- x -->\n<svg>", "an SVG"),
            (b"<?xml version='1.0'?><!DOCTYPE svg PUBLIC 'x'>", "an SVG"),
            (&utf_16, "an SVG"),
            (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML"),
            (b" \n<!DOCTYPE HTML><svg>", "an HTML page"),
            (page, "an HTML page"),
            (b"<html><body>", "an HTML page"),
            (b"{\"errcode\":40001}", "JSON"),
            (b"\xef\xbb\xbf[ {}]", "JSON"),
            (b"{}", "JSON"),
            (b"data:image/png;base64,iVBORw0KGgo=", "a data: URL"),
            (b"\"DATA:image/png;base64,", "a data: URL"),
            (b"\xabKTX 11\xbb\r\n\x1a\n", "a texture of a game engine"),
            (b"\xabKTX 20\xbb\r\n\x1a\n", "a texture of a game engine"),
            (b"DDS \x7c\0\0\0\x07\x10", "a texture of a game engine"),
            (b"PVR\x03\0\0\0\0", "a texture of a game engine"),
            (b"\x13\xab\xa1\x5c\x04\x04", "a texture of a game engine"),
            (b"PKM 20\0\x01", "a texture of a game engine"),
            (b"sB\x13\0\x4d\0", "a texture of a game engine"),
            (b"\0\0\x02\0\x01\0\x20\x20", "a cursor"),
            (b"\0\0\x0f\x10moov\0\0", "a video"),
            (b"89504e470d0a1a0a0000000d49484452", "hexadecimal text"),
            (b"0xFFD8FFE000104A46", "hexadecimal text"),
            (b"iVBORw0KGgoAAAANSUhEUg", "base64 text"),
            (b" /9j/4AAQSkZJRg", "base64 text"),
            (b"\"/9j/4AAQ\"", "base64 text"),
        ] {
            assert_eq!(name(bytes), Some(expected), "{}", bytes.escape_ascii());
        }
        assert_eq!(name("aB3/".repeat(16).as_bytes()), Some("base64 text"));
    }

    /// Rule: a name is never guessed.
    #[test]
    fn what_is_not_known_has_no_name() {
        for bytes in [
            &b""[..],
            b"no picture",
            b"BM",
            b"BMW and others, as text",
            b"RIFF\0\0\0\0WAVE",
            b"RIFF",
            b"\x89PN",
            b"\xff\xd8",
            b"\0\0\0\x18ftyp",
            b"<",
            b"< 5",
            b"<!--",
            b"{x}",
            b"[a]",
            b"data",
            b"DDS files",
            b"\0\0\x02\0\0\0\0\0",
            &[0; 64],
            &[0xff; 64],
            &[b'a'; 100],
        ] {
            assert_eq!(name(bytes), None, "{}", bytes.escape_ascii());
        }
    }
}
