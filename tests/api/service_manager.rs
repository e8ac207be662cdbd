//! Notices to a service manager over its socket (contract 9.7.7). Here the test is the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::program::Program;
use crate::support::{PATIENCE, fresh_database};

struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn listen(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-{name}-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        Self { path, socket }
    }

    /// A program that knows this manager.
    fn program(&self, url: &str) -> Program {
        Program::on(url).with("NOTIFY_SOCKET", self.path.to_str().unwrap())
    }

    /// The next message, if one comes within that time.
    fn told(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).unwrap();
        let mut bytes = [0; 256];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..length].to_vec()).unwrap().trim_end().to_owned())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Rule 9.7.7: `READY=1` comes when the server can serve, then a sign of life as often as is asked for, also while
/// requests are finished. A server that stands still gives none.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_is_told_of_start_life_and_stop() {
    let manager = Manager::listen("told");
    let program = manager.program(&fresh_database().await.url).with("WATCHDOG_USEC", "600000");
    let server = program.serve(None).await;
    let (mut ready, mut alive) = (0, 0);
    while ready < 1 || alive < 3 {
        match manager.told(PATIENCE).expect("a message").as_str() {
            "READY=1" => ready += 1,
            "WATCHDOG=1" => alive += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(ready, 1);
    let pid = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    while manager.told(Duration::from_millis(100)).is_some() {}
    assert_eq!(manager.told(Duration::from_secs(1)), None, "a process that stands still");
    kill_process(pid, Signal::CONT).unwrap();
    server.terminate();
    let rest: Vec<String> = std::iter::from_fn(|| manager.told(Duration::from_millis(100))).collect();
    let rest: Vec<&str> =
        rest.iter().map(String::as_str).filter(|message| *message != "WATCHDOG=1").collect();
    assert_eq!(rest, ["STOPPING=1"]);
}

/// Rule 9.7.7: while its database is away, a starting server is not ready. Without `WATCHDOG_USEC` there are no signs
/// of life.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_database_is_not_ready() {
    let manager = Manager::listen("away");
    let program = manager.program("postgres://nobody@127.0.0.1:1/none");
    let listening =
        program.with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0").with("MINITILL_OPS__LISTEN", "127.0.0.1:0");
    let mut server = listening.command(&["serve"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let told = manager.told(Duration::from_secs(2));
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(told, None);
    let program = manager.program(&fresh_database().await.url);
    let server = program.serve(None).await;
    assert_eq!(manager.told(PATIENCE).as_deref(), Some("READY=1"));
    assert_eq!(manager.told(Duration::from_secs(1)), None);
    server.terminate();
    assert_eq!(manager.told(PATIENCE).as_deref(), Some("STOPPING=1"));
}
