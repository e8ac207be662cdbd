//! `/metrics` on the operator's listener: Prometheus' text format, and counters that move by exactly
//! what was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::endpoint::Endpoint;
use domain::secret::Secret;
use http_server::TlsIdentity;
use minitill::http::refusal::Code;
use minitill::jobs::Jobs;
use minitill::operator::admin::ROUTES;
use store::AuditOptions;
use tokio::sync::watch;

use crate::front::certify;
use crate::game::Game;
use crate::support::{PICTURE, Request, TestApp, TestTill, committed};

/// A metric as it was served.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    /// By name and labels as they stand there.
    samples: BTreeMap<String, f64>,
}

/// Reads the text format strictly: each family once, its help and type before its samples, every name
/// and label well-formed, no sample twice.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && is_name(name), "{line}");
            assert!(families.insert(name.to_owned(), Family::default()).is_none(), "{name} twice");
            help.clone_into(&mut families.get_mut(name).unwrap().help);
            name.clone_into(&mut current);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "the type stands under its help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            kind.clone_into(&mut families.get_mut(name).unwrap().kind);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = families.get_mut(&current).unwrap();
            let suffix =
                name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} stands under {current}"));
            let suffixes: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
                let (label, value) = label.split_once('=').unwrap();
                let plain = value.len() > 2 && value.starts_with('"') && value.ends_with('"');
                assert!(is_name(label) && plain && !value.contains(['\\', '\n']), "{line}");
            }
            let value = if value == "+Inf" { f64::INFINITY } else { value.parse().unwrap() };
            assert!(family.samples.insert(series.to_owned(), value).is_none(), "{series} twice");
        }
    }
    families
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

async fn scrape(till: &TestTill) -> BTreeMap<String, Family> {
    let request = Request::get("/metrics").header("authorization", "Bearer s3cret");
    let answer = request.send(till.operator_address).await;
    let content_type = answer.header("content-type").map(str::to_owned);
    assert_eq!(
        (answer.status, content_type.as_deref()),
        (200, Some("text/plain; version=0.0.4; charset=utf-8"))
    );
    parse(&answer.body)
}

/// Every sample of counters and histograms that has changed, with by how much. Sums of seconds are
/// nobody's to foretell.
fn moved(before: &BTreeMap<String, Family>, after: &BTreeMap<String, Family>) -> BTreeMap<String, f64> {
    let mut moved = BTreeMap::new();
    for (name, family) in
        after.iter().filter(|(name, family)| family.kind != "gauge" && !name.starts_with("process_"))
    {
        for (series, value) in &family.samples {
            // The first refusal for a reason makes its series.
            let earlier =
                before.get(name).and_then(|family| family.samples.get(series)).copied().unwrap_or(0.0);
            let is_foretold = !series.contains("seconds_bucket") && !series.contains("seconds_sum");
            if is_foretold && (value - earlier).abs() > f64::EPSILON {
                moved.insert(series.clone(), value - earlier);
            }
        }
    }
    moved
}

fn changes(expected: &[(&str, f64)]) -> BTreeMap<String, f64> {
    expected.iter().map(|(series, change)| ((*series).to_owned(), *change)).collect()
}

/// Takes out what was counted by app. A request without a right token is no app's.
fn assert_moved_by_app(moved: &mut BTreeMap<String, f64>) {
    let mut by_app = BTreeMap::new();
    moved.retain(|series, count| {
        let is_by_app = series.starts_with("minitill_app_requests_total");
        if is_by_app {
            by_app.insert(series.clone(), *count);
        }
        !is_by_app
    });
    let expected = [
        ("exchange", 1, 2.0),
        ("exchange", 10_000_601, 1.0),
        ("exchange", 10_000_602, 1.0),
        ("exchange", 100_200_114, 1.0),
        ("upload_with_file", 1, 1.0),
        ("upload_with_file", 10_000_200, 1.0),
        ("upload_with_url", 10_000_419, 1.0),
    ];
    let expected = expected.map(|(endpoint, code, count)| {
        let labels = format!("app=\"a1\",code=\"{code}\",endpoint=\"{endpoint}\"");
        (format!("minitill_app_requests_total{{{labels}}}"), count)
    });
    assert_eq!(by_app, BTreeMap::from(expected));
}

