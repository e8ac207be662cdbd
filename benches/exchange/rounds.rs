//! The run: every row once in each round, ours and the references in alternation. So a machine that
//! is slower for a while is slower for all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use serde_json::Value;

use crate::books::{Books, Closing};
use crate::load::{self, Answers, Drive};
use crate::options::Options;
use crate::program::Program;
use crate::receiver::Receiver;
use crate::reference::{Reference, Script};
use crate::requests::{APP_ID, Asked, Calls, Game, Numbers, PAGE, PRICE, PRODUCT_ID, Spread, TOPUP_COINS};
use crate::rows::{Row, Shape, Target, Told, Work};
use crate::sample::{Latency, Sample};
use crate::servers::Server;
use crate::stage::Stage;
use crate::usage::{Usage, Watched};
use crate::{Fallible, ceiling, interrupt, seed};

/// Exchanges a second while it is measured how late events come.
const EVENTS_PER_SECOND: u32 = 5_000;
/// How long the last events may take.
const EVENTS_PATIENCE: Duration = Duration::from_secs(30);
/// Events that have waited for a receiver that catches up.
const EVENTS_WAITING: u64 = 1_000_000;
/// In flight against the ceiling, and in the warm-up.
const USUAL_IN_FLIGHT: usize = 64;
/// What a row writes to the log at most, and the files that PostgreSQL keeps at most.
const LOG_MEGABYTES_PER_SECOND: f64 = 25.0;
const LOG_FILES_MAX: u32 = 240;
/// Clients of pgbench in the warm-up.
const REFERENCE_CLIENTS: u32 = 16;
/// Credits of one import.
const CREDITS: u32 = 200_000;
/// Connections that a paced row may use.
const PACED_CONNECTIONS: usize = 256;
/// How long a server is warmed up, and with how many requests a second at most. The long run is
/// measured, and the first minute after a checkpoint is not. In that minute every page that is
/// touched is logged in full once.
const WARM_UP: Duration = Duration::from_secs(5);
const WARM_UP_FILLED: Duration = Duration::from_secs(20);
const WARM_UP_RATE: u32 = 40_000;
/// Prepared requests of one measurement: some 800 bytes of memory each.
const PREPARED_MAX: f64 = 3_000_000.0;
/// Prepared requests beyond what a row took the last time, and beyond what any row took where it
/// has not been measured yet.
const MARGIN: f64 = 1.5;
const FIRST_MARGIN: f64 = 3.0;

/// Everything that runs, in the order in which it ends.
pub(crate) struct Bench<'a> {
    options: &'a Options,
    servers: [Server; 2],
    ceiling: Server,
    reference: Reference,
    program: Program,
    receiver: Receiver,
    game: Game,
    books: Books,
    postmaster: u32,
    /// The rate of each row in its last measurement.
    rates: BTreeMap<Row, f64>,
    /// The highest rate that one server has answered new exchanges at.
    highest: f64,
    /// Of each measurement of the row `64`.
    storage: Vec<Storage>,
    stage: Stage,
}

/// The medians of every row, on fresh tables and on filled ones.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) fresh: BTreeMap<Row, Sample>,
    pub(crate) filled: BTreeMap<Row, Sample>,
    /// Exchanges in the tables when the second half began.
    pub(crate) filled_to: i64,
    /// What an exchange of the row `64` takes on fresh tables.
    pub(crate) storage: Option<Storage>,
}

/// Bytes of one exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage {
    /// In the ledger and its keys.
    pub(crate) on_disk: f64,
    /// In the write-ahead log. Some pages were logged in full, because a checkpoint came before.
    pub(crate) in_log: f64,
}

