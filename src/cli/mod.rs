//! The command line (contract 8). Each command has a file.

mod api_key;
mod app;
mod archive;
mod audit;
mod confirm;
mod console_user;
mod database;
mod demo;
mod examples;
mod exchange;
mod health;
mod help_page;
mod image;
mod image_stores;
mod listen;
mod login_code;
mod master_key;
mod migrate;
mod new_file;
mod openapi;
mod operator;
mod operator_log;
mod order;
mod output;
mod player;
mod postgres;
mod price;
mod receiver;
mod receiver_listen;
mod reconcile;
mod refusal;
mod refusal_list;
mod report;
mod running;
mod sandbox;
mod serve;
mod sign;
mod span;
mod status;
mod table;
mod token;
mod topup;
mod topup_expect;
mod topup_list;
mod user;
mod visible;
mod wallet;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use clap::error::ContextValue;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use domain::body::BodyKind;
use domain::clock::{Clock, SystemClock};
use domain::operator::Operator;
use output::Output;
use refusal::{not_done, refused, unknown_app};
use store::StoreError;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::database::SchemaSetup;
use self::sandbox::SandboxCommand;
use self::table::TableStyle;
use self::visible::visible;
use crate::config::{Config, LogFormat, log_targets};

/// A self-hosted till for mini-games: exactly-once exchanges, order reports and cover images.
#[derive(Debug, Parser)]
#[command(name = "minitill", version, about)]
struct Arguments {
    /// Read settings from this file; a setting that the file does not have keeps its default
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Show every column of a table and texts in full, however narrow the terminal is
    #[arg(short, global = true, value_name = "STYLE", value_enum)]
    output: Option<TableWidth>,
    /// Your name in the operator's log [default: `MINITILL_OPERATOR`, or the system user];
    /// with `operator-log`: show only the lines of this operator
    #[arg(long, global = true, value_name = "NAME", value_parser = operator::parse)]
    operator: Option<Operator>,
    /// Do not ask before a command that stops requests or cannot be undone
    #[arg(long, global = true)]
    yes: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// How much of a table is shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TableWidth {
    /// All of it
    Wide,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server; `minitill` without a command does the same
    Serve,
    /// Show whether the server answers, the versions, and how much the database holds
    Status,
    /// Ask the server of these settings whether it is alive; exit code 1 if it is not
    Health(health::HealthArguments),
    #[command(flatten)]
    OnStore(StoreCommand),
    /// Run the platform on a laptop, and try how a game takes faults
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Upgrade the private PostgreSQL
    #[command(subcommand)]
    Postgres(postgres::PostgresCommand),
    /// Sign a request as a game server does
    Sign(sign::SignArguments),
    /// Print the OpenAPI document of the public API or of the admin API
    Openapi(openapi::OpenapiArguments),
    /// Print completions for a shell, to be read by its start-up file
    Completions(help_page::CompletionsArguments),
    /// Write manual pages into a folder, one for each command
    Man(help_page::ManArguments),
    /// Print docs/cli.md
    #[command(hide = true)]
    HelpPage,
}

/// The commands that work on the database.
#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Create and change apps, their keys, limits and pages
    #[command(subcommand)]
    App(app::AppArguments),
    /// Issue, list and revoke access tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Issue login codes
    #[command(subcommand)]
    LoginCode(login_code::LoginCodeCommand),
    /// Register players and show them
    #[command(subcommand)]
    User(user::AppUserCommand),
    /// Export what is known about a player
    #[command(subcommand)]
    Player(player::PlayerCommand),
    /// Credit wallets and show them
    #[command(subcommand)]
    Wallet(wallet::WalletArguments),
    /// Show exchanges
    #[command(subcommand)]
    Exchange(exchange::ExchangeCommand),
    /// Show refused requests
    #[command(subcommand)]
    Refusal(refusal_list::RefusalCommand),
    /// Set and show the prices of top-ups
    #[command(subcommand)]
    Price(price::PriceCommand),
    /// Show and settle payments for top-ups
    #[command(subcommand)]
    Topup(topup::TopupCommand),
    /// Show orders
    #[command(subcommand)]
    Order(order::OrderCommand),
    /// Show images, block pictures, and check or move the stored bytes
    #[command(subcommand)]
    Image(image::ImageArguments),
    /// Manage the webhook receivers of an app
    #[command(subcommand)]
    Receiver(receiver::ReceiverArguments),
    /// Check every wallet against its ledger; exit code 1 if anything differs
    Audit(audit::AuditArguments),
    /// Make reports of an app: the statement of a period, and the bill
    #[command(subcommand)]
    Report(report::ReportCommand),
    /// Compare the ledger of an app with the books of others; exit code 1 if anything differs
    Reconcile(reconcile::ReconcileArguments),
    /// Move closed periods of the ledgers to files, and back
    Archive(archive::ArchiveArguments),
    /// Replace the master key, which encrypts all secrets in the database
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Add, change and remove users of the console
    #[command(subcommand)]
    ConsoleUser(console_user::ConsoleUserCommand),
    /// Create, list and revoke keys of the admin API
    #[command(subcommand)]
    ApiKey(api_key::ApiKeyArguments),
    /// Show the changes that operators made: who, what, when, before and after
    OperatorLog(operator_log::OperatorLogArguments),
    /// Migrate the database to the schema of this program
    Migrate(migrate::MigrateArguments),
    /// Create a sandbox app and print curl commands for it: exchange, report, uploads and login
    Demo,
}

