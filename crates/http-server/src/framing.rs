//! HTTP/1.1 message framing: where one request ends and the next begins in the bytes of a
//! connection.
//!
//! hyper parses the requests. This module follows it, because hyper does not report whether the bytes that it holds
//! begin another request. A drain must not close in the middle of one. It also finds heads that hyper takes and a proxy
//! may read otherwise. When it is unsure, it assumes that a request has begun, and the connection ends.

/// Follows the bytes of one connection in the order in which hyper reads them.
#[derive(Debug, Default)]
pub(super) struct Framing {
    position: Position,
    head: HeadLines,
}

/// Why a head is refused that hyper would take. A proxy in front may read it otherwise, and see other requests than hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// A line ends without a carriage return.
    BareLineFeed,
    /// A transfer coding is not `chunked`, or stands beside another.
    TransferCoding,
    /// The first line of HTTP/2, from a client that does not ask before. hyper would close without an answer.
    Http2,
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
        if line == b"PRI * HTTP/2.0" {
            self.fault.get_or_insert(HeadFault::Http2);
        }
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
    /// A body; `behind` has arrived after the whole of it.
    Body { rest: BodyRest, behind: Vec<u8> },
    /// Unknown, because hyper has found a head elsewhere.
    Unknown,
}

/// What a body lacks.
#[derive(Clone, Copy, Debug)]
enum BodyRest {
    /// So many bytes.
    Bytes(u64),
    /// The rest of a line with the size of a chunk. Behind the digits an extension may stand.
    SizeLine { size: u64, has_digits: bool },
    /// So many bytes of a chunk and of the line end behind it.
    Chunk(u64),
    /// Trailers, and the empty line that ends a chunked body. For hyper a line ends with CR and LF here.
    Trailers { line_is_empty: bool, after_cr: bool },
}

impl BodyRest {
    const SIZE_LINE: Self = Self::SizeLine { size: 0, has_digits: true };
    const TRAILERS: Self = Self::Trailers { line_is_empty: true, after_cr: false };

