//! Routes: where and when inserts into one table of one shard are sent, and how many at once.
//!
//! A route has a [circuit breaker](crate::servers::circuit_breaker) for each replica and a
//! [window](crate::insert::insert_window). A waiting insert holds no slot of the window, so routes
//! don't delay each other, and no memory but its own bytes. During a long wait the table is held
//! back at its source, for this shard; one waiting insert suffices to probe the end of it, so
//! others that can be read again are returned with their memory.
//!
//! Bounds: a route sends as many inserts at once as its window has slots, and as many wait. One
//! without an answer for long frees its slot and opens its breaker, while fewer than a window has
//! slots did so: at most twice the slots are in flight. The process's byte budget covers all their
//! bytes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use millrace_pipeline::mutex::lock;
use millrace_pipeline::sink::TableIndex;
use tokio::sync::Notify;

use crate::insert::insert_window::{InsertSlot, InsertWindow};
use crate::servers::circuit_breaker::{Circuits, Direction, Pace};

/// The routes of all shards and tables.
#[derive(Debug)]
pub(crate) struct Routes {
    shards: usize,
    replicas: usize,
    tables: usize,
    /// Shard by shard.
    routes: Vec<Arc<Route>>,
}

/// The route of one table of one shard.
#[derive(Debug)]
pub(crate) struct Route {
    /// The shard's first endpoint among all.
    first_endpoint: usize,
    pub(crate) window: Arc<InsertWindow>,
    most_waiting: usize,
    state: Mutex<RouteState>,
    /// Signals a change of its breakers.
    changed: Notify,
}

#[derive(Debug)]
struct RouteState {
    circuits: Circuits,
    /// The accepted inserts that wait.
    waiting: usize,
    /// Those that wait for long, or probe after that.
    stalled: usize,
    /// Those that were sent, have had no answer for long, and have freed their slot.
    overdue: usize,
}

/// The destination of a partition's inserts into a table.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) route: Arc<Route>,
    /// The replica that it begins at.
    pub(crate) home: usize,
}

/// Returns the shard of a partition and its replica there, for its hash.
fn shard_and_home(hash: u64, shards: usize, replicas: usize) -> (usize, usize) {
    let (shards, replicas) = (shards.max(1) as u64, replicas.max(1) as u64);
    let index = |value: u64| usize::try_from(value).unwrap_or(0);
    (index(hash % shards), index(hash / shards % replicas))
}

impl Routes {
    /// Creates routes for endpoints that are listed shard by shard, the same number for each.
    pub(crate) fn new(endpoints: usize, replicas: usize, tables: usize, slots: usize) -> Self {
        let replicas = replicas.max(1);
        let shards = (endpoints / replicas).max(1);
        // The random seed spreads the retries of processes that fail together.
        let random = RandomState::new();
        let route = |shard: usize, table: usize| {
            let seed = |replica: usize| random.hash_one((shard, table, replica));
            let circuits = Circuits::new(replicas, seed);
            Arc::new(Route {
                first_endpoint: shard * replicas,
                window: Arc::new(InsertWindow::new(slots)),
                most_waiting: slots.max(1),
                state: Mutex::new(RouteState { circuits, waiting: 0, stalled: 0, overdue: 0 }),
                changed: Notify::new(),
            })
        };
        let routes = (0..shards).flat_map(|shard| (0..tables).map(move |table| (shard, table)));
        let routes = routes.map(|(shard, table)| route(shard, table)).collect();
        Self { shards, replicas, tables, routes }
    }

    /// Returns a partition's destination: always the same shard, beginning at the same replica. Its
    /// inserts are deduplicated there even before replication has spread the tokens.
    pub(crate) fn destination_of(
        &self,
        topic: &str,
        partition: i32,
        table: TableIndex,
    ) -> Option<Destination> {
        let table = usize::from(table.0);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let (shard, home) =
            shard_and_home(hasher.hash_one((topic, partition)), self.shards, self.replicas);
        let at = (table < self.tables).then_some(shard * self.tables + table)?;
        Some(Destination { route: Arc::clone(self.routes.get(at)?), home })
    }

    /// Returns how many inserts may run at once into a table, at the shard with fewest; and how
    /// many endpoints accept none.
    pub(crate) fn route_stats(&self, table: TableIndex) -> (usize, usize) {
        let of_table = self.routes.iter().skip(usize::from(table.0)).step_by(self.tables.max(1));
        of_table.fold((usize::MAX, 0), |(allowed, open), route| {
            (allowed.min(route.window.allowed()), open + lock(&route.state).circuits.open_count())
        })
    }
}

impl Route {
    /// Returns a slot for an insert to be accepted, if one is free and few inserts wait.
    pub(crate) fn try_enter(&self) -> Option<InsertSlot> {
        if lock(&self.state).waiting >= self.most_waiting {
            return None;
        }
        self.window.try_enter()
    }

