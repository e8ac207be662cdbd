//! TLS record tracking: whether the bytes that were read end inside a TLS record.
//!
//! rustls holds part of a record where no one can see it. A drain must know of it, because part of
//! a record is part of a request.

/// Follows the records of one direction of a TLS stream.
///
/// A record begins with five bytes: content type, version (two bytes), and the length of the rest
/// (two bytes).
#[derive(Debug, Default)]
pub(super) struct TlsRecords {
    header: [u8; 5],
    header_bytes: usize,
    remaining_bytes: usize,
}

impl TlsRecords {
    /// Follows the next bytes of the stream.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.remaining_bytes > 0 {
                let of_record = self.remaining_bytes.min(bytes.len());
                self.remaining_bytes -= of_record;
                bytes = &bytes[of_record..];
                continue;
            }
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
            bytes = rest;
            if self.header_bytes == self.header.len() {
                self.header_bytes = 0;
                self.remaining_bytes = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            }
        }
    }

    /// Whether the last record has arrived in part only.
    pub(super) fn is_within_record(&self) -> bool {
        self.remaining_bytes > 0 || self.header_bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::TlsRecords;

    #[test]
    fn a_record_is_followed_wherever_the_reads_cut_it() {
        let bytes =
            [&[23, 3, 3, 0, 3, 1, 2, 3][..], &[23, 3, 3, 0, 0], &[21, 3, 3, 1, 0], &[7; 256]].concat();
        let ends = [0, 8, 13, 13 + 5 + 256];
        for cut in 0..=bytes.len() {
            let mut records = TlsRecords::default();
            records.follow(&bytes[..cut]);
            assert_eq!(records.is_within_record(), !ends.contains(&cut), "{cut}");
            records.follow(&bytes[cut..]);
            assert!(!records.is_within_record(), "{cut}");
        }
    }
}
