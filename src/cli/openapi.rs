//! `minitill openapi` prints an OpenAPI document.

use anyhow::Result;
use clap::Args;

use super::Context;
use crate::operator::admin;
use crate::public;

#[derive(Debug, Args)]
pub(super) struct OpenapiArguments {
    /// Print the document of the admin API
    #[arg(long)]
    admin: bool,
}

/// Prints the document for the settings in use. It is always JSON; with `--json` it is one line.
pub(super) fn run(context: &Context, arguments: &OpenapiArguments) -> Result<()> {
    let config = &context.config;
    let document = if arguments.admin { admin::document(config) } else { public::document(config) };
    context.output.print(&document, document.pretty())
}