/// The input of every command.
#[derive(Clone)]
struct Context {
    config: Config,
    clock: Arc<dyn Clock>,
    output: Output,
    /// The operator, for the operator's log.
    operator: Operator,
    /// The operator of `--operator`, if it is given.
    operator_given: Option<Operator>,
}

impl Context {
    /// The same on this database: at a sandbox server, commands reach the machine that it runs on.
    fn at(&self, opened: &database::Opened) -> Self {
        let mut context = self.clone();
        if running::Addresses::left_in(&opened.folder).iter().any(|left| left.sandbox) {
            sandbox::serve::reach_this_machine(&mut context.config);
        }
        context
    }
}

/// Parses the arguments and runs the command. The exit code is 0, 1 for a failure, or 2 for wrong usage.
#[must_use]
pub fn main() -> ExitCode {
    match definition().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => {
            let is_json = arguments.json;
            run(arguments).unwrap_or_else(|error| {
                output::fail(is_json, &words_of(&error));
                ExitCode::FAILURE
            })
        }
        // Of the texts of this library, only those for a wrong usage repeat what was typed.
        Err(mut usage) if usage.use_stderr() => {
            let typed = usage.context().filter_map(|(kind, value)| match value {
                ContextValue::String(text) => Some((kind, visible(text).into_owned())),
                _ => None,
            });
            for (kind, text) in typed.collect::<Vec<_>>() {
                usage.insert(kind, ContextValue::String(text));
            }
            let is_json = std::env::args_os().any(|argument| argument == "--json");
            output::refuse_usage(is_json, usage.to_string().trim_end());
            ExitCode::from(2)
        }
        Err(usage) => usage.exit(),
    }
}

/// The words of an error. Who reads too much for one statement is told what helps.
fn words_of(error: &anyhow::Error) -> String {
    let is_too_slow = error.downcast_ref::<StoreError>().is_some_and(StoreError::is_too_slow);
    if is_too_slow { format!("{error}; {}", StoreError::TOO_SLOW) } else { error.to_string() }
}

/// The definition of all commands, with the examples of their help.
fn definition() -> clap::Command {
    examples::with_examples(Arguments::command())
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    http_server::hide_memory()?;
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = Config::load(arguments.config.as_deref(), variables)?;
    let style = TableStyle {
        width: output::terminal_width(),
        is_wide: arguments.output.is_some(),
        zone: config.console.time_zone.clone(),
    };
    let context = Context {
        config,
        clock: Arc::new(SystemClock::new()),
        output: Output { is_json: arguments.json, style },
        operator: operator::of_command(arguments.operator.as_ref())?,
        operator_given: arguments.operator,
    };
    let command = arguments.command.unwrap_or(Command::Serve);
    if let Command::OnStore(command) = &command {
        confirm::confirm(command, arguments.yes)?;
    }
    let runtime = http_server::runtime()?;
    let outcome = runtime.block_on(dispatch(&context, command));
    // A look-up that hangs in the system's resolver must not delay the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    outcome
}

