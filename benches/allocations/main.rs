//! `cargo bench --bench allocations`: how many pieces of memory the server asks for to carry one exchange,
//! its database left out.
//!
//! The exchange benchmark measures the CPU time of the same server (`--rows ceiling`). Here the server runs in
//! this process, whose allocator counts. So counting slows down neither that benchmark nor the product. The
//! client beside it allocates nothing.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results go to standard output, what went wrong to standard error"
)]

use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use domain::clock::{Clock, SystemClock};
use domain::signature::PayKey;
use domain::wallet::canonical_string;
use minitill::config::Config;
use minitill::public::router;
use minitill::state::AppState;
use serde_json::Value;
use stats_alloc::{Region, StatsAlloc};
use store::secrets::Keyring;
use store::{DatabaseAddress, Store};
use testkit::bench::Fallible;
use testkit::bench::program::Program;
use testkit::bench::stage::Stage;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// It counts what is asked of the system's allocator.
#[global_allocator]
static ALLOCATOR: StatsAlloc<System> = StatsAlloc::system();

const APP_ID: &str = "benchmark";
/// Exchanges before the count, until every buffer has its size.
const WARM_UP: u32 = 1_000;
/// An answer is shorter than this.
const ANSWER_BYTES_MAX: usize = 4096;
/// How an answer begins that is a success.
const SUCCESS: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// Allocations of one exchange, without the database.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench allocations --", disable_version_flag = true)]
struct Options {
    /// Exchanges that are counted
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    exchanges: u32,
    /// Cargo adds this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    // The private PostgreSQL is started by this very program.
    private_postgres::become_postgres_if_asked();
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("allocations benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Fallible<()> {
    let stage = Stage::open(None)?;
    let program = Program::on(&stage);
    program.json(&["migrate"])?;
    let app = program.json(&["app", "create", APP_ID, "--scope", "epay"])?;
    let token = program.json(&["token", "issue", APP_ID])?;
    let request = exchange(text(&token, "access_token")?, text(&app, "pay_key")?);

    let runtime = http_server::runtime()?;
    let address = runtime.block_on(serve(&program))?;
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    ask(&mut connection, &request, WARM_UP)?;
    let counted = Region::new(&ALLOCATOR);
    ask(&mut connection, &request, options.exchanges)?;
    let counted = counted.change();

    let each = |total: usize| -> Fallible<f64> {
        Ok(f64::from(u32::try_from(total)?) / f64::from(options.exchanges))
    };
    println!(
        "an exchange takes {:.1} allocations and {:.1} reallocations, {:.0} bytes in all",
        each(counted.allocations)?,
        each(counted.reallocations)?,
        each(counted.bytes_allocated)?
    );
    runtime.shutdown_background();
    Ok(())
}

/// Starts the library's own server with a store that answers at once.
async fn serve(program: &Program) -> Fallible<SocketAddr> {
    let command = program.minitill();
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned())));
    let config = Config::load(None, variables)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let address = DatabaseAddress::from_url(config.database.url.get().unwrap_or_default())?;
    let store = Store::connect(&address, config.store_settings(), Arc::clone(&clock)).await?;
    let key = Keyring::parse(config.secrets.master_key.get().unwrap_or_default(), "secrets.master_key")?;
    store.unlock(&key).await?;
    let listener = TcpListener::bind(config.public.listen).await?;
    let (address, limits) = (listener.local_addr()?, config.server_limits());
    let till = AppState::new(config, clock, store.answering_at_once());
    let open = till.connections.clone();
    tokio::spawn(async move {
        // It serves until the process ends: nobody stops it.
        let (_stop, stopped) = watch::channel(false);
        http_server::serve(listener, None, router::public(till), limits, open, stopped).await
    });
    Ok(address)
}

/// Sends a request so many times, each after the answer of the one before.
fn ask(connection: &mut TcpStream, request: &[u8], times: u32) -> Fallible<()> {
    let mut answer = [0; ANSWER_BYTES_MAX];
    for _ in 0..times {
        connection.write_all(request)?;
        // The server writes a short answer at once.
        let length = connection.read(&mut answer)?;
        let answer = &answer[..length];
        if !answer.starts_with(SUCCESS) || !answer.ends_with(b"}}") {
            return Err(format!("answered {}", String::from_utf8_lossy(answer)).into());
        }
    }
    Ok(())
}

/// A signed exchange, as the exchange benchmark sends it.
fn exchange(token: &str, pay_key: &str) -> Vec<u8> {
    let ts = SystemClock::new().unix_millis().to_string();
    let fields = [
        ("app_id", APP_ID),
        ("open_id", "1000000000000001"),
        ("biz_no", "2000000000000000001"),
        ("ts", &ts),
        ("amount", "7"),
        ("zone_id", "zone7_role1234567"),
        ("os", "android"),
        ("user_ip", "203.0.113.9"),
        ("product_name", "Pack of 60 gems"),
        (
            "product_info",
            r#"[{"product_id":10001,"product_num":60,"product_type":0},{"product_id":20002,"product_num":1,"product_type":2}]"#,
        ),
        ("product_desc", "60 gems and a chest"),
        ("extension", r#"{"server":"s7"}"#),
    ];
    let sign = PayKey::new(pay_key.to_owned()).sign(&canonical_string(fields.into_iter()));
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("access_token", token)
        .extend_pairs(fields)
        .append_pair("sign", &sign)
        .finish();
    let head = format!(
        "POST /api/kpay/minigame/pay HTTP/1.1\r\nHost: till.example\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n",
        form.len()
    );
    [head, form].concat().into_bytes()
}

fn text<'a>(object: &'a Value, name: &str) -> Fallible<&'a str> {
    object[name].as_str().ok_or_else(|| format!("minitill printed no {name}: {object}").into())
}
