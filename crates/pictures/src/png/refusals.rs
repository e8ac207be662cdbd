//! Short ways to refuse a PNG.

use crate::verdict::{Format, Unacceptable};

pub(super) fn corrupt(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Corrupt { format: Format::Png, detail: detail.into() }
}

pub(super) fn truncated(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Truncated { format: Format::Png, detail: detail.into() }
}