async fn send_what_counts(till: &TestTill, app: &TestApp) {
    let game = Game::new(app, "o1", "b1", 60);
    for code in [1, 1] {
        assert_eq!(game.send(till).await.code(), code);
    }
    assert_eq!(Game::new(app, "o1", "b2", 60).send(till).await.code(), 10_000_601);
    assert_eq!(game.clone().with("amount", 59).send(till).await.code(), 10_000_602);
    for stranger in [("access_token", "x"), ("app_id", "invented")] {
        assert_eq!(game.clone().with(stranger.0, stranger.1).send(till).await.code(), 100_200_102);
    }
    assert_eq!(game.keyed("another").send(till).await.code(), 100_200_114);
    assert_eq!(till.send(Request::get("/nowhere")).await.status, 404);
    assert_eq!(till.send(Request::get("/api/kpay/minigame/pay")).await.status, 405);
    let upload =
        format!("/openapi/mp/developer/file/img/uploadWithFile?app_id=a1&access_token={}", app.token);
    let file = "content-disposition: form-data; name=\"file\"; filename=\"a.png\"";
    assert_eq!(till.send(Request::post(&upload).multipart(&[(file, PICTURE)])).await.code(), 1);
    assert_eq!(till.send(Request::post(&upload).multipart(&[(file, b"text")])).await.code(), 10_000_200);
    let by_url = format!(
        "/openapi/mp/developer/file/img/uploadWithUrl?app_id=a1&access_token={}&url=http://127.0.0.1/",
        app.token
    );
    assert_eq!(till.send(Request::post(&by_url)).await.code(), 10_000_419);
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_move_by_exactly_what_was_sent() {
    let till =
        TestTill::start_with(|config| config.ops.metrics_token = Secret::new("s3cret".to_owned())).await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 100).await;
    let before = scrape(&till).await;
    send_what_counts(&till, &app).await;
    let mut moved = moved(&before, &scrape(&till).await);
    assert_moved_by_app(&mut moved);
    let requests = |endpoint: &str, code: u32| {
        format!("minitill_http_requests_total{{code=\"{code}\",endpoint=\"{endpoint}\"}}")
    };
    let duration =
        |endpoint: &str| format!("minitill_http_request_duration_seconds_count{{endpoint=\"{endpoint}\"}}");
    let batch = |end: &str| format!("minitill_exchange_batch_size_bucket{{le=\"{end}\"}}");
    let mut expected = changes(&[
        ("minitill_http_responses_total{status=\"200\"}", 10.0),
        ("minitill_http_responses_total{status=\"404\"}", 1.0),
        ("minitill_http_responses_total{status=\"405\"}", 1.0),
        ("minitill_exchange_outcomes_total{outcome=\"done\"}", 1.0),
        ("minitill_exchange_outcomes_total{outcome=\"replayed\"}", 1.0),
        ("minitill_exchange_outcomes_total{outcome=\"insufficient_balance\"}", 1.0),
        ("minitill_exchange_outcomes_total{outcome=\"biz_no_conflict\"}", 1.0),
        ("minitill_exchange_batch_size_count", 4.0),
        ("minitill_exchange_batch_size_sum", 4.0),
        ("minitill_exchange_batch_duration_seconds_count", 4.0),
        ("minitill_image_judge_duration_seconds_count", 2.0),
        ("minitill_image_refusals_total{reason=\"unknown_format\"}", 1.0),
        ("minitill_fetch_refusals_total{reason=\"address_not_public\"}", 1.0),
    ]);
    for (endpoint, code, count) in [
        ("exchange", 1, 2.0),
        ("exchange", 10_000_601, 1.0),
        ("exchange", 10_000_602, 1.0),
        ("exchange", 100_200_114, 1.0),
        ("exchange", 100_200_102, 2.0),
        ("exchange", 10_000_200, 1.0),
        ("unknown", 10_000_200, 1.0),
        ("upload_with_file", 1, 1.0),
        ("upload_with_file", 10_000_200, 1.0),
        ("upload_with_url", 10_000_419, 1.0),
    ] {
        expected.insert(requests(endpoint, code), count);
    }
    for (endpoint, count) in
        [("exchange", 8.0), ("unknown", 1.0), ("upload_with_file", 2.0), ("upload_with_url", 1.0)]
    {
        expected.insert(duration(endpoint), count);
    }
    for end in ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "+Inf"] {
        expected.insert(batch(end), 4.0);
    }
    assert_eq!(moved, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_tell_how_things_stand() {
    let till = TestTill::start_with(|config| config.exchange.queue_max = 7).await;
    let idle = tokio::net::TcpStream::connect(till.address).await.unwrap();
    let answer = till.send(Request::get("/nowhere")).await;
    assert_eq!(answer.status, 404);
    let families = scrape(&till).await;
    let value = |series: &str| {
        let name = series.split('{').next().unwrap();
        families[name].samples[series]
    };
    assert!(value("minitill_connections_open") >= 1.0);
    for (series, expected) in [
        ("minitill_exchange_queue_length", 0.0),
        ("minitill_exchange_queue_length_max", 7.0),
        ("minitill_database_pool_connections_max", 2.0),
        ("minitill_database_up", 1.0),
        ("minitill_fetches_under_way", 0.0),
        ("minitill_upload_memory_bytes", 0.0),
        ("minitill_upload_memory_bytes_max", 201_326_592.0),
        ("minitill_uploads_have_room", 1.0),
        ("minitill_waiting_for_place{kind=\"receiver\"}", 0.0),
        ("minitill_waiting_for_place{kind=\"late_answer\"}", 0.0),
        ("minitill_waiting_for_place{kind=\"picture\"}", 0.0),
        ("minitill_waiting_for_place{kind=\"bill\"}", 0.0),
        ("minitill_instances", 1.0),
        ("process_start_time_seconds", 1_800_000_000.0),
    ] {
        assert!((value(series) - expected).abs() < f64::EPSILON, "{series} is {}", value(series));
    }
    let pool = |state: &str| value(&format!("minitill_database_pool_connections{{state=\"{state}\"}}"));
    assert!((pool("idle") + pool("used") - 2.0).abs() < f64::EPSILON);
    assert!(value("process_cpu_seconds_total") > 0.0 && value("minitill_uptime_seconds") > 0.0);
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") > 3.0);
    }
    drop(idle);
    till.store.close().await;
    let away = scrape(&till).await;
    assert!(away["minitill_database_up"].samples["minitill_database_up"].abs() < f64::EPSILON);
}