    /// Returns whether inserts should be held back at their source.
    pub(crate) fn is_held_back(&self) -> bool {
        let state = lock(&self.state);
        let circuits = &state.circuits;
        circuits.is_stalled(Instant::now()) || (state.stalled > 0 && !circuits.is_any_closed())
    }

    /// Waits until a replica accepts inserts, and returns the permit to send. `slot` and `stall`
    /// are the insert's own, from one attempt to the next. `None` when another insert waits and
    /// this one need not (`may_leave`): then it is to be returned. While others succeed it isn't
    /// sent before `not_before`, because it may fail alone.
    pub(crate) async fn acquire_permit<'a>(
        &'a self,
        home: usize,
        not_before: Instant,
        may_leave: impl Fn() -> bool,
        slot: &mut Option<InsertSlot>,
        stall: &mut Option<Stall<'a>>,
    ) -> Option<Permit<'a>> {
        let mut queued = None;
        loop {
            // From here on no change is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if Instant::now() < not_before && lock(&self.state).circuits.is_any_closed() {
                *slot = None;
                tokio::time::sleep_until(not_before.into()).await;
            }
            if slot.is_none() {
                *slot = self.window.acquire_slot().await;
            }
            let now = Instant::now();
            let direction = lock(&self.state).circuits.choose_replica(home, now);
            let (until, is_stalled) = match direction {
                Direction::Send { replica, is_probe } => {
                    return Some(Permit { route: self, replica, is_probe, started: now });
                }
                Direction::Wait { until, is_stalled } => (until, is_stalled),
            };
            *slot = None;
            if is_stalled && stall.is_none() {
                *stall = Some(Stall::new(self));
            }
            if is_stalled && may_leave() && stall.take_if(Stall::leave_to_others).is_some() {
                return None;
            }
            queued.get_or_insert_with(|| {
                lock(&self.state).waiting += 1;
                CountedInsert { route: self, count: |state| &mut state.waiting }
            });
            let until_then = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until_then => {}
                () = changed => {}
            }
        }
    }

    fn update_state<T>(&self, change: impl FnOnce(&mut RouteState) -> T) -> T {
        let result = change(&mut lock(&self.state));
        self.changed.notify_waiters();
        result
    }
}

/// The permission to send an insert to one replica. If it is dropped without an answer, another
/// insert may probe.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    route: &'a Route,
    replica: usize,
    is_probe: bool,
    pub(crate) started: Instant,
}

impl<'a> Permit<'a> {
    /// Returns the endpoint's index among all.
    pub(crate) fn endpoint(&self) -> usize {
        self.route.first_endpoint + self.replica
    }

    /// Records that the answer is late; the attempt is abandoned at `until`. Until then this insert
    /// is the probe, and needs no slot while it has the returned value. With `None` it retains its
    /// slot, because enough others have freed theirs.
    pub(crate) fn record_silence(
        &self,
        until: Instant,
        stall: &mut Option<Stall<'a>>,
    ) -> Option<CountedInsert<'a>> {
        stall.get_or_insert_with(|| Stall::new(self.route));
        self.route.update_state(|state| {
            state.circuits.record_silence(self.replica, self.started, Instant::now(), until);
            let has_room = state.overdue < self.route.most_waiting;
            state.overdue += usize::from(has_room);
            has_room.then(|| CountedInsert { route: self.route, count: |state| &mut state.overdue })
        })
    }

    pub(crate) fn record_success(mut self) {
        self.is_probe = false;
        self.route.update_state(|state| state.circuits.record_success(self.replica));
    }

    pub(crate) fn record_failure(mut self, pace: Pace, everywhere: bool) {
        self.is_probe = false;
        let now = Instant::now();
        self.route.update_state(|state| {
            let circuits = &mut state.circuits;
            circuits.record_failure(self.replica, everywhere, pace, self.started, now);
        });
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            let now = Instant::now();
            self.route.update_state(|state| state.circuits.cancel_probe(self.replica, now));
        }
    }
}

/// An insert that one of its route's counts includes until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedInsert<'a> {
    route: &'a Route,
    count: fn(&mut RouteState) -> &mut usize,
}

impl Drop for CountedInsert<'_> {
    fn drop(&mut self) {
        *(self.count)(&mut lock(&self.route.state)) -= 1;
    }
}

/// An insert that has waited for long and has not ended: it probes when its table accepts inserts
/// again.
#[derive(Debug)]
pub(crate) struct Stall<'a> {
    route: &'a Route,
    is_handed_over: bool,
}

impl<'a> Stall<'a> {
    fn new(route: &'a Route) -> Self {
        lock(&route.state).stalled += 1;
        Self { route, is_handed_over: false }
    }

    /// Leaves the waiting to another insert, if there is one.
    fn leave_to_others(&mut self) -> bool {
        let mut state = lock(&self.route.state);
        self.is_handed_over = state.stalled > 1;
        state.stalled -= usize::from(self.is_handed_over);
        self.is_handed_over
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        if !self.is_handed_over {
            lock(&self.route.state).stalled -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
