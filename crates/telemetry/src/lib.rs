//! Telemetry of the store and of requests: spans for an OpenTelemetry collector ([`traces`]) and
//! Prometheus counters ([`metrics`]).

pub mod metrics;
pub mod traces;

/// Bytes of the system's random source.
///
/// # Panics
/// The system has no random source. Nothing could run without one.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
    bytes
}
