//! The TCP stream beneath hyper, and beneath TLS where there is TLS. What is counted here is what
//! really goes to the peer and comes from it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::progress::SharedProgress;

/// A TCP stream that notes whether the peer takes what is written.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    progress: SharedProgress,
    /// Beneath TLS alone.
    records: Option<Records>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, progress: SharedProgress) -> Self {
        Self { stream, progress, records: None }
    }

    pub(super) fn beneath_tls(stream: TcpStream, progress: SharedProgress) -> Self {
        Self { stream, progress, records: Some(Records::default()) }
    }

    /// Bytes that have come and are unread; none where the kernel does not tell.
    pub(super) fn bytes_in_kernel(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.stream).unwrap_or(0)
    }

    /// Whether, of what was read, the last TLS record has come in part only.
    pub(super) fn is_within_record(&self) -> bool {
        self.records.as_ref().is_some_and(Records::is_within)
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        self.progress.lock().wrote(written.is_pending(), Instant::now());
    }
}

impl AsyncRead for Wire {
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

impl AsyncWrite for Wire {
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

    /// A TCP stream keeps nothing back.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Follows the frames of TLS: a kind, a version and a length in five bytes, then that many more.
/// A drain must know whether a part of one has come, which is kept where nobody else sees it.
#[derive(Debug, Default)]
struct Records {
    header: [u8; 5],
    header_bytes: usize,
    left: usize,
}

impl Records {
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.left > 0 {
                let of_record = self.left.min(bytes.len());
                self.left -= of_record;
                bytes = &bytes[of_record..];
                continue;
            }
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
            bytes = rest;
            if self.header_bytes == self.header.len() {
                self.header_bytes = 0;
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            }
        }
    }

    fn is_within(&self) -> bool {
        self.left > 0 || self.header_bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn a_record_is_followed_wherever_the_reads_cut_it() {
        let bytes =
            [&[23, 3, 3, 0, 3, 1, 2, 3][..], &[23, 3, 3, 0, 0], &[21, 3, 3, 1, 0], &[7; 256]].concat();
        let ends = [0, 8, 13, 13 + 5 + 256];
        for cut in 0..=bytes.len() {
            let mut records = Records::default();
            records.follow(&bytes[..cut]);
            assert_eq!(records.is_within(), !ends.contains(&cut), "{cut}");
            records.follow(&bytes[cut..]);
            assert!(!records.is_within(), "{cut}");
        }
    }
}
