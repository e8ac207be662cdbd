//! The command line (contract 8), one file a command.

mod api_key;
mod app;
mod audit;
mod console_user;
mod database;
mod demo;
mod help_page;
mod image;
mod image_stores;
mod master_key;
mod migrate;
mod openapi;
mod operator;
mod operator_log;
mod output;
mod serve;
mod sign;
mod token;
mod user;
mod wallet;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};
use domain::clock::{Clock, SystemClock};
use domain::operator::Operator;
use output::Output;

use crate::config::{Config, LogFormat};

/// A self-hosted till for mini-games: exactly-once exchanges, order reports and cover images.
#[derive(Debug, Parser)]
#[command(name = "minitill", version, about, disable_help_subcommand = true)]
struct Arguments {
    /// Settings file; only what differs from the defaults need stand in it
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Who you are, for the operator's log [default: `MINITILL_OPERATOR`, else the system's user];
    /// with `operator-log` whose lines to show
    #[arg(long, global = true, value_name = "NAME", value_parser = operator::parse)]
    operator: Option<Operator>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (what `minitill` alone does)
    Serve,
    /// Create apps, hand out their keys, publish their pages
    #[command(subcommand)]
    App(app::AppCommand),
    /// Issue and revoke access tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Make players known
    #[command(subcommand)]
    User(user::UserCommand),
    /// Credit wallets and look at them
    #[command(subcommand)]
    Wallet(wallet::WalletCommand),
    /// Block pictures, and look at images
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Sign a request, as a game server does
    Sign(sign::SignArguments),
    /// Check every wallet against its ledger; exit 1 when anything differs
    Audit(audit::AuditArguments),
    /// Replace the key that encrypts pay keys and app secrets
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Say who may use the console
    #[command(subcommand)]
    ConsoleUser(console_user::ConsoleUserCommand),
    /// Make and revoke keys of the admin API
    #[command(subcommand)]
    ApiKey(api_key::ApiKeyCommand),
    /// Show what operators did: who, what, when, before and after
    OperatorLog(operator_log::OperatorLogArguments),
    /// Bring the database to the schema of this program
    Migrate,
    /// Print the OpenAPI document of the public API, or of the admin API
    Openapi(openapi::OpenapiArguments),
    /// Print completions for a shell, to be read by its start-up file
    Completions(help_page::CompletionsArguments),
    /// Print docs/cli.md
    #[command(hide = true)]
    HelpPage,
    /// Make a sandbox app and print curl commands for all four endpoints
    Demo,
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn unknown_app(app_id: &domain::ids::AppId) -> Self {
        Self(format!("there is no app {app_id}; `minitill app list` shows those there are"))
    }
}

impl From<store::StoreError> for Failure {
    fn from(error: store::StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a command works with.
struct Context {
    config: Config,
    clock: Arc<dyn Clock>,
    output: Output,
    /// Who works here.
    operator: Operator,
    /// The same, where `--operator` said so.
    operator_given: Option<Operator>,
}

/// Parses the arguments, runs the command and gives the exit code: 0, 1 for a failure, 2 for wrong
/// usage.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(Failure(text)) => {
            output::complain(&text);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let variables = std::env::vars_os().filter_map(readable);
    let config =
        Config::load(arguments.config.as_deref(), variables).map_err(|error| Failure(error.to_string()))?;
    let context = Context {
        config,
        clock: Arc::new(SystemClock::new()),
        output: Output::new(arguments.json),
        operator: operator::of_command(arguments.operator.as_ref())?,
        operator_given: arguments.operator,
    };
    let runtime = http_server::runtime()?;
    let outcome = runtime.block_on(dispatch(&context, arguments.command.unwrap_or(Command::Serve)));
    // A look-up that hangs in the system's resolver must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    outcome
}

async fn dispatch(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve => {
            start_log(&context.config.log.filter, context.config.log.format)?;
            serve::run(context).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Sign(arguments) => sign::run(context, &arguments).map(|()| ExitCode::SUCCESS),
        Command::Openapi(arguments) => openapi::run(context, &arguments).map(|()| ExitCode::SUCCESS),
        Command::Completions(arguments) => {
            help_page::complete(Arguments::command(), &arguments).map(|()| ExitCode::SUCCESS)
        }
        Command::HelpPage => help_page::run(Arguments::command()).map(|()| ExitCode::SUCCESS),
        other => {
            start_log("warn", LogFormat::Text)?;
            let opened = database::open_for_command(context, matches!(other, Command::Migrate)).await?;
            let outcome = with_store(context, &opened, other).await;
            opened.close(private_postgres::STOP_WITHIN).await;
            outcome
        }
    }
}

async fn with_store(
    context: &Context,
    opened: &database::Opened,
    command: Command,
) -> Result<ExitCode, Failure> {
    let store = &opened.store;
    match command {
        // These were taken before a database was opened.
        Command::Serve
        | Command::Sign(_)
        | Command::Openapi(_)
        | Command::Completions(_)
        | Command::HelpPage => Ok(()),
        Command::App(command) => app::run(context, store, command).await,
        Command::Token(command) => token::run(context, store, command).await,
        Command::User(command) => user::run(context, store, command).await,
        Command::Wallet(command) => wallet::run(context, store, command).await,
        Command::Image(command) => return image::run(context, store, command).await,
        Command::Audit(arguments) => return audit::run(context, store, arguments).await,
        Command::MasterKey(command) => master_key::run(context, store, command).await,
        Command::ConsoleUser(command) => console_user::run(context, store, command).await,
        Command::ApiKey(command) => api_key::run(context, store, command).await,
        Command::OperatorLog(arguments) => {
            let operator = context.operator_given.as_ref().map(Operator::name);
            operator_log::run(context, store, arguments, operator).await
        }
        Command::Migrate => migrate::run(context, store).await,
        Command::Demo => demo::run(context, opened).await,
    }
    .map(|()| ExitCode::SUCCESS)
}

fn readable((name, value): (OsString, OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

fn start_log(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| Failure(format!("log.filter: {error}")))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let coloured = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(coloured).with_target(false).init();
        }
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
        }
    }
    Ok(())
}
