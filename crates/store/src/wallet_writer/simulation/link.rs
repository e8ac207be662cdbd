//! The simulated database behind the interface that the writers use.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::event::{EventKeys, EventType};
use domain::ids::WalletNo;
use domain::ledger::micros;
use domain::wallet::{Balances, CancelSummary};
use time::OffsetDateTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::content::record;
use super::counts::EventKind;
use super::protocol::{Detailed, SqlStatement, StatementReply, Write};
use super::rows::{
    RecordRow, RequestContent, RequestKind, SimulatedEntry, SimulatedEvent, SimulatedWallet, kind_of,
    number_id, number_text, numbered, variant_of, wallet_id, wallet_no,
};
use super::settings::Sabotage;
use super::world::{SessionEnd, World};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::wallet_writer::batch::{Batch, OpenWallet, WalletState};
use crate::wallet_writer::postgres::{DatabaseClient, WriterDatabase};
use crate::wallet_writer::query::ExchangeDetail;
use crate::wallet_writer::rows::{ReadRows, Record};
use crate::wallet_writer::write::Columns;
use crate::writer::SessionFault;

/// A handle of the simulated database.
#[derive(Clone)]
pub(super) struct Simulated {
    pub(super) world: Rc<RefCell<World>>,
    /// The start of simulated time.
    pub(super) start: Instant,
}

/// A session. Its drop hangs up.
pub(super) struct SimulatedClient {
    world: Rc<RefCell<World>>,
    session: u64,
}

pub(super) struct Ending(Rc<SessionEnd>);

/// A timer of simulated time.
struct Pause {
    world: Rc<RefCell<World>>,
    ends_at: u64,
    id: u64,
}

impl WriterDatabase for Simulated {
    type Client = SimulatedClient;
    type Connection = Ending;

    async fn connect(&self) -> Result<(Self::Client, Self::Connection), SessionFault> {
        let (sender, receiver) = oneshot::channel();
        self.world.borrow_mut().connecting.push_back(sender);
        let (session, end) =
            receiver.await.map_err(|_| SessionFault::Lost("nobody answers".to_owned()))??;
        Ok((SimulatedClient { world: Rc::clone(&self.world), session }, Ending(end)))
    }

    fn engine(&self) -> Engine {
        match self.world.borrow().settings.sabotage {
            Sabotage::OneAppABatch => Engine::Citus,
            _ => Engine::Postgres,
        }
    }

    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(self.world.borrow().settings.answer_timeout)
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.world.borrow().now)
    }

    async fn pause(&self, duration: Duration) {
        let pause = {
            let mut world = self.world.borrow_mut();
            let ends_at = world.now + u64::try_from(duration.as_millis()).unwrap();
            Pause { world: Rc::clone(&self.world), ends_at, id: world.next_id() }
        };
        pause.await;
        if duration == self.answer_timeout() {
            self.world.borrow_mut().counts.add(EventKind::TimedOut);
        }
    }
}

impl Future for Pause {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut world = self.world.borrow_mut();
        if world.now >= self.ends_at {
            return Poll::Ready(());
        }
        world.timers.insert((self.ends_at, self.id), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.world.borrow_mut().timers.remove(&(self.ends_at, self.id));
    }
}

