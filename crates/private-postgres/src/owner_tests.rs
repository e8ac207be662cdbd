use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

const SHORT: Patience = Patience { turn: Duration::from_millis(700), accepting: Duration::from_millis(200) };

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("minitill-owner-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join(PGDATA)).unwrap();
        Self(folder)
    }

    /// As PostgreSQL writes it.
    fn pid_file(&self, pid: u32, status: &str) {
        let socket_dir = self.0.display();
        let lines = format!("{pid}\n/pgdata\n1\n5432\n{socket_dir}\n\n  1 2\n{status}\n");
        fs::write(self.0.join(PGDATA).join("postmaster.pid"), lines).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn owned(turn: Turn) -> Ownership {
    match turn {
        Turn::Owned(ownership) => ownership,
        Turn::Attached(_) => panic!("nobody else is there"),
    }
}

#[test]
fn records_survive_being_written() {
    for role in [Role::Server, Role::Command] {
        for postmaster in [None, Some(4712)] {
            let record = Record { role, pid: 4711, postmaster };
            assert_eq!(Record::parse(&record.to_line()), Some(record));
        }
    }
    for rubbish in ["", "server", "server x", "king 12", "server 12 x"] {
        assert_eq!(Record::parse(rubbish), None, "{rubbish}");
    }
}

#[test]
fn a_second_server_is_told_who_the_first_is() {
    let folder = Scratch::new("two-servers");
    let first = owned(take_turn(&folder.0, Role::Server, SHORT).unwrap());
    let error = take_turn(&folder.0, Role::Server, SHORT).unwrap_err();
    assert!(matches!(error, Error::ServerRuns { pid, .. } if pid == std::process::id()), "{error}");
    drop(first);
    assert!(!folder.0.join(OWNER).exists());
    owned(take_turn(&folder.0, Role::Server, SHORT).unwrap());
}

#[test]
fn whoever_comes_waits_for_a_command_and_is_told_whom_it_waited_for() {
    for role in [Role::Server, Role::Command] {
        let folder = Scratch::new(&format!("wait-{role:?}"));
        let command = owned(take_turn(&folder.0, Role::Command, SHORT).unwrap());
        let error = take_turn(&folder.0, role, SHORT).unwrap_err().to_string();
        assert!(error.contains(&format!("command (process {})", std::process::id())), "{error}");

        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| take_turn(&folder.0, role, SHORT));
            sleep(Duration::from_millis(100));
            drop(command);
            waiting.join().unwrap()
        });
        owned(waiting.unwrap());
    }
}

#[test]
fn a_command_attaches_only_when_the_postgresql_of_this_server_accepts() {
    let folder = Scratch::new("attach");
    let server = owned(take_turn(&folder.0, Role::Server, SHORT).unwrap());
    let attach = || take_turn(&folder.0, Role::Command, SHORT);
    let refused = |why: &str| {
        let error = attach().unwrap_err();
        assert!(matches!(error, Error::NotAccepting { .. }), "{why}: {error}");
    };
    let listener = UnixListener::bind(folder.0.join(".s.PGSQL.5432")).unwrap();

    folder.pid_file(4712, "ready");
    refused("the server has not started one: this is the PostgreSQL of a former run");
    server.tell(Some(4713)).unwrap();
    refused("the server has started another one");
    server.tell(Some(4712)).unwrap();
    folder.pid_file(4712, "starting");
    refused("it recovers");
    folder.pid_file(4712, "ready");
    assert!(matches!(attach().unwrap(), Turn::Attached(socket_dir) if socket_dir == folder.0));
    drop(listener);
    refused("it died");
}

#[test]
fn a_lock_without_a_living_owner_of_record_is_waited_for() {
    let folder = Scratch::new("stale");
    let mut gone = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
    gone.wait().unwrap();
    let lock = File::create(folder.0.join(LOCK)).unwrap();
    lock.lock().unwrap();
    // A server was killed; the next owner has the lock and has not yet said so.
    let line = Record { role: Role::Server, pid: gone.id(), postmaster: None }.to_line();
    fs::write(folder.0.join(OWNER), line).unwrap();
    let error = take_turn(&folder.0, Role::Server, SHORT).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    drop(lock);
    owned(take_turn(&folder.0, Role::Server, SHORT).unwrap());
}
