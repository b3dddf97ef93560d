//! Tests of look-ups with a resolver that hangs on demand.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{HostNames, LAST_FOR, LOOKUPS_MAX, Lookups, NameEntry, SLOW_LOOKUPS_MAX};

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 0);

/// Resolves every name to one address. Names that begin with `hangs` block while `answers` is off,
/// and then fail.
#[derive(Default)]
struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    answers: bool,
    denies: bool,
    open: usize,
    most: usize,
    /// The current and the most concurrent threads of each name.
    of_name: HashMap<String, (usize, usize)>,
}

impl Told {
    fn knows(&self, name: &str) -> bool {
        let mut state = self.state.lock().unwrap();
        state.open += 1;
        state.most = state.most.max(state.open);
        let of_name = state.of_name.entry(name.to_owned()).or_default();
        *of_name = (of_name.0 + 1, of_name.1.max(of_name.0 + 1));
        let hung = name.starts_with("hangs") && !state.answers;
        if hung {
            state = self.changed.wait_while(state, |state| !state.answers).unwrap();
        }
        state.open -= 1;
        state.of_name.get_mut(name).unwrap().0 -= 1;
        !hung && !state.denies
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

/// Lets the resolver answer when dropped, so that no thread remains.
struct Answering(Arc<Told>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(|state| state.answers = true);
    }
}

fn lookups() -> (Lookups, Arc<Told>, Answering) {
    let told = Arc::new(Told::default());
    let own = Arc::clone(&told);
    let hosts = HostNames::new(move |name| match own.knows(name) {
        true => Ok(vec![ADDRESS]),
        false => Err(io::ErrorKind::NotFound.into()),
    });
    (Lookups::new(hosts), Arc::clone(&told), Answering(told))
}

/// Scenario: 120 names hang, each requested by three callers, and by three more once those timed
/// out; then names that don't hang are looked up. Guarantee: each hanging name has one thread at
/// most, all names stay within the limit of threads, and every other name is answered within two
/// seconds.
#[tokio::test]
async fn names_that_hang_hold_up_no_others() {
    let (lookups, told, _answering) = lookups();
    for _ in 0..2 {
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..120 {
            for _ in 0..3 {
                let lookups = lookups.clone();
                let name = format!("hangs-{number}");
                waiting.spawn(async move {
                    timeout(Duration::from_secs(3), lookups.find_addresses(&name)).await.is_err()
                });
            }
        }
        assert!(waiting.join_all().await.into_iter().all(|gave_up| gave_up));
    }
    let asked = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..500 {
        let lookups = lookups.clone();
        all.spawn(async move { lookups.find_addresses(&format!("well-{number}")).await.is_ok() });
    }
    assert!(all.join_all().await.into_iter().all(|is_found| is_found));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    let state = told.state.lock().unwrap();
    assert!(state.open > SLOW_LOOKUPS_MAX, "{} hang", state.open);
    assert!(state.most <= LOOKUPS_MAX + SLOW_LOOKUPS_MAX, "{} threads", state.most);
    assert!(state.of_name.values().all(|(_, most)| *most == 1), "{:?}", state.of_name);
}

/// Scenario: a name is answered, then hangs; it is denied, and hangs again. Guarantee: while it
/// hangs callers get its last addresses; after the denial it has none.
#[tokio::test]
async fn a_name_that_hangs_has_its_last_addresses_until_it_is_denied() {
    let (lookups, told, _answering) = lookups();
    told.set(|state| state.answers = true);
    let first = lookups.find_addresses("hangs").await.unwrap();
    told.set(|state| state.answers = false);
    for _ in 0..2 {
        let asked = Instant::now();
        assert_eq!(lookups.find_addresses("hangs").await.unwrap(), first);
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
    // The hanging look-up fails in the end: that is no denial of the name.
    told.set(|state| state.answers = true);
    while lookups.find_addresses("hangs").await.is_err() {}
    told.set(|state| state.denies = true);
    assert!(lookups.find_addresses("hangs").await.is_err());
    told.set(|state| (state.answers, state.denies) = (false, false));
    assert!(timeout(Duration::from_secs(2), lookups.find_addresses("hangs")).await.is_err());
}

/// Scenario: addresses are as old as permitted, and older. Guarantee: only the former are used.
#[test]
fn last_addresses_are_used_for_a_while() {
    let found = tokio::time::Instant::now();
    let mut name = NameEntry::new(found);
    assert!(name.fresh_addresses(found).is_none());
    name.last = Some((found, Vec::new().into()));
    assert!(name.fresh_addresses(found + LAST_FOR).is_some());
    assert!(name.fresh_addresses(found + LAST_FOR + Duration::from_millis(1)).is_none());
}
