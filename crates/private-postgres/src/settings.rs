//! The settings of a private PostgreSQL: durable, one Unix socket, sized by the machine's memory.

use std::fs;
use std::path::Path;

/// Settings of every private PostgreSQL.
pub(super) const SETTINGS: [(&str, &str); 18] = [
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_permissions", "0700"),
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "100"),
    // The space between two checkpoints. After a checkpoint the first change of a page logs it in
    // full.
    ("max_wal_size", "4GB"),
    // Files of the log are used again. A new one stops every session for some 50 ms.
    // (`wal_init_zero = off` has no such stops, and was slower by a tenth.)
    ("min_wal_size", "512MB"),
    ("jit", "off"),
    // Nothing remains in /dev/shm after a kill, and a container may keep that small.
    ("dynamic_shared_memory_type", "mmap"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("log_checkpoints", "off"),
    // The details of an error quote values of rows. They may be personal or secret.
    ("log_error_verbosity", "terse"),
    ("log_min_error_statement", "panic"),
];

/// Settings of a PostgreSQL whose data is thrown away, in place of those above: nothing waits for a disk.
pub(super) const FLEETING: [(&str, &str); 8] = [
    ("shared_buffers", "128MB"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_wal_size", "256MB"),
    ("min_wal_size", "64MB"),
];

/// The value of `shared_buffers`: a quarter of the memory, at least 128 MiB and at most 16 GiB.
/// PostgreSQL uses that memory only as its cache fills.
pub(super) fn shared_buffers() -> String {
    let mib = memory_bytes().min(control_group_bytes()) / 1024 / 1024 / 4;
    format!("{}MB", mib.clamp(128, 16_384))
}

/// The machine's memory; 0 if it is unknown.
fn memory_bytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default().saturating_mul(1024)
}

/// The memory limit of this process's control group: of a container or a systemd unit.
fn control_group_bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let limit = fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("memory.max"));
    // The text is "max" if there is no limit.
    limit.ok().and_then(|limit| limit.trim().parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::SETTINGS;

    #[test]
    fn the_private_postgresql_is_durable() {
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            assert!(SETTINGS.contains(&(name, "on")), "{name}");
        }
    }
}
