//! Every URL of `tests/urls`, all the way. Those that lead inside make not one connection there,
//! given by a caller or by a redirect. Those that lead to public addresses are not refused.

use super::*;

const HOSTILE: &str = include_str!("../../../../tests/urls/hostile.json");
const PUBLIC: &str = include_str!("../../../../tests/urls/public.json");

/// The address of the one origin that may be fetched from.
const ALLOWED: &str = "127.0.0.3";

fn urls(list: &str, port: u16) -> Vec<String> {
    let urls: Vec<String> = serde_json::from_str(list).unwrap();
    urls.into_iter().map(|url| url.replace("{port}", &port.to_string())).collect()
}

/// An allowed origin, and origins inside, all on one port.
async fn allowed_and_inside(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Origin, Vec<Origin>) {
    Origin::beside_secrets(&[ALLOWED, "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1"], script).await
}

#[track_caller]
fn assert_untouched(inside: &[Origin]) {
    for origin in inside {
        assert_eq!(origin.connections(), 0, "{}", origin.address);
    }
}

fn settings_for(port: u16) -> FetchSettings {
    let allow: std::net::IpAddr = ALLOWED.parse().unwrap();
    FetchSettings { ports: vec![port], allow_networks: vec![allow.into()], ..settings(&[]) }
}

/// Names that lead inside, in whole or in part, and no others.
fn inside_names() -> LookUp {
    names(&[("localhost", &["127.0.0.1", "::1"]), ("localhost.", &["127.0.0.1"])])
}

/// Rule (contract 5.3.4 and 5.3.14): no spelling of an address inside is ever connected to, and every refusal says
/// the same.
#[tokio::test]
async fn no_hostile_url_reaches_inside() {
    let (origin, inside) = allowed_and_inside(|_| Reply::ok(b"picture")).await;
    let port = origin.address.port();
    let fetcher = asking(settings_for(port), inside_names());
    let urls = urls(HOSTILE, port);
    assert!(urls.len() >= 150, "{}", urls.len());
    for url in urls {
        // No time limit passes: nothing was waited for.
        let refused = ending(fetcher.bytes(&url, None)).await.expect_err(&url);
        assert_eq!(
            refused.to_string(),
            "the URL cannot be fetched: expected a public http or https address",
            "{url:?}"
        );
    }
    assert_untouched(&inside);
    assert_eq!(origin.connections(), 0);
    assert_eq!(fetcher.bytes(&format!("http://127.0.0.3:{port}/"), None).await, Ok(body(b"picture")));
}

/// Rule (contract 5.3.8): the same for where a redirect leads, be it absolute, relative or to another
/// scheme.
#[tokio::test]
async fn no_redirect_to_a_hostile_url_reaches_inside() {
    let hops = Arc::new(std::sync::Mutex::new(String::new()));
    let next = Arc::clone(&hops);
    let (origin, inside) =
        allowed_and_inside(move |_| Reply::redirect("302 Found", &next.lock().unwrap())).await;
    let port = origin.address.port();
    let fetcher = asking(settings_for(port), inside_names());
    // What cannot stand in a header cannot come that way.
    for url in urls(HOSTILE, port).into_iter().filter(|url| !url.chars().any(char::is_control)) {
        hops.lock().unwrap().clone_from(&url);
        let found = fetcher.bytes(&origin.url("/"), None).await;
        assert!(found.is_err(), "{url:?}");
    }
    assert!(origin.connections() >= 150);
    assert_untouched(&inside);
}

/// Rule (contract 5.3.8): a name is looked up and judged anew for each redirect. So a name that leads
/// inside on the second look-up (rebinding) is refused there.
#[tokio::test]
async fn a_name_that_turns_inside_between_two_look_ups_is_refused() {
    let (origin, inside) = allowed_and_inside(|_| Reply::redirect("307 Temporary Redirect", "/again")).await;
    let port = origin.address.port();
    for second in [vec!["127.0.0.1"], vec!["127.0.0.3", "127.0.0.2"], vec!["::1"], vec!["::ffff:127.0.0.1"]] {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let look_up: LookUp = Arc::new(move |_, port| {
            let first = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let texts = if first { vec!["127.0.0.3"] } else { second.clone() };
            let found = texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect();
            Box::pin(async move { Ok(found) })
        });
        let fetcher = asking(settings_for(port), look_up);
        let found = fetcher.bytes(&format!("http://turning.example:{port}/"), None).await;
        assert_eq!(found, Err(FetchError::AddressNotPublic));
    }
    assert_eq!(origin.connections(), 4);
    assert_untouched(&inside);
}

/// Rule (contract 5.3.3): nothing public is refused by its text or its address.
#[test]
fn public_urls_are_not_refused() {
    let settings = FetchSettings { ports: vec![80, 443], ..settings_for(80) };
    for url in urls(PUBLIC, 80) {
        let target = Target::parse(&url, &settings).unwrap_or_else(|refused| panic!("{url}: {refused:?}"));
        let address: std::net::IpAddr = match target.host() {
            Host::Ipv4(address) => (*address).into(),
            Host::Ipv6(address) => (*address).into(),
            Host::Domain(_) => continue,
        };
        assert_eq!(guard::judge(&[SocketAddr::new(address, target.port())], &[], &[]), Ok(()), "{url}");
    }
}
