//! The public listener as the internet meets it: TLS by setting, and proxies that are trusted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::console::ORIGIN;
use crate::support::program::{Program, ServerProcess, free_address};
use crate::support::{Answer, PATIENCE, Request, form, fresh_database, raw, until};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("minitill-front-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a fresh certificate and its key, and gives the certificate.
pub(super) fn certify(folder: &std::path::Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["till.example".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

/// Sends a request over TLS to a server whose certificate is this one.
async fn send(
    server: &ServerProcess,
    trusted: &CertificateDer<'static>,
    request: Request,
) -> std::io::Result<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("till.example").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(&request.bytes()).await?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await?;
    Ok(Answer::parse(&received))
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_a_setting_and_a_certificate_is_renewed_at_sighup() {
    let folder = folder("tls");
    let former = certify(&folder);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let program =
        Program::on(&fresh_database().await.url).with("MINITILL_PUBLIC__TLS_CERTIFICATE", &path("cert.pem"));
    let half = program.complaint(&["serve"]);
    assert_eq!(half, "minitill: public.tls_certificate and public.tls_key: expected both or none\n");
    let wrong = program
        .clone()
        .with("MINITILL_PUBLIC__TLS_KEY", &path("none.pem"))
        .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
        .with("MINITILL_OPS__LISTEN", "127.0.0.1:0")
        .complaint(&["serve"]);
    assert!(wrong.contains("none.pem"), "{wrong}");
    let server = program.with("MINITILL_PUBLIC__TLS_KEY", &path("key.pem")).serve(None).await;
    let request = Request::get("/img/none");
    assert_eq!(send(&server, &former, request.clone()).await.unwrap().status, 404);
    let renewed = certify(&folder);
    kill_process(Pid::from_raw(server.pid().try_into().unwrap()).unwrap(), Signal::HUP).unwrap();
    let is_in_use = async || send(&server, &renewed, request.clone()).await.is_ok();
    until("the new certificate is in use", is_in_use).await;
    assert!(send(&server, &former, request).await.is_err());
    server.terminate();
    std::fs::remove_dir_all(folder).unwrap();
}

/// Rule (contract 8.4.5): the certificate of the operator's listener is not verified, because it names other
/// addresses than the one that is asked.
#[tokio::test(flavor = "multi_thread")]
async fn health_and_status_ask_a_listener_with_tls() {
    let folder = folder("ops-tls");
    certify(&folder);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let program = Program::on(&fresh_database().await.url)
        // `status` asks the server whose addresses are in this folder.
        .with("MINITILL_DATABASE__DATA_DIR", folder.to_str().unwrap())
        .with("MINITILL_PUBLIC__LISTEN", "127.0.0.1:0")
        .with("MINITILL_OPS__LISTEN", &free_address().to_string())
        .with("MINITILL_OPS__TLS_CERTIFICATE", &path("cert.pem"))
        .with("MINITILL_OPS__TLS_KEY", &path("key.pem"));
    let mut server = program.command(&["serve"]).spawn().unwrap();
    let started = Instant::now();
    while !program.run(&["health", "--ready"]).status.success() && started.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (health, status) = (program.run(&["health", "--ready"]), program.run(&["status", "--json"]));
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(health.stdout, b"ready\n", "{health:?}");
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["server"], "ready");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The client's address in the log: a proxy's word counts if the proxy is trusted, a stranger's never.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_the_client_behind_trusted_proxies_only() {
    let url = fresh_database().await.url;
    let folder = folder("log");
    let log = folder.join("log.jsonl");
    for (trusted, expected) in
        [("127.0.0.0/8", "203.0.113.5"), ("10.0.0.0/8", "127.0.0.1"), ("", "127.0.0.1")]
    {
        let server = Program::on(&url)
            .with("MINITILL_LOG__FORMAT", "json")
            .with("MINITILL_PUBLIC__TRUSTED_PROXIES", trusted)
            .serve(Some(log.clone()))
            .await;
        for path in ["/oauth2/access_token", "/img/0123"] {
            let request = Request::get(path).header("x-forwarded-for", "198.51.100.1, 203.0.113.5");
            assert!(request.send(server.address).await.status < 500);
        }
        server.terminate();
        let text = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let client = |endpoint: &str| {
            let line = lines.iter().find(|line| line["endpoint"] == endpoint);
            line.unwrap_or_else(|| panic!("no line of {endpoint} in {text}"))["span"]["client"].clone()
        };
        assert_eq!(client("/oauth2/access_token"), json!(expected), "{trusted}");
        assert_eq!(
            client("/img/{img_id}"),
            Value::Null,
            "players look at pictures: their addresses stay out"
        );
        assert!(!text.contains("198.51.100.1"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Rule 9.7.4 and 9.7.6: some requests leave a line with the client's address. They are a wrong password, a
/// refused call of the admin API and a denied action of the console.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_who_was_refused_on_the_operators_listener() {
    let folder = folder("refused");
    let log = folder.join("log.jsonl");
    let server = Program::on(&fresh_database().await.url)
        .with("MINITILL_LOG__FORMAT", "json")
        .with("MINITILL_OPS__TRUSTED_PROXIES", "127.0.0.0/8")
        .serve(Some(log.clone()))
        .await;
    let fields = form(&[("name", "alice"), ("password", "wrong password")]);
    for request in [
        Request::post("/console/sign-in").header("origin", ORIGIN).body(fields),
        Request::post("/console/new-app").header("origin", ORIGIN),
        Request::get("/admin/v1/apps").header("authorization", "Bearer nonsense"),
    ] {
        let answer = request.header("x-forwarded-for", "203.0.113.5").send(server.operator_address).await;
        assert!([401, 403].contains(&answer.status), "{}", answer.status);
    }
    server.terminate();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line["span"]["client"] == "203.0.113.5");
    let lines: Vec<_> =
        lines.map(|line| json!([line["level"], line["message"], line["endpoint"], line["user"]])).collect();
    assert_eq!(
        json!(lines),
        json!([
            ["INFO", "console: a wrong name, password or code", null, "alice"],
            ["INFO", "refused", "/console/new-app", null],
            ["INFO", "refused", "listApps", null],
        ])
    );
    std::fs::remove_dir_all(folder).unwrap();
}

/// Rule 9.7.5: a flood of strangers fills no disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refusals_leaves_little_in_the_log() {
    const REQUESTS: usize = 20_000;
    let folder = folder("flood");
    let log = folder.join("log.jsonl");
    let server = Program::on(&fresh_database().await.url)
        .with("MINITILL_LOG__FORMAT", "json")
        .serve(Some(log.clone()))
        .await;
    let one = "GET /nowhere HTTP/1.1\r\nhost: till\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nhost: till\r\nconnection: close\r\n\r\n";
    let answers = raw(server.address, [one.repeat(REQUESTS - 1).as_str(), last].concat().as_bytes()).await;
    assert_eq!(answers.body.matches("HTTP/1.1 404").count(), REQUESTS - 1, "beside the first");
    let metrics = Request::get("/metrics").send(server.operator_address).await.body;
    assert!(metrics.contains("minitill_http_responses_total{status=\"404\"} 20000\n"), "{metrics}");
    server.terminate();
    let size = std::fs::metadata(&log).unwrap().len();
    assert!(size < 100_000, "{size}");
    std::fs::remove_dir_all(folder).unwrap();
}
