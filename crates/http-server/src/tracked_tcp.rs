//! The TCP stream of a connection, below hyper and below TLS.
//!
//! It notices a peer that does not read, and it follows the TLS records that arrive. Both must
//! happen here, where the bytes enter and leave the process.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::progress::SharedProgress;
use crate::tls_records::TlsRecords;

/// A TCP stream that notes in [`SharedProgress`] whether the peer accepts what is written.
#[derive(Debug)]
pub(super) struct TrackedTcp {
    stream: TcpStream,
    progress: SharedProgress,
    /// Set below TLS.
    records: Option<TlsRecords>,
}

impl TrackedTcp {
    pub(super) fn new(stream: TcpStream, progress: SharedProgress, is_below_tls: bool) -> Self {
        Self { stream, progress, records: is_below_tls.then(TlsRecords::default) }
    }

    /// Bytes that have arrived and are unread; 0 if the kernel does not report them.
    pub(super) fn bytes_in_kernel(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.stream).unwrap_or(0)
    }

    /// Whether the peer has closed its side or the connection, whatever waits to be read.
    pub(super) fn is_closed_by_peer(&self, context: &mut Context<'_>) -> bool {
        let ready = pin!(self.stream.ready(Interest::READABLE)).poll(context);
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// Whether the last TLS record was read in part only.
    pub(super) fn is_within_record(&self) -> bool {
        self.records.as_ref().is_some_and(TlsRecords::is_within_record)
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        let accepted = match written {
            Poll::Pending => None,
            Poll::Ready(written) => Some(*written.as_ref().unwrap_or(&0)),
        };
        self.progress.lock().wrote(accepted, Instant::now());
    }
}

impl AsyncRead for TrackedTcp {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let already = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Some(records) = &mut this.records {
            records.follow(&buffer.filled()[already..]);
        }
        read
    }
}

impl AsyncWrite for TrackedTcp {
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

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
