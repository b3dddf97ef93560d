//! Resolves names to addresses. The system's resolver blocks a thread until the name server
//! answers.
//!
//! Names that hang don't delay others: a look-up that takes over [`PATIENCE`] continues among the
//! slow ones, where the next look-up of that name begins. Concurrent callers share one look-up of a
//! name. Callers that wait for a hanging name get its last addresses, if they are not older than
//! [`LAST_FOR`].
//!
//! # Limits
//! [`LOOKUPS_MAX`] and [`SLOW_LOOKUPS_MAX`] threads. If more names than the latter hang, other
//! names may wait for the former threads. Prompt answers are not cached: a name that the name
//! server denies loses its last addresses.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// The most concurrent look-ups of names that answer: each takes a thread.
pub const LOOKUPS_MAX: usize = 32;

/// The most concurrent look-ups of names that hang. With the others they take a quarter of the
/// runtime's threads for blocking work (512).
pub const SLOW_LOOKUPS_MAX: usize = 96;

/// Slower look-ups count as hanging: answers come within milliseconds, resolvers retry after 5 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the last addresses of a hanging name are used. Name servers are seldom away for longer;
/// in a cluster another pod gets a pod's address some time after it ended.
const LAST_FOR: Duration = Duration::from_secs(15 * 60);

/// The most names that are stored: those of 10,000 targets, of lists and redirects. Each takes its
/// text (253 bytes) and its addresses: 20 MiB if all were as long as possible.
const NAMES_MAX: usize = 16 * 1024;

/// The most addresses that are stored per name.
const ADDRESSES_MAX: usize = 32;

/// Finds the addresses of a name.
type ResolveFn = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The resolver of host names.
#[derive(Clone)]
pub struct HostNames(Arc<ResolveFn>);

impl HostNames {
    /// Returns the system's resolver.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    /// Returns a resolver with another function, which may block. The ports it returns are ignored.
    pub fn new(find: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for HostNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostNames")
    }
}

type Addresses = Arc<[SocketAddr]>;
type LookupResult = Result<Addresses, Arc<io::Error>>;
/// `None` until the look-up ends.
type PendingLookup = watch::Receiver<Option<LookupResult>>;

/// The look-ups of the process.
#[derive(Debug, Clone)]
pub(super) struct Lookups(Arc<ResolverInner>);

#[derive(Debug)]
struct ResolverInner {
    hosts: HostNames,
    usual: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    names: Mutex<HashMap<String, NameEntry>>,
}

/// The state of one name.
#[derive(Debug)]
struct NameEntry {
    requested_at: Instant,
    last: Option<(Instant, Addresses)>,
    /// Whether its last look-up hung.
    is_slow: bool,
    /// The running look-up.
    pending: Option<PendingLookup>,
}

impl NameEntry {
    fn new(requested_at: Instant) -> Self {
        Self { requested_at, last: None, is_slow: false, pending: None }
    }

    fn fresh_addresses(&self, now: Instant) -> Option<Addresses> {
        let (found, addresses) = self.last.as_ref()?;
        (now.saturating_duration_since(*found) <= LAST_FOR).then(|| Arc::clone(addresses))
    }
}

impl Lookups {
    pub(super) fn new(hosts: HostNames) -> Self {
        Self(Arc::new(ResolverInner {
            hosts,
            usual: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            slow: Arc::new(Semaphore::new(SLOW_LOOKUPS_MAX)),
            names: Mutex::default(),
        }))
    }