impl<'a> Bench<'a> {
    /// An app, its wallets, three servers, all warm.
    pub(crate) fn prepare(options: &'a Options, mut stage: Stage) -> Fallible<Self> {
        let receiver = Receiver::start()?;
        let ports = format!("{},{}", receiver.address.port(), receiver.dead.port());
        let program = Program::on(&stage)
            .with("MINITILL_NOTIFY__ALLOW_NETWORKS", "127.0.0.0/8")
            .with("MINITILL_NOTIFY__PORTS", &ports);
        program.json(&["migrate"])?;
        let app = program.json(&[
            "app", "create", APP_ID, "--scope", "epay", "--scope", "present", "--scope", "cancel", "--scope",
            "topup",
        ])?;
        let token = program.json(&["token", "issue", APP_ID])?;
        program.json(&["app", "publish", APP_ID, "--version", "1.0.0", "--path", PAGE])?;
        program.json(&["app", "limit", APP_ID, "--reports-per-second", "0"])?;
        let prices = stage.folder().join("prices.csv");
        let [charge, bonus] = TOPUP_COINS;
        std::fs::write(
            &prices,
            format!(
                "product_id,currency,amount,charge,bonus,name,active\n{PRODUCT_ID},CNY,{PRICE},{charge},{bonus},Gems,true\n"
            ),
        )?;
        let prices = prices.to_str().ok_or("a folder whose name is no UTF-8")?;
        program.json(&["price", "set", APP_ID, prices])?;
        let api_key =
            program.json(&["api-key", "create", "payments", "--role", "payments", "--app", APP_ID])?;
        seed::wallets(stage.session(), options.wallets())?;
        let keys = [text(&token, "access_token")?, text(&app, "pay_key")?, text(&api_key, "api_key")?];
        let [token, pay_key, api_key] = keys;
        let game = Game::new(token, pay_key, api_key, options.wallets());
        let mut bench = Self {
            servers: [Server::of(&program)?, Server::of(&program)?],
            ceiling: ceiling::start(&program)?,
            reference: Reference::on(&mut stage, options.wallets())?,
            postmaster: stage.postmaster()?,
            options,
            program,
            receiver,
            game,
            books: Books::default(),
            rates: BTreeMap::new(),
            highest: 0.0,
            storage: Vec::new(),
            stage,
        };
        bench.age_log()?;
        bench.warm_up(WARM_UP)?;
        Ok(bench)
    }

    /// Makes as many files of the write-ahead log as the run will fill, and gives them back for
    /// reuse. That is their state after the first gigabytes of a server's life. Until then each new
    /// file is a pause of some 50 ms for everybody, which would be all that the tails show.
    fn age_log(&mut self) -> Fallible<()> {
        let rows = u32::try_from(Row::value_variants().len())?;
        let megabytes = self.options.seconds().as_secs_f64()
            * f64::from(rows * self.options.rounds())
            * LOG_MEGABYTES_PER_SECOND;
        let files = whole(megabytes / 16.0).clamp(8, LOG_FILES_MAX);
        for _ in 0..files {
            self.stage.session().execute("SELECT pg_logical_emit_message(false, 'bench', 'a page')")?;
            self.stage.session().execute("SELECT pg_switch_wal()")?;
        }
        self.stage.session().execute("CHECKPOINT")?;
        self.stage.session().execute("CHECKPOINT")
    }

    /// Brings the tables' pages into memory and the log to its usual size, by ours and by the
    /// references.
    fn warm_up(&mut self, lasting: Duration) -> Fallible<()> {
        let lasting = lasting.min(self.options.seconds() * 5);
        let drive = Drive::Closed { connections: USUAL_IN_FLIGHT, lasting, half_replays: false };
        let count = whole(lasting.as_secs_f64() * f64::from(WARM_UP_RATE));
        for server in 0..self.servers.len() {
            let requests = self.game.prepare(count, Spread::All, Numbers::Ascending);
            let answers = load::run(vec![self.servers[server].address()], requests, drive)?;
            self.highest = self.highest.max(rate(&answers));
            self.keep_books(answers);
        }
        let requests = self.game.prepare(count, Spread::All, Numbers::Ascending);
        let answers = load::run(vec![self.ceiling.address()], requests, drive)?;
        self.rates.insert(Row::Ceiling, rate(&answers));
        for script in [Script::Classic, Script::OneStatement] {
            self.reference.run(script, REFERENCE_CLIENTS, lasting)?;
        }
        Ok(())
    }

