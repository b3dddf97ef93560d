//! Names to addresses, by whoever knows them: the system's resolver takes a thread for as long as a
//! name server says nothing.
//!
//! Names that hang hold up no others: a look-up that takes over [`PATIENCE`] goes on among slow
//! ones, and the next one of that name begins there. A name is looked up once at a time, for all
//! who ask. Who asks for one that hangs is told the last addresses, if they are not older than
//! [`LAST_FOR`].
//!
//! # Limits
//! [`LOOKUPS_MAX`] and [`SLOW_LOOKUPS_MAX`] threads. Where more names than the latter hang, others
//! may wait for the first ones. What is answered at once is believed and not kept: a name that the
//! name server denies has no last addresses.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// Most names that are looked up at once, as long as they are answered: each takes a thread.
pub const LOOKUPS_MAX: usize = 32;

/// Most names that hang and are looked up at once. With the others they take a quarter of the
/// threads that the runtime has for what blocks (512).
pub const SLOW_LOOKUPS_MAX: usize = 96;

/// Whatever takes longer hangs: answers come within milliseconds, resolvers ask again after 5 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the last addresses of a name that hangs are used. Name servers are seldom away for
/// longer; in a cluster a pod's address is another's some time after it ended.
const LAST_FOR: Duration = Duration::from_secs(15 * 60);

/// Most names that something is known of: those of 10,000 targets, of lists and redirects. Of each
/// its text (253 bytes) and its addresses: 20 MiB, were all as long as they can be.
const NAMES_MAX: usize = 16 * 1024;

/// Most addresses of a name that are kept.
const ADDRESSES_MAX: usize = 32;

/// Finds the addresses of a name.
type Find = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Whoever knows the addresses of names.
#[derive(Clone)]
pub struct HostNames(Arc<Find>);

impl HostNames {
    /// The system's resolver.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    /// Another one, which may block. Ports that it tells are not used.
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
type Answer = Result<Addresses, Arc<io::Error>>;
/// None until it is there.
type Awaited = watch::Receiver<Option<Answer>>;

/// Look-ups of the process.
#[derive(Debug, Clone)]
pub(super) struct Lookups(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    hosts: HostNames,
    usual: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    names: Mutex<HashMap<String, Name>>,
}

/// What is known of a name.
#[derive(Debug)]
struct Name {
    asked: Instant,
    last: Option<(Instant, Addresses)>,
    /// Whether its last look-up hung.
    is_slow: bool,
    /// What the one under way comes to.
    answer: Option<Awaited>,
}

impl Name {
    fn new(asked: Instant) -> Self {
        Self { asked, last: None, is_slow: false, answer: None }
    }

    fn last(&self, now: Instant) -> Option<Addresses> {
        let (found, addresses) = self.last.as_ref()?;
        (now.saturating_duration_since(*found) <= LAST_FOR).then(|| Arc::clone(addresses))
    }
}

impl Lookups {
    pub(super) fn new(hosts: HostNames) -> Self {
        Self(Arc::new(Shared {
            hosts,
            usual: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            slow: Arc::new(Semaphore::new(SLOW_LOOKUPS_MAX)),
            names: Mutex::default(),
        }))
    }

    /// Addresses of a name. It takes as long as the resolver, unless the last ones can be used.
    pub(super) async fn find(&self, name: &str) -> Answer {
        let (mut answer, last) = self.begin(name)?;
        let told = answer.wait_for(Option::is_some);
        let told = match last {
            None => told.await,
            Some(last) => match timeout(PATIENCE, told).await {
                Ok(told) => told,
                Err(_) => return Ok(last),
            },
        };
        told.ok().and_then(|told| told.clone()).unwrap_or_else(|| Err(of_kind(BROKEN_OFF)))
    }

    /// Has a name looked up, unless it is being looked up already; what it comes to, and its last
    /// addresses.
    fn begin(&self, name: &str) -> Result<(Awaited, Option<Addresses>), Arc<io::Error>> {
        let now = Instant::now();
        let mut names = self.0.names();
        if names.len() >= NAMES_MAX && !names.contains_key(name) {
            make_room(&mut names, now)?;
        }
        let known = names.entry(name.to_owned()).or_insert_with(|| Name::new(now));
        known.asked = now;
        let last = known.last(now);
        if let Some(answer) = &known.answer {
            return Ok((answer.clone(), last));
        }
        let (sender, answer) = watch::channel(None);
        known.answer = Some(answer.clone());
        let (shared, is_slow) = (Arc::clone(&self.0), known.is_slow);
        let name = name.to_owned();
        tokio::spawn(async move {
            let found = shared.look_up(name, is_slow).await;
            sender.send_replace(Some(found));
        });
        Ok((answer, last))
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self, name: String, was_slow: bool) -> Answer {
        let lane = if was_slow { &self.slow } else { &self.usual };
        // Neither is ever closed.
        let closed = |_| of_kind(BROKEN_OFF);
        let mut permit = Arc::clone(lane).acquire_owned().await.map_err(closed)?;
        let (hosts, asked) = (self.hosts.clone(), name.clone());
        let mut found = spawn_blocking(move || (hosts.0)(&asked));
        if let Ok(found) = timeout(PATIENCE, &mut found).await {
            return self.note(&name, found, false);
        }
        if !was_slow {
            self.is_slow(&name);
            // The thread hangs: it is counted among slow ones as soon as there is room.
            permit = tokio::select! {
                ended = &mut found => return self.note(&name, ended, true),
                place = Arc::clone(&self.slow).acquire_owned() => place.map_err(closed)?,
            };
        }
        let ended = found.await;
        drop(permit);
        self.note(&name, ended, true)
    }

    fn is_slow(&self, name: &str) {
        if let Some(known) = self.names().get_mut(name) {
            known.is_slow = true;
        }
    }

    fn note(&self, name: &str, found: Found, is_slow: bool) -> Answer {
        let found = found.unwrap_or_else(|ended| Err(ended.into()));
        let answer: Answer = match found {
            Ok(mut addresses) => {
                addresses.truncate(ADDRESSES_MAX);
                Ok(addresses.into())
            }
            Err(error) => Err(Arc::new(error)),
        };
        if let Some(known) = self.names().get_mut(name) {
            (known.answer, known.is_slow) = (None, is_slow);
            match &answer {
                Ok(addresses) => known.last = Some((Instant::now(), Arc::clone(addresses))),
                Err(_) if !is_slow => known.last = None,
                Err(_) => {}
            }
        }
        answer
    }
}

/// What a thread came to.
type Found = Result<io::Result<Vec<SocketAddr>>, tokio::task::JoinError>;

const BROKEN_OFF: io::ErrorKind = io::ErrorKind::Interrupted;

fn of_kind(kind: io::ErrorKind) -> Arc<io::Error> {
    Arc::new(kind.into())
}

/// Forgets names that nobody asks for; if that isn't enough, all that aren't being looked up.
fn make_room(names: &mut HashMap<String, Name>, now: Instant) -> Result<(), Arc<io::Error>> {
    let is_old = |name: &Name| now.saturating_duration_since(name.asked) > LAST_FOR;
    names.retain(|_, name| name.answer.is_some() || !is_old(name));
    if names.len() >= NAMES_MAX {
        names.retain(|_, name| name.answer.is_some());
    }
    match names.len() {
        NAMES_MAX.. => Err(of_kind(io::ErrorKind::ResourceBusy)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/prometheus/names.rs"]
mod tests;
