//! Look-ups by a resolver that hangs when it is told to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{HostNames, LAST_FOR, LOOKUPS_MAX, Lookups, Name, SLOW_LOOKUPS_MAX};

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 0);

/// Answers every name with an address, but those that begin with `hangs` while it hangs: then it says
/// nothing, and in the end that it failed.
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
    /// Threads of each name, and the most there were.
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

/// It answers when this is dropped, so that no thread is left.
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

/// Scenario: 120 names hang, and each is asked for by three who wait, and again by others once those
/// gave up; then others are looked up that don't hang. Guarantee: each hanging name has one thread at
/// most, all have no more than there may be, and every other name is answered within two seconds.
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
                    timeout(Duration::from_secs(3), lookups.find(&name)).await.is_err()
                });
            }
        }
        assert!(waiting.join_all().await.into_iter().all(|gave_up| gave_up));
    }
    let asked = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..500 {
        let lookups = lookups.clone();
        all.spawn(async move { lookups.find(&format!("well-{number}")).await.is_ok() });
    }
    assert!(all.join_all().await.into_iter().all(|is_found| is_found));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    let state = told.state.lock().unwrap();
    assert!(state.open > SLOW_LOOKUPS_MAX, "{} hang", state.open);
    assert!(state.most <= LOOKUPS_MAX + SLOW_LOOKUPS_MAX, "{} threads", state.most);
    assert!(state.of_name.values().all(|(_, most)| *most == 1), "{:?}", state.of_name);
}

/// Scenario: a name is answered, then hangs; then it is denied, and hangs again. Guarantee: while it
/// hangs its last addresses are told; once it was denied there are none.
#[tokio::test]
async fn a_name_that_hangs_has_its_last_addresses_until_it_is_denied() {
    let (lookups, told, _answering) = lookups();
    told.set(|state| state.answers = true);
    let first = lookups.find("hangs").await.unwrap();
    told.set(|state| state.answers = false);
    for _ in 0..2 {
        let asked = Instant::now();
        assert_eq!(lookups.find("hangs").await.unwrap(), first);
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
    // What hung comes to an end, and says that it failed: that says nothing of the name.
    told.set(|state| state.answers = true);
    while lookups.find("hangs").await.is_err() {}
    told.set(|state| state.denies = true);
    assert!(lookups.find("hangs").await.is_err());
    told.set(|state| (state.answers, state.denies) = (false, false));
    assert!(timeout(Duration::from_secs(2), lookups.find("hangs")).await.is_err());
}

/// Scenario: addresses as old as they may be, and older. Guarantee: only the former are used.
#[test]
fn last_addresses_are_used_for_a_while() {
    let found = tokio::time::Instant::now();
    let mut name = Name::new(found);
    assert!(name.last(found).is_none());
    name.last = Some((found, Vec::new().into()));
    assert!(name.last(found + LAST_FOR).is_some());
    assert!(name.last(found + LAST_FOR + Duration::from_millis(1)).is_none());
}
