//! The run: every row once in each round, ours and the references in alternation. So a machine that
//! is slower for a while is slower for all.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::load::Uploader;
use crate::options::Options;
use crate::pgbench::{Pgbench, Transactions};
use crate::picture::{Size, Template};
use crate::program::Program;
use crate::sample::{Sample, median};
use crate::servers::Server;
use crate::stage::Stage;
use crate::usage::Watched;
use crate::{Fallible, interrupt};

/// Uploads at once, from row to row.
pub(crate) const IN_FLIGHT: [u32; 2] = [1, 32];
/// The app that uploads.
const APP_ID: &str = "bench";
/// How often a picture is judged by itself in each round.
const JUDGEMENTS: u32 = 5;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) size: Size,
    pub(crate) in_flight: u32,
}

/// The result of one row.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Bytes of one picture.
    pub(crate) bytes: usize,
    /// Uploads.
    pub(crate) uploads: Sample,
    /// The same bytes inserted by pgbench, with as many clients.
    pub(crate) inserts: Sample,
    /// Seconds to judge one picture on one core.
    pub(crate) judging: f64,
}

/// Everything that runs, in the order in which it ends.
pub(crate) struct Bench<'a> {
    options: &'a Options,
    uploader: Uploader,
    templates: BTreeMap<Size, Template>,
    server: Server,
    pgbench: Pgbench,
    acknowledged: usize,
    wrong: Vec<String>,
    compared: u32,
    postmaster: u32,
    stage: Stage,
}

impl<'a> Bench<'a> {
    /// An app, a server, pictures.
    pub(crate) fn prepare(options: &'a Options, mut stage: Stage) -> Fallible<Self> {
        let program = Program::on(&stage);
        program.json(&["migrate"])?;
        program.json(&["app", "create", APP_ID])?;
        program.json(&["app", "limit", APP_ID, "--uploads-per-second", "0"])?;
        let token = program.json(&["token", "issue", APP_ID])?;
        let token = token["access_token"].as_str().ok_or("minitill printed no access_token")?;
        let session = stage.session();
        session.execute("CREATE SCHEMA reference")?;
        session.execute("CREATE TABLE reference.pictures (bytes bytea NOT NULL)")?;
        session.execute("ALTER TABLE reference.pictures ALTER COLUMN bytes SET STORAGE EXTERNAL")?;
        let server = Server::of(&program)?;
        let templates = Size::ALL.map(|size| Ok((size, Template::new(size)?)));
        Ok(Self {
            options,
            uploader: Uploader::new(server.address(), APP_ID, token),
            templates: templates.into_iter().collect::<Fallible<_>>()?,
            server,
            pgbench: Pgbench::on(&mut stage)?,
            acknowledged: 0,
            wrong: Vec::new(),
            compared: 0,
            postmaster: stage.postmaster()?,
            stage,
        })
    }

    /// Measures every row.
    pub(crate) fn run(&mut self) -> Fallible<BTreeMap<Row, Measured>> {
        let mut all: BTreeMap<Row, Vec<Measured>> = BTreeMap::new();
        for round in 1..=self.options.rounds() {
            for size in Size::ALL {
                for in_flight in IN_FLIGHT {
                    interrupt::check()?;
                    let row = Row { size, in_flight };
                    let measured = self.measure(row)?;
                    eprintln!(
                        "round {round} of {}: {:<6} {in_flight:>2} in flight {:>8.1}/s",
                        self.options.rounds(),
                        size.name(),
                        measured.uploads.rate
                    );
                    all.entry(row).or_default().push(measured);
                }
            }
        }
        Ok(all.iter().filter_map(|(&row, measured)| Some((row, Measured::median(measured)?))).collect())
    }