/// Rule: monitoring knows when the books were last right; the database is asked for it every 30 seconds at most.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_audits_are_told_once_there_were_any() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 5, 100).await;
    let told = async || {
        let families = scrape(&till).await;
        let value =
            |name: &str| Some(*families.get(name)?.samples.get(&format!("{name}{{scope=\"full\"}}"))?);
        (value("minitill_last_clean_audit_timestamp_seconds"), value("minitill_last_audit_differences"))
    };
    assert_eq!(told().await, (None, None));
    till.assert_audit_clean().await;
    assert_eq!(told().await, (None, None), "remembered");
    till.clock.advance(Duration::from_secs(30));
    let (Some(clean), Some(0.0)) = told().await else { panic!("a clean audit is told") };
    let started = till.number("SELECT extract(epoch FROM started_at)::bigint FROM audits").await;
    assert!((clean - f64::from(u32::try_from(started).unwrap())).abs() <= 1.0);
    till.execute("UPDATE wallets SET free_balance = 6").await;
    let audit = till.store.audit(AuditOptions::default(), Box::new(|_, _| {})).await.unwrap();
    assert!(!audit.clean && audit.not_noted.is_none());
    till.clock.advance(Duration::from_secs(30));
    assert_eq!(told().await, (Some(clean), Some(f64::from(u32::try_from(audit.differences).unwrap()))));
    till.store.close().await;
    till.clock.advance(Duration::from_secs(30));
    assert_eq!(told().await.0, Some(clean), "it stays true while the database is away");
}

/// Rule: buckets add up, and the last one is the count.
#[tokio::test(flavor = "multi_thread")]
async fn histograms_are_cumulative() {
    let till = TestTill::start().await;
    till.send(Request::get("/oauth2/access_token")).await;
    for (name, family) in scrape(&till).await.iter().filter(|(_, family)| family.kind == "histogram") {
        let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (sample, value) in family.samples.iter().filter(|(sample, _)| sample.contains("_bucket{")) {
            let (before, end) = sample.split_once("le=\"").unwrap();
            let end = end.trim_end_matches("\"}");
            let end = if end == "+Inf" { f64::INFINITY } else { end.parse().unwrap() };
            series.entry(before.to_owned()).or_default().push((end, *value));
        }
        assert!(!series.is_empty(), "{name}");
        for (labels, mut buckets) in series {
            buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
            assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{labels}");
            let (last, count) = *buckets.last().unwrap();
            assert!(last.is_infinite());
            let labels = labels.replace("_bucket", "_count").trim_end_matches(',').to_owned();
            let counted = labels.strip_suffix('{').map_or_else(|| format!("{labels}}}"), str::to_owned);
            assert!((family.samples[&counted] - count).abs() < f64::EPSILON, "{counted}");
        }
    }
}

