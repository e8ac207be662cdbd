//! The operating system's user that PostgreSQL runs as. PostgreSQL refuses to run as root.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::ClusterError;

/// The unprivileged user that PostgreSQL runs as when this program runs as root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostgresUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// For messages, such as "the user postgres".
    pub(super) name: String,
}

impl PostgresUser {
    /// Whether this user may enter a folder or execute a file. Only the user's first group counts,
    /// because PostgreSQL starts without the others.
    pub(super) fn may_enter(&self, metadata: &Metadata) -> bool {
        self.may_enter_with(metadata.uid(), metadata.gid(), metadata.mode())
    }

    fn may_enter_with(&self, uid: u32, gid: u32, mode: u32) -> bool {
        let bit = if uid == self.uid {
            0o100
        } else if gid == self.gid {
            0o010
        } else {
            0o001
        };
        mode & bit != 0
    }
}

/// Whether this program runs as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user for the cluster in `pgdata`: its owner if it exists, else [`default_user`]. `None`
/// means this program's own user, which is not root.
pub(super) fn postgres_user(pgdata: &Path) -> Result<Option<PostgresUser>, ClusterError> {
    if !is_root() {
        return Ok(None);
    }
    if let Ok(metadata) = fs::metadata(pgdata)
        && metadata.uid() != 0
    {
        let name = format!("the user with the id {}", metadata.uid());
        return Ok(Some(PostgresUser { uid: metadata.uid(), gid: metadata.gid(), name }));
    }
    default_user().map(Some).ok_or(ClusterError::NoUser)
}

/// The user of a new cluster under root: `postgres`, else `nobody`, if the machine has one of them.
pub(super) fn default_user() -> Option<PostgresUser> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].iter().find_map(|name| user_in(&passwd, name))
}

/// Finds a user in the text of `/etc/passwd`. Root under another name is not accepted.
fn user_in(passwd: &str, name: &str) -> Option<PostgresUser> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (uid != 0).then(|| PostgresUser { uid, gid, name: format!("the user {name}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32) -> PostgresUser {
        PostgresUser { uid, gid, name: "the user postgres".to_owned() }
    }

    #[test]
    fn one_class_of_permission_bits_decides_as_in_the_kernel() {
        let someone = user(101, 104);
        for (uid, gid, mode, may) in [
            (101, 104, 0o700, true),
            (101, 104, 0o077, false), // the owner's bits decide for the owner, even if others have more
            (0, 104, 0o010, true),
            (0, 104, 0o701, false),
            (0, 0, 0o711, true),
            (0, 0, 0o750, false),
            (0, 0, 0o644, false),
        ] {
            assert_eq!(someone.may_enter_with(uid, gid, mode), may, "{uid} {gid} {mode:o}");
        }
    }

    #[test]
    fn users_are_found_by_their_whole_name_and_never_root() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104:a,,:/var:/bin/bash\nfake:x:0:5::/:\nbad:x\n";
        assert_eq!(user_in(passwd, "postgres"), Some(user(101, 104)));
        assert_eq!(user_in(passwd, "fake"), None);
        assert_eq!(user_in(passwd, "bad"), None);
        assert_eq!(user_in(passwd, "nobody"), None);
    }
}
