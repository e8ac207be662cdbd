//! Files whose bytes are digested while they are read or written.

use std::io::{self, Read, Write};

use sha2::digest::Update;

/// Passes bytes through and adds them to a digest: a hash, or a keyed one.
pub(crate) struct Digesting<D, F> {
    pub(crate) digest: D,
    pub(crate) inner: F,
}

impl<D: Update, F: Write> Write for Digesting<D, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<D: Update, F: Read> Read for Digesting<D, F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.digest.update(&bytes[..read]);
        Ok(read)
    }
}
