//! Reading an upload: the query of one by URL, the multipart body of one by file.

use futures_util::stream;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn an_unencoded_url_that_stands_last_takes_the_rest_of_the_query() {
    for (query, expected) in [
        (
            "app_id=a&access_token=t&url=http://h/p?x=1&y=2",
            ("app_id=a&access_token=t", Some("http://h/p?x=1&y=2")),
        ),
        (
            "app_id=a&access_token=t&url=http://h/p?app_id=5&access_token=6",
            ("app_id=a&access_token=t", Some("http://h/p?app_id=5&access_token=6")),
        ),
        ("url=http://h/p&app_id=a&access_token=t", ("url=http://h/p&app_id=a&access_token=t", None)),
        ("app_id=a&url=http://h/p&access_token=t", ("app_id=a&url=http://h/p&access_token=t", None)),
        ("app_id=a&access_token=t&url=http%3A%2F%2Fh", ("app_id=a&access_token=t&url=http%3A%2F%2Fh", None)),
        ("url=http://h/p", ("", Some("http://h/p"))),
        ("app_id=a", ("app_id=a", None)),
        ("", ("", None)),
    ] {
        assert_eq!(split_trailing_url(query), expected, "{query}");
    }
}

/// The file in a multipart body with the boundary `b`, which comes in chunks of this size.
fn read(body: &[u8], chunk_bytes: usize) -> Result<Bytes, Refusal> {
    let chunks: Vec<_> = body.chunks(chunk_bytes).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(read_file_part(stream::iter(chunks), "b".to_owned(), body.len()))
}

/// A multipart body with other parts before and after the file.
fn multipart(file: &[u8], before: &[u8], after: &[u8]) -> Vec<u8> {
    let head = |name: &str| format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
    let (other, own) = (head("other"), head("file"));
    let parts = [other.as_bytes(), before, b"\r\n", own.as_bytes(), file, b"\r\n"].concat();
    [&parts[..], other.as_bytes(), after, b"\r\n--b--\r\n"].concat()
}

/// Rule (contract 5.1.12): a head without its empty line is named, wherever the body is cut on its way.
#[test]
fn a_head_without_its_empty_line_is_named() {
    let body = b"--b\r\ncontent-disposition: form-data; name=\"file\"\r\n\x89PNG\r\n\x1a\n\r\n--b--\r\n";
    for cut in [1, 60, body.len()] {
        let refused = read(body, cut).unwrap_err();
        assert_eq!(
            refused.message.english(),
            "body: expected a complete multipart body (no empty line stands between the headers of a part and its content)"
        );
    }
}

/// Rule (contract 5.1.12): a part with more headers than are read is told how many it may have.
#[test]
fn the_most_headers_of_a_part_are_told() {
    let with_headers = |count: usize| {
        let more: Vec<String> = (1..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        let more = more.concat();
        format!("--b\r\ncontent-disposition: form-data; name=\"file\"\r\n{more}\r\na1\r\n--b--\r\n")
    };
    let most = with_headers(32);
    assert_eq!(&read(most.as_bytes(), most.len()).unwrap()[..], b"a1");
    let refused = read(with_headers(33).as_bytes(), 4096).unwrap_err();
    assert_eq!(
        refused.message.english(),
        "body: expected a complete multipart body (the headers of a part cannot be read; each is one line, and an empty line ends them; a part has at most 32)"
    );
}

fn without_boundary() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
        .prop_filter("holds the boundary", |bytes| !bytes.windows(3).any(|window| window == b"--b"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule (contract 5.1.4): the part `file` is read byte for byte, wherever the body is cut on its way
    /// and whatever the other parts hold.
    #[test]
    fn the_file_is_read_byte_for_byte(
        file in without_boundary(), before in without_boundary(), after in without_boundary(), cut in 1_usize..100,
    ) {
        prop_assert_eq!(read(&multipart(&file, &before, &after), cut), Ok(Bytes::from(file)));
    }

    /// Rule (contract 2.2.5): a body that ends early, anywhere, is refused and not a shorter picture.
    #[test]
    fn a_body_that_is_cut_is_refused(file in without_boundary(), cut in 1_usize..100, end in 0.0..1.0) {
        let body = multipart(&file, b"x", b"y");
        // Two line ends and dashes behind the last boundary may be missing without harm.
        let end = f64::from(u32::try_from(body.len() - 4).unwrap()) * end;
        let end = body.iter().enumerate().take_while(|(index, _)| f64::from(u32::try_from(*index).unwrap()) < end).count();
        prop_assert!(read(&body[..end], cut).is_err());
    }

    /// Rule: no bytes at all make the reader of multipart bodies panic, and its verdict does not
    /// depend on how they come.
    #[test]
    fn noise_is_refused_alike_however_it_comes(
        pieces in vec(prop_oneof![
            Just(b"--b".to_vec()), Just(b"--b--".to_vec()), Just(b"\r\n".to_vec()), Just(b"\r\n\r\n".to_vec()),
            Just(b"content-disposition: form-data; name=\"file\"".to_vec()),
            Just(b"content-disposition: form-data; name=\"file\"; filename=\"a.gif\"".to_vec()),
            vec(any::<u8>(), 0..20),
        ], 0..20),
        cut in 1_usize..50,
    ) {
        let body = pieces.concat();
        prop_assert_eq!(read(&body, cut).ok(), read(&body, body.len().max(1)).ok());
    }

    /// Rule (contract 5.2.4 and 5.2.5): the URL at the end of a query is taken as it is or not at all. It does
    /// not matter what else the query has. No credential disappears in it.
    #[test]
    fn a_trailing_url_is_taken_as_it_is(query in "(app_id=a|access_token=t|url=|url=h://x|u=1|&|=|://|%26){0,12}") {
        let (before, url) = split_trailing_url(&query);
        match url {
            None => prop_assert_eq!(before, &query),
            Some(url) => {
                let last = ["url=", url].concat();
                prop_assert!(query.ends_with(&last) && query.starts_with(before));
                prop_assert!(url.contains("://"));
                let names = |text: &str, name: &str| text.split('&').any(|pair| pair.split('=').next() == Some(name));
                for name in ["app_id", "access_token"] {
                    prop_assert!(names(before, name) || !names(&query, name));
                }
            }
        }
    }
}
