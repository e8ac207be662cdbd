//! The store: wallets, ledger, idempotency records, orders and images in PostgreSQL. All SQL is here.
//!
//! Two rules keep money safe:
//!
//! - Every transaction runs in a task that nobody drops (`Store::transaction`). So a client that hangs up
//!   never leaves a session inside a transaction.
//! - A transaction is repeated as a whole when the database asks for it (40001, 40P01). Only
//!   `Store::transaction` and the exchange writers do that.

#![expect(clippy::missing_errors_doc, reason = "`StoreError` documents the errors of nearly every method")]

mod alone_limit;
mod api_key;
mod app;
mod app_cache;
mod app_lookup;
mod app_number;
mod archive;
mod audit;
mod books;
mod change_request;
mod closed_round;
mod console_user;
mod counts;
mod digesting;
mod engine;
mod error;
mod event;
mod exchange_lookup;
mod guest_pool;
mod health;
mod history;
mod hosts;
mod idempotency;
mod image;
mod instances;
mod key_lease;
mod key_uses;
mod login;
mod look_up_cache;
mod master_key;
mod migrate;
pub mod objects;
mod operator_log;
mod order;
mod order_writer;
mod paging;
mod payment_queue;
mod permits;
mod player_erasure;
mod player_export;
mod pseudonym;
mod readiness;
mod readiness_session;
mod receiver;
mod removal;
mod sales;
mod sandbox;
mod sandbox_server;
mod search_period;
pub mod secrets;
mod session;
mod settings;
mod silence;
mod status;
mod store;
mod token;
mod topup;
mod transaction;
mod wallet;
mod wallet_no;
mod wallet_writer;
mod writer;

pub use api_key::ApiKeySummary;
pub use app::{AppActivity, AppDetail, AppKey, AppWithKeys, COUNTED_MAX, Package};
pub use archive::{Archive, ArchiveError, ArchiveProgress, VerifiedArchive};
pub use audit::{AppTotals, AuditError, AuditOptions, AuditProgress, AuditReport};
pub use books::{
    Bill, BillColumn, BillFormat, BillLine, BillPiece, BillSums, BillText, BookColumn, BookNumber, BookRows,
    ClosedPeriod, ComparedBooks, ComparedBy, Comparison, ComparisonQuery, Credits, Difference, FileColumn,
    FileFault, FileRefusal, Flows, MissingPayment, PaymentBooks, PaymentColumn, ReconcileError, Reconciled,
    SheetStyle, SheetWords, Statement, TheirFile, TheirLine, WORKBOOK_ENTRIES_MAX, revenue_headings,
};
pub use change_request::{ChangeRequest, RequestState, RequestedChange};
pub use console_user::{CodeAttempt, ConsoleSession, ConsoleUser, NewSession, SessionUser, SignInAttempt};
pub use counts::{RefusedChange, RefusedContent};
pub use engine::Engine;
pub use error::{OperationError, Outage, Refusable, Result, StoreError};
pub use event::{Event, EventCursor, EventFilter, EventHead, EventKey, EventNews, EventPage};
pub use exchange_lookup::{
    BizNoUse, CancelRecord, ExchangeRecord, NumberRecord, ReferenceMatch, RefusalCursor, RefusalFilter,
    RefusalRecord, RefusalRow, RefusalSum, RefusedMatch, RefusedNumber, ReplayCount,
};
pub use history::{HistoryCursor, HistoryFilter, HistoryKind, HistoryLine, HistoryPage};
pub use hosts::DatabaseAddress;
pub use idempotency::EarlierAnswer;
pub use image::{
    BlobCheck, BlobHash, BlobLocation, Block, IMAGES_AT_ONCE, ImageCursor, ImageDetail, ImageFilter,
    ImageKey, KeepOutcome, MoveOutcome, PART_BYTES, StoredImage, Swept,
};
pub use key_lease::ApiKey;

pub use master_key::{MasterKeyRefused, MasterKeyState};
pub use operator_log::{
    LoggedAction, LoggedCredit, MadeBy, OPERATOR_ACTIONS, OperatorLogCursor, OperatorLogFilter,
    OperatorLogLine,
};
pub use order::{OrderChange, OrderCursor, OrderEvent, OrderFilter, OrderPayment, StoredOrder};
pub use order_writer::ReportOutcome;
pub use paging::{CursorKey, ListPage, TimeCursor};
pub use payment_queue::PaymentReport;
pub use player_export::{ExportError, ExportedCounts, ExportedRows};
pub use readiness_session::Readiness;
pub use receiver::{
    DueDelivery, EventOutcome, FailedEvent, LeasedReceiver, NotTaken, ReceiverCounts, ReceiverDetail,
    ReceiverTry, TriesNote,
};
pub use removal::REMOVED_AT_ONCE;
pub use sales::{
    ItemFilter, ListedKind, REPORT_ENTRIES_MAX, REVENUE_ROWS_MAX, RevenueFilter, RevenueGroup, RevenueQuery,
    RevenueReport, RevenueRow, RevenueSums, RollUpCheck, RollUpDifference, SaleCursor, SaleFilter, SaleKey,
    SaleRow, SalesOfHours, SalesPage, Zone, time_groups,
};
pub use sandbox::{DueFault, SandboxPurchase};
pub use sandbox_server::{FixedSecrets, prepare_sandbox_database};
pub use search_period::SEARCH_PERIOD_DAYS_MAX;
pub use session::is_between_transactions;
pub use settings::StoreSettings;
pub use silence::unless_silent;
pub use status::DatabaseStatus;
pub use store::{PoolState, Store};
pub use token::TokenSummary;
pub use topup::{
    ConsumptionReport, EntryMoney, IncomeGroup, IncomeQuery, IncomeReport, IncomeRow, IncomeSums,
    ListedPrice, OpenTopupOrder, PRICE_COLUMNS, PaymentMatch, PriceList, RefundReport, RefundRow,
    RefundedPart, SettledPayment, SettlementEffect, TopupCursor, TopupFilter, TopupOrderMatch,
    TopupOrderState, TopupProvider, TopupRow, TopupsPage, UnmatchedSums, UnusedMoney, UnusedReport,
    UnusedRow, prices_of_csv,
};
pub use wallet::{
    ArchivedPart, CREDITS_AT_ONCE, CREDITS_MAX, ChangeRecord, CreditForecast, CreditList, CreditOfList,
    CreditResult, CreditsSource, EntryKind, ForeseenCredit, GIFT_LINES_MAX, Gift, GiftFault, GiftLine,
    Income, LedgerFilter, LedgerLine, LedgerPage, LedgerRow, ListFault, NamedFaults, PlayerCursor,
    PlayerFilter, PlayersPage, STATEMENT_HEADING, Wallet, WalletDetail, WalletTotals, csv_line, csv_of,
    statement_line,
};
