//! The socket as hyper sees it. It notes what passes, and closes so that an answer survives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use super::progress::SharedProgress;
use super::wire::Wire;

/// How much of one request is read at most, what is discarded behind its answer included: the
/// largest body that is ever accepted (contract 5), so that a client which sends a whole picture
/// before it reads learns why it was refused. None of what is discarded is kept.
const REQUEST_BYTES_MAX: u64 = 11_000_000;

/// How much is read at once to be discarded.
const DISCARD_BYTES: usize = 8 * 1024;

/// A connection that tells [`SharedProgress`] what passes through it.
///
/// In a drain, an idle connection reads as closed by its client, so that hyper ends it as it ends
/// any other. To shut it down closes the write side and, when the client may still be sending,
/// reads and discards for a while: a close with unread bytes would reset the connection and
/// destroy the answer on its way.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    progress: SharedProgress,
    is_write_closed: bool,
}

#[derive(Debug)]
enum Stream {
    Plain(Wire),
    Tls(Box<TlsStream<Wire>>),
}

impl Stream {
    fn wire(&self) -> &Wire {
        match self {
            Self::Plain(wire) => wire,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    fn wire_mut(&mut self) -> &mut Wire {
        match self {
            Self::Plain(wire) => wire,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }

    /// Bytes that have come and that hyper has not read. Of what TLS holds at least one is counted.
    fn unread_bytes(&mut self) -> u64 {
        match self {
            Self::Plain(wire) => wire.bytes_in_kernel(),
            Self::Tls(stream) => {
                let (wire, session) = stream.get_mut();
                let decrypted =
                    session.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read());
                wire.bytes_in_kernel() + decrypted as u64 + u64::from(wire.is_within_record())
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(wire) => Pin::new(wire).poll_read(context, buffer),
            Self::Tls(stream) => match Pin::new(stream).poll_read(context, buffer) {
                // A client that closes without TLS's own farewell is one that closes: HTTP itself
                // tells whether its request was cut.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(wire) => Pin::new(wire).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// Closes the write side; with TLS its farewell goes before.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(wire) => Pin::new(wire).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl Socket {
    pub(super) fn plain(wire: Wire, progress: SharedProgress) -> Self {
        Self { stream: Stream::Plain(wire), progress, is_write_closed: false }
    }

    pub(super) fn tls(stream: TlsStream<Wire>, progress: SharedProgress) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), progress, is_write_closed: false }
    }

    /// Whether the server's side of the stream has been closed.
    pub(super) fn is_write_closed(&self) -> bool {
        self.is_write_closed
    }

    /// Notes, in a drain, whether more has come than was read.
    fn note_unread_bytes(&mut self) {
        let mut progress = self.progress.lock();
        if progress.is_draining() {
            progress.note_unread_bytes(self.stream.unread_bytes());
        }
    }

    /// Reads and discards until the client closes, beneath TLS where there is TLS: nobody reads
    /// what it says. When it has sent too much, nothing more is read, but the connection stays for
    /// as long as the watchdog lets it: closing would reset it, and a client that is still reading
    /// the answer could lose it.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; DISCARD_BYTES];
        loop {
            if self.progress.lock().request_bytes() >= REQUEST_BYTES_MAX {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(self.stream.wire_mut()).poll_read(context, &mut buffer));
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
        let read = this.stream.poll_read(context, buffer);
        let received = &buffer.filled()[already..];
        if !received.is_empty() {
            this.progress.lock().received(received, Instant::now());
        }
        this.note_unread_bytes();
        if read.is_pending() && this.progress.lock().is_over() {
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(wire) => Pin::new(wire).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(wire) => Pin::new(wire).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(wire) => wire.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    /// hyper flushes when it has handed over all that it had to write.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = this.stream.poll_flush(context);
        if flushed.is_ready() {
            this.progress.lock().flushed(Instant::now());
        }
        // hyper reads nothing while the router works, but flushes whenever it is woken.
        this.note_unread_bytes();
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_write_closed {
            ready!(this.stream.poll_shutdown(context))?;
            this.is_write_closed = true;
            let mut progress = this.progress.lock();
            if !progress.peer_may_be_sending() && this.stream.wire().bytes_in_kernel() == 0 {
                return Poll::Ready(Ok(()));
            }
            progress.lingers(Instant::now());
        }
        this.poll_discard(context).map(Ok)
    }
}