    /// Returns the addresses of a name. It takes as long as the resolver, unless the last addresses
    /// can be used.
    pub(super) async fn find_addresses(&self, name: &str) -> LookupResult {
        let (mut answer, last) = self.begin_lookup(name)?;
        let outcome = answer.wait_for(Option::is_some);
        let outcome = match last {
            None => outcome.await,
            Some(last) => match timeout(PATIENCE, outcome).await {
                Ok(outcome) => outcome,
                Err(_) => return Ok(last),
            },
        };
        outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| Err(of_kind(BROKEN_OFF)))
    }

    /// Starts a look-up unless one is running; returns its pending result and the last addresses.
    fn begin_lookup(
        &self,
        name: &str,
    ) -> Result<(PendingLookup, Option<Addresses>), Arc<io::Error>> {
        let now = Instant::now();
        let mut names = self.0.lock_names();
        if names.len() >= NAMES_MAX && !names.contains_key(name) {
            evict_names(&mut names, now)?;
        }
        let known = names.entry(name.to_owned()).or_insert_with(|| NameEntry::new(now));
        known.requested_at = now;
        let last = known.fresh_addresses(now);
        if let Some(answer) = &known.pending {
            return Ok((answer.clone(), last));
        }
        let (sender, answer) = watch::channel(None);
        known.pending = Some(answer.clone());
        let (shared, is_slow) = (Arc::clone(&self.0), known.is_slow);
        let name = name.to_owned();
        tokio::spawn(async move {
            let found = shared.run_lookup(name, is_slow).await;
            sender.send_replace(Some(found));
        });
        Ok((answer, last))
    }
}

impl ResolverInner {
    fn lock_names(&self) -> MutexGuard<'_, HashMap<String, NameEntry>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_lookup(&self, name: String, was_slow: bool) -> LookupResult {
        let lane = if was_slow { &self.slow } else { &self.usual };
        // Neither semaphore is ever closed.
        let closed = |_| of_kind(BROKEN_OFF);
        let mut permit = Arc::clone(lane).acquire_owned().await.map_err(closed)?;
        let (hosts, host_name) = (self.hosts.clone(), name.clone());
        let mut found = spawn_blocking(move || (hosts.0)(&host_name));
        if let Ok(found) = timeout(PATIENCE, &mut found).await {
            return self.record_lookup(&name, found, false);
        }
        if !was_slow {
            self.mark_slow(&name);
            // The thread hangs: it moves to the slow permits as soon as one is free.
            permit = tokio::select! {
                ended = &mut found => return self.record_lookup(&name, ended, true),
                permit = Arc::clone(&self.slow).acquire_owned() => permit.map_err(closed)?,
            };
        }
        let ended = found.await;
        drop(permit);
        self.record_lookup(&name, ended, true)
    }

    fn mark_slow(&self, name: &str) {
        if let Some(known) = self.lock_names().get_mut(name) {
            known.is_slow = true;
        }
    }

    fn record_lookup(&self, name: &str, found: ThreadResult, is_slow: bool) -> LookupResult {
        let found = found.unwrap_or_else(|ended| Err(ended.into()));
        let answer: LookupResult = match found {
            Ok(mut addresses) => {
                addresses.truncate(ADDRESSES_MAX);
                Ok(addresses.into())
            }
            Err(error) => Err(Arc::new(error)),
        };
        if let Some(known) = self.lock_names().get_mut(name) {
            (known.pending, known.is_slow) = (None, is_slow);
            match &answer {
                Ok(addresses) => known.last = Some((Instant::now(), Arc::clone(addresses))),
                Err(_) if !is_slow => known.last = None,
                Err(_) => {}
            }
        }
        answer
    }
}

/// The result of a look-up's thread.
type ThreadResult = Result<io::Result<Vec<SocketAddr>>, tokio::task::JoinError>;

const BROKEN_OFF: io::ErrorKind = io::ErrorKind::Interrupted;

fn of_kind(kind: io::ErrorKind) -> Arc<io::Error> {
    Arc::new(kind.into())
}

/// Removes names that no caller requested lately; if that isn't enough, all without a running
/// look-up.
fn evict_names(names: &mut HashMap<String, NameEntry>, now: Instant) -> Result<(), Arc<io::Error>> {
    let is_old = |name: &NameEntry| now.saturating_duration_since(name.requested_at) > LAST_FOR;
    names.retain(|_, name| name.pending.is_some() || !is_old(name));
    if names.len() >= NAMES_MAX {
        names.retain(|_, name| name.pending.is_some());
    }
    match names.len() {
        NAMES_MAX.. => Err(of_kind(io::ErrorKind::ResourceBusy)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
