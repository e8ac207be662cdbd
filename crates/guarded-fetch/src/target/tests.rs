use std::time::Duration;

use proptest::prelude::*;

use super::super::guard;
use super::*;

fn settings() -> FetchSettings {
    FetchSettings {
        user_agent: "tests/1",
        accept: "*/*",
        ports: vec![80, 443],
        connect_timeout: Duration::from_secs(2),
        timeout: Duration::from_secs(10),
        redirects_max: 3,
        bytes_max: 1024,
        url_bytes_max: 2048,
        concurrent_max: 1,
        concurrent_per_holder_max: 1,
        allow_networks: vec![],
    }
}

fn parse(text: &str) -> Result<Target, FetchError> {
    Target::parse(text, &settings())
}

fn refused(text: &str) -> FetchError {
    parse(text).map(|target| target.url.to_string()).unwrap_err()
}

/// Rule (contract 5): every spelling of an address is judged as that address.
#[test]
fn every_spelling_of_loopback_is_loopback() {
    let spellings = [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7F.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://0177.0x0.0.1/",
        "http://00000177.1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://127%2e0%2e0%2e1/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://127．0｡0.1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
        "http://1\u{200b}27.0.0.1/",
        "http://12\u{ad}7.0.0.1/",
        "http://12\n7.0.0.1/",
        " \thttp://127.0.0.1/ \n",
        "HTTP://127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http:/127.0.0.1",
        "http:127.0.0.1",
        "http:////127.0.0.1/",
        "http://127.0.0.1:80/",
        "https://127.0.0.1:443/",
        "http://127.0.0.1?@8.8.8.8/",
        "http://127.0.0.1#@8.8.8.8/",
        "http://127.0.0.1\\@8.8.8.8/",
    ];
    for text in spellings {
        let target = parse(text).unwrap_or_else(|refused| panic!("{text:?}: {refused:?}"));
        assert_eq!(target.host(), &Host::<String>::Ipv4(std::net::Ipv4Addr::LOCALHOST), "{text:?}");
    }
    for text in ["http://[::1]/", "http://[0:0::0:1]/", "http://[0000:0000::0001]:80/"] {
        assert_eq!(
            parse(text).unwrap().host(),
            &Host::<String>::Ipv6(std::net::Ipv6Addr::LOCALHOST),
            "{text:?}"
        );
    }
}

/// Rule (contract 5): other spellings of addresses that are not public never become a name.
#[test]
fn spellings_of_other_forbidden_addresses() {
    for text in [
        "http://0/",
        "http://00/",
        "http://0x0/",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://169.16689662/",
        "http://0251.0376.0251.0376/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::169.254.169.254]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://4294967295/",
        "http://0xe0000001/",
    ] {
        let address = match parse(text).unwrap().host().to_owned() {
            Host::Ipv4(address) => address.into(),
            Host::Ipv6(address) => address.into(),
            Host::Domain(name) => panic!("{text}: {name} is taken for a name"),
        };
        assert!(!guard::is_public(address), "{text}");
    }
}

/// Rule (contract 5): what cannot be read as an absolute URL with a host is refused.
#[test]
fn unreadable_urls() {
    for text in [
        "",
        " ",
        "picture.png",
        "/picture.png",
        "//example.com/",
        "://example.com",
        "http://",
        "http:///",
        "https://?",
        "http://:80/",
        "http://#",
        "http://[::1",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://[::1%eth0]/",
        "http://1.2.3.4.5/",
        "http://256.0.0.1/",
        "http://127.0.0.1../",
        "http://127.0.0.1...../",
        "http://./",
        "http://.example.com/",
        "http://shop..example.com/",
        "http://shop.example.com../",
        "http://4294967296/",
        "http://09.1/",
        "http://0x1g.1/",
        "http://exa mple.com/",
        "http://exa%00mple.com/",
        "http://example.com%2f@x/",
        "http://a<b/",
        "http://a^b/",
        "http://example.com:99999/",
        "http://example.com:-80/",
        "http://example.com:8 0/",
        "http://%zz/",
        "http://xn--/",
        "http://\u{200b}/",
    ] {
        assert!(
            matches!(refused(text), FetchError::Url | FetchError::UserInfo),
            "{text:?}: {:?}",
            refused(text)
        );
    }
}

/// Rule (contract 5): http and https only.
#[test]
fn other_schemes() {
    for text in [
        "ftp://example.com/",
        "file:///etc/passwd",
        "file://example.com/x",
        "gopher://example.com:80/_x",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "ws://example.com/",
        "wss://example.com/",
        "blob:http://example.com/",
        "view-source:http://example.com/",
        "httpx://example.com/",
        "example.com:80/",
        "unix:/run/x.sock",
        "dict://example.com:80/",
        "jar:http://example.com!/",
    ] {
        assert_eq!(refused(text), FetchError::Scheme, "{text:?}");
    }
}

