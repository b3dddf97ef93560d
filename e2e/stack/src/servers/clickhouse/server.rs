//! A ClickHouse server by address instead of an engine that the test starts: `make test-server`.
//! Only this file decides which of the two a test gets.
//!
//! A server is one test's at a time. It must be empty when a test begins, so that nobody's tables
//! are in danger, and what the test made is dropped at its end. What a server by address can't do
//! (be killed, answer with faults) is an error that begins with [`NOT_HERE`].

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::{EngineOptions, MEMORY_LIMIT_BYTES, QUERY_TIMEOUT, User, sha256_hex};
use crate::servers::http;
use crate::servers::service::{Result, Secret, ServiceError, io_error};

/// The server's address, `http://user:password@host:8123`; not set: each test starts an engine.
pub const SERVER_VARIABLE: &str = "MILLRACE_CLICKHOUSE_URL";
/// A file to which each test appends the server's version and the engines of what it made.
pub const MET_VARIABLE: &str = "MILLRACE_CLICKHOUSE_MET";
/// The beginning of errors by which a test can't run on a server by address.
pub const NOT_HERE: &str = "not on this server";

/// The databases that every server has.
const OWN_DATABASES: &str = "'system', 'information_schema', 'INFORMATION_SCHEMA', 'default'";

/// Refuses a test that strikes at what lies beneath an engine, such as its ZooKeepers, where it
/// would run on a server by address.
///
/// # Errors
/// A server by address was chosen; `reason` is quoted.
pub fn require_own_engine(reason: &str) -> Result<()> {
    match env::var_os(SERVER_VARIABLE) {
        Some(_) => Err(not_here(reason)),
        None => Ok(()),
    }
}

pub(super) fn not_here(reason: &str) -> ServiceError {
    ServiceError::Option { field: SERVER_VARIABLE, problem: format!("{NOT_HERE}: {reason}") }
}

/// A server by address, for one test.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) user: User,
    url: String,
    met: Option<PathBuf>,
    /// It was empty, so what is there is this test's.
    is_ours: bool,
    // Unlocked when it is dropped, after the server was emptied.
    _turn: File,
}

impl Server {
    /// The server that was chosen for this run, empty; `None`: the test starts an engine.
    pub(super) fn chosen(options: &EngineOptions) -> Result<Option<Self>> {
        let Ok(text) = env::var(SERVER_VARIABLE) else { return Ok(None) };
        if options.users.len() != 1 || options.users.iter().any(|user| user.read_only) {
            return Err(not_here("it would need users of the test's own"));
        }
        if options.memory_limit_bytes != MEMORY_LIMIT_BYTES {
            return Err(not_here("it would need another limit of memory"));
        }
        let (user, authority) = parse(&text)?;
        let action = || io_error(format!("resolve {authority}"));
        let address = authority.to_socket_addrs().map_err(action())?.next();
        let address = address.ok_or_else(|| not_here("its name has no address"))?;
        let lock = env::temp_dir().join(format!("millrace-{}.lock", sha256_hex(&authority)));
        let open = io_error(format!("create {}", lock.display()));
        let turn = OpenOptions::new().create(true).append(true).open(&lock).map_err(open)?;
        turn.lock().map_err(io_error(format!("lock {}", lock.display())))?;
        let url = format!("http://{authority}");
        let met = env::var_os(MET_VARIABLE).map(PathBuf::from);
        let mut server = Self { address, user, url, met, is_ours: false, _turn: turn };
        let strangers = server.names("")?;
        if !strangers.is_empty() {
            let problem = format!(
                "the server isn't empty, and tests drop what they find: it has {}. Give a server \
                 for tests alone, or drop what an earlier run left there",
                strangers.join(", ")
            );
            return Err(ServiceError::Option { field: SERVER_VARIABLE, problem });
        }
        server.is_ours = true;
        if options.tls.is_some() {
            return Err(not_here("it can't be given a certificate"));
        }
        if !options.zookeeper.is_empty() && server.keepers() == 0 {
            return Err(not_here("it has no session with a Keeper"));
        }
        Ok(Some(server))
    }

