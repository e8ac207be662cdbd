//! The hash chain of the operator's log (contract 8.5). The hash of a line covers the line and the hash
//! of the line before it. So a line that was changed, removed or inserted is visible.
//!
//! The hash covers the texts of a line through a salted hash of their own. So the erasure of a player can replace them and
//! leave the chain as it is (contract 13.7). The line of the erasure has the hashes of the new texts.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::audit::{Check, Findings};
use super::ledger::{CHAIN_START, ChainHash, add, add_if_any};

/// Subject of findings about the chain.
pub const SUBJECT: &str = "operator log";

/// What a line of an erasure tells: the lines whose texts it has replaced, each with the hash of the new texts in
/// hexadecimal ([`ChainedLine::texts_hash`]).
#[derive(Debug, Default, Deserialize)]
struct Erasure {
    #[serde(default)]
    lines: BTreeMap<i64, String>,
}

/// The action of the line of an erasure.
pub const ERASURE: &str = "player.erase";

/// A line with all stored columns but its hash. It accepts any values, because the audit reads damaged
/// lines, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainedLine<'a> {
    /// Its sequence number, from 1.
    pub seq: i64,
    /// The app. Empty for a change that concerns all apps.
    pub app_id: &'a str,
    /// Database time in microseconds since 2000-01-01 00:00 UTC. See [`super::ledger::micros`].
    pub at: i64,
    /// Random number.
    pub id: i64,
    /// The face that was used.
    pub operator_kind: &'a str,
    /// Name of the operator.
    pub operator: &'a str,
    /// The action, such as `app.suspend`.
    pub action: &'a str,
    /// Object of the action.
    pub subject: &'a str,
    /// State before the change, as PostgreSQL writes the JSON.
    pub before: Option<&'a str>,
    /// State after the change, as PostgreSQL writes the JSON.
    pub after: Option<&'a str>,
    /// Reason from the operator.
    pub note: &'a str,
    /// The credits of one call, as PostgreSQL keeps the JSON.
    pub credits: Option<&'a str>,
    /// State of the subject after the change, as PostgreSQL writes the JSON. `None` in lines of former versions.
    pub state: Option<&'a str>,
    /// Random bytes that the hash of the texts begins with. `None` once an erasure has replaced the texts.
    pub salt: Option<&'a [u8]>,
    /// The stored hash of the texts that the line was written with.
    pub content_hash: &'a [u8],
}

impl ChainedLine<'_> {
    /// The hash of the texts: SHA-256 of `salt`, `subject`, `before`, `after`, `note` and `credits`, in the encoding of
    /// [`super::ledger::LedgerEntry::chain_hash`]. A null has the length −1 and no bytes. `state` comes last where there
    /// is one, so lines of former versions keep their hash.
    #[must_use]
    pub fn texts_hash(&self) -> ChainHash {
        let Self { salt, subject, before, after, note, credits, state, .. } = self;
        let mut hasher = Sha256::new();
        add_if_any(&mut hasher, *salt);
        add(&mut hasher, subject.as_bytes());
        for state in [before, after] {
            add_if_any(&mut hasher, *state);
        }
        add(&mut hasher, note.as_bytes());
        add_if_any(&mut hasher, *credits);
        if let Some(state) = state {
            add(&mut hasher, state.as_bytes());
        }
        hasher.finalize().into()
    }

    /// The hash of the line: a SHA-256. It covers the hash of the line before it ([`CHAIN_START`] for the first). Then
    /// come the columns `seq`, `app_id`, `at`, `id`, `operator_kind`, `operator`, `action` and `content_hash`, in the
    /// same encoding.
    #[must_use]
    pub fn chain_hash(&self, previous: &ChainHash) -> ChainHash {
        let Self { seq, app_id, at, id, operator_kind, operator, action, content_hash, .. } = self;
        let mut hasher = Sha256::new();
        hasher.update(previous);
        add(&mut hasher, &seq.to_be_bytes());
        add(&mut hasher, app_id.as_bytes());
        add(&mut hasher, &at.to_be_bytes());
        add(&mut hasher, &id.to_be_bytes());
        for text in [operator_kind, operator, action] {
            add(&mut hasher, text.as_bytes());
        }
        add(&mut hasher, content_hash);
        hasher.finalize().into()
    }
}