impl Future for Ending {
    type Output = SessionFault;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SessionFault> {
        if self.0.is_ended.get() {
            return Poll::Ready(SessionFault::Lost("the database ended the session".to_owned()));
        }
        self.0.waker.replace(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for SimulatedClient {
    fn drop(&mut self) {
        self.world.borrow_mut().hang_up(self.session);
    }
}

impl SimulatedClient {
    async fn ask(&self, statement: SqlStatement) -> Result<StatementReply, SessionFault> {
        let receiver = self.world.borrow_mut().send(self.session, statement);
        match receiver.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(told)) => Err(SessionFault::from_code(told.code, told.code.to_owned())),
            Err(_) => Err(SessionFault::Lost("the session is closed".to_owned())),
        }
    }
}

fn unexpected(reply: &StatementReply) -> SessionFault {
    SessionFault::Other(StoreError::Internal(format!("an answer to something else: {reply:?}")))
}

fn wallet_ids(batch: &Batch<'_>) -> Vec<usize> {
    batch.wallets.app_nos.iter().zip(&batch.wallets.names).map(|(app, name)| wallet_id(*app, name)).collect()
}

fn number_ids(batch: &Batch<'_>) -> Vec<usize> {
    batch.numbers.app_nos.iter().zip(&batch.numbers.names).map(|(app, name)| number_id(*app, name)).collect()
}

/// Converts simulated time.
pub(super) fn moment(millis: u64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::from_millis(millis)
}

fn state(wallet: usize, row: SimulatedWallet) -> WalletState {
    WalletState::Open(OpenWallet {
        wallet_no: wallet_no(wallet),
        balances: Balances::new(row.free, row.charge).unwrap(),
        entry_count: row.entries,
        chain_hash: row.chain_hash,
        is_frozen: row.is_frozen,
    })
}

impl DatabaseClient for SimulatedClient {
    async fn begin(&self, _discards_plans: bool) -> Result<(), SessionFault> {
        self.ask(SqlStatement::Begin).await.map(drop)
    }

    async fn commit(&self) -> Result<(), SessionFault> {
        self.ask(SqlStatement::Commit).await.map(drop)
    }

    async fn roll_back(&self) -> Result<(), SessionFault> {
        self.ask(SqlStatement::RollBack).await.map(drop)
    }

    async fn read(&self, batch: &Batch<'_>, _discards_plans: bool) -> Result<ReadRows, SessionFault> {
        let wallets = wallet_ids(batch);
        let numbers = number_ids(batch);
        let looked_up = batch.lookups();
        let looked_up: Vec<(usize, usize)> = looked_up.collect();
        let keys = looked_up.iter().map(|(wallet, number)| (wallets[*wallet], numbers[*number])).collect();
        let reply = self.ask(SqlStatement::Read(keys)).await?;
        let StatementReply::Read(now, rows) = reply else { return Err(unexpected(&reply)) };
        let mut known = ReadRows { at: moment(now), ..ReadRows::nothing(batch) };
        for ((wallet, number), (row, recorded)) in looked_up.into_iter().zip(rows) {
            if let Some(row) = row {
                known.rows.wallets[wallet] = state(wallets[wallet], row);
            }
            known.rows.records[number] = recorded.map(record);
        }
        Ok(known)
    }

    async fn lock(
        &self,
        batch: &Batch<'_>,
        skips_held: bool,
    ) -> Result<Vec<(usize, WalletState)>, SessionFault> {
        let wallets = wallet_ids(batch);
        let reply = self.ask(SqlStatement::Lock { wallets: wallets.clone(), skips_held }).await?;
        let StatementReply::Locked(rows) = reply else { return Err(unexpected(&reply)) };
        Ok(rows.into_iter().map(|(place, row)| (place, state(wallets[place], row))).collect())
    }

    async fn time(&self) -> Result<OffsetDateTime, SessionFault> {
        let reply = self.ask(SqlStatement::Now).await?;
        let StatementReply::Now(millis) = reply else { return Err(unexpected(&reply)) };
        Ok(moment(millis))
    }

    async fn existing(&self, batch: &Batch<'_>) -> Result<Vec<(usize, WalletNo)>, SessionFault> {
        let wallets = wallet_ids(batch);
        let reply = self.ask(SqlStatement::Existing(wallets.clone())).await?;
        let StatementReply::Places(places) = reply else { return Err(unexpected(&reply)) };
        Ok(places.into_iter().map(|place| (place, wallet_no(wallets[place]))).collect())
    }

    async fn records(&self, batch: &Batch<'_>) -> Result<Vec<(usize, Record<'static>)>, SessionFault> {
        let reply = self.ask(SqlStatement::Records(number_ids(batch))).await?;
        let StatementReply::Records(rows) = reply else { return Err(unexpected(&reply)) };
        Ok(rows.into_iter().map(|(place, recorded)| (place, record(recorded))).collect())
    }