    /// Measures every row that is wanted; then, if asked to, fills the tables and goes on.
    pub(crate) fn run(&mut self) -> Fallible<Results> {
        let mut results =
            Results { fresh: self.rounds("fresh", Row::value_variants())?, ..Results::default() };
        results.storage = median(&mut self.storage);
        if let Some(per_wallet) = self.options.filled_per_wallet() {
            seed::past(self.stage.session(), per_wallet)?;
            self.books.fill(u64::from(per_wallet) * u64::from(self.options.wallets()));
            results.filled_to = self
                .stage
                .session()
                .number("SELECT count(*) FROM public.ledger_entries WHERE kind = 'exchange'")?;
            self.warm_up(WARM_UP_FILLED)?;
            results.filled = self.rounds("filled", &Row::WHEN_FILLED)?;
        }
        Ok(results)
    }

    fn rounds(&mut self, tables: &str, rows: &[Row]) -> Fallible<BTreeMap<Row, Sample>> {
        let mut samples: BTreeMap<Row, Vec<Sample>> = BTreeMap::new();
        for round in 1..=self.options.rounds() {
            for &row in rows.iter().filter(|&&row| self.options.wants(row)) {
                interrupt::check()?;
                let sample = self.measure(row)?;
                eprintln!(
                    "{tables} tables, round {round} of {}: {:<36} {:>9.0}/s",
                    self.options.rounds(),
                    row.name(),
                    sample.rate
                );
                samples.entry(row).or_default().push(sample);
            }
        }
        Ok(samples.iter().filter_map(|(&row, samples)| Some((row, Sample::median(samples)?))).collect())
    }

    fn measure(&mut self, row: Row) -> Fallible<Sample> {
        let measured = match row.work() {
            Work::Reference(script, clients) => self.measure_reference(script, clients),
            Work::Ceiling => self.measure_ceiling(),
            Work::Closed(shape) => self.measure_closed(row, shape),
            Work::Told(told) => self.measure_told(told),
            Work::Import => self.measure_import(),
            Work::Paced(target) => self.measure_paced(target),
        };
        let sample = measured.map_err(|error| format!("{}: {error}", row.name()))?;
        let sample = sample.ok_or_else(|| format!("{}: not one right answer", row.name()))?;
        self.rates.insert(row, sample.rate);
        if [Row::InFlight64, Row::InFlight256].contains(&row) {
            self.highest = self.highest.max(sample.rate);
        }
        Ok(sample)
    }

    fn measure_reference(&mut self, script: Script, clients: u32) -> Fallible<Option<Sample>> {
        let watched = Watched { servers: Vec::new(), postmaster: self.postmaster };
        let before = watched.usage();
        let run = self.reference.run(script, clients, self.options.seconds())?;
        Ok(Sample::new(run.latencies, run.rate, &(watched.usage() - before), None))
    }

    fn measure_ceiling(&mut self) -> Fallible<Option<Sample>> {
        let shape = Shape::plain(USUAL_IN_FLIGHT);
        let requests = self.game.prepare(self.enough_for(Row::Ceiling), shape.spread, shape.numbers);
        let drive = self.closed(shape);
        let watched = self.watched(&[&self.ceiling]);
        let before = watched.usage();
        let mut answers = load::run(vec![self.ceiling.address()], requests, drive)?;
        let used = watched.usage() - before;
        // It deducts nothing: only its wrong answers matter.
        answers.made.clear();
        answers.paid.clear();
        Ok(self.sample(answers, &used, &watched))
    }

    fn measure_closed(&mut self, row: Row, shape: Shape) -> Fallible<Option<Sample>> {
        let count = self.enough_for(row);
        let requests = self.game.prepare_calls(count, shape.spread, shape.numbers, shape.calls);
        let drive = self.closed(shape);
        let bytes = self.bytes()?;
        let servers: Vec<&Server> = self.servers.iter().take(shape.servers).collect();
        let address = |server: &&Server| match shape.calls {
            Calls::Only(Asked::Payment) => server.operator_address(),
            _ => Some(server.address()),
        };
        let addresses: Vec<SocketAddr> = servers.iter().filter_map(address).collect();
        let watched = self.watched(&servers);
        let before = watched.usage();
        let answers = load::run(addresses, requests, drive)?;
        let used = watched.usage() - before;
        if row == Row::InFlight64 {
            let (now, made) = (self.bytes()?, f64::from(u32::try_from(answers.paid.len())?.max(1)));
            self.storage.push(Storage {
                on_disk: (now.on_disk - bytes.on_disk) / made,
                in_log: (now.in_log - bytes.in_log) / made,
            });
        }
        Ok(self.sample(answers, &used, &watched))
    }

