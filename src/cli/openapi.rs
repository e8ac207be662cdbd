//! `minitill openapi`.

use super::{Context, Failure};
use crate::openapi;

/// Prints the document with the settings that hold: JSON in any case, with `--json` on one line.
pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let document = openapi::document(&context.config);
    context.output.print(&document, || document.pretty())
}
