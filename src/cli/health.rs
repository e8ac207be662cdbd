//! `minitill health`: whether the server of these settings lives or is ready, by its exit code
//! (contract 8.4.5). For the health check of a container, which has neither curl nor a shell.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::Context;
use super::running::ask;

#[derive(Debug, Args)]
pub(super) struct HealthArguments {
    /// Ask whether it can serve too: its database answers and has the schema
    #[arg(long)]
    ready: bool,
}

/// Prints `ok` or `ready`.
///
/// # Errors
/// Why the server is not.
pub(super) async fn run(context: &Context, arguments: &HealthArguments) -> Result<()> {
    let (path, fine) = if arguments.ready { ("readyz", "ready") } else { ("healthz", "ok") };
    let url = format!("{}/{path}", context.config.ops.base_url());
    match ask(&url).await {
        Ok(answer) if answer.status().is_success() => context.output.print(&json!({ "status": fine }), fine),
        Ok(answer) => {
            let reason = answer.body()["reason"].as_str().map(|reason| format!(", {reason}"));
            bail!("{url}: {}{}", answer.status().as_u16(), reason.unwrap_or_default())
        }
        Err(why) => bail!("{url}: {why}"),
    }
}
