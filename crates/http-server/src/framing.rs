//! HTTP/1.1 message framing: where one request ends and the next begins in the bytes of a
//! connection.
//!
//! hyper parses the requests. This module follows it, because hyper does not report whether the
//! bytes that it holds begin another request, and a drain must not close in the middle of one. When
//! it is unsure, it assumes that a request has begun.

/// Follows the bytes of one connection in the order in which hyper reads them.
#[derive(Debug, Default)]
pub(super) struct Framing {
    position: Position,
    lines: LineEnds,
    head: HeadLines,
}

/// Why a head is refused that hyper would take. A proxy in front may read it otherwise, and see other requests than hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// A line ends without a carriage return.
    BareLineFeed,
    /// A transfer coding is not `chunked`, or stands beside another.
    TransferCoding,
}

/// The lines of a head.
#[derive(Debug, Default)]
struct HeadLines {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    has_transfer_coding: bool,
    fault: Option<HeadFault>,
}

impl HeadLines {
    /// A line has ended. Gives whether it was the empty one, which ends the head.
    fn end(&mut self, last: &[u8]) -> bool {
        if self.line.is_empty() {
            return self.judge(last);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(last);
        self.judge(&line)
    }

    fn judge(&mut self, line: &[u8]) -> bool {
        const NAME: &[u8] = b"transfer-encoding";
        let Some(line) = line.strip_suffix(b"\r") else {
            self.fault.get_or_insert(HeadFault::BareLineFeed);
            return line.is_empty();
        };
        let is_named = line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME));
        if let Some(value) =
            line.get(NAME.len()..).filter(|_| is_named).and_then(|rest| rest.strip_prefix(b":"))
        {
            let is_second = std::mem::replace(&mut self.has_transfer_coding, true);
            if is_second || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                self.fault.get_or_insert(HeadFault::TransferCoding);
            }
        }
        line.is_empty()
    }
}

/// What the next byte of the connection belongs to.
#[derive(Debug, Default)]
enum Position {
    /// No request yet: line ends are skipped, any other byte begins a head.
    #[default]
    Between,
    /// A head without its empty line.
    Head,
    /// A complete head that the router does not have yet; `behind` has arrived after it.
    HeadEnd { behind: Vec<u8> },
    /// A body that lacks `missing` bytes; `behind` has arrived after the whole body.
    Body { missing: u64, behind: Vec<u8> },
    /// A chunked body. Only hyper knows its end.
    Chunked,
    /// Unknown, because more bytes arrived after a chunked body.
    Unknown,
}

/// Finds the empty line that ends a chunked body.
#[derive(Debug, Default)]
struct LineEnds {
    line_is_empty: bool,
    after_empty_line: bool,
}

impl LineEnds {
    fn follow(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.after_empty_line = self.line_is_empty;
                self.line_is_empty = true;
            }
            b'\r' => {}
            _ => *self = Self::default(),
        }
    }

    fn follow_all(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.follow(*byte);
        }
    }
}

