//! The hosts of the database, and which of them takes writes now.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use domain::secret::Secret;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool, Row as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Result, StoreError};
use crate::secrets::random_bytes;

/// How often a server asks the host that it uses whether it still takes writes.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The address of the database. Several hosts are a primary and its standbys.
#[derive(Debug, Clone)]
pub struct DatabaseAddress {
    hosts: Vec<PgConnectOptions>,
    /// The URL before and after its hosts. `None` for a Unix socket.
    url_around: Option<(Secret, String)>,
}

impl DatabaseAddress {
    /// Parses a `postgres://` URL. It may name several hosts, each with its port, between commas, and
    /// `target_session_attrs=read-write`, which is what a server always wants.
    ///
    /// # Errors
    /// Any other text. The message does not repeat it, because it may hold a password.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let malformed = || "database.url: expected postgres://user:password@host:port/database".to_owned();
        // The driver accepts any scheme.
        let is_postgres = |scheme: &&str| matches!(*scheme, "postgres" | "postgresql");
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        let scheme = Some(scheme).filter(is_postgres).ok_or_else(malformed)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (wanted, query): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| pair.starts_with("target_session_attrs="));
        if wanted.iter().any(|pair| *pair != "target_session_attrs=read-write") {
            return Err("database.url: target_session_attrs: expected read-write".to_owned());
        }
        let are_several = hosts.contains(',');
        let (before, after) = (format!("{scheme}://{user}"), format!("{path}?{}", query.join("&")));
        let of_host = |host: &str| {
            let address = PgConnectOptions::from_str(&format!("{before}{host}{after}")).ok();
            address.filter(|_| !(are_several && host.is_empty()))
        };
        let hosts: Option<Vec<_>> = hosts.split(',').map(of_host).collect();
        let hosts = hosts.ok_or_else(malformed)?;
        let is_socket = query.iter().any(|pair| pair.starts_with("host="));
        Ok(Self { hosts, url_around: (!is_socket).then_some((Secret::new(before), after)) })
    }

    /// The superuser of the private PostgreSQL.
    pub const PRIVATE_USER: &str = "minitill";

    /// The private PostgreSQL with its Unix socket in this folder.
    #[must_use]
    pub fn from_socket_dir(folder: &std::path::Path) -> Self {
        let options = PgConnectOptions::new_without_pgpass()
            .socket(folder)
            .username(Self::PRIVATE_USER)
            .database("postgres")
            .ssl_mode(sqlx::postgres::PgSslMode::Disable);
        Self { hosts: vec![options], url_around: None }
    }

    /// Its place, for people: each host with its port, or the folder of its socket, and the name of the database. It
    /// has no password.
    #[must_use]
    pub fn places(&self) -> String {
        let place = |host: &PgConnectOptions| match host.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => format!("{}:{}", host.get_host(), host.get_port()),
        };
        let places: Vec<String> = self.hosts.iter().map(place).collect();
        let first = self.first();
        // As PostgreSQL does without a name.
        let name = first.get_database().unwrap_or_else(|| first.get_username());
        format!("{}, database {name}", places.join(" or "))
    }

    /// The first host: the only one of a private PostgreSQL.
    pub(crate) fn first(&self) -> &PgConnectOptions {
        &self.hosts[0]
    }
}

/// The hosts, and the one that is used. All clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    all: Arc<[PgConnectOptions]>,
    used: Arc<watch::Sender<HostInUse>>,
    url_around: Option<Arc<(Secret, String)>>,
}

#[derive(Debug, Clone, Copy)]
struct HostInUse {
    host: usize,
    since: Instant,
}

impl Hosts {
    /// Finds the host that takes writes. Without `must_write`, any host will do when none does.
    ///
    /// # Errors
    /// No such host answers within `patience`.
    pub(crate) async fn find(
        address: &DatabaseAddress,
        must_write: bool,
        patience: Duration,
    ) -> Result<Self> {
        let name = if must_write { server_name() } else { "minitill".to_owned() };
        let options = address.hosts.iter().cloned();
        let all: Arc<[PgConnectOptions]> = options.map(|host| named(host, &name)).collect();
        let host = first_that_serves(&all, must_write, patience).await?;
        let url_around = address.url_around.clone().map(Arc::new);
        Ok(Self { all, used: Arc::new(watch::Sender::new(HostInUse::now(host))), url_around })
    }

    /// Another host with the same user and database. `None` when this database is reached by a Unix socket.
    pub(crate) fn at(&self, host: &str, port: u16) -> Option<Self> {
        let (before, after) = self.url_around.as_deref()?;
        // An IPv6 address.
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let host = PgConnectOptions::from_str(&format!("{}{host}:{port}{after}", before.expose())).ok()?;
        let name = self.address().get_application_name().unwrap_or("minitill");
        let all: Arc<[PgConnectOptions]> = [named(host, name)].into();
        Some(Self { all, used: Arc::new(watch::Sender::new(HostInUse::now(0))), url_around: None })
    }

    /// The address of the host that is used.
    pub(crate) fn address(&self) -> &PgConnectOptions {
        &self.all[self.used.borrow().host]
    }

    /// Whether a session of this age is with the host that is used.
    pub(crate) fn is_present(&self, age: Duration) -> bool {
        age <= self.used.borrow().since.elapsed()
    }

