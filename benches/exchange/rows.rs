//! The rows of the table, in the order in which each round measures them.

use clap::ValueEnum;

use crate::reference::Script;
use crate::requests::{Asked, Calls, Numbers, Spread};

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Row {
    Classic,
    ClassicOne,
    OneStatement,
    Ceiling,
    #[value(name = "1")]
    One,
    #[value(name = "16")]
    InFlight16,
    #[value(name = "64")]
    InFlight64,
    #[value(name = "256")]
    InFlight256,
    OneWallet,
    HotWallets,
    Replays,
    Present,
    Cancel,
    Balance,
    Query,
    Mix,
    Order,
    Payment,
    ReportNewClassic,
    ReportChangedClassic,
    ReportNew,
    ReportChanged,
    Receiver,
    DeadReceiver,
    PacedReceiver,
    CatchUp,
    Import,
    RandomNumbers,
    TwoServers,
    TwoServersOneWallet,
    Paced,
    PacedCeiling,
}

/// How a row is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// By pgbench, with this many clients, on PostgreSQL alone.
    Reference(Script, u32),
    /// Against the server that answers without a database.
    Ceiling,
    /// Exchanges as fast as the answers come.
    Closed(Shape),
    /// The same, while a receiver of events is there.
    Told(Told),
    /// Credits of one file, by the command.
    Import,
    /// Exchanges at half of the highest rate that was measured.
    Paced(Target),
}

/// What receiver there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// One that takes all events.
    All,
    /// One at which nobody listens.
    Dead,
    /// One that takes all events of 5,000 exchanges a second. The latencies are from an exchange to its event.
    Paced,
    /// One for which many events have waited.
    CatchUp,
}

/// The server that a paced row asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Server,
    /// The one without a database: what is left is the machine and the generator.
    Ceiling,
}

/// The requests of a closed loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) in_flight: usize,
    pub(crate) servers: usize,
    pub(crate) spread: Spread,
    pub(crate) numbers: Numbers,
    pub(crate) half_replays: bool,
    pub(crate) calls: Calls,
}

impl Shape {
    /// New exchanges, evenly over all wallets of one server.
    pub(crate) const fn plain(in_flight: usize) -> Self {
        Self {
            in_flight,
            servers: 1,
            spread: Spread::All,
            numbers: Numbers::Ascending,
            half_replays: false,
            calls: Calls::Only(Asked::Exchange),
        }
    }
}

impl Row {
    /// Rows that take minutes. They are measured only when they are named.
    pub(crate) const LONG: [Self; 1] = [Self::CatchUp];

    /// The rows that are measured again on filled tables.
    pub(crate) const WHEN_FILLED: [Self; 5] =
        [Self::Classic, Self::OneStatement, Self::InFlight64, Self::Cancel, Self::Query];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Classic => "pgbench: classic, 16 clients",
            Self::ClassicOne => "pgbench: classic, one client",
            Self::OneStatement => "pgbench: one statement, 16 clients",
            Self::Ceiling => "ceiling: 64, without a database",
            Self::One => "one at a time",
            Self::InFlight16 => "16 in flight",
            Self::InFlight64 => "64 in flight",
            Self::InFlight256 => "256 in flight",
            Self::OneWallet => "64, all on one wallet",
            Self::HotWallets => "64, on 1,000 hot wallets",
            Self::Replays => "64, half of them replays",
            Self::Present => "64, presents",
            Self::Cancel => "64, cancels of exchanges",
            Self::Balance => "64, balances",
            Self::Query => "64, queries of exchanges",
            Self::Mix => "64, mix of calls",
            Self::Order => "64, orders of top-ups",
            Self::Payment => "64, payments of these orders",
            Self::ReportNewClassic => "pgbench: new order, 16 clients",
            Self::ReportChangedClassic => "pgbench: changed order, 16 clients",
            Self::ReportNew => "64, reports of new orders",
            Self::ReportChanged => "64, reports of changed orders",
            Self::Receiver => "64, with a receiver of events",
            Self::DeadReceiver => "64, with a receiver that is dead",
            Self::PacedReceiver => "events, at 5,000 exchanges a second",
            Self::CatchUp => "64, while a receiver catches up",
            Self::Import => "credits, imported from a file",
            Self::RandomNumbers => "64, random order numbers",
            Self::TwoServers => "64 on two servers",
            Self::TwoServersOneWallet => "64 on two servers, one wallet",
            Self::Paced => "paced at half of the highest rate",
            Self::PacedCeiling => "ceiling: paced at that rate",
        }
    }

    /// The transaction by hand that this row is compared with.
    pub(crate) fn classic(self) -> Self {
        match self {
            Self::ReportNewClassic | Self::ReportNew => Self::ReportNewClassic,
            Self::ReportChangedClassic | Self::ReportChanged => Self::ReportChangedClassic,
            _ => Self::Classic,
        }
    }

    pub(crate) fn work(self) -> Work {
        let plain = Shape::plain(64);
        match self {
            Self::Classic => Work::Reference(Script::Classic, 16),
            Self::ClassicOne => Work::Reference(Script::Classic, 1),
            Self::OneStatement => Work::Reference(Script::OneStatement, 16),
            Self::Ceiling => Work::Ceiling,
            Self::One => Work::Closed(Shape::plain(1)),
            Self::InFlight16 => Work::Closed(Shape::plain(16)),
            Self::InFlight64 => Work::Closed(plain),
            Self::InFlight256 => Work::Closed(Shape::plain(256)),
            Self::OneWallet => Work::Closed(Shape { spread: Spread::Hot(1), ..plain }),
            Self::HotWallets => Work::Closed(Shape { spread: Spread::Hot(1000), ..plain }),
            Self::Replays => Work::Closed(Shape { half_replays: true, ..plain }),
            Self::Present => Work::Closed(Shape { calls: Calls::Only(Asked::Present), ..plain }),
            Self::Cancel => Work::Closed(Shape { calls: Calls::Only(Asked::Cancel), ..plain }),
            Self::Balance => Work::Closed(Shape { calls: Calls::Only(Asked::Balance), ..plain }),
            Self::Query => Work::Closed(Shape { calls: Calls::Only(Asked::Query), ..plain }),
            Self::Mix => Work::Closed(Shape { calls: Calls::Mix, ..plain }),
            Self::Order => Work::Closed(Shape { calls: Calls::Only(Asked::Order), ..plain }),
            Self::Payment => Work::Closed(Shape { calls: Calls::Only(Asked::Payment), ..plain }),
            Self::ReportNewClassic => Work::Reference(Script::ReportNew, 16),
            Self::ReportChangedClassic => Work::Reference(Script::ReportChanged, 16),
            Self::ReportNew => Work::Closed(Shape { calls: Calls::Only(Asked::ReportNew), ..plain }),
            Self::ReportChanged => Work::Closed(Shape { calls: Calls::Only(Asked::ReportChanged), ..plain }),
            Self::Receiver => Work::Told(Told::All),
            Self::DeadReceiver => Work::Told(Told::Dead),
            Self::PacedReceiver => Work::Told(Told::Paced),
            Self::CatchUp => Work::Told(Told::CatchUp),
            Self::Import => Work::Import,
            Self::RandomNumbers => Work::Closed(Shape { numbers: Numbers::Random, ..plain }),
            Self::TwoServers => Work::Closed(Shape { servers: 2, ..plain }),
            Self::TwoServersOneWallet => Work::Closed(Shape { servers: 2, spread: Spread::Hot(1), ..plain }),
            Self::Paced => Work::Paced(Target::Server),
            Self::PacedCeiling => Work::Paced(Target::Ceiling),
        }
    }
}
