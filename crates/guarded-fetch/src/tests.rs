//! The whole path against small, mostly hostile origins on loopback.

mod fairness;
mod following;
mod guarded;
mod hostile;
mod origin;
mod reading;
mod secure;
mod services;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use origin::{Origin, Reply};

use super::resolve::LookUp;
use super::*;

/// A time limit that a test waits for.
const SHORT: Duration = Duration::from_millis(400);
/// A time limit that no test reaches.
const NEVER: Duration = Duration::from_hours(1);
/// Ends a test that hangs. Nothing is judged by it.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes that a test's picture may have.
const BYTES_MAX: usize = 1000;

/// Allows loopback's first address and the origins' ports, nothing else.
fn settings(origins: &[&Origin]) -> FetchSettings {
    FetchSettings {
        user_agent: "tests/1",
        accept: "image/png, image/jpeg",
        ports: origins.iter().map(|origin| origin.address.port()).collect(),
        connect_timeout: NEVER,
        timeout: NEVER,
        redirects_max: 3,
        bytes_max: BYTES_MAX,
        url_bytes_max: 2048,
        concurrent_max: 4,
        concurrent_per_holder_max: 4,
        allow_networks: vec!["127.0.0.1/32".parse().unwrap()],
    }
}

/// For a fetch that must run out of time: an honest one may, on a busy machine.
fn hasty(origins: &[&Origin]) -> FetchSettings {
    FetchSettings { timeout: SHORT, ..settings(origins) }
}

/// A resolver that knows these names only.
fn names(known: &[(&str, &[&str])]) -> LookUp {
    let known: HashMap<String, Vec<std::net::IpAddr>> = known
        .iter()
        .map(|(name, texts)| ((*name).to_owned(), texts.iter().map(|text| text.parse().unwrap()).collect()))
        .collect();
    Arc::new(move |name, port| {
        let found = known.get(&name).cloned();
        Box::pin(async move {
            let found = found.ok_or_else(|| std::io::Error::other("no such name"))?;
            Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
        })
    })
}

/// A fetcher that asks this resolver and not the system's.
fn asking(settings: FetchSettings, look_up: LookUp) -> Fetcher {
    Fetcher { resolver: Resolver::asking(look_up), ..Fetcher::new(settings) }
}

/// Fails a test whose fetch does not end by itself.
async fn ending<F: Future>(fetch: F) -> F::Output {
    tokio::time::timeout(PATIENCE, fetch).await.expect("the fetch ends")
}

/// Waits until this holds.
async fn until(holds: impl Fn() -> bool) {
    let holding = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    ending(holding).await;
}

/// Whether this is still under way after a moment.
async fn is_waiting(fetch: impl Future) -> bool {
    tokio::time::timeout(Duration::from_millis(100), fetch).await.is_err()
}

impl Fetcher {
    /// The body of a fetch, without its permit.
    async fn bytes(&self, url: &str, trusted: Option<&TrustedUrl>) -> Result<Bytes, FetchError> {
        self.get("app", url, trusted).await.map(|fetched| fetched.bytes)
    }
}

/// The result of one fetch from one origin.
async fn fetch_once(settings: FetchSettings, origin: &Origin) -> Result<Bytes, FetchError> {
    ending(Fetcher::new(settings).bytes(&origin.url("/picture.png"), None)).await
}

fn body(bytes: &'static [u8]) -> Bytes {
    Bytes::from_static(bytes)
}

/// Rule (contract 5.3.9): the request, byte for byte: no cookies, no authorisation, nothing else.
#[tokio::test]
async fn the_request_byte_for_byte() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let url = origin.url("/a/b.png?c=d&e#fragment");
    assert_eq!(Fetcher::new(settings(&[&origin])).bytes(&url, None).await, Ok(body(b"picture")));
    let expected = format!(
        "GET /a/b.png?c=d&e HTTP/1.1\r\nhost: {}\r\nuser-agent: tests/1\r\naccept: image/png, image/jpeg\r\n\
         accept-encoding: identity\r\nconnection: close\r\n\r\n",
        origin.address,
    );
    assert_eq!(origin.requests(), [expected]);
}

/// Rule (contract 5.3.3): without an allowed network, nothing on loopback is even connected to.
#[tokio::test]
async fn loopback_is_not_connected_to() {
    let origin = Origin::always(Reply::ok(b"secret")).await;
    let guarded = FetchSettings { allow_networks: vec![], ..settings(&[&origin]) };
    let port = origin.address.port();
    for host in
        ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]", "0", "[::1]"]
    {
        let found = Fetcher::new(guarded.clone()).bytes(&format!("http://{host}:{port}/"), None).await;
        assert!(
            matches!(found, Err(FetchError::AddressNotPublic | FetchError::NameNotFound)),
            "{host}: {found:?}"
        );
    }
    assert_eq!(origin.connections(), 0);
}

/// Rule (contract 5.3.6): the port rule stays in an allowed network.
#[tokio::test]
async fn the_port_rule_stays_in_an_allowed_network() {
    let origin = Origin::always(Reply::ok(b"secret")).await;
    let ports = FetchSettings { ports: vec![80, 443], ..settings(&[&origin]) };
    assert_eq!(fetch_once(ports, &origin).await, Err(FetchError::Port));
    assert_eq!(origin.connections(), 0);
}

