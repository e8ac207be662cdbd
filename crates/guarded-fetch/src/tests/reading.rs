//! Answers: what is taken, and what ends the fetch.

use super::*;

async fn fetched(reply: Reply) -> Result<Bytes, FetchError> {
    let origin = Origin::always(reply).await;
    fetch_once(settings(&[&origin]), &origin).await
}

/// The result of a fetch with a short time limit.
async fn fetched_hastily(reply: Reply) -> Result<Bytes, FetchError> {
    let origin = Origin::always(reply).await;
    fetch_once(hasty(&[&origin]), &origin).await
}

/// Good answers: with a length, in chunks, until the connection closes, with interim answers.
#[tokio::test]
async fn good_answers() {
    let chunked = Reply::head("200 OK", "transfer-encoding: chunked\r\n");
    assert_eq!(fetched(Reply::ok(b"picture")).await, Ok(body(b"picture")));
    assert_eq!(fetched(Reply::ok(b"")).await, Ok(body(b"")));
    assert_eq!(fetched(chunked.and(b"3\r\npic\r\n4\r\nture\r\n0\r\n\r\n")).await, Ok(body(b"picture")));
    assert_eq!(fetched(Reply::head("200 OK", "").and(b"picture")).await, Ok(body(b"picture")));
    assert_eq!(fetched(Reply::raw(b"HTTP/1.0 200 OK\r\n\r\npicture")).await, Ok(body(b"picture")));
    let identity = Reply::head("200 OK", "content-encoding: Identity\r\ncontent-length: 7\r\n");
    assert_eq!(fetched(identity.and(b"picture")).await, Ok(body(b"picture")));
    let early =
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\npicture";
    assert_eq!(fetched(Reply::raw(early)).await, Ok(body(b"picture")));
    // Old servers write a blank before the colon, and lines that go on in the next one.
    let old = Reply::head("200 OK", "a: b\r\n c\r\ncontent-length : 7\r\n").and(b"picture and more");
    assert_eq!(fetched(old).await, Ok(body(b"picture")));
    // Bytes after the announced length are not part of the body.
    let longer = Reply::head("200 OK", "content-length: 3\r\n").and(b"picture");
    assert_eq!(fetched(longer).await, Ok(body(b"pic")));
    // The fetch ends with the body, not with the connection.
    assert_eq!(fetched(Reply::ok(b"picture").then_hang()).await, Ok(body(b"picture")));
}

/// Rule (contract 5.3.11): status 200 only.
#[tokio::test]
async fn status_200_only() {
    for status in [
        "201 Created",
        "203 Non-Authoritative Information",
        "204 No Content",
        "206 Partial Content",
        "226 IM Used",
        "400 Bad Request",
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "407 Proxy",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
        "999 Odd",
    ] {
        let reply = Reply::head(status, "content-length: 7\r\n").and(b"picture");
        assert_eq!(fetched(reply).await, Err(FetchError::Status), "{status}");
    }
    let switching = Reply::head("101 Switching Protocols", "upgrade: websocket\r\nconnection: upgrade\r\n");
    let found = fetched(switching).await;
    assert!(matches!(found, Err(FetchError::Status | FetchError::Broken)), "{found:?}");
}

/// Rule (contract 5.3.9): no decompression; an encoded body is refused, not stored.
#[tokio::test]
async fn encoded_bodies_are_refused() {
    for line in [
        "content-encoding: gzip",
        "content-encoding: GZIP",
        "content-encoding: br",
        "content-encoding: zstd",
        "content-encoding: deflate",
        "content-encoding: identity, gzip",
        "content-encoding: identity\r\ncontent-encoding: gzip",
        "content-encoding: aws-chunked,gzip",
        "content-encoding: x-gzip",
        "content-encoding: compress",
        "content-encoding: x-compress",
        "content-encoding: dcb",
        "content-encoding: dcz",
        "content-encoding: gzip;q=1",
    ] {
        let reply = Reply::head("200 OK", &format!("{line}\r\ncontent-length: 7\r\n")).and(b"picture");
        assert_eq!(fetched(reply).await, Err(FetchError::Encoded), "{line}");
    }
    let reply =
        Reply::head("200 OK", "transfer-encoding: gzip, chunked\r\n").and(b"7\r\npicture\r\n0\r\n\r\n");
    assert_eq!(fetched(reply).await, Err(FetchError::Encoded));
}

