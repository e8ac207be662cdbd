use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| SocketAddr::new(ip(text), 80)).collect()
}

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// First, last and middle of the blocks, and the addresses where clouds keep their secrets.
const NOT_PUBLIC: [&str; 112] = [
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.9",
    "192.0.0.170",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.1",
    "192.0.2.255",
    "192.31.196.1",
    "192.31.196.255",
    "192.52.193.1",
    "192.52.193.255",
    "192.88.99.1",
    "192.88.99.255",
    "192.168.0.0",
    "192.168.255.255",
    "192.175.48.1",
    "192.175.48.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.1",
    "198.51.100.255",
    "203.0.113.1",
    "203.0.113.255",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.254",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::ffff:0:0",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "100::1",
    "100:0:0:1::1",
    "200::1",
    "400::1",
    "1000::1",
    "1fff:ffff::1",
    "2001::1",
    "2001:0:53aa:64c:0:0:80ff:fffe",
    "2001:1::1",
    "2001:2::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:10::1",
    "2001:1f:ffff::1",
    "2001:20::1",
    "2001:2f:ffff::1",
    "2001:30::1",
    "2001:3f:ffff::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2001:db8:ffff:ffff::1",
    "2002::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "2002:c0a8:101::1",
    "2620:4f:8000::1",
    "2620:4f:8000:ffff::1",
    "3ffe::1",
    "3ffe:ffff::1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "4000::1",
    "5f00::1",
    "8000::1",
    "e000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff:ffff::1",
    "fe00::1",
    "fe80::1",
    "febf:ffff::1",
    "fec0::1",
    "feff::1",
    "ff00::1",
    "ff02::1",
    "ff0e::1",
    "ffff::1",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:10.0.0.1",
    "2606:4700::200:5efe:8.8.8.8",
    "2606:4700::100:5efe:10.0.0.1",
    "2606:4700::300:5efe:10.0.0.1",
];

/// Well-known servers, and the neighbours of every block.
const PUBLIC: [&str; 49] = [
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.31.195.255",
    "192.31.197.0",
    "192.52.192.255",
    "192.52.194.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "192.175.47.255",
    "192.175.49.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2001:db7::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2620:4f:7fff::1",
    "2620:4f:8001::1",
    "2a00:1450::1",
    "3ffd::1",
    "3fff:1000::1",
    "2606:4700::400:5efe:10.0.0.1",
    "2606:4700::5eff:10.0.0.1",
];

/// Rule (contract 5.3.4): an address that is not public is refused.
#[test]
fn addresses_that_are_not_public() {
    for text in NOT_PUBLIC {
        assert!(!is_public(ip(text)), "{text} must be refused");
        assert_eq!(judge(&addresses(&[text]), &[], &[]), Err(FetchError::AddressNotPublic), "{text}");
    }
}

/// Rule (contract 5.3.4): public addresses are not refused.
#[test]
fn addresses_that_are_public() {
    for text in PUBLIC {
        assert!(is_public(ip(text)), "{text} is public");
        assert_eq!(judge(&addresses(&[text]), &[], &[]), Ok(()), "{text}");
    }
}

/// The table itself: no row has bits beyond its prefix, and none is hidden by a row before it. The
/// first and last address of each are refused.
#[test]
fn the_table_is_sound() {
    for (index, special) in SPECIAL_PURPOSE.iter().enumerate() {
        assert_eq!(special.network, special.network.trunc(), "{}", special.name);
        let hidden = SPECIAL_PURPOSE[..index].iter().any(|before| before.network.contains(&special.network));
        assert!(!hidden, "{} ({}) is hidden by a wider row before it", special.name, special.network);
        assert!(!is_public(special.network.network()) && !is_public(special.network.broadcast()));
        assert!(!special.source.is_empty());
    }
}

/// The narrowest block names the address.
#[test]
fn blocks_are_named() {
    let named = |text| special_purpose(ip(text)).map(|special| special.name);
    assert_eq!(named("169.254.169.254"), Some("link-local (and cloud metadata)"));
    assert_eq!(named("2001:0:53aa:64c::1"), Some("Teredo"));
    assert_eq!(named("255.255.255.255"), Some("limited broadcast"));
    assert_eq!(named("::ffff:8.8.8.8"), Some("IPv4-mapped"));
    assert_eq!(named("8.8.8.8"), None);
}

/// Rule (contract 5.3.3): a name with any forbidden address among its answers is refused, wherever it
/// stands; so is a name without addresses.
#[test]
fn one_forbidden_address_refuses_the_name() {
    assert_eq!(judge(&[], &[], &[]), Err(FetchError::NameNotFound));
    assert_eq!(judge(&addresses(&["8.8.8.8", "2606:4700::1"]), &[], &[]), Ok(()));
    for mixed in [
        ["8.8.8.8", "127.0.0.1", "1.1.1.1"],
        ["127.0.0.1", "8.8.8.8", "1.1.1.1"],
        ["8.8.8.8", "1.1.1.1", "127.0.0.1"],
        ["8.8.8.8", "1.1.1.1", "::1"],
        ["8.8.8.8", "2606:4700::1", "::ffff:1.1.1.1"],
    ] {
        assert_eq!(judge(&addresses(&mixed), &[], &[]), Err(FetchError::AddressNotPublic), "{mixed:?}");
    }
}

