//! One run from one seed. Each step draws the next event.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use telemetry::metrics::ExchangeMetrics;
use tokio::time::Instant;

use super::clients::{Clients, Wish};
use super::counts::{EventCounts, EventKind};
use super::link::Simulated;
use super::random::Random;
use super::rows::RequestKind;
use super::settings::{RunSettings, Sabotage};
use super::world::{Peer, World};
use crate::counts::Replays;
use crate::wallet_writer::WalletWriters;
use crate::wallet_writer::work::WalletWork;
use crate::writer::Writer;

/// After the faults stop, everything must be answered within this many steps.
const CALM_STEPS_MAX: u64 = 40_000;

/// The result of a run without a violation.
pub(super) struct EpisodeReport {
    pub(super) steps: u64,
    pub(super) counts: EventCounts,
}

/// The task of a writer, and whether it must be polled.
struct WriterTask {
    writing: Pin<Box<dyn Future<Output = ()>>>,
    flag: Arc<Flag>,
    waker: Waker,
}

impl WriterTask {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A running process. A crashed process is `None` and starts again later.
struct Process {
    writers: WalletWriters,
    tasks: Vec<WriterTask>,
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Poll { process: usize, task: usize },
    Work(usize),
    Deliver(usize),
    FindOut(usize),
    Connect,
    Ask(usize),
    GiveUp(usize),
    StartProcess(usize),
    StartDatabase,
    Time,
}

pub(super) struct Episode {
    world: Rc<RefCell<World>>,
    start: Instant,
    processes: Vec<Option<Process>>,
    clients: Clients,
    moves: Vec<Move>,
    steps: u64,
    /// Acknowledged successes that are requested once more at the end.
    to_repeat: Vec<usize>,
    prints_steps: bool,
}

impl Episode {
    /// Runs a seed. With `prints_steps` it prints every step.
    pub(super) fn run(
        seed: u64,
        sabotage: Sabotage,
        steps: u64,
        prints_steps: bool,
    ) -> Result<EpisodeReport, String> {
        let mut random = Random::new(seed);
        let settings = RunSettings::draw(&mut random, sabotage, steps);
        let start = Instant::now();
        let (processes, clients) = (settings.processes, settings.clients);
        let mut episode = Self {
            world: Rc::new(RefCell::new(World::new(settings, random))),
            start,
            processes: (0..processes).map(|_| None).collect(),
            clients: Clients::new(clients, start),
            moves: Vec::new(),
            steps: 0,
            to_repeat: Vec::new(),
            prints_steps,
        };
        let outcome = episode.play();
        let steps = episode.steps;
        outcome.map_err(|text| format!("seed {seed}, step {steps}: {text}"))?;
        let counts = episode.world.borrow().counts.clone();
        Ok(EpisodeReport { steps, counts })
    }

    fn play(&mut self) -> Result<(), String> {
        let steps = self.world.borrow().settings.steps;
        while self.steps < steps {
            self.chance_fault();
            self.step()?;
        }
        self.world.borrow_mut().has_faults = false;
        self.settle("after the faults")?;
        // Every acknowledged success is requested once more.
        self.to_repeat = self.clients.acknowledged();
        self.settle("repeating what was acknowledged")?;
        let world = self.world.borrow();
        let recorded: Vec<bool> = world.tables.records.iter().map(Option::is_some).collect();
        world.oracle.close(&world.tables.wallets, &recorded)
    }

