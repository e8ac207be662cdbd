//! URLs that a stranger may name, and the address guard: never a panic, and a host that is an
//! address is never taken for a name. The same for what a redirect says.

#![no_main]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use guarded_fetch::{FetchSettings, Host, Target, guard};
use minitill::public::image_upload::split_trailing_url;

fn check(target: &Target) {
    assert!(target.port() == 80 || target.port() == 443);
    let address = match target.host() {
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => IpAddr::V6(*address),
        Host::Domain(name) => {
            assert!(!name.is_empty() && name.trim_matches('.').parse::<IpAddr>().is_err());
            assert!(!name.bytes().any(|byte| byte <= b' ' || b"/\\@:?#%[]".contains(&byte)), "{name:?}");
            return;
        }
    };
    let judged = guard::judge(&[SocketAddr::new(address, target.port())], &[], &[]);
    assert_eq!(judged.is_ok(), guard::is_public(address));
    if let IpAddr::V4(inner) = address {
        assert!(!guard::is_public(IpAddr::V6(inner.to_ipv6_mapped())));
        let local =
            inner.is_loopback() || inner.is_private() || inner.is_link_local() || inner.is_unspecified();
        assert!(!local || judged.is_err());
    }
}

fuzz_target!(|data: &str| {
    let settings = FetchSettings {
        user_agent: "fuzz",
        accept: "*/*",
        ports: vec![80, 443],
        connect_timeout: Duration::ZERO,
        timeout: Duration::ZERO,
        redirects_max: 3,
        bytes_max: 0,
        url_bytes_max: 2048,
        concurrent_max: 1,
        concurrent_per_holder_max: 1,
        allow_networks: vec![],
    };
    let (before, url) = split_trailing_url(data);
    assert!(data.starts_with(before) && url.is_none_or(|url| data.ends_with(url)));
    if let Ok(target) = Target::parse(data, &settings) {
        check(&target);
    }
    let from = Target::parse("https://a.example/b", &settings).expect("a good URL");
    if let Ok(next) = from.follow(data.as_bytes(), &settings) {
        assert!(next.is_https());
        check(&next);
    }
});
