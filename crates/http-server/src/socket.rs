//! The byte stream that hyper reads and writes: plain TCP or TLS, with a lingering close.
//!
//! A close with unread bytes makes the kernel reset the connection, and the reset destroys the
//! response on its way. So a close here closes the write side first, then reads and discards what
//! the peer still sends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use crate::framing::HeadFault;
use crate::progress::SharedProgress;
use crate::tracked_tcp::TrackedTcp;

/// How many bytes are read at once to be discarded.
const DISCARD_BYTES: usize = 8 * 1024;

/// A connection that notes in [`SharedProgress`] what passes through it.
///
/// In a drain, an idle connection reads as closed by its peer. hyper then ends it as it ends any
/// other.
pub(super) struct Socket {
    stream: Box<dyn Stream>,
    progress: SharedProgress,
    request_bytes_max: u64,
    is_write_closed: bool,
    /// The unwritten rest of the answer to a head that hyper does not get.
    refusal: &'static [u8],
}

/// The stream of a connection. A TLS stream has finished its handshake.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    fn tcp(&mut self) -> &mut TrackedTcp;

    /// Bytes that have arrived and that hyper has not read. Part of a TLS record counts as one.
    fn unread_bytes(&mut self) -> u64;
}

impl Stream for TrackedTcp {
    fn tcp(&mut self) -> &mut TrackedTcp {
        self
    }

    fn unread_bytes(&mut self) -> u64 {
        self.bytes_in_kernel()
    }
}

impl Stream for TlsStream<TrackedTcp> {
    fn tcp(&mut self) -> &mut TrackedTcp {
        self.get_mut().0
    }

    fn unread_bytes(&mut self) -> u64 {
        let (tcp, session) = self.get_mut();
        let decrypted = session.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read());
        tcp.bytes_in_kernel() + decrypted as u64 + u64::from(tcp.is_within_record())
    }
}

impl Socket {
    pub(super) fn new(stream: Box<dyn Stream>, progress: SharedProgress, request_bytes_max: u64) -> Self {
        Self { stream, progress, request_bytes_max, is_write_closed: false, refusal: b"" }
    }

    pub(super) fn is_write_closed(&self) -> bool {
        self.is_write_closed
    }

    /// Notes, in a drain, how many bytes wait to be read.
    fn note_unread_bytes(&mut self) {
        let mut progress = self.progress.lock();
        if progress.is_draining() {
            progress.note_unread_bytes(self.stream.unread_bytes());
        }
    }

    /// Reads and discards below TLS until the peer closes.
    ///
    /// After `request_bytes_max` it reads nothing more, but the connection stays open until the
    /// watchdog ends it. A peer that still reads the response would lose it by a reset.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; DISCARD_BYTES];
        loop {
            if self.progress.lock().request_bytes() >= self.request_bytes_max {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(self.stream.tcp()).poll_read(context, &mut buffer));
            let bytes = buffer.filled().len();
            if read.is_err() || bytes == 0 {
                return Poll::Ready(());
            }
            self.progress.lock().discarded(bytes, Instant::now());
        }
    }
}

/// The whole answer to a head with this fault, as hyper answers one that it cannot read.
const fn refusal(fault: HeadFault) -> &'static [u8] {
    match fault {
        HeadFault::BareLineFeed | HeadFault::Http2 => {
            b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        }
        HeadFault::TransferCoding => {
            b"HTTP/1.1 501 Not Implemented\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
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
        let read = match Pin::new(&mut this.stream).poll_read(context, buffer) {
            // The peer closed without TLS's close_notify. HTTP itself shows whether a request was
            // cut, so this is a close like any other.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        };
        let received = &buffer.filled()[already..];
        if !received.is_empty() {
            let mut progress = this.progress.lock();
            progress.received(received, Instant::now());
            if let Some(fault) = progress.head_fault() {
                // For hyper the peer has closed. So it ends the connection, and the answer goes before the close.
                this.refusal = refusal(fault);
                buffer.set_filled(already);
                return Poll::Ready(Ok(()));
            }
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
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has handed over all that it had to write.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        if flushed.is_ready() {
            this.progress.lock().flushed(Instant::now());
        }
        // hyper reads nothing while the router works, but it flushes whenever it is woken.
        this.note_unread_bytes();
        let tcp = this.stream.tcp();
        this.progress.lock().look_at_peer(|| tcp.is_closed_by_peer(context));
        flushed
    }

    /// Closes the write side, after TLS's `close_notify` where there is TLS, and lingers if the
    /// peer may still be sending.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while !this.refusal.is_empty() {
            let written = ready!(Pin::new(&mut this.stream).poll_write(context, this.refusal))?;
            this.refusal = this.refusal.get(written.max(1)..).unwrap_or_default();
        }
        if !this.is_write_closed {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            this.is_write_closed = true;
            let mut progress = this.progress.lock();
            if !progress.peer_may_be_sending() && this.stream.tcp().bytes_in_kernel() == 0 {
                return Poll::Ready(Ok(()));
            }
            progress.lingers(Instant::now());
        }
        this.poll_discard(context).map(Ok)
    }
}
