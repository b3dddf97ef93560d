//! Insert rates of pools by table, for pools that share tables: a table's deduplication window
//! counts the inserts of all of them.
//!
//! A server is known by its address as written, as in claims. In memory; decides nothing. Limits:
//! pools that this operator doesn't watch are not counted; one entry per pool reconciled within
//! [`HELD_SECONDS`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use millrace_crds::v1alpha1::ClickHouseTarget;

/// How long a rate counts.
pub const HELD_SECONDS: i64 = 600;

/// Inserts per second by table.
pub type Rates = BTreeMap<String, f64>;

/// The rates of all pools.
#[derive(Debug, Default)]
pub struct Inserts {
    pools: Mutex<HashMap<String, Pool>>,
}

#[derive(Debug)]
struct Pool {
    at_second: i64,
    endpoints: Vec<String>,
    rates: Rates,
}

impl Inserts {
    /// Sets the rates of the pool with this uid, and returns those of other pools that write the
    /// same tables of the same servers.
    pub fn exchange_rates(
        &self,
        uid: &str,
        to: &ClickHouseTarget,
        rates: Rates,
        second: i64,
    ) -> Rates {
        let endpoints = to.endpoints.iter().map(|it| it.as_str().to_owned()).collect();
        let noted = Pool { at_second: second, endpoints, rates };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|_, pool| second - pool.at_second <= HELD_SECONDS);
        let mut others = Rates::new();
        for (_, pool) in
            pools.iter().filter(|(other, pool)| *other != uid && pool.shares_endpoint(&noted))
        {
            for (table, rate) in &pool.rates {
                *others.entry(table.clone()).or_default() += rate;
            }
        }
        pools.insert(uid.to_owned(), noted);
        others
    }
}

impl Pool {
    fn shares_endpoint(&self, other: &Self) -> bool {
        self.endpoints.iter().any(|endpoint| other.endpoints.contains(endpoint))
    }
}