/// The machine's own addresses are refused, public ones too.
#[test]
fn the_machines_own_addresses_are_refused() {
    let own = own_addresses().unwrap();
    assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
    let own = ["8.8.8.8".parse().unwrap(), "2606:4700::1".parse().unwrap()];
    for text in ["8.8.8.8", "2606:4700::1"] {
        assert_eq!(judge(&addresses(&[text]), &own, &[]), Err(FetchError::AddressNotPublic), "{text}");
    }
    assert_eq!(judge(&addresses(&["8.8.4.4"]), &own, &[]), Ok(()));
    assert_eq!(judge(&addresses(&["8.8.8.8"]), &own, &networks(&["8.8.8.0/24"])), Ok(()));
}

/// Rule (contract 5.3.6): an allowed network lifts the guard for its own
/// addresses, in IPv4-mapped form too, and for no others.
#[test]
fn an_allowed_network_allows_its_own_addresses_only() {
    let allow = networks(&["10.1.0.0/16", "fd00:1::/32"]);
    for text in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd00:1::1", "8.8.8.8"] {
        assert_eq!(judge(&addresses(&[text]), &[], &allow), Ok(()), "{text}");
    }
    for text in [
        "10.0.255.255",
        "10.2.0.0",
        "::ffff:10.2.0.0",
        "::10.1.2.3",
        "64:ff9b::a01:203",
        "2002:a01:203::1",
        "fd00:2::1",
    ] {
        assert_eq!(judge(&addresses(&[text]), &[], &allow), Err(FetchError::AddressNotPublic), "{text}");
    }
    let mixed = addresses(&["10.1.2.3", "8.8.8.8", "10.2.0.0"]);
    assert_eq!(judge(&mixed, &[], &allow), Err(FetchError::AddressNotPublic));
    assert_eq!(
        judge(&addresses(&["127.0.0.1"]), &[], &networks(&["::/0"])),
        Err(FetchError::AddressNotPublic)
    );
}

/// Rule (contract 5.3.5): behind a NAT64 the address inside is judged.
#[test]
fn a_translator_leads_to_no_address_that_is_not_public() {
    let nat64 = networks(&["64:ff9b::/96"]);
    assert_eq!(judge(&addresses(&["64:ff9b::808:808"]), &[], &nat64), Ok(()));
    for inside in ["64:ff9b::a9fe:a9fe", "64:ff9b::a00:5", "64:ff9b::7f00:1"] {
        assert_eq!(judge(&addresses(&[inside]), &[], &nat64), Err(FetchError::AddressNotPublic), "{inside}");
    }
    let own = addresses(&["8.8.8.8"])[0].ip();
    assert_eq!(judge(&addresses(&["64:ff9b::808:808"]), &[own], &nat64), Err(FetchError::AddressNotPublic));
    // The operator names what is inside, in one form or the other.
    for more in ["10.0.0.0/8", "64:ff9b::a00:0/104"] {
        let allow = networks(&["64:ff9b::/96", more]);
        assert_eq!(judge(&addresses(&["64:ff9b::a00:5"]), &[], &allow), Ok(()), "{more}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rule (contract 5.3.5): no IPv4 address inside IPv6 is public, whatever it is and whichever its
    /// form. An address that the standard library knows to be local is not public.
    #[test]
    fn no_address_inside_another_is_public(inner in any::<u32>(), outer in any::<u32>(), low in any::<u16>()) {
        let v4 = Ipv4Addr::from(inner);
        let [a, b] = [u16::try_from(inner >> 16).unwrap(), u16::try_from(inner & 0xffff).unwrap()];
        let outer = 0x2000 | (u16::try_from(outer >> 16).unwrap() & 0x1fff);
        for v6 in [
            v4.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, a, b),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
            Ipv6Addr::new(0x64, 0xff9b, 1, low, a, b, 0, 0),
            Ipv6Addr::new(0x2002, a, b, low, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, a, b, low, low, !a, !b),
            Ipv6Addr::new(outer, low, low, 0, 0, 0x5efe, a, b),
            Ipv6Addr::new(outer, low, 0, 0, 0x0200, 0x5efe, a, b),
        ] {
            prop_assert!(!is_public(v6.into()), "{v6}");
        }
        if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast()
            || v4.is_documentation() || v4.is_unspecified()
        {
            prop_assert!(!is_public(v4.into()), "{v4}");
        }
    }
}