    /// How large the ledger is, and how far the log has come.
    fn bytes(&mut self) -> Fallible<Storage> {
        let mut number = |sql| -> Fallible<f64> { Ok(self.stage.session().text(sql)?.parse()?) };
        Ok(Storage {
            on_disk: number("SELECT pg_total_relation_size('public.ledger_entries')::text")?,
            in_log: number("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text")?,
        })
    }

    fn measure_paced(&mut self, target: Target) -> Fallible<Option<Sample>> {
        let rate = self.highest / 2.0;
        let interval = Duration::from_secs_f64(1.0 / rate);
        let count = whole(rate * self.options.seconds().as_secs_f64());
        let requests = self.game.prepare(count, Spread::All, Numbers::Ascending);
        let drive = Drive::Paced { connections: PACED_CONNECTIONS, interval };
        let server = match target {
            Target::Server => &self.servers[0],
            Target::Ceiling => &self.ceiling,
        };
        let watched = self.watched(&[server]);
        let before = watched.usage();
        let mut answers = load::run(vec![server.address()], requests, drive)?;
        let used = watched.usage() - before;
        if target == Target::Ceiling {
            answers.made.clear();
            answers.paid.clear();
        }
        Ok(self.sample(answers, &used, &watched))
    }

    /// Credits of known players. Its latencies are those of the whole file.
    fn measure_import(&mut self) -> Fallible<Option<Sample>> {
        let (file, count) = (self.stage.folder().join("credits.csv"), CREDITS);
        std::fs::write(&file, self.game.credits(count))?;
        let watched = self.watched(&[]);
        let (before, began) = (watched.usage(), Instant::now());
        let path = file.to_str().ok_or("a folder whose name is no UTF-8")?;
        let report = self.program.json(&["wallet", "import", APP_ID, path])?;
        let (elapsed, used) = (began.elapsed(), watched.usage() - before);
        if report["credited"] != count {
            return Err(format!("the import of {count} credits printed {report}").into());
        }
        self.books.credit(count);
        let rate = f64::from(count) / elapsed.as_secs_f64();
        let latencies = vec![Latency::of(elapsed); usize::try_from(count)?];
        Ok(Sample::new(latencies, rate, &used, None))
    }

    /// Exchanges while there is a receiver of events.
    fn measure_told(&mut self, told: Told) -> Fallible<Option<Sample>> {
        let address = if told == Told::Dead { self.receiver.dead } else { self.receiver.address };
        let url = format!("http://{address}/");
        let added = self.program.json(&["receiver", "add", APP_ID, &url])?;
        let id = text(&added, "receiver_id")?;
        let sample = match told {
            Told::All => self.measure_closed(Row::Receiver, Shape::plain(USUAL_IN_FLIGHT)),
            Told::Dead => self.measure_closed(Row::DeadReceiver, Shape::plain(USUAL_IN_FLIGHT)),
            Told::Paced => self.measure_events(),
            Told::CatchUp => self.measure_catch_up(&id),
        };
        self.program.json(&["receiver", "remove", APP_ID, &id, "--yes"])?;
        sample
    }

