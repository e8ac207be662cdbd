//! The addresses of a running server, and what it says of itself. The server leaves its addresses in
//! its data folder, so that commands find it whatever its settings are.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::net::{self, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use guarded_fetch::ServiceClient;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Config;

/// How names of the files in the data folder begin and end. The operator's address is between them, because several
/// servers can have one data folder.
const FILE_START: &str = "server";
const FILE_END: &str = ".json";
/// How long a server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Time for the answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of that answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The address of a server, as this machine reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addresses {
    /// URL of the public listener.
    pub(super) public: String,
    /// URL of the operator's listener.
    pub(super) operator: String,
    /// Whether it is a sandbox server, whose commands reach this machine too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) sandbox: bool,
}

impl Addresses {
    /// Those of these settings.
    pub(super) fn of(config: &Config) -> Self {
        Self { public: config.public.base_url(), operator: config.ops.base_url(), sandbox: false }
    }

    /// Those of a server that runs on this data folder; else those of the settings.
    pub(super) async fn find(folder: &Path, config: &Config) -> Self {
        let of_settings = Self::of(config);
        let mut left = Self::files_in(folder);
        // What answers at the address of a killed server may be the server of another till.
        left.retain(|(path, _)| !is_of_killed(path));
        let mut left: Vec<_> = left.into_iter().map(|(_, left)| left).collect();
        // Where the settings name one of the servers, no other one is meant.
        if left.iter().any(|left| left.operator == of_settings.operator) {
            left.retain(|left| left.operator == of_settings.operator);
        }
        for left in left {
            // On a file system without locks, the file of a killed server is among them.
            if left.is_answering().await {
                return left;
            }
        }
        of_settings
    }

    /// Those that servers have left in their data folder. They may have been killed.
    pub(super) fn left_in(folder: &Path) -> Vec<Self> {
        Self::files_in(folder).into_iter().map(|(_, left)| left).collect()
    }

