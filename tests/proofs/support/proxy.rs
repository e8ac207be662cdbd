//! Stands between a server and its database, on loopback, and does to their sessions what networks do.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::unix;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::protocol::{Commit, Conversation, Loss, Step};
use crate::service::cluster::USER;

/// What happens to all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Sessions are reset, also new ones at once.
    Reset,
    /// Nothing passes in either direction. Nobody is told; what was on its way arrives when it is over.
    BlackHole,
    /// Everything from the database arrives so much later.
    Delay(Duration),
    /// The server is told that nothing more will come, while what it sends still arrives.
    HalfClose,
    /// One byte at a time, in both directions.
    ByteWise,
}

/// A proxy; it ends with this value.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

/// Replies that were lost so far, by what had committed them.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) statements: AtomicUsize,
    pub(crate) transactions: AtomicUsize,
    /// Those whose commit never arrived.
    pub(crate) uncommitted: AtomicUsize,
}

#[derive(Debug)]
struct State {
    socket: PathBuf,
    fault: watch::Sender<Fault>,
    planned: Mutex<VecDeque<Loss>>,
    losses: Losses,
}

impl Proxy {
    /// Listens, and leads to the PostgreSQL whose socket is in this folder.
    pub(crate) async fn start(socket_dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            socket: socket_dir.join(".s.PGSQL.5432"),
            fault: watch::Sender::new(Fault::None),
            planned: Mutex::default(),
            losses: Losses::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { address, state, accepting }
    }

    /// As `DATABASE_URL` takes it.
    pub(crate) fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres?sslmode=disable", self.address)
    }

    /// From now on this happens.
    pub(crate) fn set(&self, fault: Fault) {
        self.state.fault.send_replace(fault);
    }

    /// The next write that commits loses its reply so; further ones wait for their turn.
    pub(crate) fn plan(&self, loss: Loss) {
        self.state.planned.lock().unwrap().push_back(loss);
    }

    /// Losses that were planned and did not happen yet.
    pub(crate) fn planned(&self) -> usize {
        self.state.planned.lock().unwrap().len()
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.state.losses
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    /// The next loss if it is one of these.
    fn take_planned(&self, is_wanted: impl Fn(Loss) -> bool) -> Option<Loss> {
        let mut planned = self.planned.lock().unwrap();
        planned.pop_front_if(|loss| is_wanted(*loss))
    }

    fn withholds_commit(&self) -> bool {
        let withholds = self.take_planned(|loss| loss == Loss::Commit).is_some();
        self.losses.uncommitted.fetch_add(usize::from(withholds), Ordering::SeqCst);
        withholds
    }

    fn loses(&self, commit: Commit) -> Option<Loss> {
        // Of a transaction block only the whole reply is lost.
        let loss = self.take_planned(|loss| loss != Loss::Commit)?;
        let count = match commit {
            Commit::Statement => &self.losses.statements,
            Commit::Transaction => &self.losses.transactions,
        };
        count.fetch_add(1, Ordering::SeqCst);
        Some(loss)
    }

    /// Waits while nothing passes.
    async fn passable(&self) -> Fault {
        let mut fault = self.fault.subscribe();
        *fault.wait_for(|fault| *fault != Fault::BlackHole).await.expect("the state holds the sender")
    }

    async fn becomes(&self, wanted: Fault) {
        let mut fault = self.fault.subscribe();
        fault.wait_for(|fault| *fault == wanted).await.expect("the state holds the sender");
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // Aborted with this task.
    let mut sessions = tokio::task::JoinSet::new();
    loop {
        let (server, _) = listener.accept().await.unwrap();
        sessions.spawn(session(server, Arc::clone(&state)));
        while sessions.try_join_next().is_some() {}
    }
}

async fn session(server: TcpStream, state: Arc<State>) {
    server.set_nodelay(true).unwrap();
    state.passable().await;
    let Ok(database) = UnixStream::connect(&state.socket).await else {
        // What a host does where nobody listens.
        server.set_zero_linger().unwrap();
        return;
    };
    let (from_server, to_server) = server.into_split();
    let (from_database, to_database) = database.into_split();
    let conversation = Arc::new(Mutex::new(Conversation::new()));
    let (steps, stepped) = mpsc::unbounded_channel();
    tokio::select! {
        () = forth(from_server, to_database, &state, &conversation) => {}
        () = back(from_database, steps, &state, &conversation) => {}
        () = deliver(stepped, to_server, &state) => {}
    }
}

/// From the server to the database, until the server closes.
async fn forth(
    mut from: OwnedReadHalf,
    mut to: unix::OwnedWriteHalf,
    state: &State,
    conversation: &Mutex<Conversation>,
) {
    let mut received = BytesMut::new();
    while let Ok(1..) = from.read_buf(&mut received).await {
        let fault = state.passable().await;
        let passed = conversation.lock().unwrap().forth(&mut received, || state.withholds_commit());
        if write(&mut to, &passed, fault).await.is_err() {
            break;
        }
    }
}

/// Takes in what the database says. Ends never: `deliver` does when it has delivered the end.
async fn back(
    mut from: unix::OwnedReadHalf,
    steps: mpsc::UnboundedSender<(Instant, Step)>,
    state: &State,
    conversation: &Mutex<Conversation>,
) {
    let mut received = BytesMut::new();
    while let Ok(1..) = from.read_buf(&mut received).await {
        let taken = conversation.lock().unwrap().back(&mut received, |commit| state.loses(commit));
        let delay = match *state.fault.borrow() {
            Fault::Delay(delay) => delay,
            Fault::None | Fault::Reset | Fault::BlackHole | Fault::HalfClose | Fault::ByteWise => {
                Duration::ZERO
            }
        };
        let at = Instant::now() + delay;
        for step in taken {
            let _ = steps.send((at, step));
        }
    }
    drop(steps);
    std::future::pending::<()>().await;
}

/// Hands the server what the database said, until the end of it.
async fn deliver(mut steps: mpsc::UnboundedReceiver<(Instant, Step)>, mut to: OwnedWriteHalf, state: &State) {
    loop {
        let (at, step) = tokio::select! {
            biased;
            () = state.becomes(Fault::Reset) => return reset(&to),
            () = state.becomes(Fault::HalfClose) => {
                let _ = to.shutdown().await;
                // Until the server gives the session up.
                return std::future::pending().await;
            }
            step = steps.recv() => match step {
                Some(step) => step,
                None => return,
            },
        };
        sleep_until(at).await;
        let fault = state.passable().await;
        match step {
            Step::Pass(bytes) => {
                if write(&mut to, &bytes, fault).await.is_err() {
                    return;
                }
            }
            Step::Cut => return reset(&to),
            Step::Swallow => return std::future::pending().await,
        }
    }
}

/// The session is not closed but reset when it is dropped.
fn reset(session: &OwnedWriteHalf) {
    let _ = session.as_ref().set_zero_linger();
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8], fault: Fault) -> std::io::Result<()> {
    match fault {
        Fault::ByteWise => {
            for byte in bytes {
                to.write_all(&[*byte]).await?;
                tokio::task::yield_now().await;
            }
            Ok(())
        }
        Fault::None | Fault::Reset | Fault::BlackHole | Fault::Delay(_) | Fault::HalfClose => {
            to.write_all(bytes).await
        }
    }
}