    /// How late events come at a steady rate of exchanges.
    fn measure_events(&mut self) -> Fallible<Option<Sample>> {
        let seconds = self.options.seconds();
        let count = whole(seconds.as_secs_f64() * f64::from(EVENTS_PER_SECOND));
        let requests = self.game.prepare(count, Spread::All, Numbers::Ascending);
        let drive = Drive::Paced {
            connections: PACED_CONNECTIONS,
            interval: Duration::from_secs_f64(1.0 / f64::from(EVENTS_PER_SECOND)),
        };
        let watched = self.watched(&[&self.servers[0]]);
        let (before, events) = (watched.usage(), self.receiver.events());
        self.receiver.measure();
        let answers = load::run(vec![self.servers[0].address()], requests, drive)?;
        let used = watched.usage() - before;
        let (rate, made) = (rate(&answers), answers.made.values().sum::<u64>());
        self.keep_books(answers);
        let until = Instant::now() + EVENTS_PATIENCE;
        while self.receiver.events() < events + made && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let delays = self.receiver.measured();
        if (delays.len() as u64) < made {
            return Err(format!("{} of {made} events came", delays.len()).into());
        }
        let latencies = delays.into_iter().map(Latency::of).collect();
        Ok(Sample::new(latencies, rate, &used, watched.memory()))
    }

    /// Exchanges while a receiver catches up that was away for a million events.
    fn measure_catch_up(&mut self, id: &str) -> Fallible<Option<Sample>> {
        self.program.json(&["receiver", "pause", APP_ID, id])?;
        let mut waiting = 0;
        while waiting < EVENTS_WAITING {
            let before = self.books.acknowledged();
            self.measure_closed(Row::InFlight256, Shape::plain(256))?;
            waiting += self.books.acknowledged() - before;
        }
        self.program.json(&["receiver", "resume", APP_ID, id])?;
        // Until it is noticed.
        std::thread::sleep(Duration::from_secs(2));
        let (events, began) = (self.receiver.events(), Instant::now());
        let sample = self.measure_closed(Row::CatchUp, Shape::plain(USUAL_IN_FLIGHT))?;
        let caught = self.receiver.events() - events;
        let per_second = f64::from(u32::try_from(caught)?) / began.elapsed().as_secs_f64();
        eprintln!("the receiver caught up {per_second:.0} events a second; {waiting} had waited");
        Ok(sample)
    }

    fn watched(&self, servers: &[&Server]) -> Watched {
        Watched { servers: servers.iter().map(|server| server.pid()).collect(), postmaster: self.postmaster }
    }

    fn closed(&self, shape: Shape) -> Drive {
        Drive::Closed {
            connections: shape.in_flight,
            lasting: self.options.seconds(),
            half_replays: shape.half_replays,
        }
    }

    /// Requests that should last for a measurement; should they not, it is shorter.
    fn enough_for(&self, row: Row) -> u32 {
        let rate = self.rates.get(&row).map_or(self.highest * FIRST_MARGIN, |rate| rate * MARGIN);
        whole((rate * self.options.seconds().as_secs_f64()).min(PREPARED_MAX))
    }

    fn sample(&mut self, mut answers: Answers, used: &Usage, watched: &Watched) -> Option<Sample> {
        let (rate, latencies) = (rate(&answers), std::mem::take(&mut answers.latencies));
        self.keep_books(answers);
        Sample::new(latencies, rate, used, watched.memory())
    }

    fn keep_books(&mut self, answers: Answers) {
        self.books.acknowledge(&answers.made);
        self.game.remember(answers.paid);
        self.books.note_wrong(answers.wrong);
    }

    /// Looks whether the money adds up.
    pub(crate) fn close_books(self) -> Fallible<Closing> {
        let Self { mut stage, program, books, options, servers, ceiling, .. } = self;
        // What they have in hand is written or given up before it is counted.
        drop((servers, ceiling));
        books.close(stage.session(), &program, options.wallets())
    }
}

/// The middle one by its bytes on disk.
fn median(storage: &mut [Storage]) -> Option<Storage> {
    storage.sort_by(|one, other| one.on_disk.total_cmp(&other.on_disk));
    storage.get(storage.len() / 2).copied()
}

/// Right answers a second.
fn rate(answers: &Answers) -> f64 {
    f64::from(u32::try_from(answers.latencies.len()).unwrap_or(u32::MAX)) / answers.elapsed.as_secs_f64()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and nothing is below 0"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

fn text(object: &Value, name: &str) -> Fallible<String> {
    Ok(object[name].as_str().ok_or_else(|| format!("minitill printed no {name}: {object}"))?.to_owned())
}