    async fn details(&self, batch: &Batch<'_>) -> Result<Vec<(usize, ExchangeDetail)>, SessionFault> {
        let numbers = number_ids(batch);
        let asked = batch.queries().map(|position| numbers[batch.places[position].number]).collect();
        let reply = self.ask(SqlStatement::Details(asked)).await?;
        let StatementReply::Details(rows) = reply else { return Err(unexpected(&reply)) };
        let summary = |(number, amount, at): (usize, i64, u64)| CancelSummary {
            reference: number_text(number),
            amount,
            created_at: i64::try_from(at).unwrap(),
        };
        let detail = |Detailed { variant, remaining, cancels }: Detailed| ExchangeDetail {
            product_name: format!("v{variant}"),
            remaining,
            cancels: cancels.into_iter().map(summary).collect(),
            has_more_cancels: false,
        };
        Ok(rows.into_iter().map(|(place, detailed)| (place, detail(detailed))).collect())
    }

    async fn write(&self, columns: &Columns<'_>, _is_alone: bool) -> Result<(), SessionFault> {
        self.ask(SqlStatement::Write(written(columns))).await.map(drop)
    }
}

/// Converts the columns of the statement to rows.
fn written(columns: &Columns<'_>) -> Write {
    let content = |place: usize| {
        let content = RequestContent {
            kind: RequestKind::Exchange,
            wallet: numbered(columns.wallet_no[place]),
            amount: (columns.free_change[place] + columns.charge_change[place]).abs(),
            gifted_first: columns.pay_priority[place] == Some(1),
            variant: columns.item_id[place].map_or(0, variant_of),
            of: columns.of_biz_no[place].map(|of| number_id(columns.app_no[place], of)),
        };
        content.of_kind(kind_of(columns.kind[place]))
    };
    let number = |place: usize| number_id(columns.app_no[place], columns.reference[place]);
    let record = |place: usize| RecordRow {
        number: number(place),
        content: content(place),
        seq: columns.seq[place],
        created_at: u64::try_from((columns.at - OffsetDateTime::UNIX_EPOCH).whole_milliseconds()).unwrap(),
        free_change: columns.free_change[place],
        charge_change: columns.charge_change[place],
        free: columns.free_balance[place],
        charge: columns.charge_balance[place],
        remaining: columns.remaining[place],
    };
    let entry = |place: usize| {
        let (seq, chain_hash) = columns.seq[place].zip(columns.chain_hash[place])?;
        Some(SimulatedEntry {
            wallet: numbered(columns.wallet_no[place]),
            seq,
            request: Some((number(place), content(place))),
            cause: None,
            remaining: columns.remaining[place],
            free_change: columns.free_change[place],
            charge_change: columns.charge_change[place],
            free: columns.free_balance[place],
            charge: columns.charge_balance[place],
            at: micros(columns.at),
            chain_hash: chain_hash.try_into().unwrap(),
        })
    };
    let wallet = |place: usize| {
        let row = SimulatedWallet {
            free: columns.wallet_free_balance[place],
            charge: columns.wallet_charge_balance[place],
            entries: columns.entry_count[place],
            chain_hash: columns.wallet_chain_hash[place].try_into().unwrap(),
            is_frozen: columns.wallet_is_frozen[place],
        };
        (numbered(columns.wallet_wallet_no[place]), row, columns.entry_count_before[place])
    };
    let told = |place: usize| {
        let event_type = EventType::parse(columns.outbox_type[place]).unwrap();
        let keys = EventKeys::decode(event_type, &columns.outbox_keys[place]);
        let Some(EventKeys::Entries(entries)) = keys else { panic!("events of wallets name entries") };
        assert_eq!(columns.outbox_count[place], i32::try_from(entries.len()).unwrap());
        let event = |(wallet_no, seq): (WalletNo, i64)| SimulatedEvent {
            wallet: numbered(wallet_no.0),
            seq,
            event_type,
        };
        entries.into_iter().map(event).collect()
    };
    let places = 0..columns.app_no.len();
    Write {
        outbox: (0..columns.outbox_app_no.len()).map(told).collect(),
        records: places.clone().map(record).collect(),
        entries: places.filter_map(entry).collect(),
        wallets: (0..columns.wallet_app_no.len()).map(wallet).collect(),
    }
}