/// Rule: docs/metrics.md has a row for every metric that is served, and for no other.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_metrics_is_what_is_served() {
    let till =
        TestTill::start_with(|config| config.ops.metrics_token = Secret::new("s3cret".to_owned())).await;
    let app = till.app("a1").await;
    // Series of refusals appear with their first refusal.
    let upload =
        format!("/openapi/mp/developer/file/img/uploadWithFile?app_id=a1&access_token={}", app.token);
    let file = "content-disposition: form-data; name=\"file\"";
    till.send(Request::post(&upload).multipart(&[(file, b"text")])).await;
    let by_url = upload.replace("uploadWithFile", "uploadWithUrl") + "&url=ftp://a.example/";
    till.send(Request::post(&by_url)).await;
    // So do those of audits, with the first one.
    till.assert_audit_clean().await;
    // That of a certificate is there with TLS.
    let folder = std::env::temp_dir().join(format!("minitill-metrics-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    certify(&folder);
    let tls = TlsIdentity::load(&folder.join("cert.pem"), &folder.join("key.pem")).unwrap();
    till.till.metrics.show_certificate("public", Some(&tls));
    std::fs::remove_dir_all(&folder).unwrap();
    // Those of jobs are there as soon as a server starts its jobs.
    let (stop, stopped) = watch::channel(false);
    let jobs = Jobs::start(&till.till, stopped);
    stop.send(true).unwrap();
    jobs.stop(&till.till).await;
    let families = scrape(&till).await;
    let served: BTreeSet<(&str, &str)> =
        families.iter().map(|(name, family)| (name.as_str(), family.kind.as_str())).collect();
    let table = committed("docs/metrics.md");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let documented: BTreeSet<(&str, &str)> =
        cells.map(|cells| (cells[1].trim_matches('`').split('{').next().unwrap(), cells[2])).collect();
    assert_eq!(documented, served);
    // Operators' contract 9.7.10: the alert on it is right for certificates of a few days too.
    let [expires, due] = ["expires", "renewal_due"].map(|what| {
        let name = format!("minitill_certificate_{what}_timestamp_seconds");
        families[&name].samples[&format!("{name}{{listener=\"public\"}}")]
    });
    assert!((expires - due - 7.0 * 86_400.0).abs() < f64::EPSILON, "{expires} and {due}");
}

/// Rule: `increase()` does not see the first value of a series, so the faults of each call of the admin API have one before
/// the first fault.
#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_admin_api_have_their_series_from_the_start() {
    let till = TestTill::start().await;
    let families = scrape(&till).await;
    let requests = &families["minitill_admin_requests_total"];
    for id in ROUTES.iter().map(|route| route.id) {
        let series = format!("minitill_admin_requests_total{{endpoint=\"{id}\",status=\"500\"}}");
        assert!(requests.samples.contains_key(&series), "{series}");
    }
}

/// Rule: the page of metrics names each value of the label `endpoint`.
#[test]
fn the_page_of_metrics_names_each_endpoint() {
    let page = committed("docs/metrics.md");
    let (_, rest) = page.split_once("`endpoint` is ").unwrap();
    let (sentence, _) = rest.split_once('.').unwrap();
    let named: BTreeSet<&str> = sentence.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, Endpoint::WORDS.into_iter().chain(["unknown"]).collect::<BTreeSet<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_listener_serves_no_metrics() {
    let till = TestTill::start().await;
    assert_eq!(till.send(Request::get("/metrics")).await.status, 404);
}

/// The counters of a request are found by these numbers.
#[test]
fn tables_are_in_the_order_of_their_enums() {
    assert!(Endpoint::ALL.iter().enumerate().all(|(index, endpoint)| *endpoint as usize == index));
    assert!(Code::ALL.iter().enumerate().all(|(index, code)| *code as usize == index));
}

/// Rule: an alert or a panel on a metric that nobody serves would be silent for ever. Each alert has its
/// section in the runbook.
#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let (table, runbook) = (committed("docs/metrics.md"), committed("docs/runbook.md"));
    let (alerts, dashboard) = (committed("deploy/alerts.yml"), committed("deploy/grafana-dashboard.json"));
    let is_of_name = |character: char| character.is_ascii_lowercase() || character == '_';
    for word in alerts.split(|c| !is_of_name(c)).chain(dashboard.split(|c| !is_of_name(c))) {
        if word.starts_with("minitill_") || word.starts_with("process_") {
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .fold(word, |name, suffix| name.strip_suffix(suffix).unwrap_or(name));
            assert!(table.contains(&format!("| `{name}")), "{word}");
        }
    }
    // What the table says to alert on has a rule, or is among those that have none.
    let (rows, without_rule) = table.split_once("has no rule for them").unwrap();
    for row in rows.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').split('{').next().unwrap();
        let has_rule = alerts.split(|c| !is_of_name(c)).any(|word| word.trim_end_matches("_bucket") == name);
        let is_listed = without_rule.contains(&format!("- `{name}`\n"));
        assert_eq!(is_listed, !cells[4].is_empty() && !has_rule, "{name}");
    }
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for name in names {
        assert!(runbook.contains(&format!("\n## {name}\n")), "{name}");
        assert!(alerts.contains(&format!("docs/runbook.md#{}\n", name.to_lowercase())), "{name}");
    }
}
