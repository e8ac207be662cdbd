//! Settings that are of their type, and that a start refuses all the same.

use super::load;
use crate::config::log_targets;

/// Contract 9.2.8.
#[test]
fn a_duration_that_leaves_no_time_is_refused() {
    for (name, value, expected) in [
        ("HTTP__BODY_TIMEOUT", "0s", "http.body_timeout: expected 1ms or more, got 0s"),
        ("HTTP__WRITE_TIMEOUT", "0s", "http.write_timeout: expected 1ms or more, got 0s"),
        ("DATABASE__ACQUIRE_TIMEOUT", "0s", "database.acquire_timeout: expected 1ms or more, got 0s"),
        ("DATABASE__STATEMENT_TIMEOUT", "0ms", "database.statement_timeout: expected 1ms or more, got 0s"),
        ("DATABASE__STATEMENT_TIMEOUT", "9us", "database.statement_timeout: expected 1ms or more, got 9us"),
        ("EXCHANGE__DEADLINE", "0s", "exchange.deadline: expected 1ms or more, got 0s"),
        ("TOPUP__ORDER_TTL", "0s", "topup.order_ttl: expected 1s or more, got 0s"),
        ("IMAGE_JUDGE__TIMEOUT", "0s", "image_judge.timeout: expected 1ms or more, got 0s"),
        ("FETCH__CONNECT_TIMEOUT", "0s", "fetch.connect_timeout: expected 1ms or more, got 0s"),
        ("FETCH__TIMEOUT", "0s", "fetch.timeout: expected 1ms or more, got 0s"),
    ] {
        assert_eq!(load(&[(&format!("MINITILL_{name}"), value)]).unwrap_err(), expected);
    }
    for name in ["CONSOLE__REFRESH", "CONSOLE__REAUTH_AFTER", "IMAGE__CACHE_MAX_AGE", "HTTP__DRAIN_TIMEOUT"] {
        assert!(load(&[(&format!("MINITILL_{name}"), "0s")]).is_ok(), "{name}");
    }
}

/// Contract 9.2.9.
#[test]
fn names_and_a_token_that_no_request_has_are_refused() {
    let hosts = |value: &str| load(&[("MINITILL_OPS__HOSTS", value)]);
    assert!(hosts("till.internal, Till-2_b.internal,10.0.0.7,[::1],::1").is_ok());
    for host in [
        "http://till.internal",
        "till2.internal:18281",
        "till.internal/console",
        "till.internal.",
        "*.internal",
        "a b",
    ] {
        let expected = format!(
            "ops.hosts: expected names such as till.internal, without scheme, port and path, got {host:?}"
        );
        assert_eq!(hosts(&format!("fits.internal,{host}")).unwrap_err(), expected);
    }
    let token = |value: &str| load(&[("MINITILL_OPS__METRICS_TOKEN", value)]);
    assert!(token("").is_ok() && token("tok").is_ok());
    for value in ["tok ", " tok", "tok\n", " "] {
        let expected = "ops.metrics_token: expected no blank or line end around it";
        assert_eq!(token(value).unwrap_err(), expected, "{value:?}");
    }
}

/// Contract 9.2.10: a word that is no level would silence the log.
#[test]
fn a_filter_of_the_log_has_levels_alone_or_of_targets() {
    let filter = |value: &str| load(&[("MINITILL_LOG__FILTER", value)]);
    for fits in ["info,sqlx=warn", "trace", "WARN", "off", "info, sqlx=warn", "minitill::http=debug"] {
        assert!(filter(fits).is_ok(), "{fits}");
    }
    for (value, part) in [
        ("warning", "warning"),
        ("verbose", "verbose"),
        ("info,sqlx", "sqlx"),
        ("info,", ""),
        ("=info", "=info"),
    ] {
        let expected = format!(
            "log.filter: expected a level (off, error, warn, info, debug or trace) or target=level, got {part:?}"
        );
        assert_eq!(filter(value).unwrap_err(), expected, "{value:?}");
    }
    assert!(filter("").is_ok());
    assert!(filter("info, sqlx=loud").unwrap_err().starts_with("log.filter: "));
    // A blank behind a comma is not of the target's name.
    assert!(log_targets("off, sqlx=warn").unwrap().would_enable("sqlx", &::tracing::Level::WARN));
}

/// Contract 9.7.8: the pool writes a line for each session that it is not given, many a second.
#[test]
fn the_default_filter_keeps_the_pool_of_sessions_out_of_the_log() {
    let targets = log_targets(&load(&[]).unwrap().log.filter).unwrap();
    assert!(!targets.would_enable("sqlx_core::pool::inner", &::tracing::Level::ERROR));
    assert!(targets.would_enable("sqlx::query", &::tracing::Level::WARN));
    assert!(targets.would_enable("minitill::cli::database", &::tracing::Level::INFO));
}
