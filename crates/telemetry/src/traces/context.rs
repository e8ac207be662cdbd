//! Parses the header `traceparent` of W3C Trace Context.

/// The trace of a caller, from its header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the whole trace.
    pub trace_id: [u8; 16],
    /// Id of the caller's span.
    pub span_id: [u8; 8],
    /// Whether the caller records the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads the header's value; `None` where it is not well-formed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version: [u8; 1] = hexadecimal(parts.next()?)?;
        let trace_id: [u8; 16] = hexadecimal(parts.next()?)?;
        let span_id: [u8; 8] = hexadecimal(parts.next()?)?;
        let flags: [u8; 1] = hexadecimal(parts.next()?)?;
        // Later versions may say more.
        let is_whole = version != [0] || parts.next().is_none();
        let well_formed = is_whole && version != [0xff] && trace_id != [0; 16] && span_id != [0; 8];
        well_formed.then_some(Self { trace_id, span_id, sampled: flags[0] & 1 == 1 })
    }
}

/// Bytes in lower-case hexadecimal digits, and nothing else.
fn hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_well_formed_header_is_read() {
        let read =
            |text: &str| TraceParent::parse(text).map(|read| (hex::encode(read.trace_id), read.sampled));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-01")), Some((TRACE.to_owned(), true)));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-00")), Some((TRACE.to_owned(), false)));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-03")), Some((TRACE.to_owned(), true)));
        assert_eq!(read(&format!("01-{TRACE}-{SPAN}-01-more")), Some((TRACE.to_owned(), true)));
    }

    #[test]
    fn anything_else_is_ignored() {
        for text in [
            "",
            "00",
            &format!("ff-{TRACE}-{SPAN}-01"),
            &format!("00-{TRACE}-{SPAN}"),
            &format!("00-{TRACE}-{SPAN}-01-more"),
            &format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            &format!("00-{}-{SPAN}-01", "0".repeat(32)),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-{TRACE}{TRACE}-{SPAN}-01"),
            &format!("00-{TRACE}-{SPAN}-0x"),
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