/// A place in the log: the sequence number of a line and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHead {
    /// Sequence number of the line. 0 before the first.
    pub seq: i64,
    /// Its hash.
    pub chain_hash: ChainHash,
}

impl LogHead {
    /// Before the first line.
    pub const START: Self = Self { seq: 0, chain_hash: CHAIN_START };
}

/// The check of the log. It starts from a known place, takes each line in order, and ends with the
/// stored head.
#[derive(Debug)]
pub struct LogCheck {
    from: LogHead,
    /// True when the line of `from` was found unchanged.
    meets_start: bool,
    last: LogHead,
    lines: u64,
    /// The hashes of texts that an erasure has replaced, by the lines, until the line of the erasure comes.
    replaced: BTreeMap<i64, String>,
}

impl LogCheck {
    /// Starts after the line of `from`. The first line to be checked is that line itself, if there is
    /// any.
    #[must_use]
    pub fn new(from: LogHead) -> Self {
        Self { from, meets_start: from == LogHead::START, last: from, lines: 0, replaced: BTreeMap::new() }
    }

    /// Checks the next line. `stored` is its hash. `None` when the stored value is no hash. True for a
    /// line after the start.
    pub fn line(
        &mut self,
        line: &ChainedLine<'_>,
        stored: Option<ChainHash>,
        findings: &mut Findings,
    ) -> bool {
        if !self.meets_start && line.seq == self.from.seq && stored == Some(self.from.chain_hash) {
            self.meets_start = true;
            return false;
        }
        // The next line is compared with the stored values, so that one difference is reported once.
        let before = self.last;
        if Some(line.seq) != before.seq.checked_add(1) {
            findings.add(Check::LogGap, line.app_id, SUBJECT, || {
                format!("line {}: comes after line {}", line.seq, before.seq)
            });
        }
        let computed = line.chain_hash(&before.chain_hash);
        if stored != Some(computed) {
            findings.add(Check::LogChain, line.app_id, SUBJECT, || {
                format!("line {}: its hash does not follow from it and line {}", line.seq, before.seq)
            });
        }
        self.check_texts(line, findings);
        self.last = LogHead { seq: line.seq, chain_hash: stored.unwrap_or(computed) };
        self.lines += 1;
        true
    }

    /// Compares the texts of a line with their hash, which its own hash covers.
    fn check_texts(&mut self, line: &ChainedLine<'_>, findings: &mut Findings) {
        let texts_hash = line.texts_hash();
        if line.salt.is_none() {
            self.replaced.insert(line.seq, hex::encode(texts_hash));
        } else if line.content_hash != texts_hash {
            findings.add(Check::LogChain, line.app_id, SUBJECT, || {
                format!("line {}: its texts are not those that it was written with", line.seq)
            });
        }
        if line.action == ERASURE {
            let erasure: Option<Erasure> = line.after.and_then(|after| serde_json::from_str(after).ok());
            for (seq, hash) in erasure.unwrap_or_default().lines {
                // Another erasure may have replaced them once more. Then its line has the hash.
                if self.replaced.get(&seq) == Some(&hash) {
                    self.replaced.remove(&seq);
                }
            }
        }
    }

    /// Compares the last line with the stored head, and returns the number of lines after the start.
    pub fn end(self, head: Option<LogHead>, findings: &mut Findings) -> u64 {
        let Self { from, meets_start, last, lines, replaced } = self;
        for seq in replaced.keys() {
            findings.add(Check::LogChain, "", SUBJECT, || {
                format!("line {seq}: its texts were replaced, and no erasure of a player tells of it")
            });
        }
        if !meets_start {
            findings.add(Check::Checkpoint, "", SUBJECT, || {
                format!("line {} is not what the checkpoint has", from.seq)
            });
        }
        if head != Some(last) {
            findings.add(Check::LogHead, "", SUBJECT, || match head {
                None => format!("there is no head; the newest line is {}", last.seq),
                Some(head) if head.seq == last.seq => {
                    format!("the head has another hash than line {}", last.seq)
                }
                Some(head) => format!("the head is line {}; the newest line is {}", head.seq, last.seq),
            });
        }
        lines
    }
}
