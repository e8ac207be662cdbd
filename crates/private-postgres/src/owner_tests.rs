use std::os::unix::net::UnixListener;
use std::thread;

use super::*;
use crate::pid_file::PID_FILE;
use crate::test_folder::TestFolder;

/// For a turn that comes: a test that hangs ends.
const LONG: Patience = Patience { turn: Duration::from_mins(1), accepting: Duration::from_millis(200) };
/// For a turn that never comes.
const SHORT: Patience = Patience { turn: Duration::from_millis(400), ..LONG };

fn data_folder(name: &str) -> TestFolder {
    let folder = TestFolder::new(&format!("owner-{name}"));
    fs::create_dir(folder.path().join(PGDATA)).unwrap();
    folder
}

/// Writes `postmaster.pid` as PostgreSQL does, with the socket in the data folder.
fn write_pid_file(folder: &Path, pid: u32, status: &str) {
    let lines = format!("{pid}\n/pgdata\n1\n5432\n{}\n\n  1 2\n{status}\n", folder.display());
    fs::write(folder.join(PGDATA).join(PID_FILE), lines).unwrap();
}

fn owned(turn: Turn) -> Ownership {
    match turn {
        Turn::Owned(ownership) => ownership,
        Turn::Attached { .. } => panic!("nobody else is there"),
    }
}

#[test]
fn records_survive_being_written() {
    for role in [ProcessRole::Server, ProcessRole::Command] {
        for postmaster in [None, Some(4712)] {
            let record = OwnerRecord { role, pid: 4711, postmaster };
            assert_eq!(OwnerRecord::parse(&record.to_line()), Some(record));
        }
    }
    for rubbish in ["", "server", "server x", "king 12", "server 12 x"] {
        assert_eq!(OwnerRecord::parse(rubbish), None, "{rubbish}");
    }
}

#[test]
fn a_second_server_is_refused_with_the_process_id_of_the_first() {
    let folder = data_folder("two-servers");
    let first = owned(take_turn(folder.path(), ProcessRole::Server, LONG).unwrap());
    let error = take_turn(folder.path(), ProcessRole::Server, LONG).unwrap_err();
    assert!(matches!(error, ClusterError::ServerRuns { pid, .. } if pid == std::process::id()), "{error}");
    drop(first);
    assert!(!folder.path().join(OWNER).exists());
    owned(take_turn(folder.path(), ProcessRole::Server, LONG).unwrap());
}

#[test]
fn a_program_waits_for_a_command_and_its_error_names_that() {
    for role in [ProcessRole::Server, ProcessRole::Command] {
        let folder = data_folder(&format!("wait-{role:?}"));
        let command = owned(take_turn(folder.path(), ProcessRole::Command, LONG).unwrap());
        let error = take_turn(folder.path(), role, SHORT).unwrap_err().to_string();
        assert!(error.contains(&format!("command (process {})", std::process::id())), "{error}");

        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| take_turn(folder.path(), role, LONG));
            sleep(Duration::from_millis(100));
            drop(command);
            waiting.join().unwrap()
        });
        owned(waiting.unwrap());
    }
}

#[test]
fn a_command_attaches_only_when_the_postgresql_of_this_server_accepts() {
    let folder = data_folder("attach");
    let server = owned(take_turn(folder.path(), ProcessRole::Server, LONG).unwrap());
    let attach = || take_turn(folder.path(), ProcessRole::Command, LONG);
    let refused = |why: &str| {
        let error = attach().unwrap_err();
        assert!(matches!(error, ClusterError::NotAccepting { .. }), "{why}: {error}");
    };
    let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();

    write_pid_file(folder.path(), 4712, "ready");
    refused("the server has not started one: this is the PostgreSQL of a former run");
    server.publish(Some(4713)).unwrap();
    refused("the server has started another one");
    server.publish(Some(4712)).unwrap();
    write_pid_file(folder.path(), 4712, "starting");
    refused("it recovers");
    write_pid_file(folder.path(), 4712, "ready");
    let expected = (folder.path().to_owned(), std::process::id());
    assert!(
        matches!(attach().unwrap(), Turn::Attached { socket_dir, server } if (&socket_dir, server) == (&expected.0, expected.1))
    );
    drop(listener);
    refused("it died");
}

#[test]
fn a_lock_is_waited_for_if_its_record_names_a_dead_process() {
    let folder = data_folder("stale");
    let mut gone = std::process::Command::new("/bin/sh").args(["-c", "exit 0"]).spawn().unwrap();
    gone.wait().unwrap();
    let lock = File::create(folder.path().join(LOCK)).unwrap();
    lock.lock().unwrap();
    // A server was killed. The next owner has the lock but has not written its record yet.
    let line = OwnerRecord { role: ProcessRole::Server, pid: gone.id(), postmaster: None }.to_line();
    fs::write(folder.path().join(OWNER), line).unwrap();
    let error = take_turn(folder.path(), ProcessRole::Server, SHORT).unwrap_err();
    assert!(matches!(error, ClusterError::Busy { .. }), "{error}");
    drop(lock);
    owned(take_turn(folder.path(), ProcessRole::Server, LONG).unwrap());
}
