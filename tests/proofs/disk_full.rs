//! The disk under the database is full.
//!
//! Contract 2.2.1, 3.3.1 and 9.5.3: the answer is 503, nothing acknowledged that is not durable,
//! and the service comes back by itself.
//!
//! The private PostgreSQL of a server lives on a small file system in memory. A file fills that up to its last block
//! while callers exchange. Then tables cannot grow. After a change of the log's segment PostgreSQL cannot even write
//! its log and gives up. The server starts it again and again. The file is removed, and the same server process must
//! exchange again. Every number is asked for until it is known what became of it, and the journal is held against the
//! books. Needs root, to mount the file system; it says so and is skipped otherwise.
//!
//! Seen to fail when a write that the database could not make was answered as done. Seen to fail also when the
//! supervisor gave up after its first start that failed.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection as _, Executor as _};
use tokio::time::{sleep, timeout};

use crate::calls::try_send;
use crate::private::{socket_dir, text};
use crate::service::Request;
use crate::service::program::Program;
use crate::support::caller::{Asked, Servers};
use crate::support::figures::Figures;
use crate::support::full_or_short;
use crate::support::load::{Kind, Load};
use crate::support::postgres;
use crate::support::stage::{Stage, Wallets, with_defaults};

/// A new cluster and its log take some 60 MB; the rest is what an hour of exchanges would use.
const DISK_BYTES: &str = "192m";
/// Contract 9.5.3; what is beyond is the machine's, not the server's.
const UNAVAILABLE_WITHIN: Duration = Duration::from_secs(3);
const MARGIN: Duration = Duration::from_secs(2);
/// PostgreSQL recovers first, and the supervisor pauses for up to 2 s between two starts.
const RECOVER_WITHIN: Duration = Duration::from_secs(30);

/// A file system of our own; it ends with the proof.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts it; why not, where that is not permitted.
    fn mount() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("minitill-proof-disk-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let options = format!("size={DISK_BYTES},mode=0755");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "minitill-proof"]).arg(&folder).stdin(Stdio::null());
        match mount.output() {
            Ok(done) if done.status.success() => Ok(Self { folder }),
            refused => {
                let _ = fs::remove_dir(&folder);
                Err(refused.map_or_else(
                    |error| error.to_string(),
                    |refused| String::from_utf8_lossy(&refused.stderr).trim().to_owned(),
                ))
            }
        }
    }

    /// Takes all the room that is left; gives how much.
    fn fill(&self) -> u64 {
        let mut ballast = File::create(self.ballast()).unwrap();
        let mut taken = 0;
        // Smaller and smaller pieces, until not a single block is left.
        for piece in [1024 * 1024, 4096] {
            let zeros = vec![0; piece];
            while ballast.write_all(&zeros).is_ok() {
                taken += piece as u64;
            }
        }
        taken
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whatever still runs on it when a proof panics ends a moment later.
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).output();
        let _ = fs::remove_dir(&self.folder);
    }
}

pub(crate) async fn prove() -> Figures {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(why) => {
            let mut figures = Figures::default();
            figures.note(format!("SKIPPED: needs root to mount a tmpfs ({why})"));
            return figures;
        }
    };
    fs::set_permissions(&disk.folder, Permissions::from_mode(0o755)).unwrap();
    let data_dir = disk.folder.join("data");
    let program = with_defaults(Program::on("")).with("MINITILL_DATABASE__DATA_DIR", text(&data_dir));
    let stage = Stage::on(program, Wallets { count: 50, free: 1_000_000, charge: 1_000_000 });
    let server = stage.program.serve(Some(stage.journal.folder().join("server.log"))).await;
    let mut figures = Figures::default();
    for round in 0..full_or_short(6, 2) {
        let loses_its_log = round % 2 == 1;
        let servers = Servers::new(&[server.address]);
        let prefix = ["a", "b", "c", "d", "e", "f"][round];
        let load = Load::start(&stage, &servers, Kind { prefix, callers: 16, wallets: 50 });
        sleep(Duration::from_secs(2)).await;
        let told_before = stage.meter.unavailable();
        let taken = disk.fill();
        if loses_its_log {
            lose_the_log(&data_dir).await;
        }
        let full = Instant::now();
        while full.elapsed() < full_or_short(Duration::from_secs(20), Duration::from_secs(6)) {
            is_alive(server.operator_address, &mut figures).await;
            sleep(Duration::from_millis(200)).await;
        }
        let told = stage.meter.unavailable() - told_before;
        figures.expect(told > 0, || format!("round {round}: nobody noticed that {taken} bytes are gone"));
        disk.make_room();
        let asked = Asked::exchange(format!("probe{round}"), "o0", 1, 0);
        let room = Instant::now();
        let answered = stage.caller().settle(&servers, &asked, RECOVER_WITHIN).await;
        figures.expect(answered.is_some_and(|reply| reply.is_success()), || {
            format!("round {round}: no exchange {RECOVER_WITHIN:?} after there is room again")
        });
        figures.recovered_in(room.elapsed());
        load.stop().await;
        let kind = if loses_its_log { "the log cannot be written" } else { "tables cannot grow" };
        figures
            .note(format!("{kind}: {told} answers of 503, back after {:.2} s", room.elapsed().as_secs_f64()));
    }
    let slowest = stage.meter.slowest();
    figures.expect(slowest < UNAVAILABLE_WITHIN + MARGIN, || format!("an answer took {slowest:?}"));
    figures.note(format!("slowest answer {:.2} s", slowest.as_secs_f64()));
    figures.add(stage.close_books(&socket_dir(&data_dir)).await);
    drop(server);
    figures
}

/// The process lives all the while, whatever its database does.
async fn is_alive(operator_address: SocketAddr, figures: &mut Figures) {
    let asking = timeout(UNAVAILABLE_WITHIN, try_send(operator_address, &Request::get("/healthz"))).await;
    let answer = asking.ok().flatten();
    figures
        .expect(answer.as_ref().is_some_and(|answer| answer.status == 200), || format!("health: {answer:?}"));
}

/// Makes PostgreSQL begin new segments of its log until it cannot.
async fn lose_the_log(data_dir: &Path) {
    for _ in 0..20 {
        let Ok(mut session) = postgres::connect(&socket_dir(data_dir)).await else { return };
        let switched = session.execute("SELECT pg_switch_wal(); CHECKPOINT").await;
        let _ = session.close().await;
        if switched.is_err() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
