//! The checkpoint of an audit: a signed file with the last entry of each wallet.
//!
//! Lines of text, each ended by a newline:
//! - `minitill checkpoint 4`
//! - a JSON object: `database` (SHA-256 of what `master_key_check` holds), `at`, and how many
//!   `entries` there were. It also has the newest line of the operator's log: `log_seq` and
//!   `log_hash`
//! - for each wallet with entries, in the order of its keys: `app_id wallet_no seq free_balance
//!   charge_balance hash`, of its last entry, the hash in hexadecimal. No player is named.
//! - `hmac-sha256 ` and, in hexadecimal, HMAC-SHA256 of all bytes before this line, under
//!   HMAC-SHA256(master key, `minitill checkpoint 1`)

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use domain::audit::{WalletAfterEntry, WalletRow};
use domain::ids::AppId;
use domain::ledger::ChainHash;
use domain::operator_log::LogHead;
use hmac::Mac as _;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::copy_reader::Copied;
use super::{AuditError, AuditOutcome, Snapshot};
use crate::digesting::Digesting;
use crate::secrets::{CheckpointKey, Keyring, MasterKey};

const FIRST_LINE: &str = "minitill checkpoint 4";
const SIGNATURE: &str = "hmac-sha256 ";
/// Length of the last line: its word, 64 digits, a newline.
const SIGNATURE_BYTES: u64 = SIGNATURE.len() as u64 + 65;
/// How many bytes are read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Reads all wallets, each with its newest state in an archive, in the order of their keys. That order is the same in
/// every database.
pub(super) const WALLETS: &str = "\
SELECT p.app_id, p.open_id, p.entry_count, p.free_balance, p.charge_balance, p.chain_hash, p.app_no, p.wallet_no,
    s.seq, s.free_balance, s.charge_balance, s.chain_hash
FROM players p LEFT JOIN archived_standings s ON s.app_no = p.app_no AND s.wallet_no = p.wallet_no
ORDER BY p.app_id COLLATE \"C\", p.wallet_no";

#[derive(Debug, Serialize, Deserialize)]
struct Heading {
    database: String,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    entries: u64,
    log_seq: i64,
    log_hash: String,
}

/// A wallet of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointWallet {
    pub(super) app_id: String,
    pub(super) wallet_no: i64,
    pub(super) standing: WalletAfterEntry,
}

/// A checkpoint with a valid signature. It is read line by line.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) at: OffsetDateTime,
    pub(super) log_head: LogHead,
    lines: io::Lines<BufReader<io::Take<File>>>,
}

impl Checkpoint {
    /// Opens the file and verifies all of it first.
    pub(super) fn open(path: &Path, keyring: &Keyring, database: &str) -> Result<Self, AuditError> {
        let fault = |words: &str| AuditError::Checkpoint(format!("checkpoint {}: {words}", path.display()));
        let mut file = File::open(path).map_err(|error| fault(&error.to_string()))?;
        // During a rotation of the master key, the former key may have signed.
        let mut keys = keyring.keys().iter().map(MasterKey::checkpoint_key);
        let signed = keys.find_map(|key| signed_bytes(&mut file, key).transpose());
        let signed = signed
            .transpose()
            .map_err(|error| fault(&error.to_string()))?
            .ok_or_else(|| fault("it was changed, or not signed with this master key"))?;
        let mut lines = BufReader::with_capacity(READ_BYTES, file.take(signed)).lines();
        let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
        let (first, heading) = (line(), line());
        let other_version = || fault("it is of another version of this program");
        let heading: Option<Heading> = serde_json::from_str(&heading).ok();
        let heading = heading.filter(|_| first == FIRST_LINE).ok_or_else(other_version)?;
        if heading.database != database {
            return Err(fault("it was made of another database, or before its master key was replaced"));
        }
        let mut log_head = LogHead { seq: heading.log_seq, chain_hash: ChainHash::default() };
        hex::decode_to_slice(heading.log_hash, &mut log_head.chain_hash).map_err(|_| other_version())?;
        Ok(Self { at: heading.at, log_head, lines })
    }

    /// Reads the next wallet.
    pub(super) fn next(&mut self) -> Result<Option<CheckpointWallet>, AuditError> {
        let fault = |words: String| AuditError::Checkpoint(format!("the checkpoint: {words}"));
        let Some(line) = self.lines.next() else { return Ok(None) };
        let line = line.map_err(|error| fault(error.to_string()))?;
        parse(&line).map(Some).ok_or_else(|| fault(format!("a line is none: {line}")))
    }
}

