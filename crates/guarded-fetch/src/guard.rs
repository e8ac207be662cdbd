//! The address guard: the addresses that a stranger may make this machine connect to.
//!
//! The table follows the IANA special-purpose address registries for IPv4 and IPv6. Every block in
//! them is refused, the few that are globally reachable too: none is home to an ordinary web
//! server. IPv6 is public only inside `2000::/3`, the one range that IANA gives out for unicast.
//!
//! IPv4 inside IPv6 (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is refused
//! outright, whatever address is inside. Public web servers have an IPv4 address of their own, and
//! to check the inner address would be to trust an unknown gateway. On a network whose resolver
//! answers with NAT64 addresses, list `64:ff9b::/96` in `allow_networks`. That gateway is known, so the
//! address inside is judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv6Net};
use nix::sys::socket::SockaddrStorage;

use super::error::FetchError;

/// A block of addresses that are not for public servers.
#[derive(Debug)]
pub struct SpecialPurpose {
    /// The block.
    pub network: IpNet,
    /// Its name.
    pub name: &'static str,
    /// The document that says so.
    pub source: &'static str,
}

const fn v4(start: Ipv4Addr, prefix: u8, name: &'static str, source: &'static str) -> SpecialPurpose {
    SpecialPurpose { network: IpNet::new_assert(IpAddr::V4(start), prefix), name, source }
}

const fn v6(start: Ipv6Addr, prefix: u8, name: &'static str, source: &'static str) -> SpecialPurpose {
    SpecialPurpose { network: IpNet::new_assert(IpAddr::V6(start), prefix), name, source }
}

/// The well-known prefix of NAT64, `64:ff9b::/96` (RFC 6052). The IPv4 address follows.
const NAT64_PREFIX: [u8; 12] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

/// Every block that is refused. Narrower blocks stand before the wider ones that hold them.
static SPECIAL_PURPOSE: [SpecialPurpose; 51] = [
    v4(Ipv4Addr::UNSPECIFIED, 32, "this host on this network", "RFC 1122"),
    v4(Ipv4Addr::UNSPECIFIED, 8, "this network", "RFC 791"),
    v4(Ipv4Addr::new(10, 0, 0, 0), 8, "private use", "RFC 1918"),
    v4(Ipv4Addr::new(100, 64, 0, 0), 10, "shared address space (carrier-grade NAT)", "RFC 6598"),
    v4(Ipv4Addr::new(127, 0, 0, 0), 8, "loopback", "RFC 1122"),
    // In public space, but served by the virtual machine host to its own guests only.
    v4(Ipv4Addr::new(168, 63, 129, 16), 32, "Azure platform", "Microsoft's documentation of 168.63.129.16"),
    v4(Ipv4Addr::new(169, 254, 0, 0), 16, "link-local (and cloud metadata)", "RFC 3927"),
    v4(Ipv4Addr::new(172, 16, 0, 0), 12, "private use", "RFC 1918"),
    v4(Ipv4Addr::new(192, 0, 0, 0), 24, "IETF protocol assignments", "RFC 6890"),
    v4(Ipv4Addr::new(192, 0, 2, 0), 24, "documentation (TEST-NET-1)", "RFC 5737"),
    v4(Ipv4Addr::new(192, 31, 196, 0), 24, "AS112-v4", "RFC 7535"),
    v4(Ipv4Addr::new(192, 52, 193, 0), 24, "automatic multicast tunneling", "RFC 7450"),
    v4(Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay anycast, deprecated", "RFC 7526"),
    v4(Ipv4Addr::new(192, 168, 0, 0), 16, "private use", "RFC 1918"),
    v4(Ipv4Addr::new(192, 175, 48, 0), 24, "direct delegation AS112", "RFC 7534"),
    v4(Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking", "RFC 2544"),
    v4(Ipv4Addr::new(198, 51, 100, 0), 24, "documentation (TEST-NET-2)", "RFC 5737"),
    v4(Ipv4Addr::new(203, 0, 113, 0), 24, "documentation (TEST-NET-3)", "RFC 5737"),
    v4(Ipv4Addr::new(224, 0, 0, 0), 4, "multicast", "RFC 5771"),
    v4(Ipv4Addr::BROADCAST, 32, "limited broadcast", "RFC 8190"),
    v4(Ipv4Addr::new(240, 0, 0, 0), 4, "reserved", "RFC 1112"),
    v6(Ipv6Addr::UNSPECIFIED, 128, "unspecified", "RFC 4291"),
    v6(Ipv6Addr::LOCALHOST, 128, "loopback", "RFC 4291"),
    v6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4-mapped", "RFC 4291"),
    v6(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, "IPv4-translated", "RFC 2765"),
    v6(Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible, deprecated", "RFC 4291"),
    v6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, "IPv4-IPv6 translation (NAT64)", "RFC 6052"),
    v6(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "local IPv4-IPv6 translation (NAT64)", "RFC 8215"),
    v6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "discard only", "RFC 6666"),
    v6(Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0), 64, "dummy prefix", "RFC 9780"),
    v6(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 1), 128, "port control protocol anycast", "RFC 7723"),
    v6(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 2), 128, "TURN anycast", "RFC 8155"),
    v6(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 3), 128, "DNS-SD registration anycast", "RFC 9665"),
    v6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "Teredo", "RFC 4380"),
    v6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, "benchmarking", "RFC 5180"),
    v6(Ipv6Addr::new(0x2001, 3, 0, 0, 0, 0, 0, 0), 32, "automatic multicast tunneling", "RFC 7450"),
    v6(Ipv6Addr::new(0x2001, 4, 0x112, 0, 0, 0, 0, 0), 48, "AS112-v6", "RFC 7535"),
    v6(Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28, "ORCHID, deprecated", "RFC 4843"),
    v6(Ipv6Addr::new(0x2001, 0x20, 0, 0, 0, 0, 0, 0), 28, "ORCHIDv2", "RFC 7343"),
    v6(Ipv6Addr::new(0x2001, 0x30, 0, 0, 0, 0, 0, 0), 28, "drone remote identification tags", "RFC 9374"),
    v6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "IETF protocol assignments", "RFC 2928"),
    v6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation", "RFC 3849"),
    v6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4", "RFC 3056"),
    v6(Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "direct delegation AS112", "RFC 7534"),
    v6(Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, "6bone, given back", "RFC 3701"),
    v6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation", "RFC 9637"),
    v6(Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing (SRv6) SIDs", "RFC 9602"),
    v6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "unique local", "RFC 4193"),
    v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local", "RFC 4291"),
    v6(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local, deprecated", "RFC 3879"),
    v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast", "RFC 4291"),
];