    fn measure(&mut self, row: Row) -> Fallible<Measured> {
        let template = &self.templates[&row.size];
        let judging = judge_alone(template)?;
        let watched = Watched { servers: vec![self.server.pid()], postmaster: self.postmaster };
        let before = watched.usage();
        let run = insert_alone(&mut self.stage, &self.pgbench, template, row, self.options)?;
        let inserts = Sample::new(run.latencies, run.rate, &(watched.usage() - before), None);
        let inserts = inserts.ok_or("pgbench inserted nothing")?;
        forget_peak(self.server.pid());
        let before = watched.usage();
        let answers = self.uploader.run(template, row.in_flight, self.options.seconds())?;
        let used = watched.usage() - before;
        self.acknowledged += answers.latencies.len();
        self.wrong.extend(answers.wrong.iter().map(|(what, count)| format!("{count} times: {what}")));
        if let Some((number, img_id)) = answers.last {
            self.compared += 1;
            let sent = template.bytes(number);
            let kept = pictures::keep(&sent)?.contents;
            if self.uploader.fetch(&img_id)? != kept {
                self.wrong.push(format!("image {img_id} is not what was uploaded"));
            }
        }
        let uploads = f64::from(u32::try_from(answers.latencies.len())?);
        let rate = uploads / answers.elapsed.as_secs_f64();
        let sample = Sample::new(answers.latencies, rate, &used, watched.memory());
        let uploads = sample.ok_or_else(|| format!("{}: not one right answer", row.size.name()))?;
        Ok(Measured { bytes: template.len(), uploads, inserts, judging })
    }

    /// Looks whether every acknowledged picture is there.
    pub(crate) fn close(mut self) -> Fallible<Closing> {
        let images = self.stage.session().number("SELECT count(*) FROM public.images")?;
        Ok(Closing {
            images: usize::try_from(images)?,
            acknowledged: self.acknowledged,
            compared: self.compared,
            wrong: self.wrong,
        })
    }
}

/// From now on the peak of this process's memory is that of what follows. Where the system does not
/// let it, the peak is that of all so far.
fn forget_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// How long it takes to judge a picture and make what is kept of it, on one core; the shortest of a
/// few.
fn judge_alone(template: &Template) -> Fallible<f64> {
    let bytes = template.bytes(0);
    let mut shortest = Duration::MAX;
    for _ in 0..JUDGEMENTS {
        let started = Instant::now();
        black_box(pictures::keep(&bytes)?);
        shortest = shortest.min(started.elapsed());
    }
    Ok(shortest.as_secs_f64())
}

/// Lets pgbench insert the picture again and again: a prepared statement that holds the picture, so that its
/// bytes do not even travel.
fn insert_alone(
    stage: &mut Stage,
    pgbench: &Pgbench,
    template: &Template,
    row: Row,
    options: &Options,
) -> Fallible<Transactions> {
    let script =
        format!("INSERT INTO reference.pictures VALUES ('\\x{}');\n", hex::encode(template.bytes(0)));
    let run = pgbench.run(&script, row.in_flight, options.seconds(), &[])?;
    // Room for the next.
    stage.session().execute("TRUNCATE reference.pictures")?;
    Ok(run)
}

impl Measured {
    fn median(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let middle = |of: fn(&Self) -> Sample| Sample::median(&all.iter().map(of).collect::<Vec<_>>());
        Some(Self {
            bytes: first.bytes,
            uploads: middle(|one| one.uploads)?,
            inserts: middle(|one| one.inserts)?,
            judging: median(all.iter().map(|one| one.judging).collect()),
        })
    }
}

/// The findings at the end of the run.
pub(crate) struct Closing {
    images: usize,
    acknowledged: usize,
    compared: u32,
    wrong: Vec<String>,
}

impl Closing {
    /// Whether nothing at all is wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong.is_empty() && self.images == self.acknowledged
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = if self.images == self.acknowledged { "all there" } else { "NOT ALL THERE" };
        writeln!(f, "pictures  {there}: {} images, {} acknowledged", self.images, self.acknowledged)?;
        write!(f, "served    {} fetched and compared byte by byte", self.compared)?;
        self.wrong.iter().try_for_each(|what| write!(f, "\nWRONG     {what}"))
    }
}