/// Rule (contract 5.3.3): a name with any forbidden address among its answers is refused, and none of
/// the others is connected to.
#[tokio::test]
async fn a_name_with_a_forbidden_address_is_refused() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let look_up = names(&[
        ("good.example", &["127.0.0.1"]),
        ("mixed.example", &["127.0.0.1", "127.0.0.2"]),
        ("mapped.example", &["127.0.0.1", "::ffff:10.0.0.1"]),
        ("empty.example", &[]),
    ]);
    let fetcher = asking(settings(&[&origin]), look_up);
    let port = origin.address.port();
    for (name, expected) in [
        ("mixed.example", FetchError::AddressNotPublic),
        ("mapped.example", FetchError::AddressNotPublic),
        ("empty.example", FetchError::NameNotFound),
        ("unknown.example", FetchError::NameNotFound),
    ] {
        assert_eq!(fetcher.bytes(&format!("http://{name}:{port}/"), None).await, Err(expected), "{name}");
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(fetcher.bytes(&format!("http://good.example:{port}/"), None).await, Ok(body(b"picture")));
}

/// Rule (contract 5.3.7): the connection is made to the address that was checked. A name is asked for
/// once, so a second, different answer changes nothing (DNS rebinding).
#[tokio::test]
async fn a_name_is_asked_for_once() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let look_up: LookUp = Arc::new(move |_, port| {
        let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let address = if first { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
        Box::pin(async move { Ok(vec![SocketAddr::from((address, port))]) })
    });
    let url = format!("http://rebinding.example:{}/", origin.address.port());
    assert_eq!(asking(settings(&[&origin]), look_up).bytes(&url, None).await, Ok(body(b"picture")));
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert!(
        origin.requests()[0].contains(&format!("\r\nhost: rebinding.example:{}\r\n", origin.address.port()))
    );
}

/// Rule (contract 5.3.10): 10 s in all, a look-up that hangs included.
#[tokio::test]
async fn a_hanging_look_up_ends_with_the_time_limit() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let fetcher = asking(hasty(&[&origin]), Arc::new(|_, _| Box::pin(std::future::pending())));
    let url = format!("http://hanging.example:{}/", origin.address.port());
    assert_eq!(ending(fetcher.bytes(&url, None)).await, Err(FetchError::TimedOut));
}

/// Rule: an address that refuses leaves its turn to the next one.
#[tokio::test]
async fn the_next_address_is_tried() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let allow =
        FetchSettings { allow_networks: vec!["127.0.0.0/8".parse().unwrap()], ..settings(&[&origin]) };
    let look_up = names(&[("two.example", &["127.0.0.9", "127.0.0.1"]), ("none.example", &["127.0.0.9"])]);
    let fetcher = asking(allow, look_up);
    let port = origin.address.port();
    assert_eq!(fetcher.bytes(&format!("http://two.example:{port}/"), None).await, Ok(body(b"picture")));
    let found = fetcher.bytes(&format!("http://none.example:{port}/"), None).await;
    assert_eq!(found, Err(FetchError::ConnectFailed));
}

/// Rule (contract 5.3.10): 2 s to connect; an address that does not answer leaves time for the next.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_that_does_not_answer() {
    let origin = Origin::always(Reply::ok(b"picture")).await;
    let port = origin.address.port();
    // A listener that never accepts, with its queue full, drops what comes.
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind(SocketAddr::from(([127, 0, 0, 9], port))).unwrap();
    let silent = silent.listen(0).unwrap();
    let mut queued = Vec::new();
    for _ in 0..4 {
        let connecting = tokio::net::TcpStream::connect(silent.local_addr().unwrap());
        queued.push(tokio::time::timeout(Duration::from_millis(50), connecting).await);
    }
    let hasty = FetchSettings {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        connect_timeout: SHORT * 2,
        ..settings(&[&origin])
    };
    let look_up = names(&[("silent.example", &["127.0.0.9"]), ("two.example", &["127.0.0.9", "127.0.0.1"])]);
    let fetcher = asking(hasty, look_up);
    let started = Instant::now();
    let found = ending(fetcher.bytes(&format!("http://silent.example:{port}/"), None)).await;
    assert_eq!(found, Err(FetchError::ConnectTimedOut));
    assert!(started.elapsed() >= SHORT * 2, "one address has all the time");
    // The first of two has half of the time.
    assert_eq!(fetcher.bytes(&format!("http://two.example:{port}/"), None).await, Ok(body(b"picture")));
}