/// Rule (contract 5.3.9): what an origin writes beside intact bytes does not count.
#[tokio::test]
async fn a_coding_that_changes_nothing_does_not_count() {
    for line in [
        "content-encoding: aws-chunked",
        "content-encoding: utf-8",
        "content-encoding: UTF-8",
        "content-encoding: binary",
        "content-encoding: none",
        "content-encoding: x",
        "content-encoding:",
        "content-encoding: identity, aws-chunked\r\ncontent-encoding: none",
        "content-encoding: \"",
        "content-encoding : none",
        "x-folded: one\r\n two",
    ] {
        let reply = Reply::head("200 OK", &format!("{line}\r\ncontent-length: 7\r\n")).and(b"picture");
        assert_eq!(fetched(reply).await.as_deref(), Ok(&b"picture"[..]), "{line}");
    }
}

/// Rule (contract 5.3.11): at most the size limit, counted as it streams; one byte more is refused, and
/// a length over it at once.
#[tokio::test]
async fn the_size_limit() {
    let (most, more) = (vec![b'x'; BYTES_MAX], vec![b'x'; BYTES_MAX + 1]);
    assert_eq!(fetched(Reply::ok(&most)).await.map(|bytes| bytes.len()), Ok(BYTES_MAX));
    assert_eq!(fetched(Reply::ok(&more)).await, Err(FetchError::TooLarge));
    let closed = |bytes: &[u8]| Reply::head("200 OK", "").and(bytes);
    assert_eq!(fetched(closed(&most)).await.map(|bytes| bytes.len()), Ok(BYTES_MAX));
    assert_eq!(fetched(closed(&more)).await, Err(FetchError::TooLarge));
    let length = |text: &str| Reply::head("200 OK", &format!("content-length: {text}\r\n")).then_hang();
    // Nothing of the body ever comes: the header alone is enough to refuse.
    assert_eq!(fetched(length("1001")).await, Err(FetchError::TooLarge));
    assert_eq!(fetched(length("18446744073709551600")).await, Err(FetchError::TooLarge));
}

/// Rule (contract 5.3.11): a body without an end stops at the size limit, whichever way it is framed.
#[tokio::test]
async fn an_endless_body_stops_at_the_size_limit() {
    let endless = Reply::head("200 OK", "").then_repeat(&[b'x'; 300], Duration::ZERO);
    assert_eq!(fetched(endless).await, Err(FetchError::TooLarge));
    let chunks =
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").then_repeat(b"2\r\nxx\r\n", Duration::ZERO);
    assert_eq!(fetched(chunks).await, Err(FetchError::TooLarge));
    let one_chunk = Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"fffffffff\r\n");
    assert_eq!(fetched(one_chunk.then_repeat(&[b'x'; 300], Duration::ZERO)).await, Err(FetchError::TooLarge));
}

/// Rule: an answer that ends too early is a failure, never a shorter picture.
#[tokio::test]
async fn a_short_body_is_a_failure() {
    for reply in [
        Reply::head("200 OK", "content-length: 8\r\n").and(b"picture"),
        Reply::head("200 OK", "content-length: 8\r\n"),
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"7\r\npicture\r\n"),
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"7\r\npict"),
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"7\r\npicture\r\n0\r\n"),
        Reply::raw(b"HTTP/1.1 200 OK\r\ncontent-le"),
        Reply::raw(b""),
    ] {
        assert_eq!(fetched(reply).await, Err(FetchError::Broken));
    }
}