fn parse(line: &str) -> Option<CheckpointWallet> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    let app_id = word()?.to_owned();
    let mut number = || word()?.parse::<i64>().ok();
    let (wallet_no, seq, free_balance, charge_balance) = (number()?, number()?, number()?, number()?);
    let mut chain_hash = ChainHash::default();
    hex::decode_to_slice(word()?, &mut chain_hash).ok()?;
    Some(CheckpointWallet {
        app_id,
        wallet_no,
        standing: WalletAfterEntry { seq, free_balance, charge_balance, chain_hash },
    })
}

/// The number of signed bytes, or `None` when the signature is wrong. Then the file is at its
/// start.
fn signed_bytes(file: &mut File, key: CheckpointKey) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let Some(signed) = length.checked_sub(SIGNATURE_BYTES) else { return Ok(None) };
    let mut mac = Digesting { digest: key, inner: io::sink() };
    io::copy(&mut BufReader::with_capacity(READ_BYTES, Read::by_ref(file).take(signed)), &mut mac)?;
    let mut last = String::new();
    let is_text = Read::by_ref(file).take(SIGNATURE_BYTES).read_to_string(&mut last).is_ok();
    let told = last.strip_prefix(SIGNATURE).and_then(|text| hex::decode(text.trim_end()).ok());
    file.seek(SeekFrom::Start(0))?;
    // The comparison takes constant time.
    let is_right = is_text && told.is_some_and(|told| mac.digest.verify_slice(&told).is_ok());
    Ok(is_right.then_some(signed))
}

/// Writes a checkpoint of a snapshot without differences, so that each wallet's row agrees with its
/// entries. The file appears complete or not at all. Only its owner may read it, because it has
/// balances.
pub(super) async fn write(
    snapshot: &mut Snapshot,
    path: &Path,
    key: &CheckpointKey,
    outcome: &AuditOutcome,
) -> Result<(), AuditError> {
    let fault = |error: io::Error| AuditError::Checkpoint(format!("checkpoint {}: {error}", path.display()));
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".new-{}", std::process::id()));
    let draft = Path::new(&draft);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map_err(fault)?;
    let written = write_lines(snapshot, file, key, outcome).await;
    let finished = written.and_then(|()| fs::rename(draft, path).map_err(fault));
    if finished.is_err() {
        let _ = fs::remove_file(draft);
    }
    finished
}

async fn write_lines(
    snapshot: &mut Snapshot,
    file: File,
    key: &CheckpointKey,
    outcome: &AuditOutcome,
) -> Result<(), AuditError> {
    let fault = |error: io::Error| AuditError::Checkpoint(format!("the checkpoint: {error}"));
    let mut out = BufWriter::new(Digesting { digest: key.clone(), inner: file });
    let LogHead { seq: log_seq, chain_hash } = outcome.log_head;
    let (database, log_hash) = (snapshot.database.clone(), hex::encode(chain_hash));
    let heading = Heading { database, at: snapshot.at, entries: outcome.entries, log_seq, log_hash };
    let heading = serde_json::to_string(&heading).map_err(|error| fault(error.into()))?;
    writeln!(out, "{FIRST_LINE}\n{heading}").map_err(fault)?;
    let mut wallets = Copied::of(&mut snapshot.first, WALLETS).await?;
    while let Some(mut row) = wallets.next().await? {
        let (app_id, _, wallet) = (row.text()?, row.text()?, row.wallet()?);
        let WalletRow { entry_count: seq, free_balance, charge_balance, chain_hash } = wallet;
        if seq == 0 {
            continue;
        }
        let (_, wallet_no) = (row.small_number()?, row.number()?);
        if AppId::parse(app_id).is_err() {
            return Err(AuditError::Checkpoint(format!("app {app_id}: that is no name of one")));
        }
        let chain_hash = hex::encode(chain_hash.unwrap_or_default());
        writeln!(out, "{app_id} {wallet_no} {seq} {free_balance} {charge_balance} {chain_hash}")
            .map_err(fault)?;
    }
    let Digesting { digest, inner: mut file } =
        out.into_inner().map_err(|error| fault(error.into_error()))?;
    let signature = hex::encode(digest.finalize().into_bytes());
    writeln!(file, "{SIGNATURE}{signature}").and_then(|()| file.sync_all()).map_err(fault)
}
