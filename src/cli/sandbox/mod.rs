//! `minitill sandbox ...`: faults for a game, and the check of a whole game (contract 15).

mod check;
mod junit;
mod seed;
pub(super) mod serve;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use domain::ids::AppId;
use domain::receiver::ReceiverId;
use domain::sandbox::{Fault, FaultKind, FaultState, FaultTarget, SandboxApp, TIMES_MAX};
use serde_json::json;
use store::Store;

use super::{Context, unknown_app};

#[derive(Debug, Subcommand)]
pub(super) enum SandboxCommand {
    /// Run both listeners with a PostgreSQL in a throw-away folder, for tests of a game
    ///
    /// It prints one line once it is ready. Nothing is durable: the folder goes when the server ends. `DATABASE_URL` is not
    /// looked at. Other commands work on this server with `MINITILL_DATABASE__DATA_DIR` set to its folder.
    Serve(serve::ServeArguments),
    /// Print the default seed of `minitill sandbox serve`, with comments
    Seed,
    #[command(flatten)]
    OnStore(SandboxStoreCommand),
}

/// The commands for sandbox apps of any server.
#[derive(Debug, Subcommand)]
pub(super) enum SandboxStoreCommand {
    /// Inject a fault: the next answers or notifications fail, or a number is old
    Fault {
        /// Id of the sandbox app
        app_id: AppId,
        /// What the fault happens to: an endpoint such as exchange, a type of events, or numbers
        target: FaultTarget,
        /// Fault of answers: lost, unavailable, late or refuse; of notifications: twice, late or never; of numbers: old
        fault: FaultKind,
        /// How often it happens
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=TIMES_MAX))]
        times: i32,
        /// Delay for the fault `late`, in milliseconds
        #[arg(long, value_name = "MS")]
        delay_ms: Option<i64>,
        /// The code that refuse answers
        #[arg(long, value_name = "CODE")]
        code: Option<i64>,
    },
    /// List the faults of an app, and how often each has happened
    Faults {
        /// Id of the sandbox app
        app_id: AppId,
    },
    /// End all faults of an app
    EndFaults {
        /// Id of the sandbox app
        app_id: AppId,
    },
    /// Try a game with 20 cases of faults; exit code 1 if it fails one
    Check {
        /// Id of the sandbox app
        app_id: AppId,
        /// The receiver of the game [default: the first one that fits]
        #[arg(long, value_name = "ID")]
        receiver: Option<ReceiverId>,
        /// How long the game may take for each purchase
        #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
        patience: Duration,
        /// Write the results to this file too, as JUnit's XML, which build servers read
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
}

/// Prints the default seed.
pub(super) fn print_seed(context: &Context) -> Result<()> {
    context.output.print(&json!({ "seed": seed::DEFAULT }), seed::DEFAULT)
}

pub(super) async fn run(context: &Context, store: &Store, command: SandboxStoreCommand) -> Result<ExitCode> {
    match command {
        SandboxStoreCommand::Fault { app_id, target, fault, times, delay_ms, code } => {
            let app = sandbox_app(store, &app_id).await?;
            let fault = Fault::new(target, fault, times, delay_ms, code)
                .map_err(|(field, expected)| anyhow!("{field}: {expected}"))?;
            show(context, &store.ask_for_fault(&app, fault, Some(&context.operator)).await?)?;
        }
        SandboxStoreCommand::Faults { app_id } => {
            let app = sandbox_app(store, &app_id).await?;
            show(context, &store.faults(&app).await?)?;
        }
        SandboxStoreCommand::EndFaults { app_id } => {
            store.end_faults(&sandbox_app(store, &app_id).await?).await?;
            context.output.print(&json!({ "faults": [] }), "The app has no faults any more.")?;
        }
        SandboxStoreCommand::Check { app_id, receiver, patience, junit } => {
            let app = sandbox_app(store, &app_id).await?;
            return check::run(context, store, app, receiver, (patience, junit.as_deref())).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn sandbox_app(store: &Store, app_id: &AppId) -> Result<SandboxApp> {
    let app = store.find_app(app_id).await?.ok_or_else(|| unknown_app(app_id))?;
    SandboxApp::of(&app).ok_or_else(|| {
        anyhow!("{app_id} is no sandbox app: faults are for tests, and never for players who pay")
    })
}

fn show(context: &Context, faults: &[FaultState]) -> Result<()> {
    let columns = "target fault delay_ms code times happened first_at last_at";
    context.output.list("faults", faults, columns, "The app has no faults.")
}
