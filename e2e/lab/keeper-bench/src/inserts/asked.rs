//! What was asked of an ensemble, counted at both ends: packets by its servers, requests by kind by
//! the ClickHouse servers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use millrace_stack::clickhouse::Engine;
use millrace_stack::service::ServiceError;
use millrace_stack::zookeeper::mntr;
use serde_json::{Value, json};

const EVENTS: &str = include_str!("asked.sql");

/// A count can't be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskedError {
    #[error("{server} does not answer mntr: {cause}")]
    Server { server: SocketAddr, cause: io::Error },
    #[error("{server} says of packets: {said:?}")]
    Packets { server: SocketAddr, said: Option<String> },
    #[error(transparent)]
    Engine(#[from] ServiceError),
}

/// Counts since the start of both, or between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Packets that servers received from clients: requests, pings (one in two seconds of each
    /// session), and the four-letter words of whoever samples.
    packets: u64,
    /// By the name of ClickHouse's event.
    events: BTreeMap<String, u64>,
}

impl Asked {
    pub(crate) fn of(servers: &[SocketAddr], engines: &[Engine]) -> Result<Self, AskedError> {
        let mut asked = Self::default();
        for &server in servers {
            let said = mntr(server).map_err(|cause| AskedError::Server { server, cause })?;
            let said = said.get("zk_packets_received");
            let packets = said.and_then(|said| said.parse::<u64>().ok());
            asked.packets +=
                packets.ok_or_else(|| AskedError::Packets { server, said: said.cloned() })?;
        }
        for engine in engines {
            for (event, count) in engine.query(EVENTS)?.lines().filter_map(pair) {
                *asked.events.entry(event.to_owned()).or_default() += count;
            }
        }
        Ok(asked)
    }

    pub(crate) fn since(mut self, before: &Self) -> Self {
        self.packets = self.packets.saturating_sub(before.packets);
        for (event, count) in &mut self.events {
            let earlier = before.events.get(event).copied().unwrap_or_default();
            *count = count.saturating_sub(earlier);
        }
        self
    }

    pub(crate) fn json(&self) -> Value {
        let event = |name: &str| self.events.get(name).copied().unwrap_or_default();
        let kinds = ["create", "remove", "set", "get", "exists", "list", "multi", "check", "sync"];
        let by_kind: BTreeMap<&str, u64> =
            kinds.iter().map(|kind| (*kind, event(&event_of(kind)))).collect();
        json!({
            "at_servers": self.packets,
            "by_clickhouse": event("ZooKeeperTransactions"),
            "kinds": by_kind,
            "merges": event("Merge"),
        })
    }
}

fn event_of(kind: &str) -> String {
    let (first, rest) = kind.split_at(1);
    format!("ZooKeeper{}{rest}", first.to_uppercase())
}

fn pair(line: &str) -> Option<(&str, u64)> {
    let (event, count) = line.split_once('\t')?;
    Some((event, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: counts before and after, with an event that came first in between. Guarantee: the
    /// differences, by kind, and nought for what wasn't asked.
    #[test]
    fn counts_are_those_between_two_moments() {
        let asked = |packets, events: &[(&str, u64)]| Asked {
            packets,
            events: events.iter().map(|(event, count)| ((*event).to_owned(), *count)).collect(),
        };
        let before = asked(10, &[("ZooKeeperTransactions", 5), ("ZooKeeperList", 5)]);
        let after = asked(40, &[("ZooKeeperTransactions", 33), ("ZooKeeperList", 9), ("Merge", 2)]);
        let told = after.since(&before).json();
        assert_eq!(told["at_servers"], 30);
        assert_eq!(told["by_clickhouse"], 28);
        assert_eq!((&told["kinds"]["list"], &told["kinds"]["get"]), (&json!(4), &json!(0)));
        assert_eq!(told["merges"], 2);
        assert_eq!(pair("ZooKeeperGet\t7"), Some(("ZooKeeperGet", 7)));
    }
}
