//! Redirects.

use super::*;

/// Answers `/3` with a redirect to `/2` and so on, and `/0` with the picture.
async fn countdown(status: &'static str) -> Origin {
    Origin::serve(move |request| {
        let digit = request.as_bytes()["GET /".len()] - b'0';
        if digit == 0 { Reply::ok(b"picture") } else { Reply::redirect(status, &format!("/{}", digit - 1)) }
    })
    .await
}

/// Rule (contract 5.3.8): at most 3 redirects; the fourth is not followed.
#[tokio::test]
async fn three_redirects_are_followed_and_no_more() {
    let origin = countdown("302 Found").await;
    let fetcher = Fetcher::new(settings(&[&origin]));
    assert_eq!(fetcher.bytes(&origin.url("/3"), None).await, Ok(body(b"picture")));
    assert_eq!(origin.connections(), 4);
    assert_eq!(fetcher.bytes(&origin.url("/4"), None).await, Err(FetchError::TooManyRedirects));
    assert_eq!(origin.connections(), 8);
    let none = Fetcher::new(FetchSettings { redirects_max: 0, ..settings(&[&origin]) });
    assert_eq!(none.bytes(&origin.url("/0"), None).await, Ok(body(b"picture")));
    assert_eq!(none.bytes(&origin.url("/1"), None).await, Err(FetchError::TooManyRedirects));
}

/// Rule: 301, 302, 303, 307 and 308 are redirects, always followed by a GET.
#[tokio::test]
async fn every_kind_of_redirect_is_a_get() {
    let statuses = [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ];
    for status in statuses {
        let origin = countdown(status).await;
        let found = Fetcher::new(settings(&[&origin])).bytes(&origin.url("/1"), None).await;
        assert_eq!(found, Ok(body(b"picture")), "{status}");
        assert!(origin.requests()[1].starts_with("GET /0 HTTP/1.1\r\n"), "{status}");
    }
}

/// Rule (contract 5.3.8): a loop ends.
#[tokio::test]
async fn a_loop_ends() {
    let origin = Origin::always(Reply::redirect("302 Found", "/picture.png")).await;
    assert_eq!(fetch_once(settings(&[&origin]), &origin).await, Err(FetchError::TooManyRedirects));
    assert_eq!(origin.connections(), 4);
}

/// Rule: statuses that look like redirects but are none, and redirects without one readable
/// `Location`, are failures.
#[tokio::test]
async fn redirects_that_lead_nowhere() {
    for status in ["300 Multiple Choices", "304 Not Modified", "305 Use Proxy", "306 Unused"] {
        let origin = Origin::always(Reply::redirect(status, "/other.png")).await;
        assert_eq!(fetch_once(settings(&[&origin]), &origin).await, Err(FetchError::Status), "{status}");
    }
    for lines in ["", "location: /a\r\nlocation: /b\r\n", "location: /\u{ff}\r\n"] {
        let reply = Reply::head("302 Found", lines);
        let origin = Origin::always(reply).await;
        let expected =
            if lines.contains('\u{ff}') { FetchError::TooManyRedirects } else { FetchError::Location };
        assert_eq!(fetch_once(settings(&[&origin]), &origin).await, Err(expected), "{lines:?}");
    }
    let not_utf8 = Reply::raw(b"HTTP/1.1 302 Found\r\nlocation: /\xff\r\n\r\n");
    let origin = Origin::always(not_utf8).await;
    assert_eq!(fetch_once(settings(&[&origin]), &origin).await, Err(FetchError::Location));
}

/// Rule (contract 5.3.8): each redirect is checked anew, address, port, scheme and all; a refused one
/// is not connected to.
#[tokio::test]
async fn each_redirect_is_checked_anew() {
    let secret = |_: &str| Reply::ok(b"secret");
    let (inside, others) = Origin::beside_secrets(&["127.0.0.1", "127.0.0.2"], secret).await;
    let also_inside = &others[0];
    let (port, other_address) = (inside.address.port(), also_inside.address);
    for (location, expected) in [
        (format!("http://{other_address}/"), FetchError::AddressNotPublic),
        (format!("//127.0.0.2:{port}/"), FetchError::AddressNotPublic),
        (format!("http://2130706434:{port}/"), FetchError::AddressNotPublic),
        (format!("http://private.example:{port}/"), FetchError::AddressNotPublic),
        (format!("http://mixed.example:{port}/"), FetchError::AddressNotPublic),
        (format!("http://10.0.0.1:{port}/"), FetchError::AddressNotPublic),
        (format!("http://169.254.169.254:{port}/latest/meta-data/"), FetchError::AddressNotPublic),
        (format!("http://[::ffff:169.254.169.254]:{port}/"), FetchError::AddressNotPublic),
        (format!("http://[::1]:{port}/"), FetchError::AddressNotPublic),
        (format!("http://user@127.0.0.1:{port}/"), FetchError::UserInfo),
        (format!("http://@127.0.0.1:{port}/"), FetchError::UserInfo),
        ("http://127.0.0.1:22/".to_owned(), FetchError::Port),
        ("file:///etc/passwd".to_owned(), FetchError::Scheme),
        ("data:image/png;base64,AAAA".to_owned(), FetchError::Scheme),
        ("http://".to_owned(), FetchError::Url),
        (format!("/{}", "a".repeat(2048)), FetchError::UrlTooLong),
    ] {
        let reply = Reply::redirect("302 Found", &location);
        let origin = Origin::always(reply).await;
        let look_up =
            names(&[("private.example", &["127.0.0.2"]), ("mixed.example", &["127.0.0.1", "127.0.0.2"])]);
        let fetcher = asking(settings(&[&origin, &inside]), look_up);
        assert_eq!(fetcher.bytes(&origin.url("/"), None).await, Err(expected), "{location}");
    }
    assert_eq!((inside.connections(), also_inside.connections()), (0, 0));
}

/// Rule: a redirect to another host carries nothing over but the path it names.
#[tokio::test]
async fn a_redirect_carries_nothing_over() {
    let last = Origin::always(Reply::ok(b"picture")).await;
    let to = last.url("/b?c#d");
    let first = Origin::always(Reply::raw(format!(
        "HTTP/1.1 302 Found\r\nset-cookie: a=b\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
    )))
    .await;
    let fetcher = Fetcher::new(settings(&[&first, &last]));
    assert_eq!(fetcher.bytes(&first.url("/a?secret=1#x"), None).await, Ok(body(b"picture")));
    let request = last.requests().remove(0);
    assert!(request.starts_with(&format!("GET /b?c HTTP/1.1\r\nhost: {}\r\n", last.address)), "{request}");
    for never in ["secret", "cookie", "referer", "authorization", "#"] {
        assert!(!request.contains(never), "{never} in {request}");
    }
}

/// Rule (contract 5.3.10): 10 s in all, redirects included.
#[tokio::test]
async fn redirects_share_one_time_limit() {
    // Each answer comes within the limit, and the second one after its end.
    let away = b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";
    let origin = Origin::always(Reply::raw(b"").then_repeat(away, SHORT * 3 / 4)).await;
    assert_eq!(fetch_once(hasty(&[&origin]), &origin).await, Err(FetchError::TimedOut));
}
