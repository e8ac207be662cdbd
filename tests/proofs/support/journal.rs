//! A journal of what callers were about to do and were told, in a file that only grows. A line is with the kernel
//! before the request that it tells of is sent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::caller::{Asked, Reply, Wish};

/// A journal in a folder of its own, removed with it.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    file: Mutex<File>,
}

/// A line of the journal.
#[derive(Debug)]
pub(crate) enum Line {
    /// Somebody is about to ask.
    Asking(Asked),
    /// A try for this number ended so; whether it was one to close it.
    Told(String, bool, Reply),
}

impl Journal {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("minitill-proof-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = File::options().create_new(true).append(true).open(folder.join("journal")).unwrap();
        Self { folder, file: Mutex::new(file) }
    }

    /// A folder for whatever else the proof keeps.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// To be called before the request is sent.
    pub(crate) fn asking(&self, asked: &Asked) {
        let Asked { number, open_id, amount, wish } = asked;
        let wish = match wish {
            Wish::Exchange(priority) => format!("exchange\t{priority}"),
            Wish::Present => "present\t".to_owned(),
            Wish::Cancel(of) => format!("cancel\t{of}"),
            Wish::Close => "close\t".to_owned(),
        };
        self.write(&format!("asking\t{number}\t{open_id}\t{amount}\t{wish}\n"));
    }

    /// To be called when a try has ended, however it did.
    pub(crate) fn told(&self, asked: &Asked, reply: &Reply) {
        let (number, closes) = (&asked.number, asked.is_close());
        match reply {
            Reply::Answer { status, replayed, body } => {
                self.write(&format!("answer\t{number}\t{closes}\t{status}\t{replayed}\t{body}\n"));
            }
            Reply::Silence(why) => {
                self.write(&format!("silence\t{number}\t{closes}\t{}\n", why.replace('\n', " ")));
            }
        }
    }

    fn write(&self, line: &str) {
        // One write for a line: nothing is kept back in this process.
        self.file.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// What was asked for, and nobody was told what became of it.
    pub(crate) fn unsettled(&self) -> Vec<Asked> {
        let mut unsettled = BTreeMap::new();
        for line in self.read() {
            match line {
                Line::Asking(asked) => {
                    unsettled.entry((asked.number.clone(), asked.is_close())).or_insert(Some(asked));
                }
                Line::Told(number, closes, reply) if reply.code().is_some() => {
                    unsettled.insert((number, closes), None);
                }
                Line::Told(..) => {}
            }
        }
        unsettled.into_values().flatten().collect()
    }

    /// All of it, read back from the file.
    pub(crate) fn read(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.folder.join("journal")).unwrap();
        text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("the journal holds {line:?}"))).collect()
    }
}

fn parse(line: &str) -> Option<Line> {
    let (kind, rest) = line.split_once('\t')?;
    let (number, rest) = rest.split_once('\t')?;
    match kind {
        "asking" => {
            let mut parts = rest.split('\t');
            let (open_id, amount) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            let wish = match (parts.next()?, parts.next()?) {
                ("exchange", priority) => Wish::Exchange(priority.parse().ok()?),
                ("present", _) => Wish::Present,
                ("cancel", of) => Wish::Cancel(of.to_owned()),
                ("close", _) => Wish::Close,
                _ => return None,
            };
            Some(Line::Asking(Asked { number: number.to_owned(), open_id, amount, wish }))
        }
        "answer" => {
            let (closes, rest) = rest.split_once('\t')?;
            let (status, rest) = rest.split_once('\t')?;
            let (replayed, body) = rest.split_once('\t')?;
            let (status, replayed) = (status.parse().ok()?, replayed.parse().ok()?);
            let reply = Reply::Answer { status, replayed, body: body.to_owned() };
            Some(Line::Told(number.to_owned(), closes.parse().ok()?, reply))
        }
        "silence" => {
            let (closes, why) = rest.split_once('\t')?;
            Some(Line::Told(number.to_owned(), closes.parse().ok()?, Reply::Silence(why.to_owned())))
        }
        _ => None,
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
