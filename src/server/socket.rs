//! The socket as hyper sees it. It notes what passes, and closes so that an answer survives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::progress::SharedProgress;

/// How much of one request is read at most, what is discarded behind its answer included: the
/// largest body that is ever accepted (contract 5), so that a client which sends a whole picture
/// before it reads learns why it was refused. None of what is discarded is kept.
const REQUEST_BYTES_MAX: u64 = 11_000_000;

/// How much is read at once to be discarded.
const DISCARD_BYTES: usize = 8 * 1024;

/// A TCP stream that tells [`SharedProgress`] what passes through it.
///
/// In a drain, an idle connection reads as closed by its client, so that hyper ends it as it ends
/// any other. To shut it down closes the write side and, when the client may still be sending,
/// reads and discards for a while: a close with unread bytes would reset the connection and
/// destroy the answer on its way.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    progress: SharedProgress,
    is_write_closed: bool,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, progress: SharedProgress) -> Self {
        Self { stream, progress, is_write_closed: false }
    }

    /// Whether the server's side of the stream has been closed.
    pub(super) fn is_write_closed(&self) -> bool {
        self.is_write_closed
    }

    /// Bytes that have come and are unread; none where the kernel does not tell.
    fn bytes_in_kernel(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.stream).unwrap_or(0)
    }

    /// Notes, in a drain, whether more has come than was read.
    fn note_bytes_in_kernel(&self) {
        let mut progress = self.progress.lock();
        if progress.is_draining() {
            progress.note_bytes_in_kernel(self.bytes_in_kernel());
        }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        self.progress.lock().wrote(written.is_pending(), Instant::now());
    }

    /// Reads and discards until the client closes. When it has sent too much, nothing more is read,
    /// but the connection stays for as long as the watchdog lets it: closing would reset it, and a
    /// client that is still reading the answer could lose it.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; DISCARD_BYTES];
        loop {
            if self.progress.lock().request_bytes() >= REQUEST_BYTES_MAX {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let bytes = buffer.filled().len();
            if read.is_err() || bytes == 0 {
                return Poll::Ready(());
            }
            self.progress.lock().discarded(bytes, Instant::now());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let already = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let received = &buffer.filled()[already..];
        if !received.is_empty() {
            this.progress.lock().received(received, Instant::now());
        }
        this.note_bytes_in_kernel();
        if read.is_pending() && this.progress.lock().is_over() {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.note_write(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has handed over all that it had to write.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.lock().flushed(Instant::now());
        // hyper reads nothing while the router works, but flushes whenever it is woken.
        self.note_bytes_in_kernel();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_write_closed {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            this.is_write_closed = true;
            let mut progress = this.progress.lock();
            if !progress.peer_may_be_sending() && this.bytes_in_kernel() == 0 {
                return Poll::Ready(Ok(()));
            }
            progress.lingers(Instant::now());
        }
        this.poll_discard(context).map(Ok)
    }
}