impl Framing {
    /// hyper has read these bytes.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        match &mut self.position {
            Position::Between => {
                if let Some(start) = bytes.iter().position(|byte| !is_line_end(*byte)) {
                    self.head = HeadLines::default();
                    self.position = Position::Head;
                    self.received_of_head(&bytes[start..]);
                }
            }
            Position::Head => self.received_of_head(bytes),
            Position::HeadEnd { behind } => behind.extend_from_slice(bytes),
            Position::Body { missing, behind } => {
                let of_body = overlap(*missing, bytes.len());
                *missing -= of_body as u64;
                behind.extend_from_slice(&bytes[of_body..]);
            }
            Position::Chunked => self.lines.follow_all(bytes),
            Position::Unknown => {}
        }
    }

    fn received_of_head(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.head.end(line) {
                self.position = Position::HeadEnd { behind: rest.to_vec() };
                return;
            }
            bytes = rest;
        }
        self.head.line.extend_from_slice(bytes);
    }

    /// Why the head that is being received, or was received last, is refused.
    pub(super) fn head_fault(&self) -> Option<HeadFault> {
        let is_of_head = matches!(self.position, Position::Head | Position::HeadEnd { .. });
        self.head.fault.filter(|_| is_of_head)
    }

    /// hyper has parsed a head. Its body has `body_bytes`; `None` means chunked.
    pub(super) fn request_begins(&mut self, body_bytes: Option<u64>) {
        let Position::HeadEnd { mut behind } = std::mem::replace(&mut self.position, Position::Unknown)
        else {
            return;
        };
        self.position = if let Some(body_bytes) = body_bytes {
            let of_body = overlap(body_bytes, behind.len());
            Position::Body { missing: body_bytes - of_body as u64, behind: behind.split_off(of_body) }
        } else {
            self.lines = LineEnds::default();
            self.lines.follow_all(&behind);
            Position::Chunked
        };
    }

    /// The request is complete, and hyper goes on to the next. Part of that may be here already.
    pub(super) fn request_ends(&mut self) {
        let former = std::mem::take(&mut self.position);
        if let Position::Body { missing: 0, behind } = former {
            self.received(&behind);
        } else if !matches!(former, Position::Chunked) || !self.lines.after_empty_line {
            self.position = Position::Unknown;
        }
    }

    /// Whether a head has begun, complete or not, that the router does not have yet.
    pub(super) fn is_in_head(&self) -> bool {
        matches!(self.position, Position::Head | Position::HeadEnd { .. } | Position::Unknown)
    }

    /// Whether the router's present or last request has arrived in full.
    pub(super) fn is_request_complete(&self) -> bool {
        match self.position {
            Position::Between | Position::Unknown => true,
            Position::Head | Position::HeadEnd { .. } => false,
            Position::Body { missing, .. } => missing == 0,
            Position::Chunked => self.lines.after_empty_line,
        }
    }

    /// Whether bytes of another request have arrived after the router's present one.
    pub(super) fn has_begun_next(&self) -> bool {
        matches!(&self.position, Position::Body { missing: 0, behind }
            if behind.iter().any(|byte| !is_line_end(*byte)))
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// How many of `available` bytes belong to a body that lacks `missing` bytes.
fn overlap(missing: u64, available: usize) -> usize {
    usize::try_from(missing).map_or(available, |missing| missing.min(available))
}

#[cfg(test)]
mod tests {
    use super::{Framing, HeadFault};

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn a_request_without_a_body_leaves_nothing_behind() {
        let mut framing = Framing::default();
        framing.received(GET);
        assert!(framing.is_in_head());
        framing.request_begins(Some(0));
        assert!(framing.is_request_complete() && !framing.has_begun_next());
        framing.request_ends();
        assert!(!framing.is_in_head());
    }

    #[test]
    fn line_ends_before_a_head_begin_nothing() {
        let mut framing = Framing::default();
        framing.received(b"\r\n\n\r\n");
        assert!(!framing.is_in_head());
        framing.received(b"\r\nG");
        assert!(framing.is_in_head());
    }

    #[test]
    fn a_head_is_followed_byte_by_byte_and_with_bare_line_feeds() {
        for head in [GET, b"GET / HTTP/1.1\nHost: a\n\n"] {
            let mut framing = Framing::default();
            for byte in head {
                framing.received(&[*byte]);
            }
            framing.request_begins(Some(0));
            framing.request_ends();
            assert!(!framing.is_in_head());
        }
    }

    /// Rule: what a proxy may read otherwise is a fault, wherever the reads cut it; of the present head alone.
    #[test]
    fn faults_of_a_head_are_found() {
        let bare = Some(HeadFault::BareLineFeed);
        let coding = Some(HeadFault::TransferCoding);
        for (lines, fault) in [
            ("Host: a\r\nTransfer-Encoding: chunked\r\n\r\n", None),
            ("transfer-encoding:CHUNKED \r\n\r\n", None),
            ("X: transfer-encoding: gzip\r\n\r\n", None),
            ("Host: a\n\r\n", bare),
            ("Host: a\r\n\n", bare),
            ("Transfer-Encoding: gzip\r\n\r\n", coding),
            ("Transfer-Encoding: gzip, chunked\r\n\r\n", coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", coding),
            ("Transfer-Encoding:\r\n\r\n", coding),
        ] {
            let head = format!("POST / HTTP/1.1\r\n{lines}");
            for size in [1, 7, head.len()] {
                let mut framing = Framing::default();
                for bytes in head.as_bytes().chunks(size) {
                    framing.received(bytes);
                }
                assert_eq!(framing.head_fault(), fault, "{lines:?} by {size}");
                framing.request_begins(Some(0));
                assert_eq!(framing.head_fault(), None);
                framing.request_ends();
                framing.received(GET);
                assert_eq!(framing.head_fault(), None, "another head");
            }
        }
    }

    #[test]
    fn a_body_is_counted_wherever_the_reads_cut_it() {
        let mut framing = Framing::default();
        framing.received(b"POST / HTTP/1.1\r\n\r\nab");
        framing.request_begins(Some(5));
        assert!(!framing.is_request_complete());
        framing.received(b"cd");
        assert!(!framing.is_request_complete());
        framing.received(b"eGET / HT");
        assert!(framing.is_request_complete() && framing.has_begun_next());
        framing.request_ends();
        assert!(framing.is_in_head(), "half a head came behind the body");
    }

    #[test]
    fn three_pipelined_requests_are_told_apart() {
        let mut framing = Framing::default();
        framing.received(&[GET, b"POST / HTTP/1.1\r\n\r\nabc", GET].concat());
        for (body_bytes, more) in [(0, true), (3, true), (0, false)] {
            framing.request_begins(Some(body_bytes));
            assert_eq!(framing.has_begun_next(), more);
            framing.request_ends();
            assert_eq!(framing.is_in_head(), more);
        }
    }

    #[test]
    fn a_line_end_behind_a_body_is_no_request() {
        let mut framing = Framing::default();
        framing.received(b"POST / HTTP/1.1\r\n\r\na\r\n");
        framing.request_begins(Some(1));
        assert!(!framing.has_begun_next());
        framing.request_ends();
        assert!(!framing.is_in_head());
    }

    #[test]
    fn a_chunked_body_is_complete_at_an_empty_line_only() {
        let mut framing = Framing::default();
        framing.received(b"POST / HTTP/1.1\r\n\r\n1\r\na\r\n");
        framing.request_begins(None);
        assert!(!framing.is_request_complete());
        framing.received(b"0\r\n\r\n");
        assert!(framing.is_request_complete());
        framing.request_ends();
        assert!(!framing.is_in_head());
    }

    #[test]
    fn what_follows_a_chunked_body_is_taken_for_a_begun_request() {
        let mut framing = Framing::default();
        framing.received(b"POST / HTTP/1.1\r\n\r\n0\r\n\r\nGET /");
        framing.request_begins(None);
        framing.request_ends();
        assert!(framing.is_in_head());
        framing.request_begins(Some(0));
        framing.request_ends();
        assert!(framing.is_in_head(), "unsure for good");
    }
}