    /// Takes what belongs to the body from the beginning of `bytes`, and gives what is behind.
    fn take<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !self.is_over() && !bytes.is_empty() {
            let taken = match self {
                Self::Bytes(missing) | Self::Chunk(missing) => {
                    let taken = overlap(*missing, bytes.len());
                    *missing -= taken as u64;
                    taken
                }
                Self::SizeLine { .. } | Self::Trailers { .. } => {
                    self.follow_line(bytes[0]);
                    1
                }
            };
            if matches!(self, Self::Chunk(0)) {
                *self = Self::SIZE_LINE;
            }
            bytes = &bytes[taken..];
        }
        bytes
    }

    /// hyper refuses what is no chunk, so only the bytes of a right one need to be told apart.
    fn follow_line(&mut self, byte: u8) {
        match self {
            Self::SizeLine { size: 0, .. } if byte == b'\n' => *self = Self::TRAILERS,
            Self::SizeLine { size, .. } if byte == b'\n' => *self = Self::Chunk(size.saturating_add(2)),
            Self::SizeLine { size, has_digits } => match char::from(byte).to_digit(16) {
                Some(digit) if *has_digits => *size = size.saturating_mul(16).saturating_add(digit.into()),
                _ => *has_digits = false,
            },
            Self::Trailers { line_is_empty: true, after_cr: true } if byte == b'\n' => *self = Self::Bytes(0),
            Self::Trailers { line_is_empty, after_cr } => {
                *line_is_empty = *after_cr && byte == b'\n' || *line_is_empty && byte == b'\r';
                *after_cr = byte == b'\r';
            }
            Self::Bytes(_) | Self::Chunk(_) => {}
        }
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Bytes(0))
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
            Position::Body { rest, behind } => behind.extend_from_slice(rest.take(bytes)),
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

    /// Why the head that is being received, or that the router does not have yet, is refused.
    pub(super) fn head_fault(&self) -> Option<HeadFault> {
        let is_of_head = matches!(self.position, Position::Head | Position::HeadEnd { .. });
        self.head.fault.filter(|_| is_of_head)
    }

    /// hyper has parsed a head. Its body has `body_bytes`; `None` means chunked. Gives why it is refused.
    pub(super) fn request_begins(&mut self, body_bytes: Option<u64>) -> Option<HeadFault> {
        let Position::HeadEnd { behind } = std::mem::replace(&mut self.position, Position::Unknown) else {
            return None;
        };
        let mut rest = body_bytes.map_or(BodyRest::SIZE_LINE, BodyRest::Bytes);
        let behind = rest.take(&behind).to_vec();
        self.position = Position::Body { rest, behind };
        self.head.fault
    }

    /// The request is complete, and hyper goes on to the next. Part of that may be here already.
    pub(super) fn request_ends(&mut self) {
        match std::mem::take(&mut self.position) {
            Position::Body { rest, behind } if rest.is_over() => self.received(&behind),
            _ => self.position = Position::Unknown,
        }
    }

    /// Whether a head has begun, complete or not, that the router does not have yet.
    pub(super) fn is_in_head(&self) -> bool {
        matches!(self.position, Position::Head | Position::HeadEnd { .. } | Position::Unknown)
    }

    /// Whether the router's present or last request has arrived in full.
    pub(super) fn is_request_complete(&self) -> bool {
        match self.position {
            Position::Between => true,
            Position::Head | Position::HeadEnd { .. } | Position::Unknown => false,
            Position::Body { rest, .. } => rest.is_over(),
        }
    }

    /// Whether bytes of another request have arrived after the router's present one.
    pub(super) fn has_begun_next(&self) -> bool {
        matches!(&self.position, Position::Body { rest, behind }
            if rest.is_over() && behind.iter().any(|byte| !is_line_end(*byte)))
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
                assert_eq!(framing.request_begins(Some(0)), fault);
                assert_eq!(framing.head_fault(), None);
                framing.request_ends();
                framing.received(GET);
                assert_eq!(framing.head_fault(), None, "another head");
            }
        }
    }

    #[test]
    fn the_first_line_of_http_2_is_a_fault() {
        for size in [1, 7, 24] {
            let mut framing = Framing::default();
            for bytes in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(size) {
                framing.received(bytes);
                if framing.head_fault().is_some() {
                    break;
                }
            }
            assert_eq!(framing.head_fault(), Some(HeadFault::Http2), "by {size}");
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

    /// Rule: the end of a chunked body is found wherever the reads cut it, also where its bytes look like an end or a head.
    #[test]
    fn a_chunked_body_ends_where_hyper_ends_it() {
        for body in [
            "0\r\n\r\n",
            "5\r\n\r\n\r\n0\r\n0\r\n\r\n",
            "0A;a=0\r\nGET /\r\n\r\n\n\r\n0000\r\nDigest: 0\r\nX:\r\n\r\n",
            "1 ;f\r\na\r\n0 \r\n\r\n",
            "0\r\nX: 1\n\r\nY: 2\r\n\r\n",
        ] {
            let request = format!("POST / HTTP/1.1\r\n\r\n{body}GET /");
            for size in [1, 3, request.len()] {
                let mut framing = Framing::default();
                let (mut has_begun, mut received) = (false, 0);
                for bytes in request.as_bytes().chunks(size) {
                    framing.received(bytes);
                    received += bytes.len();
                    if !has_begun && received >= request.len() - body.len() - 5 {
                        framing.request_begins(None);
                        has_begun = true;
                    }
                    let is_complete = received >= request.len() - 5;
                    assert_eq!(
                        framing.is_request_complete(),
                        is_complete && has_begun,
                        "{body:?} at {received}"
                    );
                }
                assert!(framing.has_begun_next(), "{body:?} by {size}");
                framing.request_ends();
                assert!(framing.is_in_head());
                framing.received(b" HTTP/1.1\r\nHost: a\n\r\n");
                assert_eq!(framing.head_fault(), Some(HeadFault::BareLineFeed), "{body:?} by {size}");
            }
        }
    }

    /// Rule: where hyper has read a head that is not known here, the connection ends.
    #[test]
    fn a_head_that_was_not_followed_is_the_last() {
        let mut framing = Framing::default();
        framing.request_begins(Some(0));
        assert!(!framing.is_request_complete() && framing.is_in_head());
        framing.request_ends();
        framing.received(GET);
        framing.request_begins(Some(0));
        assert!(!framing.is_request_complete(), "unsure for good");
    }
}
