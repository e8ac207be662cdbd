//! The places of a listener: how many connections each address has, and which ones have been idle
//! longest.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task;

use crate::limits::ServerLimits;
use crate::progress::SharedProgress;

/// The part of an IPv6 address that names a network. One client may use every address of it.
const IPV6_NETWORK_BITS: u32 = 64;

/// The open connections of a listener. Only the accept loop uses it, so it needs no lock.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots {
    connections: HashMap<task::Id, ConnectionSlot>,
    by_address: AddressCounts,
}

/// One open connection.
#[derive(Debug)]
struct ConnectionSlot {
    admission: Admission,
    progress: SharedProgress,
    close: Arc<Notify>,
}

/// The right of an address to one connection.
#[derive(Debug)]
pub(super) struct Admission {
    /// `None` where no limit for each address holds.
    address: Option<IpAddr>,
}

impl ConnectionSlots {
    /// Counts a connection of `peer`; `None` when its address has as many as it may have.
    pub(super) fn admit(&mut self, peer: IpAddr, limits: &ServerLimits) -> Option<Admission> {
        let peer = peer.to_canonical();
        if limits.unlimited_networks.iter().any(|network| network.contains(&peer)) {
            return Some(Admission { address: None });
        }
        let address = self.by_address.take(peer, limits.connections_per_address_max)?;
        Some(Admission { address: Some(address) })
    }

    /// The admitted connection runs as this task, which ends it in good order after `close`.
    pub(super) fn open(
        &mut self,
        task: task::Id,
        admission: Admission,
        progress: SharedProgress,
        close: Arc<Notify>,
    ) {
        self.connections.insert(task, ConnectionSlot { admission, progress, close });
    }

    /// The task of a connection has ended.
    pub(super) fn ended(&mut self, task: task::Id) {
        let Some(place) = self.connections.remove(&task) else { return };
        if let Some(address) = place.admission.address {
            self.by_address.give_back(address);
        }
    }

    /// Closes connections without a request under way until at most `crowded_at` remain, those that
    /// have been idle longest first. Returns their number.
    pub(super) fn make_room(&self, crowded_at: usize) -> usize {
        let (mut closing, mut idle) = (0, Vec::new());
        for place in self.connections.values() {
            let progress = place.progress.lock();
            if progress.is_draining() {
                closing += 1;
            } else if let Some(since) = progress.idle_since() {
                idle.push((since, &place.close));
            }
        }
        let wanted = self.connections.len().saturating_sub(closing).saturating_sub(crowded_at);
        idle.sort_unstable_by_key(|(since, _)| *since);
        idle.truncate(wanted);
        for (_, close) in &idle {
            close.notify_one();
        }
        idle.len()
    }
}

/// How much each client has at once, by its address as [`counted_as`] gives it. It has no entry for a
/// client that has nothing.
#[derive(Debug, Default)]
pub struct AddressCounts(HashMap<IpAddr, usize>);

impl AddressCounts {
    /// Counts one more for the client, and returns the address for [`give_back`](Self::give_back); `None`
    /// when the client has `max` already.
    pub fn take(&mut self, client: IpAddr, max: usize) -> Option<IpAddr> {
        let address = counted_as(client);
        let count = self.0.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(address)
    }

    /// Counts one less for the address that [`take`](Self::take) returned.
    pub fn give_back(&mut self, address: IpAddr) {
        if let Some(count) = self.0.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&address);
            }
        }
    }
}

/// The address under which a client is counted: itself for IPv4, its network of 64 bits for IPv6.
#[must_use]
pub fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let kept = address.to_bits() >> IPV6_NETWORK_BITS << IPV6_NETWORK_BITS;
            Ipv6Addr::from_bits(kept).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: IPv4 counts by address, IPv6 by its /64, and IPv4 inside IPv6 as IPv4.
    #[test]
    fn a_client_is_counted_by_its_address_or_its_network() {
        for (address, counted) in [
            ("203.0.113.5", "203.0.113.5"),
            ("::ffff:203.0.113.5", "203.0.113.5"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            let (address, counted): (IpAddr, IpAddr) = (address.parse().unwrap(), counted.parse().unwrap());
            assert_eq!(counted_as(address), counted, "{address}");
        }
    }
}
