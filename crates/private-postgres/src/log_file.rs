//! PostgreSQL's own log in the data folder.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{ClusterError, IoContext};
use crate::files::append_file;

const LOG: &str = "postgres.log";
const LOG_OLD: &str = "postgres.log.old";
/// A longer log is renamed before the next start. There is one old log.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How much of the log's end an error shows.
const TAIL_BYTES: u64 = 8 * 1024;
const TAIL_LINES: usize = 5;

/// The open log of one start of PostgreSQL.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    start: u64,
}

impl LogFile {
    pub(super) fn open(folder: &Path) -> Result<Self, ClusterError> {
        let path = folder.join(LOG);
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
            fs::rename(&path, folder.join(LOG_OLD)).doing("rename", &path)?;
        }
        let file = append_file(folder, LOG)?;
        let start = file.metadata().doing("look at", &path)?.len();
        Ok(Self { path, file, start })
    }

    /// The last lines since the log was opened, on one line.
    pub(super) fn tail(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.start.max(length.saturating_sub(TAIL_BYTES))))?;
            let mut bytes = Vec::new();
            file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_or_else(|error| format!("(not readable: {error})"), |bytes| last_lines(&bytes))
    }
}

/// The last lines of a text, on one line.
pub(super) fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn an_error_shows_the_last_lines_only() {
        assert_eq!(last_lines(b"1\n2\n3\n\n4\n5\n6\n"), "2 | 3 | 4 | 5 | 6");
        assert_eq!(last_lines(b"alone"), "alone");
        assert_eq!(last_lines(b""), "");
    }

    #[test]
    fn a_tail_begins_at_the_present_start_and_a_long_log_is_renamed() {
        let folder = TestFolder::new("log");
        writeln!(LogFile::open(folder.path()).unwrap().file, "former").unwrap();
        let mut log = LogFile::open(folder.path()).unwrap();
        assert_eq!(log.tail(), "");
        writeln!(log.file, "present").unwrap();
        assert_eq!(log.tail(), "present");
        log.file.set_len(LOG_BYTES_MAX + 1).unwrap();
        let fresh = LogFile::open(folder.path()).unwrap();
        assert_eq!(fresh.file.metadata().unwrap().len(), 0);
        assert_eq!(fs::metadata(folder.path().join(LOG_OLD)).unwrap().len(), LOG_BYTES_MAX + 1);
    }
}
