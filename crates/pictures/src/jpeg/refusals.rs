//! Reasons to refuse a JPEG, in words.

use super::bits::JpegFault;
use super::segments::END;
use crate::verdict::{Format, Unacceptable};

pub(super) fn corrupt(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Corrupt { format: Format::Jpeg, detail: detail.into() }
}

pub(super) fn truncated(detail: impl Into<String>) -> Unacceptable {
    Unacceptable::Truncated { format: Format::Jpeg, detail: detail.into() }
}

/// A marker that no accepted JPEG has.
pub(super) fn unsupported(marker: u8) -> Unacceptable {
    let kind = match marker {
        0xc3 | 0xf7 => "lossless",
        0xc5..=0xc7 | 0xcd..=0xcf | 0xde | 0xdf => "hierarchical",
        0xc9..=0xcb => "arithmetic-coded",
        _ => return corrupt(format!("it has a marker {marker:02x} of unknown meaning")),
    };
    Unacceptable::UnsupportedJpeg { kind }
}

/// A fault in the data of a scan, at row `row` of `side`. `next` is the marker after the data.
pub(super) fn fault(fault: JpegFault, next: Option<u8>, row: u32, side: u32) -> Unacceptable {
    let at = format!("at row {row} of {side}");
    match (fault, next) {
        (JpegFault::OutOfBits, None | Some(END)) | (JpegFault::RestartMissing { found: END, .. }, _) => {
            truncated(format!("its data ends {at}"))
        }
        (JpegFault::OutOfBits, Some(marker)) => {
            corrupt(format!("marker {marker:02x} interrupts its data {at}"))
        }
        (JpegFault::UndefinedCode, _) => corrupt(format!("its data has an undefined code {at}")),
        (JpegFault::CoefficientOverflow, _) => corrupt(format!("its data overflows a block {at}")),
        (JpegFault::RefinementSize, _) => corrupt(format!("its data has a refinement of several bits {at}")),
        (JpegFault::BytesBeforeRestart, _) => {
            corrupt(format!("bytes are left over before a restart marker {at}"))
        }
        (JpegFault::RestartMissing { due, found }, _) => {
            corrupt(format!("marker {found:02x} stands where restart marker {due} is due {at}"))
        }
    }
}