/// Rule (`fetch.concurrent_max`): more fetches wait, and are refused when their own time is over. A
/// fetch that ended returns its permit.
#[tokio::test]
async fn fetches_at_once_are_bounded() {
    let hanging = Origin::always(Reply::head("200 OK", "content-length: 5\r\n").then_hang()).await;
    let fast = Origin::always(Reply::ok(b"picture")).await;
    let one = FetchSettings { concurrent_max: 1, ..settings(&[&hanging, &fast]) };
    let fetcher = Fetcher::new(one.clone());
    let (slow_url, fast_url) = (hanging.url("/"), fast.url("/"));
    let mut first = Box::pin(fetcher.bytes(&slow_url, None));
    assert!(is_waiting(&mut first).await);
    let mut second = Box::pin(fetcher.bytes(&fast_url, None));
    assert!(is_waiting(&mut second).await);
    assert_eq!(fast.connections(), 0, "the second one waits for the first one's permit");
    drop(first);
    assert_eq!(ending(second).await, Ok(body(b"picture")));
    assert_eq!(fetcher.under_way(), 0);
    let hasty = Fetcher::new(FetchSettings { timeout: SHORT, ..one });
    let _held = hasty.bulkhead.acquire("other", 1).await;
    assert_eq!(ending(hasty.bytes(&fast_url, None)).await, Err(FetchError::Busy));
}

/// Rule: a fetch that is dropped closes its connection.
#[tokio::test]
async fn a_dropped_fetch_closes_its_connection() {
    let origin = Origin::always(Reply::head("200 OK", "content-length: 5\r\n").then_hang()).await;
    let fetcher = Fetcher::new(settings(&[&origin]));
    let url = origin.url("/");
    tokio::select! {
        found = fetcher.bytes(&url, None) => panic!("{found:?}"),
        () = until(|| !origin.requests().is_empty()) => {}
    }
    origin.until_closed().await;
}

/// Rule: the exact text of the trusted URL is fetched from its address without guard and port rule.
/// Any other text goes through both, and so does a redirect of the trusted URL.
#[tokio::test]
async fn only_the_exact_text_is_trusted() {
    let origin = Origin::serve(|request| {
        if request.starts_with("GET /away ") {
            Reply::redirect("302 Found", "/picture.png")
        } else {
            Reply::ok(b"own")
        }
    })
    .await;
    let guarded = FetchSettings { allow_networks: vec![], ports: vec![80, 443], ..settings(&[&origin]) };
    let fetcher = Fetcher::new(guarded.clone());
    let trusted = TrustedUrl { url: origin.url("/picture.png"), address: origin.address };
    assert_eq!(fetcher.bytes(&trusted.url, Some(&trusted)).await, Ok(body(b"own")));
    assert_eq!(fetcher.bytes(&trusted.url, None).await, Err(FetchError::Port));
    for text in [
        origin.url("/picture.pn"),
        origin.url("/picture.png?"),
        origin.url("/picture.png#"),
        origin.url("//picture.png"),
        origin.url("/healthz"),
        format!(" {}", trusted.url),
        trusted.url.replace("http", "HTTP"),
        trusted.url.replace("127.0.0.1", "127.1"),
        trusted.url.replace("http://", "http://@"),
    ] {
        let found = fetcher.bytes(&text, Some(&trusted)).await;
        assert!(matches!(found, Err(FetchError::Port | FetchError::UserInfo)), "{text}: {found:?}");
    }
    assert_eq!(origin.connections(), 1);
    let with_port = FetchSettings { ports: vec![origin.address.port()], ..guarded };
    let other_text = Fetcher::new(with_port.clone()).bytes(&origin.url("/x"), Some(&trusted)).await;
    assert_eq!(other_text, Err(FetchError::AddressNotPublic));
    let away = TrustedUrl { url: origin.url("/away"), address: origin.address };
    assert_eq!(
        Fetcher::new(with_port).bytes(&away.url, Some(&away)).await,
        Err(FetchError::AddressNotPublic)
    );
    assert_eq!(origin.connections(), 2);
}

/// A handler can await a fetch on any thread.
#[test]
fn a_fetch_is_send() {
    fn send<T: Send>(_: &T) {}
    send(&Fetcher::new(settings(&[])).bytes("http://a.example/", None));
}

/// Rule (contract 5.3.14 and 5.3.17): one text, the same for all causes; causes are distinct and stable names.
#[test]
fn one_text_for_all_causes() {
    let all = [
        FetchError::Url,
        FetchError::UrlTooLong,
        FetchError::Scheme,
        FetchError::UserInfo,
        FetchError::Port,
        FetchError::Busy,
        FetchError::NameNotFound,
        FetchError::AddressNotPublic,
        FetchError::ConnectFailed,
        FetchError::ConnectTimedOut,
        FetchError::NoCertificateStore,
        FetchError::Tls,
        FetchError::Broken,
        FetchError::HeaderTooLarge,
        FetchError::Status,
        FetchError::Location,
        FetchError::Downgrade,
        FetchError::TooManyRedirects,
        FetchError::Encoded,
        FetchError::TooLarge,
        FetchError::TimedOut,
    ];
    let causes: std::collections::HashSet<_> = all.iter().map(|refused| refused.cause()).collect();
    assert_eq!(causes.len(), all.len());
    assert!(
        causes.iter().all(|cause| cause.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    );
    for refused in all {
        assert_eq!(refused.to_string(), "the URL cannot be fetched: expected a public http or https address");
    }
}
