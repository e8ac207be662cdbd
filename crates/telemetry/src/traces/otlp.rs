//! Spans as OpenTelemetry's protocol has them (OTLP 1, `opentelemetry/proto/trace/v1/trace.proto`), in
//! protobuf's encoding. It is written by hand: seven small messages that never change, where the usual
//! crates are twenty-one more.

use super::{Attribute, Kind, Span, Value};

/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;

/// An `ExportTraceServiceRequest` with these spans of the instance that is so named.
pub(super) fn request(instance: &str, spans: &[Span]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", "minitill".into()),
        ("service.version", version.into()),
        ("service.instance.id", Value::Text(instance.to_owned().into())),
    ];
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |message| message.attributes(1, &resource));
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, b"minitill");
                scope.bytes(2, version.as_bytes());
            });
            for span in spans {
                scope_spans.message(2, |message| message.span(span));
            }
        });
    });
    request.0
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn span(&mut self, span: &Span) {
        self.bytes(1, &span.trace_id);
        self.bytes(2, &span.id);
        if let Some(parent) = &span.parent {
            self.bytes(4, parent);
        }
        self.bytes(5, span.name.as_bytes());
        self.number(
            6,
            match span.kind {
                Kind::Internal => 1,
                Kind::Server => 2,
                Kind::Client => 3,
            },
        );
        self.fixed(7, span.started_unix_nanos);
        self.fixed(8, span.ended_unix_nanos);
        self.attributes(9, &span.attributes);
        if span.failed {
            self.message(15, |status| status.number(3, STATUS_ERROR));
        }
    }

    fn attributes(&mut self, field: u64, attributes: &[Attribute]) {
        for (name, value) in attributes {
            self.message(field, |pair| {
                pair.bytes(1, name.as_bytes());
                pair.message(2, |any| match value {
                    Value::Text(text) => any.bytes(1, text.as_bytes()),
                    // Two's complement, as the protocol has negative numbers.
                    Value::Number(number) => any.number(3, number.cast_unsigned()),
                });
            });
        }
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}