async fn dispatch(context: &Context, command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve => {
            start_log(&context.config.log.filter, context.config.log.format)?;
            serve::run(context, None).await
        }
        Command::Sandbox(SandboxCommand::Serve(arguments)) => {
            start_log("warn", context.config.log.format)?;
            sandbox::serve::run(context, &arguments).await
        }
        Command::Sandbox(SandboxCommand::Seed) => sandbox::print_seed(context),
        Command::Sandbox(SandboxCommand::OnStore(command)) => {
            start_log("warn", LogFormat::Text)?;
            let opened =
                database::open_for_command(context, SchemaSetup::IsThere, database::CONNECT_PATIENCE).await?;
            let outcome = sandbox::run(&context.at(&opened), &opened.store, command).await;
            opened.close(private_postgres::STOP_WITHIN).await;
            return outcome;
        }
        Command::Status => {
            start_log("warn", LogFormat::Text)?;
            return status::run(context).await;
        }
        Command::Postgres(command) => {
            start_log("warn", LogFormat::Text)?;
            postgres::run(context, command).await
        }
        Command::Health(arguments) => health::run(context, &arguments).await,
        Command::Sign(arguments) => sign::run(context, &arguments),
        Command::Openapi(arguments) => openapi::run(context, &arguments),
        Command::Completions(arguments) => help_page::complete(definition(), &arguments),
        Command::Man(arguments) => help_page::write_manual(definition(), &arguments),
        Command::HelpPage => help_page::run(definition()),
        Command::OnStore(command) => {
            start_log("warn", LogFormat::Text)?;
            let schema = match &command {
                StoreCommand::Migrate(arguments) => SchemaSetup::Migrates(arguments.engine()),
                _ => SchemaSetup::IsThere,
            };
            let opened = database::open_for_command(context, schema, database::CONNECT_PATIENCE).await?;
            let outcome = on_store(&context.at(&opened), &opened, command).await;
            opened.close(private_postgres::STOP_WITHIN).await;
            return outcome;
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

async fn on_store(context: &Context, opened: &database::Opened, command: StoreCommand) -> Result<ExitCode> {
    let store = &opened.store;
    match command {
        StoreCommand::App(command) => app::run(context, store, command).await,
        StoreCommand::Token(command) => token::run(context, store, command).await,
        StoreCommand::LoginCode(command) => login_code::run(context, store, command).await,
        StoreCommand::User(command) => user::run(context, store, command).await,
        StoreCommand::Player(command) => player::run(context, store, command).await,
        StoreCommand::Wallet(command) => return wallet::run(context, store, command).await,
        StoreCommand::Exchange(command) => exchange::run(context, store, command).await,
        StoreCommand::Refusal(command) => refusal_list::run(context, store, command).await,
        StoreCommand::Price(command) => price::run(context, store, command).await,
        StoreCommand::Topup(command) => return topup::run(context, store, command).await,
        StoreCommand::Order(command) => order::run(context, store, command).await,
        StoreCommand::Image(command) => return image::run(context, store, command).await,
        StoreCommand::Receiver(command) => receiver::run(context, store, command).await,
        StoreCommand::Audit(arguments) => return audit::run(context, store, arguments).await,
        StoreCommand::Report(command) => return report::run(context, store, command).await,
        StoreCommand::Reconcile(arguments) => return reconcile::run(context, store, arguments).await,
        StoreCommand::Archive(arguments) => archive::run(context, opened, arguments).await,
        StoreCommand::MasterKey(command) => master_key::run(context, store, command).await,
        StoreCommand::ConsoleUser(command) => console_user::run(context, store, command).await,
        StoreCommand::ApiKey(command) => api_key::run(context, store, command).await,
        StoreCommand::OperatorLog(arguments) => operator_log::run(context, store, arguments).await,
        StoreCommand::Migrate(_) => migrate::run(context, opened).await,
        StoreCommand::Demo => demo::run(context, opened).await,
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Starts the log on standard error, with the events that `log.filter` names.
///
/// # Errors
/// A filter that does not parse.
pub fn start_log(filter: &str, format: LogFormat) -> Result<()> {
    let filter = log_targets(filter)?;
    // The filter decides alone.
    let lines = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let coloured = std::io::IsTerminal::is_terminal(&std::io::stderr());
            // The library escapes messages alone.
            let fields = debug_fn(|line, field, value| {
                let shown = format!("{value:?}");
                match field.name() {
                    "message" => write!(line, "{}", visible(&shown)),
                    name => write!(line, "{name}={}", visible(&shown)),
                }
            });
            let lines = lines.fmt_fields(fields.delimited(" "));
            lines.with_ansi(coloured).with_target(false).finish().with(filter).init();
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
            lines.finish().with(filter).init();
        }
    }
    Ok(())
}

/// The text of a secret that a file or standard input has.
fn secret_text(bytes: Vec<u8>) -> Result<String> {
    // Without its mark, UTF-16 of Latin letters is UTF-8 with NULs.
    ensure!(BodyKind::of(&bytes) != BodyKind::Utf16, "expected UTF-8 text, got UTF-16");
    String::from_utf8(bytes).map_err(|_| anyhow!("expected UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use store::Outage;

    use super::*;

    /// Rule 9.5.3.
    #[test]
    fn a_statement_that_is_too_slow_is_told_with_what_helps() {
        let ended = "57014: canceling statement due to statement timeout".to_owned();
        assert_eq!(
            words_of(&StoreError::Unavailable(Outage::TooSlow, ended).into()),
            "the database is not available: 57014: canceling statement due to statement timeout; it takes longer than a \
             statement may (database.statement_timeout): ask for a shorter time or one app"
        );
        let away = StoreError::unavailable("it has no host");
        assert_eq!(words_of(&away.into()), "the database is not available: it has no host");
    }
}