/// Rule: what is not well-formed HTTP/1 is a failure.
#[tokio::test]
async fn what_is_not_http_is_a_failure() {
    for reply in [
        Reply::raw(b"picture\r\n\r\n"),
        Reply::raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        Reply::raw(b"\x15\x03\x01\x00\x02\x02\x50\r\n\r\n"),
        Reply::raw(b"HTTP/0.9 200 OK\r\n\r\npicture"),
        Reply::raw(b"HTTP/2.0 200 OK\r\n\r\npicture"),
        Reply::head("200 OK", "content-length: 7\r\ncontent-length: 8\r\n").and(b"picture!"),
        Reply::head("200 OK", "content-length: -1\r\n").and(b"picture"),
        Reply::head("200 OK", "content-length: 7x\r\n").and(b"picture"),
        Reply::raw(b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\npicture\r\n0\r\n\r\n"),
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"x\r\npicture\r\n0\r\n\r\n"),
        Reply::head("200 OK", "transfer-encoding: chunked\r\n").and(b"fffffffffffffffff\r\npicture"),
    ] {
        assert_eq!(fetched(reply).await, Err(FetchError::Broken));
    }
}

/// Rule: the answer's header is bounded in bytes and in lines.
#[tokio::test]
async fn an_endless_header_is_refused() {
    let start = || Reply::raw(b"HTTP/1.1 200 OK\r\n");
    for bytes in [
        &b"a: b\r\n".repeat(90),
        &b"a".repeat(500),
        &b"a: 0123456789012345678901234567890123456789\r\n".repeat(20),
    ] {
        let found = fetched(start().then_repeat(bytes, Duration::ZERO)).await;
        assert_eq!(found, Err(FetchError::HeaderTooLarge));
    }
    let large = format!("a: {}\r\ncontent-length: 7\r\n", "b".repeat(32 * 1024));
    assert_eq!(fetched(Reply::head("200 OK", &large).and(b"picture")).await, Err(FetchError::HeaderTooLarge));
    let fits = format!("a: {}\r\ncontent-length: 7\r\n", "b".repeat(31 * 1024));
    assert_eq!(fetched(Reply::head("200 OK", &fits).and(b"picture")).await, Ok(body(b"picture")));
    let many = format!("{}content-length: 7\r\n", "a: b\r\n".repeat(100));
    assert_eq!(fetched(Reply::head("200 OK", &many).and(b"picture")).await, Err(FetchError::HeaderTooLarge));
}

/// Rule (contract 5.3.10): 10 s in all, however the time is wasted.
#[tokio::test]
async fn a_slow_origin_is_left_at_the_time_limit() {
    let pause = Duration::from_millis(20);
    let chunked = || Reply::head("200 OK", "transfer-encoding: chunked\r\n");
    let replies = [
        Reply::raw(b"").then_hang(),
        Reply::raw(b"HTTP/1.1 200 OK\r\n").then_hang(),
        Reply::raw(b"HTTP/1.1 200 OK\r\na: ").then_repeat(b"b", pause),
        Reply::head("200 OK", "content-length: 900\r\n").then_hang(),
        Reply::head("200 OK", "content-length: 900\r\n").then_repeat(b"x", pause),
        Reply::head("200 OK", "").then_repeat(b"x", pause),
        chunked().then_repeat(b"1\r\nx\r\n", pause),
        chunked().and(b"1").then_repeat(b"0", pause * 3),
        Reply::raw(b"").then_repeat(b"HTTP/1.1 100 Continue\r\n\r\n", pause),
    ];
    for found in futures_util::future::join_all(replies.map(fetched_hastily)).await {
        assert_eq!(found, Err(FetchError::TimedOut));
    }
}

/// Rule: interim answers are no header and no body, and have an end too.
#[tokio::test]
async fn endless_interim_answers_are_refused() {
    for interim in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"] {
        let endless = Reply::raw(b"").then_repeat(interim.repeat(100).as_bytes(), Duration::ZERO);
        assert_eq!(fetched(endless).await, Err(FetchError::Broken), "{interim}");
    }
}

/// Rule: chunk extensions and trailers, which nobody reads, have an end too.
#[tokio::test]
async fn endless_framing_is_refused() {
    let chunked = || Reply::head("200 OK", "transfer-encoding: chunked\r\n");
    for reply in [
        chunked().and(b"1;").then_repeat(&[b'a'; 1000], Duration::ZERO),
        chunked().and(b"0\r\n").then_repeat(&b"a: b\r\n".repeat(100), Duration::ZERO),
    ] {
        let found = fetched(reply).await;
        assert!(matches!(found, Err(FetchError::Broken | FetchError::HeaderTooLarge)), "{found:?}");
    }
}