    /// Runs without faults. Every request must be answered within a bound.
    fn settle(&mut self, when: &str) -> Result<(), String> {
        let last = self.steps + CALM_STEPS_MAX;
        while !self.clients.are_content() || !self.to_repeat.is_empty() {
            if self.steps == last {
                return Err(format!("{when}: not everything is answered"));
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        self.find_moves();
        let chosen = {
            let mut world = self.world.borrow_mut();
            let time = world.settings.time;
            if self.moves.is_empty() || world.random.chance(time) {
                Move::Time
            } else {
                self.moves[world.random.below(self.moves.len())]
            }
        };
        if self.prints_steps {
            self.tell(chosen);
        }
        self.do_move(chosen);
        self.world.borrow_mut().violation.take().map_or(Ok(()), Err)
    }

    fn find_moves(&mut self) {
        let world = self.world.borrow();
        self.moves.clear();
        for (process, running) in self.processes.iter().enumerate() {
            match running {
                None => self.moves.push(Move::StartProcess(process)),
                Some(running) => {
                    for (task, _) in running.tasks.iter().enumerate().filter(|(_, task)| task.is_woken()) {
                        self.moves.push(Move::Poll { process, task });
                    }
                }
            }
        }
        for (place, backend) in world.backends.iter().enumerate() {
            if backend.is_dead || (backend.peer == Peer::Writer && !backend.outbox.is_empty()) {
                self.moves.push(Move::Deliver(place));
            }
            if world.can_work(place) {
                self.moves.push(Move::Work(place));
            } else if backend.peer == Peer::CutOff || (backend.peer == Peer::Gone && backend.queue.is_empty())
            {
                self.moves.push(Move::FindOut(place));
            }
        }
        if !world.connecting.is_empty() {
            self.moves.push(Move::Connect);
        }
        if !world.is_up {
            self.moves.push(Move::StartDatabase);
        }
        let runs = self.processes.iter().any(Option::is_some);
        for (place, client) in self.clients.all.iter().enumerate() {
            match &client.waiting {
                Some(waiting) if world.now >= waiting.gives_up_at => self.moves.push(Move::GiveUp(place)),
                None if runs
                    && (world.has_faults || client.unsure.is_some() || !self.to_repeat.is_empty()) =>
                {
                    self.moves.push(Move::Ask(place));
                }
                Some(_) | None => {}
            }
        }
    }

    fn tell(&self, chosen: Move) {
        let world = self.world.borrow();
        let session = match chosen {
            Move::Work(place) | Move::Deliver(place) | Move::FindOut(place) => world.backends.get(place),
            Move::Poll { .. }
            | Move::Connect
            | Move::Ask(_)
            | Move::GiveUp(_)
            | Move::StartProcess(_)
            | Move::StartDatabase
            | Move::Time => None,
        };
        let session = session.map(|session| (session.id, session.queue.front(), session.outbox.front()));
        println!("{:>6} {:>6} ms, commit {}: {chosen:?} {session:?}", self.steps, world.now, world.commits);
    }

    fn do_move(&mut self, chosen: Move) {
        match chosen {
            Move::Poll { process, task } => self.poll(process, task),
            Move::Work(place) => self.world.borrow_mut().work(place),
            Move::Deliver(place) => self.world.borrow_mut().deliver(place),
            Move::FindOut(place) => self.world.borrow_mut().find_out(place),
            Move::Connect => self.world.borrow_mut().connect(),
            Move::Ask(client) => self.ask(client),
            Move::GiveUp(client) => {
                self.world.borrow_mut().counts.add(EventKind::GaveUp);
                self.clients.give_up(client);
            }
            Move::StartProcess(process) => self.start_process(process),
            Move::StartDatabase => self.world.borrow_mut().is_up = true,
            Move::Time => {
                let mut world = self.world.borrow_mut();
                let millis = world.random.one_of(&[1, 1, 5, 20, 60]);
                world.pass(millis);
            }
        }
    }

    fn poll(&mut self, process: usize, task: usize) {
        let Some(running) = &mut self.processes[process] else { return };
        let task = &mut running.tasks[task];
        task.flag.0.store(false, Ordering::Relaxed);
        let ended = task.writing.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready();
        let mut world = self.world.borrow_mut();
        if ended {
            world.violated(Err("a writer ended".to_owned()));
        }
        self.clients.take_answers(&mut world, process);
    }

    fn start_process(&mut self, process: usize) {
        let writers = self.world.borrow().settings.writers;
        let (writers, queues) = WalletWriters::with_queues(writers, 1_000);
        let tasks = queues.into_iter().map(|queue| {
            let database = Simulated { world: Rc::clone(&self.world), start: self.start };
            let mut writer = Writer::new(
                queue,
                WalletWork::new(&database, &ExchangeMetrics::default(), &Replays::default()),
            );
            let flag = Arc::new(Flag(AtomicBool::new(true)));
            let waker = Waker::from(Arc::clone(&flag));
            WriterTask { writing: Box::pin(async move { writer.run().await }), flag, waker }
        });
        let tasks = tasks.collect();
        self.processes[process] = Some(Process { writers, tasks });
    }

    fn ask(&mut self, client: usize) {
        let mut world = self.world.borrow_mut();
        let part_done = (self.steps, world.settings.steps);
        let wish = match self.clients.all[client].unsure {
            // Sometimes a client gives up for ever.
            Some(_) if world.fault(500) => {
                self.clients.all[client].unsure = None;
                return;
            }
            Some(wish) => wish,
            None => match self.to_repeat.pop() {
                Some(number) => {
                    let Some(content) = world.oracle.success(number) else {
                        return world.violated(Err(format!("number {number} was acknowledged and lost")));
                    };
                    // A closed number is asked for again, and a change is a replay whatever its time.
                    Wish { number, content, is_fresh: content.kind == RequestKind::Close }
                }
                None => Clients::draw(&mut world, part_done),
            },
        };
        let running: Vec<usize> =
            (0..self.processes.len()).filter(|process| self.processes[*process].is_some()).collect();
        let process = world.random.one_of(&running);
        if let Some(running) = &self.processes[process] {
            self.clients.send(&mut world, client, wish, (process, &running.writers));
        }
    }

    /// A fault happens, or an operator does something.
    fn chance_fault(&mut self) {
        let mut world = self.world.borrow_mut();
        let crashes = world.chance_fault();
        let process = world.random.below(self.processes.len());
        // Dropped writers hang up.
        drop(world);
        if crashes {
            self.crash_process(process);
        }
    }

    fn crash_process(&mut self, process: usize) {
        if self.processes[process].take().is_none() {
            return;
        }
        self.world.borrow_mut().counts.add(EventKind::ProcessCrash);
        for client in 0..self.clients.all.len() {
            if self.clients.all[client].waiting.as_ref().is_some_and(|waiting| waiting.process == process) {
                self.clients.give_up(client);
            }
        }
    }
}
