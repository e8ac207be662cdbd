//! Telemetry: OpenTelemetry spans of requests, sent to a collector as OTLP ([`traces`]), and the
//! Prometheus counters of the store and of the exporter ([`metrics`]).

pub mod metrics;
pub mod traces;
