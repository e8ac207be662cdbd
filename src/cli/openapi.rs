//! `minitill openapi`.

use clap::Args;

use super::{Context, Failure};
use crate::operator::admin;
use crate::public;

#[derive(Debug, Args)]
pub(super) struct OpenapiArguments {
    /// That of the admin API
    #[arg(long)]
    admin: bool,
}

/// Prints the document with the settings that hold: JSON in any case, with `--json` on one line.
pub(super) fn run(context: &Context, arguments: &OpenapiArguments) -> Result<(), Failure> {
    let config = &context.config;
    let document = if arguments.admin { admin::document(config) } else { public::document(config) };
    context.output.print(&document, || document.pretty())
}