    /// The base URL, without credentials.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The databases and the tables of `default` that aren't the server's own, as what `DROP` is
    /// told.
    fn names(&self, suffix: &str) -> Result<Vec<String>> {
        let text = self.query(&format!(
            "SELECT concat('DATABASE `', name, '`') FROM system.databases \
             WHERE name NOT IN ({OWN_DATABASES}) UNION ALL \
             SELECT concat('TABLE `default`.`', name, '`') FROM system.tables \
             WHERE database = 'default'"
        ))?;
        Ok(text.lines().map(|name| format!("{name}{suffix}")).collect())
    }

    /// Live sessions with a Keeper; a server without one has no such table.
    fn keepers(&self) -> u64 {
        let sessions = "SELECT count() FROM system.zookeeper_connection";
        self.query(sessions).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn query(&self, sql: &str) -> Result<String> {
        let User { name, password, read_only: _ } = &self.user;
        let headers =
            [("X-ClickHouse-User", name.expose()), ("X-ClickHouse-Key", password.expose())];
        let answer = http::ask(self.address, "POST", "/", &headers, sql.as_bytes(), QUERY_TIMEOUT)
            .map_err(io_error(format!("ask {}", self.url)))?;
        match answer.status {
            200 => Ok(answer.text()),
            status => Err(ServiceError::Refused { status, text: answer.text() }),
        }
    }

    /// Appends what the test met to the file of the run.
    fn record_met(&self) -> Option<()> {
        let met = self.met.as_ref()?;
        let found = self
            .query(&format!(
                "SELECT DISTINCT concat(version(), '\t', if(database = '', 'database ', ''), engine) \
                 FROM (SELECT database, engine FROM system.tables UNION ALL \
                 SELECT '' AS database, engine FROM system.databases \
                 WHERE name NOT IN ({OWN_DATABASES})) WHERE database NOT IN ({OWN_DATABASES})"
            ))
            .ok()?;
        let mut file = OpenOptions::new().create(true).append(true).open(met).ok()?;
        file.write_all(format!("{}\n", found.replace("\\t", "\t")).as_bytes()).ok()
    }
}

impl Drop for Server {
    /// Leaves the server empty. What can't be dropped is named when the next test begins.
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        let _ = self.record_met();
        for name in self.names(" SYNC").unwrap_or_default() {
            let _ = self.query(&format!("DROP {name}"));
        }
    }
}

/// Reads `http://user:password@host:port`; without a user it is `default`, without a password.
fn parse(text: &str) -> Result<(User, String)> {
    let form = |problem: &str| ServiceError::Option {
        field: SERVER_VARIABLE,
        problem: format!("{problem}; write http://user:password@host:8123"),
    };
    let rest = text.strip_prefix("http://").ok_or_else(|| form("only http:// is spoken here"))?;
    let rest = rest.trim_end_matches('/');
    let (login, authority) = rest.rsplit_once('@').unwrap_or(("default", rest));
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    let password = match password {
        "" => Secret::fixed(""),
        password => Secret::new(password)?,
    };
    if !authority.contains(':') || authority.contains('/') {
        return Err(form("host and port are needed, and no path"));
    }
    let user = User { name: Secret::new(name)?, password, read_only: false };
    Ok((user, authority.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: addresses with and without a login, and texts that are none. Guarantee: user,
    /// password and place are read; the others are refused with the form to write.
    #[test]
    fn addresses_are_read_or_refused() {
        for (text, expected) in [
            ("http://me:s3cret@ch:8123", ("me", "s3cret", "ch:8123")),
            ("http://me@127.0.0.1:8123/", ("me", "", "127.0.0.1:8123")),
            ("http://[::1]:8123", ("default", "", "[::1]:8123")),
        ] {
            let (user, authority) = parse(text).unwrap();
            let read = (user.name.expose(), user.password.expose(), authority.as_str());
            assert_eq!(read, expected);
        }
        for text in ["https://ch:8443", "ch:8123", "http://ch", "http://ch:8123/path", ""] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("http://user:password@host:8123"), "{text}: {error}");
        }
    }
}