/// All global unicast IPv6 that IANA gives out (RFC 4291, 2.4 and its address space registry).
const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The narrowest block of the table that holds an address; `None` for one in none of them.
#[must_use]
pub fn special_purpose(address: IpAddr) -> Option<&'static SpecialPurpose> {
    SPECIAL_PURPOSE.iter().find(|special| special.network.contains(&address))
}

/// Whether an address is an ordinary public one. The others are refused unless a setting allows
/// them.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    let unicast = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => GLOBAL_UNICAST.contains(&address) && !is_isatap(address),
    };
    unicast && special_purpose(address).is_none()
}

/// An ISATAP interface identifier, `[02|00]00:5efe:a.b.c.d` under any prefix (RFC 5214, 6.1): it
/// carries an IPv4 address. The universal and group bits may be set or not.
fn is_isatap(address: Ipv6Addr) -> bool {
    const UNIVERSAL_AND_GROUP_BITS: u16 = 0x0300;
    let [_, _, _, _, high, low, _, _] = address.segments();
    high & !UNIVERSAL_AND_GROUP_BITS == 0 && low == 0x5efe
}

/// Checks all addresses of one host. There must be at least one. Each must be in a network of `allow`, or public and
/// none of `own`, the addresses of this machine. One forbidden address refuses the host: an attacker mixes good and
/// forbidden addresses so that the second try goes inside.
///
/// An IPv4 network in `allow` also allows its addresses in IPv4-mapped form.
///
/// # Errors
///
/// [`FetchError::NameNotFound`] without addresses, [`FetchError::AddressNotPublic`] otherwise.
pub fn judge(addresses: &[SocketAddr], own: &[IpAddr], allow: &[IpNet]) -> Result<(), FetchError> {
    if addresses.is_empty() {
        return Err(FetchError::NameNotFound);
    }
    let is_strange = |address: IpAddr| is_public(address) && !own.contains(&address);
    let fine = |address: IpAddr| {
        // What is in a network of a translator is reached as the address inside, so that one is judged.
        let translated = translated(address).filter(|_| !is_allowed_within(address, allow));
        is_strange(address)
            || is_allowed(address, allow)
                && translated.is_none_or(|v4| is_strange(v4) || is_allowed(v4, allow))
    };
    if addresses.iter().all(|address| fine(address.ip())) {
        Ok(())
    } else {
        Err(FetchError::AddressNotPublic)
    }
}

/// The addresses of this machine's network interfaces, as they are now.
///
/// # Errors
///
/// [`FetchError::AddressNotPublic`] when the system does not tell them: then no address is judged.
pub fn own_addresses() -> Result<Vec<IpAddr>, FetchError> {
    let interfaces = nix::ifaddrs::getifaddrs().map_err(|error| {
        tracing::error!(%error, "the addresses of this machine cannot be read; nothing is fetched");
        FetchError::AddressNotPublic
    })?;
    Ok(interfaces.filter_map(|interface| ip(&interface.address?)).collect())
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// The IPv4 address that a NAT64 translator makes of an address with its well-known prefix (RFC 6052).
fn translated(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = address else { return None };
    let octets = v6.octets();
    let inner: [u8; 4] = octets.strip_prefix(&NAT64_PREFIX)?.try_into().ok()?;
    Some(IpAddr::from(inner))
}

/// Whether a network that is a part of the translator's has the address: then the operator means the address inside.
fn is_allowed_within(address: IpAddr, allow: &[IpNet]) -> bool {
    let is_part = |network: &&IpNet| usize::from(network.prefix_len()) > 8 * NAT64_PREFIX.len();
    allow.iter().filter(is_part).any(|network| network.contains(&address))
}

fn is_allowed(address: IpAddr, allow: &[IpNet]) -> bool {
    let unmapped = address.to_canonical();
    allow.iter().any(|network| network.contains(&address) || network.contains(&unmapped))
}

#[cfg(test)]
mod tests;
