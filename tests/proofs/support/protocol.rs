//! As much of PostgreSQL's protocol as a test needs to know when the reply to a write that commits goes by. It is
//! the frontend and backend protocol, version 3. Pure: bytes in, decisions out.

use std::collections::{HashSet, VecDeque};

use bytes::{Buf as _, BytesMut};

/// A statement that writes to the ledger has this text, and no other has it.
const WRITE: &[u8] = b"INSERT INTO ledger_entries";
/// Flush: answer what has come, but do not end (and commit) the statement's own transaction yet.
const FLUSH: [u8; 5] = [b'H', 0, 0, 0, 4];

/// The event that made a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// The statement itself, outside any transaction block.
    Statement,
    /// COMMIT.
    Transaction,
}

/// The fate of the reply to a write that commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Committed; the reply is dropped and the session reset.
    Reply,
    /// Committed; all of the reply passes but its last message, then the session is reset.
    LastMessage,
    /// Committed; the reply is dropped, and the session stays open without another byte.
    Swallowed,
    /// Not committed: the statement is answered, but the message that commits never arrives.
    Commit,
}

/// What to do with bytes from the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Pass(Vec<u8>),
    /// Reset the session.
    Cut,
    /// Pass nothing ever again.
    Swallow,
}

/// What was sent up to one Sync or as one simple query; the database answers it with one `ReadyForQuery`.
#[derive(Debug, Default)]
struct Group {
    writes: bool,
    commit: Option<Commit>,
    commit_withheld: bool,
    failed: bool,
    reply: Vec<u8>,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Conversation {
    has_started: bool,
    /// Names of the prepared statements that write to the ledger.
    write_statements: HashSet<Vec<u8>>,
    /// Inside a transaction block, whether it has written.
    block: Option<bool>,
    asking: Group,
    awaited: VecDeque<Group>,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self {
            has_started: false,
            write_statements: HashSet::new(),
            block: None,
            asking: Group::default(),
            // The start is answered with a `ReadyForQuery` too.
            awaited: VecDeque::from([Group::default()]),
        }
    }

    /// Takes the whole messages out of what came from the server, and gives what goes to the database.
    /// `withholds` is asked whether the next statement that would commit is kept from it.
    pub(crate) fn forth(&mut self, received: &mut BytesMut, mut withholds: impl FnMut() -> bool) -> Vec<u8> {
        let mut passed = Vec::new();
        while let Some(message) = self.next_of_server(received) {
            if !self.has_started {
                self.has_started = true;
                passed.extend_from_slice(&message);
                continue;
            }
            let body = &message[5..];
            match message[0] {
                b'P' => self.note_statement(body),
                b'B' => self.asking.writes |= self.is_write(body),
                b'Q' => {
                    self.note_query(body);
                    self.end_group();
                }
                b'S' => {
                    let commits = self.asking.writes && self.block.is_none();
                    self.asking.commit = commits.then_some(Commit::Statement);
                    self.asking.commit_withheld = commits && withholds();
                    if self.asking.commit_withheld {
                        passed.extend_from_slice(&FLUSH);
                        self.end_group();
                        continue;
                    }
                    self.end_group();
                }
                _ => {}
            }
            passed.extend_from_slice(&message);
        }
        passed
    }

    /// Takes the whole messages out of what came from the database, and gives what becomes of them. `decide` is asked
    /// once for each write that was committed.
    pub(crate) fn back(
        &mut self,
        received: &mut BytesMut,
        mut decide: impl FnMut(Commit) -> Option<Loss>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(message) = next_message(received, 1) {
            let Some(group) = self.awaited.front_mut() else {
                steps.push(Step::Pass(message));
                continue;
            };
            let (kind, is_rollback) = (message[0], message[5..].starts_with(b"ROLLBACK"));
            group.failed |= kind == b'E' || (kind == b'C' && is_rollback);
            if group.commit_withheld && (group.failed || kind == b'C') {
                group.reply.extend_from_slice(&message);
                steps.push(Step::Pass(std::mem::take(&mut group.reply)));
                steps.push(Step::Cut);
                return steps;
            }
            if kind != b'Z' {
                group.reply.extend_from_slice(&message);
                // Only what may have to be dropped is kept back.
                if group.commit.is_none() {
                    steps.push(Step::Pass(std::mem::take(&mut group.reply)));
                }
                continue;
            }
            let mut reply = std::mem::take(&mut group.reply);
            let loss = group.commit.filter(|_| !group.failed).and_then(&mut decide);
            self.awaited.pop_front();
            match loss {
                None => {
                    reply.extend_from_slice(&message);
                    steps.push(Step::Pass(reply));
                }
                Some(Loss::LastMessage) => steps.extend([Step::Pass(reply), Step::Cut]),
                Some(Loss::Swallowed) => steps.push(Step::Swallow),
                Some(Loss::Reply | Loss::Commit) => steps.push(Step::Cut),
            }
        }
        steps
    }

    fn next_of_server(&self, received: &mut BytesMut) -> Option<Vec<u8>> {
        // The first message has no letter.
        next_message(received, usize::from(self.has_started))
    }

    fn end_group(&mut self) {
        if let Some(has_written) = &mut self.block {
            *has_written |= self.asking.writes;
        }
        self.awaited.push_back(std::mem::take(&mut self.asking));
    }

    fn note_statement(&mut self, body: &[u8]) {
        let (name, rest) = text(body);
        if text(rest).0.windows(WRITE.len()).any(|part| part == WRITE) {
            self.write_statements.insert(name.to_vec());
        } else {
            self.write_statements.remove(name);
        }
    }

    fn is_write(&self, body: &[u8]) -> bool {
        let (_portal, rest) = text(body);
        self.write_statements.contains(text(rest).0)
    }

    fn note_query(&mut self, body: &[u8]) {
        let query = String::from_utf8_lossy(text(body).0).into_owned();
        if query.ends_with("BEGIN") {
            self.block = Some(false);
        } else if query == "COMMIT" {
            let has_written = self.block.take() == Some(true);
            self.asking.commit = has_written.then_some(Commit::Transaction);
        } else if query == "ROLLBACK" {
            self.block = None;
        }
    }
}

/// A text that ends in zero, and what comes after it.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// A whole message: `letters` bytes, then a length that counts itself and the rest.
fn next_message(received: &mut BytesMut, letters: usize) -> Option<Vec<u8>> {
    let length = received.get(letters..letters + 4)?;
    let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
    let whole = letters + usize::try_from(length).expect("32 bits fit");
    if received.len() < whole {
        return None;
    }
    let message = received[..whole].to_vec();
    received.advance(whole);
    Some(message)
}
