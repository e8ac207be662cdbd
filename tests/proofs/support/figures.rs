//! Figures of a proof.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// At most so many faults are printed.
const FAULTS_SHOWN: usize = 20;

/// The finding of a proof. It holds when nothing was lost, doubled or left unresolved and there is no fault.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Order numbers that were asked for.
    pub(crate) numbers: usize,
    /// Acknowledged, and not in the books as acknowledged.
    pub(crate) lost: usize,
    /// Written more than once.
    pub(crate) doubled: usize,
    /// Nobody knows what became of them.
    pub(crate) unresolved: usize,
    /// Answers that were replays.
    pub(crate) replays: usize,
    /// The longest time from a fault until the service did its work again.
    pub(crate) recovery: Option<Duration>,
    /// What else is worth telling.
    pub(crate) notes: Vec<String>,
    /// Whatever else is wrong.
    pub(crate) faults: Vec<String>,
}

impl Figures {
    /// Remembers the longest recovery.
    pub(crate) fn recovered_in(&mut self, took: Duration) {
        self.recovery = self.recovery.max(Some(took));
    }

    /// Something worth telling beside the figures.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// A fault unless `holds`.
    pub(crate) fn expect(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }

    /// Adds what another part of the same proof found.
    pub(crate) fn add(&mut self, other: Self) {
        self.numbers += other.numbers;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.unresolved += other.unresolved;
        self.replays += other.replays;
        self.recovery = self.recovery.max(other.recovery);
        self.notes.extend(other.notes);
        self.faults.extend(other.faults);
    }

    fn holds(&self) -> bool {
        (self.lost, self.doubled, self.unresolved) == (0, 0, 0) && self.faults.is_empty()
    }

    /// Prints the figures and appends them to `target/proofs.md`. Whether the proof holds.
    pub(crate) fn report(&self, name: &str, took: Duration) -> bool {
        let holds = self.holds();
        let form = super::full_or_short("full", "short");
        let recovery =
            self.recovery.map_or_else(|| "-".to_owned(), |took| format!("{:.2}", took.as_secs_f64()));
        let took = format!("{:.1}", took.as_secs_f64());
        println!(
            "proof {name} {}: {} numbers, {} lost, {} doubled, {} unresolved, {recovery} s to recover, {took} s in all",
            if holds { "holds" } else { "FAILED" },
            self.numbers,
            self.lost,
            self.doubled,
            self.unresolved,
        );
        let mut row = format!(
            "| {name} | {form} | {} | {} | {} | {} | {recovery} | {took} | ",
            self.numbers, self.lost, self.doubled, self.unresolved
        );
        write!(row, "{} |", if holds { self.notes.join("; ") } else { "FAILED".to_owned() }).unwrap();
        println!("    {} answers were replays", self.replays);
        for note in &self.notes {
            println!("    {note}");
        }
        for fault in self.faults.iter().take(FAULTS_SHOWN) {
            println!("    FAULT: {fault}");
        }
        if self.faults.len() > FAULTS_SHOWN {
            println!("    and {} faults more", self.faults.len() - FAULTS_SHOWN);
        }
        append(&row);
        holds
    }
}

fn append(row: &str) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is inside the target folder");
    let path = target.join("proofs.md");
    let is_new = !path.exists();
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    if is_new {
        writeln!(
            file,
            "| proof | form | numbers | lost | doubled | unresolved | s to recover | s in all | notes |"
        )
        .unwrap();
        writeln!(file, "|---|---|---|---|---|---|---|---|---|").unwrap();
    }
    writeln!(file, "{row}").unwrap();
}