    /// The files that servers have left in their data folder, by name, with what they say.
    fn files_in(folder: &Path) -> Vec<(PathBuf, Self)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(FILE_START) && name.ends_with(FILE_END))
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_ours).collect();
        paths.sort();
        let read = |path: PathBuf| {
            let left = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            Some((path, left))
        };
        paths.into_iter().filter_map(read).collect()
    }

    /// Removes the files of servers that were killed. A running server has its file locked, also one in another container,
    /// whose process id says nothing here. The system unlocks it when the process ends.
    fn remove_those_of_killed(folder: &Path) {
        for (path, left) in Self::files_in(folder) {
            // A server of version 0.1.0 locks nothing.
            if is_of_killed(&path) && !left.accepts() {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Whether a server accepts connections there.
    fn accepts(&self) -> bool {
        let addresses = self.authority().to_socket_addrs().into_iter().flatten();
        addresses.take(2).any(|address| net::TcpStream::connect_timeout(&address, CONNECT_WITHIN).is_ok())
    }

    fn authority(&self) -> &str {
        self.operator.split("://").nth(1).unwrap_or_default()
    }

    async fn is_answering(&self) -> bool {
        matches!(timeout(CONNECT_WITHIN, TcpStream::connect(self.authority())).await, Ok(Ok(_)))
    }

    /// Leaves them in the data folder until the result is dropped, and removes those of killed servers. Without the file,
    /// commands use the settings.
    pub(super) fn leave_in(&self, folder: &Path) -> LeftAddresses {
        Self::remove_those_of_killed(folder);
        let address = self.authority().replace(['[', ']', ':'], "-");
        let path = folder.join(format!("{FILE_START}-{address}{FILE_END}"));
        let json = serde_json::to_vec(self).unwrap_or_default();
        let written = fs::create_dir_all(folder).and_then(|()| write_locked(&path, &json));
        if let Err(error) = &written {
            tracing::warn!(%error, path = %path.display(), "the addresses of the server could not be written");
            let _ = fs::remove_file(path.with_extension("new"));
        }
        LeftAddresses { path, json, locked: written.ok() }
    }
}

/// Writes a file and locks it for as long as the result lives.
fn write_locked(path: &Path, bytes: &[u8]) -> io::Result<File> {
    // It gets its name when it is locked. Otherwise another start could take it for that of a killed server.
    let unnamed = path.with_extension("new");
    let mut file = File::create(&unnamed)?;
    file.write_all(bytes)?;
    // A file system without locks keeps files of killed servers.
    let _ = file.try_lock();
    fs::rename(&unnamed, path)?;
    Ok(file)
}

/// Whether this is the file of a server that was killed. A file system without locks does not tell.
fn is_of_killed(path: &Path) -> bool {
    // Another start may have put its own file there meanwhile.
    File::open(path).is_ok_and(|file| file.try_lock().is_ok() && is_at(&file, path))
}

/// Whether this file has this path now.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |data: io::Result<Metadata>| data.ok().map(|data| data.ino());
    number(file.metadata()).is_some_and(|number_of_file| number(fs::metadata(path)) == Some(number_of_file))
}

/// The file of a running server.
pub(super) struct LeftAddresses {
    path: PathBuf,
    json: Vec<u8>,
    locked: Option<File>,
}

impl Drop for LeftAddresses {
    fn drop(&mut self) {
        // A server that has begun since may have the same address. It has put its own file there.
        let is_own = self.locked.as_ref().is_some_and(|file| is_at(file, &self.path));
        if is_own && fs::read(&self.path).is_ok_and(|left| left == self.json) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What the operator's listener answers at `url`, with its JSON (null if it is none). The certificate is
/// not verified: it names the server as others call it, and neither question nor answer is a secret.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn ask(url: &str) -> Result<Response<Value>, &'static str> {
    let asking = async {
        let nothing = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(url).body(nothing).ok()?;
        let (head, body) = ServiceClient::unverified().stream(request).await.ok()?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some(Response::from_parts(head, serde_json::from_slice(&body).unwrap_or_default()))
    };
    timeout(ANSWER_TIMEOUT, Box::pin(asking)).await.map_err(|_| "no answer")?.ok_or("not running")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(port: u16) -> Addresses {
        let url = format!("http://127.0.0.1:{port}");
        Addresses { public: url.clone(), operator: url, sandbox: false }
    }

    /// Contract 8.4.3: a server that stops takes no other server's file.
    #[test]
    fn each_server_has_its_file_in_a_shared_folder() {
        let folder = std::env::temp_dir().join(format!("minitill-left-{}", std::process::id()));
        let (one, other) = (addresses(8081), addresses(8083));
        let of_one = one.leave_in(&folder);
        let of_other = other.leave_in(&folder);
        assert_eq!(Addresses::left_in(&folder), [one.clone(), other.clone()]);
        drop(of_other);
        assert_eq!(Addresses::left_in(&folder), std::slice::from_ref(&one));
        let of_next = one.leave_in(&folder);
        drop(of_one);
        assert_eq!(Addresses::left_in(&folder), [one], "a server that has begun since has the same address");
        fs::write(&of_next.path, serde_json::to_vec(&other).unwrap()).unwrap();
        drop(of_next);
        assert_eq!(Addresses::left_in(&folder), [other], "another server has written it anew");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Contract 8.4.3: a start removes the file of a killed server, and none of a running one.
    #[test]
    fn a_start_removes_the_files_of_killed_servers() {
        let folder = std::env::temp_dir().join(format!("minitill-killed-{}", std::process::id()));
        let [running, killed, next] = [8081, 9, 8085].map(addresses);
        let of_running = running.leave_in(&folder);
        // The end of a process unlocks its file, and does nothing else.
        let of_killed = folder.join("server-127.0.0.1-9.json");
        fs::write(of_killed, serde_json::to_vec(&killed).unwrap()).unwrap();
        fs::write(folder.join("server-notes.json"), "{}").unwrap();
        assert_eq!(Addresses::left_in(&folder), [running.clone(), killed]);
        let of_next = next.leave_in(&folder);
        assert_eq!(Addresses::left_in(&folder), [running, next]);
        assert!(folder.join("server-notes.json").exists(), "it is no server's");
        drop((of_running, of_next));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Contract 8.4.3: what answers at the address of a killed server may be the server of another till.
    #[tokio::test]
    async fn a_stranger_at_the_address_of_a_killed_server_is_not_found() {
        let folder = std::env::temp_dir().join(format!("minitill-stranger-{}", std::process::id()));
        let config = Config::load(None, std::iter::empty()).unwrap();
        let stranger = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = addresses(stranger.local_addr().unwrap().port());
        let left = there.leave_in(&folder);
        assert_eq!(Addresses::find(&folder, &config).await, there, "its server runs");
        let path = left.path.clone();
        drop(left);
        fs::write(path, serde_json::to_vec(&there).unwrap()).unwrap();
        assert_eq!(Addresses::find(&folder, &config).await, Addresses::of(&config), "nobody holds its file");
        fs::remove_dir_all(&folder).unwrap();
    }
}