/// Rule (contract 5): no user info, an empty one neither.
#[test]
fn user_info() {
    for text in [
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://@example.com/",
        "http://:@example.com/",
        "http://:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
        "http://@@example.com/",
        "http:@example.com/",
        "http:/@example.com/",
        "http:\\\\@example.com/",
        "ht\ntp://\t@example.com/",
        "http:///@example.com/",
        "http://%40@example.com/",
        "http://a:b@c:d@example.com/",
    ] {
        assert_eq!(refused(text), FetchError::UserInfo, "{text:?}");
    }
    for text in ["http://example.com/@", "http://example.com/?a@b", "http://example.com/#a@b"] {
        assert!(parse(text).is_ok(), "{text}: no user info");
    }
}

/// Rule (contract 5, `fetch.ports`): only the listed ports, written out or the scheme's own.
#[test]
fn ports() {
    for text in [
        "http://a.example/",
        "https://a.example/",
        "http://a.example:443/",
        "https://a.example:80/",
        "http://a.example:080/",
        "http://a.example:/",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
    for text in [
        "http://a.example:81/",
        "http://a.example:0/",
        "https://a.example:8443/",
        "http://a.example:22/",
        "http://[2606:4700::1]:5432/",
    ] {
        assert_eq!(refused(text), FetchError::Port, "{text}");
    }
    let only_tls = FetchSettings { ports: vec![443], ..settings() };
    assert_eq!(Target::parse("http://a.example/", &only_tls).unwrap_err(), FetchError::Port);
    assert!(
        Target::parse_on_any_port("http://127.0.0.1:8081/", 2048).is_ok(),
        "a URL of our own names any port"
    );
}

/// Rule (contract 5): at most 2,048 bytes; bytes, not characters.
#[test]
fn length() {
    let start = "http://a.example/";
    let fill = |bytes: usize| format!("{start}{}", "a".repeat(bytes - start.len()));
    assert!(parse(&fill(2048)).is_ok());
    assert_eq!(refused(&fill(2049)), FetchError::UrlTooLong);
    assert_eq!(refused(&format!("{start}{}", "ä".repeat(1020))), FetchError::UrlTooLong);
    let target = parse(&fill(2000)).unwrap();
    assert!(target.follow(b"?short", &settings()).is_ok());
    let relative = format!("?{}", "a".repeat(60));
    assert_eq!(target.follow(relative.as_bytes(), &settings()).unwrap_err(), FetchError::UrlTooLong);
    assert_eq!(target.follow(&[b'a'; 2049], &settings()).unwrap_err(), FetchError::UrlTooLong);
}

/// Rule (contract 5): a redirect may be relative, and is judged as strictly as the first URL.
#[test]
fn redirects_are_read_from_where_they_came() {
    let from = parse("https://a.example/b/c?d=e").unwrap();
    for (location, expected) in [
        ("f.png", "https://a.example/b/f.png"),
        ("/f.png", "https://a.example/f.png"),
        ("../../../f.png", "https://a.example/f.png"),
        ("?g=h", "https://a.example/b/c?g=h"),
        ("//b.example/f", "https://b.example/f"),
        ("\\\\b.example\\f", "https://b.example/f"),
        ("https://b.example/ä", "https://b.example/%C3%A4"),
        ("https:f.png", "https://a.example/b/f.png"),
        ("", "https://a.example/b/c?d=e"),
    ] {
        let next = from.follow(location.as_bytes(), &settings()).unwrap();
        assert_eq!(next.url.as_str(), expected, "{location:?}");
    }
    for (location, expected) in [
        ("http://a.example/b", FetchError::Downgrade),
        ("HTTP://a.example:443/b", FetchError::Downgrade),
        ("http:b", FetchError::Downgrade),
        ("https://a.example:8443/", FetchError::Port),
        ("//a.example:22/", FetchError::Port),
        ("//@a.example/", FetchError::UserInfo),
        ("//user@a.example/", FetchError::UserInfo),
        ("file:///etc/passwd", FetchError::Scheme),
        ("data:,x", FetchError::Scheme),
        ("https://", FetchError::Url),
        ("//[::1", FetchError::Url),
    ] {
        assert_eq!(from.follow(location.as_bytes(), &settings()).unwrap_err(), expected, "{location:?}");
    }
    assert_eq!(from.follow(b"\xff", &settings()).unwrap_err(), FetchError::Location);
    let plain = parse("http://a.example/").unwrap();
    assert!(plain.follow(b"https://a.example/", &settings()).is_ok(), "http may lead to https");
    assert!(plain.follow(b"http://b.example/", &settings()).is_ok());
}

/// Rule (contract 5): `Host` leaves the scheme's own port out, and the fragment is never sent.
#[test]
fn what_is_sent() {
    for (text, host, path) in [
        ("http://a.example", "a.example", "/"),
        ("http://A.Example:80/x", "a.example", "/x"),
        ("https://a.example:443/x?y=z#secret", "a.example", "/x?y=z"),
        ("https://a.example:80/?", "a.example:80", "/?"),
        ("http://a.example:443/#secret", "a.example:443", "/"),
        ("http://[2606:4700::0:1]:443//x//", "[2606:4700::1]:443", "//x//"),
        (
            "http://bücher.example/ä b\"|^[]{}`?ä='<>|^`{}",
            "xn--bcher-kva.example",
            "/%C3%A4%20b%22|^[]%7B%7D%60?%C3%A4=%27%3C%3E|^`{}",
        ),
        ("http://a.example/%0d%0aHost:%20x", "a.example", "/%0d%0aHost:%20x"),
        ("http://a.example/a\r\nHost: x", "a.example", "/aHost:%20x"),
    ] {
        let target = parse(text).unwrap();
        assert_eq!(target.host_header().unwrap(), host, "{text:?}");
        assert_eq!(target.path_and_query().unwrap().as_str(), path, "{text:?}");
    }
}

/// Rule: the certificate must name the host, an address as an address, a name without the closing
/// dot.
#[test]
fn whom_the_certificate_must_name() {
    let name = |text: &str| parse(text).unwrap().server_name().unwrap().to_str().into_owned();
    assert_eq!(name("https://a.example./"), "a.example");
    assert_eq!(name("https://A_b.example/"), "a_b.example");
    assert!(matches!(parse("https://8.8.8.8/").unwrap().server_name(), Ok(ServerName::IpAddress(_))));
    assert!(matches!(parse("https://[2606:4700::1]/").unwrap().server_name(), Ok(ServerName::IpAddress(_))));
}

/// One part of an address as C's `inet_aton` and browsers read it: decimal, octal or hexadecimal,
/// with any number of zeros in front.
fn spelled(value: u32, kind: u8, zeros: usize) -> String {
    let zeros = "0".repeat(zeros);
    match kind % 4 {
        0 => value.to_string(),
        1 => format!("0{zeros}{value:o}"),
        2 => format!("0x{zeros}{value:x}"),
        _ => format!("0X{zeros}{value:X}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule (contract 5): any IPv4 address in any numeric spelling, long or short, percent-encoded or
    /// not, is read as that address, and so judged as what it is.
    #[test]
    fn any_spelling_of_an_address_is_that_address(
        address in any::<u32>(), parts in 1_usize..=4, kinds in any::<[u8; 4]>(), zeros in 0_usize..5,
        percent in any::<bool>(), dot in any::<bool>(),
    ) {
        let bytes = address.to_be_bytes();
        let mut texts: Vec<String> =
            (0..parts - 1).map(|index| spelled(u32::from(bytes[index]), kinds[index], zeros)).collect();
        let rest = address.checked_shl(8 * u32::try_from(parts - 1).unwrap()).unwrap_or(0);
        let rest = rest >> (8 * u32::try_from(parts - 1).unwrap());
        texts.push(spelled(rest, kinds[3], zeros));
        let mut host = texts.join(".");
        if dot {
            host.push('.');
        }
        if percent {
            let encoded: Vec<_> = host.bytes().map(|byte| format!("%{byte:02x}")).collect();
            host = encoded.concat();
        }
        let target = parse(&format!("http://{host}/")).unwrap();
        prop_assert_eq!(target.host(), &Host::<String>::Ipv4(address.into()));
    }

    /// Rule: no text makes the parser panic, and what it takes has an allowed port and a host that is
    /// no address in disguise.
    #[test]
    fn noise_never_becomes_a_disguised_address(
        text in "(http|https|HTTP|file)?:?[/\\\\]{0,3}([0-9a-fA-Fx.:@%\\[\\]#? \t]|１|。|\u{200b}|127|::1|a\\.b){0,30}",
    ) {
        if let Ok(target) = parse(&text) {
            prop_assert!([80, 443].contains(&target.port()));
            if let Host::Domain(name) = target.host() {
                prop_assert!(name.trim_matches('.').parse::<std::net::IpAddr>().is_err(), "{}", name);
            }
        }
    }
}