    /// Follows the host that takes writes from one to the other, until the pools are closed.
    pub(crate) async fn follow(self, pools: [PgPool; 3], patience: Duration) {
        if self.all.len() == 1 {
            return;
        }
        let following = async {
            loop {
                self.serves_until_it_ends(patience).await;
                if let Ok(host) = first_that_serves(&self.all, true, patience).await {
                    self.move_to(host, &pools);
                }
                sleep(ASKED_EVERY).await;
            }
        };
        tokio::select! {
            () = following => {}
            () = pools[0].close_event() => {}
        }
    }

    /// Waits until the host that is used does not answer or takes no writes.
    async fn serves_until_it_ends(&self, patience: Duration) {
        let Ok(Ok(mut session)) = timeout(patience, PgConnection::connect_with(self.address())).await else {
            return;
        };
        while matches!(timeout(patience, takes_writes(&mut session)).await, Ok(Ok(true))) {
            sleep(ASKED_EVERY).await;
        }
    }

    fn move_to(&self, host: usize, pools: &[PgPool; 3]) {
        if self.used.borrow().host == host {
            return;
        }
        self.used.send_replace(HostInUse::now(host));
        let address = self.address();
        tracing::warn!(
            host = address.get_host(),
            port = address.get_port(),
            "another host of the database is used now"
        );
        for pool in pools {
            pool.set_connect_options(address.clone());
        }
    }
}

impl HostInUse {
    fn now(host: usize) -> Self {
        Self { host, since: Instant::now() }
    }
}

fn named(host: PgConnectOptions, name: &str) -> PgConnectOptions {
    host.application_name(name).disable_statement_logging()
}

/// The first host that takes writes, or without `must_write` one that answers. All are asked at once.
async fn first_that_serves(
    hosts: &[PgConnectOptions],
    must_write: bool,
    patience: Duration,
) -> Result<usize> {
    // A session of its own reports the reason, where a pool reports only a time-out.
    let ask = async |place: usize, host: &PgConnectOptions| {
        let asking = async {
            let mut session = PgConnection::connect_with(host).await?;
            let writes = takes_writes(&mut session).await?;
            session.close().await.map(|()| writes)
        };
        let Ok(writes) = timeout(patience, asking).await else {
            return Err(StoreError::unavailable("it does not answer"));
        };
        Ok((place, writes?))
    };
    let mut asked: FuturesUnordered<_> =
        hosts.iter().enumerate().map(|(place, host)| ask(place, host)).collect();
    let mut reading = None;
    let mut fault = None;
    while let Some(answer) = asked.next().await {
        match answer {
            Ok((place, true)) => return Ok(place),
            Ok((place, false)) => reading = reading.or(Some(place)),
            // One that may pass is worth a wait.
            Err(error) => fault = fault.filter(|kept: &StoreError| !kept.is_lasting()).or(Some(error)),
        }
    }
    match reading {
        Some(place) if !must_write => Ok(place),
        Some(_) => Err(StoreError::unavailable("it takes no writes: is it a standby?")),
        None => Err(fault.unwrap_or_else(|| StoreError::unavailable("it has no host"))),
    }
}

/// Whether the session may write. A standby may not.
pub(crate) async fn takes_writes(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = session.fetch_one("SHOW transaction_read_only").await?;
    row.try_get(0).map(|read_only: &str| read_only == "off")
}

/// The name of a new server's sessions in `pg_stat_activity`.
fn server_name() -> String {
    format!("minitill {}", hex::encode(random_bytes::<8>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 9.3.5: who waits is told for what, without the password.
    #[test]
    fn an_address_says_where_it_leads_and_no_password() {
        for (url, expected) in [
            ("postgres://u:p4ss@a,b:2/till", "a:5432 or b:2, database till"),
            ("postgres://u:p4ss@localhost/till?host=/run/postgresql", "/run/postgresql, database till"),
        ] {
            assert_eq!(DatabaseAddress::from_url(url).unwrap().places(), expected, "{url}");
        }
    }

    /// `host:port` of each.
    fn hosts(url: &str) -> Result<Vec<String>, String> {
        let hosts = DatabaseAddress::from_url(url)?.hosts;
        Ok(hosts.iter().map(|host| format!("{}:{}", host.get_host(), host.get_port())).collect())
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        for (url, expected) in [
            ("postgres://u:p@a/d", vec!["a:5432"]),
            ("postgresql://u:p@a:1/d?sslmode=disable", vec!["a:1"]),
            (
                "postgres://u:p@a:1,b,[::1]:3/d?target_session_attrs=read-write",
                vec!["a:1", "b:5432", "[::1]:3"],
            ),
            ("postgres://u:p%40%2C@a:1,b:2", vec!["a:1", "b:2"]),
        ] {
            assert_eq!(hosts(url).unwrap(), expected, "{url}");
        }
        let both =
            DatabaseAddress::from_url("postgres://u@a,b/d?sslmode=require&target_session_attrs=read-write")
                .unwrap()
                .hosts;
        for host in both {
            let mode = host.get_ssl_mode();
            assert_eq!((host.get_username(), host.get_database()), ("u", Some("d")));
            assert!(matches!(mode, sqlx::postgres::PgSslMode::Require), "{mode:?}");
        }
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_text() {
        let malformed = "database.url: expected postgres://user:password@host:port/database";
        for url in [
            "",
            "mysql://u:p@a/d",
            "postgres:a",
            "postgres://u:p@a,/d",
            "postgres://u:p@,a/d",
            "postgres://a:x/d",
        ] {
            assert_eq!(hosts(url).unwrap_err(), malformed, "{url}");
        }
        assert_eq!(
            hosts("postgres://u@a,b/d?target_session_attrs=any").unwrap_err(),
            "database.url: target_session_attrs: expected read-write"
        );
    }
}
