//! Heads of parts as clients write them, and boundaries.

use axum::http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;

use super::*;

fn with(name: header::HeaderName, value: &[u8]) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).unwrap())])
}

fn head(disposition: &[u8]) -> (Option<String>, Option<String>) {
    let PartHead { name, file_name } = PartHead::of(&with(header::CONTENT_DISPOSITION, disposition));
    (name, file_name)
}

fn file_name(value: &str) -> Option<String> {
    head(format!("form-data; name=\"file\"; filename=\"{value}\"").as_bytes()).1
}

fn of_content_type(content_type: &str) -> Result<Option<String>, String> {
    boundary_if_multipart(&with(header::CONTENT_TYPE, content_type.as_bytes()))
        .map_err(|refusal| refusal.message.english())
}

/// Rule (contract 5.1.8): a quoted value is opaque, in any order, with names in any case.
#[test]
fn parameters_are_read_as_their_standards_say() {
    for (disposition, name, file_name) in [
        (r#"form-data; name="file"; filename="a.png""#, "file", "a.png"),
        ("form-data;name=file;filename=a.png", "file", "a.png"),
        (r#"form-data; filename="a.png"; name="file""#, "file", "a.png"),
        (r#"Form-Data; Name="file"; FILENAME="a.png""#, "file", "a.png"),
        (r#"form-data; name = "file" ; filename = a b.png "#, "file", "a b.png"),
        (r#"attachment; x="; name=other; filename=b.gif"; name="file"; filename="a.png""#, "file", "a.png"),
        (r#"form-data; filename="x; name=other; .png"; name="file""#, "file", "x; name=other; .png"),
        (r#"form-data; filename="x\"; name=\"y.png"; name="file""#, "file", r#"x"; name="y.png"#),
        (r#"form-data; name="fi\\le"; filename="a%22b.png""#, r"fi\le", r#"a"b.png"#),
        (r#"form-data; filename="a"b.png"; name="file""#, "file", r#"a"b.png"#),
        (r#"form-data; filename="C:\tmp\a.png"; name="file""#, "file", "a.png"),
        (r#"form-data; filename="C:\tmp\"; name="file""#, "file", ""),
        (r#"form-data; filename="\\host\a.png"; name="file""#, "file", "a.png"),
        (r#"form-data; name="file"; filename="a.png"#, "file", "a.png"),
        (r#"form-data; name="file"; name="other"; filename="""#, "file", ""),
    ] {
        let expected = (Some(name.to_owned()), Some(file_name.to_owned()));
        assert_eq!(head(disposition.as_bytes()), expected, "{disposition}");
    }
    assert_eq!(head(b"form-data; name*=UTF-8''file"), (Some("file".to_owned()), None));
    assert_eq!(head(b""), (None, None));
    assert_eq!(head(b"form-data; filename=\"\xb7\xe2.png\"; name=\"file\""), (Some("file".to_owned()), None));
}

/// Rule (contract 5.1.8): the name is the one that a person would say.
/// A head has no limit but that of its body. Blanks without an end quote are passed once: with a look behind each of them,
/// this would take hours.
#[test]
fn many_blanks_in_quotes_are_passed_once() {
    let blanks = " ".repeat(2_000_000);
    let disposition = format!("form-data; name=\"{blanks}x");
    let found = parameters(disposition.as_bytes());
    assert!(found.iter().any(|parameter| parameter.name == b"name" && !parameter.is_closed));
    let quotes = format!("form-data; name=\"{}x", "\" ".repeat(100_000));
    assert!(!parameters(quotes.as_bytes()).is_empty());
}

#[test]
fn encoded_file_names_are_decoded() {
    for (value, expected) in [
        ("=?UTF-8?Q?=E5=B0=81=E9=9D=A2.png?=", "封面.png"),
        ("=?utf-8?B?5bCB6Z2iLnBuZw==?=", "封面.png"),
        ("=?utf-8?b?5bCB6Z2iLnBuZw?=", "封面.png"),
        ("=?UTF-8*zh?q?=e5=b0=81_1.png?=", "封 1.png"),
        ("=?GBK?B?t+LD5i5wbmc=?=", "封面.png"),
        ("=?gb2312?Q?=B7=E2=C3=E6.png?=", "封面.png"),
        ("=?Big5?Q?=AB=CA=AD=B1.png?=", "封面.png"),
        ("=?iso-8859-1?Q?caf=E9.jpg?=", "café.jpg"),
        // Several words: blanks between them go, and a letter may be cut.
        ("=?UTF-8?Q?=E5=B0=81?= =?UTF-8?Q?=E9=9D=A2.png?=", "封面.png"),
        ("=?UTF-8?B?5bCB6Q==?= =?UTF-8?B?naIucG5n?=", "封面.png"),
        ("=?UTF-8?Q?=E5=B0=81?=\t=?GBK?Q?=C3=E6.png?=", "封面.png"),
        ("=?UTF-8?Q?=E5=B0=81?==?UTF-8?Q?=E9=9D=A2?=.png", "封面.png"),
        ("my =?UTF-8?Q?=E5=B0=81?= 1.png", "my 封 1.png"),
        // A slash of base64 is none of a folder.
        ("=?utf-8?B?Pz8/LnBuZw==?=", "???.png"),
        ("=?UTF-8?Q?C:=5Ccovers=5Ca.png?=", "a.png"),
        ("C:\\my.folder\\cover", "cover"),
        ("/tmp/covers/ a.png ", "a.png"),
        ("a.png\u{200b}", "a.png"),
        ("a=?b.png", "a=?b.png"),
        ("=?x?=.png", "=?x?=.png"),
    ] {
        assert_eq!(file_name(value).as_deref(), Some(expected), "{value}");
    }
    for none in [
        "=?UTF-8?Q?=E5=B0.png?=",
        "=?UTF-8?Q?=E5=B.png?=",
        "=?UTF-8?X?a.gif?=",
        "=?klingon?Q?a.gif?=",
        "=?UTF-8?B?!!!!?=",
        "=?UTF-8?B?5bCB6Z2iLnBu",
    ] {
        assert_eq!(file_name(none), None, "{none}");
    }
    let ext = |text: &str| head(format!("form-data; name=file; {text}").as_bytes()).1;
    for (text, expected) in [
        ("filename*=UTF-8''%E5%B0%81%E9%9D%A2.png", Some("封面.png")),
        ("filename*=gbk'zh'%B7%E2%C3%E6.png; filename=\"__.gif\"", Some("封面.png")),
        ("filename=\"a.gif\"; FileName*=\"utf-8''a.png\"", Some("a.png")),
        ("filename=\"a.gif\"; filename*=a.png", Some("a.gif")),
        ("filename=\"a.gif\"; filename*=klingon''a.png", Some("a.gif")),
        ("filename*=UTF-8''%E5%B0.png", None),
    ] {
        assert_eq!(ext(text).as_deref(), expected, "{text}");
    }
}

/// Rule (contract 5.1.9): a boundary without quotes is everything up to the next `;`.
#[test]
fn boundaries_are_read_as_people_write_them() {
    for (content_type, expected) in [
        ("multipart/form-data; boundary=b", "b"),
        ("multipart/form-data; boundary=\"b c\"; charset=utf-8", "b c"),
        ("multipart/form-data; boundary=----=_Part_4_70.11", "----=_Part_4_70.11"),
        ("multipart/form-data; boundary=b/QeE_T74S", "b/QeE_T74S"),
        ("multipart/form-data; boundary=a:b?c,d'e(f)+g ;charset=utf-8", "a:b?c,d'e(f)+g"),
        ("multipart/form-data; charset=utf-8;Boundary = a b ", "a b"),
        ("Multipart/Form-Data;boundary=b", "b"),
        ("multipart/form-data, boundary=b", "b"),
        ("multipart/form-data boundary=b", "b"),
        ("multipart/mixed; boundary=b", "b"),
    ] {
        assert_eq!(of_content_type(content_type), Ok(Some(expected.to_owned())), "{content_type}");
    }
    for (content_type, fault) in [
        (
            "multipart/form-data",
            "content type: expected multipart/form-data with a boundary, got \"multipart/form-data\"; let the HTTP library write this header",
        ),
        (
            "multipart/form-data; boundary",
            "content type: expected multipart/form-data with a boundary, got \"multipart/form-data; boundary\"; let the HTTP library write this header",
        ),
        (
            "multipart/form-data; x=\"boundary=b\"",
            "content type: expected multipart/form-data with a boundary, got \"multipart/form-data; x=\\\"boundary=b\\\"\"; let the HTTP library write this header",
        ),
        ("multipart/form-data; boundary=", "content type: the boundary is empty"),
        ("multipart/form-data; boundary=\"\"", "content type: the boundary is empty"),
        ("multipart/form-data; boundary=\"b", "content type: expected a quote behind the boundary too"),
    ] {
        assert_eq!(of_content_type(content_type), Err(fault.to_owned()), "{content_type}");
    }
    for other in ["application/json", "text/plain; boundary=b", "", "json"] {
        assert_eq!(of_content_type(other), Ok(None), "{other}");
    }
    let headers = with(header::CONTENT_TYPE, b"multipart/form-data");
    assert_eq!(boundary_of(&headers, b"a=1").ok(), Some(None));
    assert!(boundary_of(&headers, b"\r\n--b\r\n").is_err());
    let headers = with(header::CONTENT_TYPE, b"multipart/form-data; boundary=\xff");
    assert!(boundary(&headers).is_err());
}

/// Rule (contract 5.1.12): a head that is folded, or that no empty line ends, is named. Any other body has no such fault.
#[test]
fn a_head_that_is_folded_or_has_no_end_is_named() {
    const HEAD: &[u8] = b"content-disposition: form-data; name=\"file\"";
    fn body_of(lines: &[&[u8]]) -> Vec<u8> {
        lines.join(&b"\r\n"[..])
    }
    let folded = Some("a header of a part goes on in the next line; each is one line");
    let endless = Some("no empty line stands between the headers of a part and its content");
    let good =
        body_of(&[b"--b", HEAD, b"", b"\x89PNG", b"\x1a\n", b"--b \t", HEAD, b"", b"a1", b"--b--", b""]);
    for (body, fault) in [
        (body_of(&[b"--b", HEAD, b" filename=a.png", b"", b"x", b"--b--", b""]), folded),
        (body_of(&[b"--b", HEAD, b"\tfilename=a.png", b"", b"x", b"--b--", b""]), folded),
        (body_of(&[b"--b", HEAD, b"\x89PNG", b"\x1a\n", b"--b--", b""]), endless),
        (body_of(&[b"--b", HEAD, b"\xff\xd8\xff"]), endless),
        (body_of(&[b"--b", HEAD, b"a1", b"--b--", b""]), endless),
        (body_of(&[b"--b", HEAD, b"http://a.example/a.png", b"--b--", b""]), endless),
        (body_of(&[b"--b", HEAD, b" ", b"a1", b"--b--", b""]), endless),
        (body_of(&[b"--b", b"a1", b"--b--", b""]), endless),
        (body_of(&[b"preamble", b"--b", HEAD, b"", b"x", b"--b", HEAD, b"a1", b"--b--", b""]), endless),
        // Other faults, which have texts of their own.
        (body_of(&[b"--b", b"content-disposition : form-data", b"", b"x", b"--b--", b""]), None),
        (body_of(&[b"--b", b"content-disposition: form-data\n\nx", b"--b--", b""]), None),
        (b"--b\ncontent-disposition: form-data; name=file\n\nx\n--b--\n".to_vec(), None),
        (Vec::new(), None),
    ] {
        assert_eq!(head_fault(&body, b"--b"), fault, "{}", body.escape_ascii());
    }
    for end in 0..=good.len() {
        assert_eq!(head_fault(&good[..end], b"--b"), None, "{}", good[..end].escape_ascii());
    }
}

#[test]
fn a_part_in_another_form_is_named() {
    let check = |value: &'static str| {
        check_transfer_coding(
            &HeaderMap::from_iter([("content-transfer-encoding".parse().unwrap(), value.parse().unwrap())]),
            "file",
        )
        .map_err(|refusal| refusal.message.english())
    };
    let refused = "file: expected the bytes as they are, got base64 (Content-Transfer-Encoding)";
    assert_eq!(check("BASE64 "), Err(refused.to_owned()));
    for kept in ["binary", "8bit", "7bit", "", "none"] {
        assert_eq!(check(kept), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule: whatever stands in a quoted value, the other parameters are as they were.
    #[test]
    fn a_value_in_quotes_is_opaque(value in "[ -~]{0,30}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let disposition = format!("form-data; x=\"{quoted}\"; name=\"file\"; filename=\"a.png\"");
        prop_assert_eq!(head(disposition.as_bytes()), (Some("file".to_owned()), Some("a.png".to_owned())));
    }

    /// Rule: no header makes the readers panic.
    #[test]
    fn no_header_makes_them_panic(header in "(=\\?|\\?=|\\?|UTF-8|[QB]|=|;|\"|\\\\|'|name|filename|boundary|\\*|multipart| |,|é|[ -~]){0,30}") {
        head(header.as_bytes());
        let _ = of_content_type(&header);
        said(&header);
    }
}
