//! Which tables are being migrated now: pools that write to them keep their size.
//!
//! A migration is under way from its first statement until it succeeds or is refused permanently.
//! If it is cut off (no answer, reconcile timeout) or another run is at it, the server may continue
//! it, and we retry: it counts for [`CUT_OFF_SECONDS_MAX`] more, and for at most
//! [`HELD_SECONDS_MAX`] in all, because a migration that keeps failing must not hold a backlogged
//! pool for ever. Kept in memory: an operator compares all tables when it starts. Decides nothing.
//! Limits: one entry per place being migrated.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use millrace_crds::v1alpha1::ClickHouseTarget;

/// A cut-off migration counts for this long: its reconcile's two minutes, the longest back-off of
/// five between two attempts, and one more.
const CUT_OFF_SECONDS_MAX: i64 = 8 * 60;
/// A migration holds a pool's size for at most this long. Rewriting a day of rows takes minutes.
const HELD_SECONDS_MAX: i64 = 30 * 60;

/// Where tables are, by the names in one namespace's objects. Endpoints are not compared: one
/// server has many names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    namespace: String,
    database: String,
    prefix: String,
}

impl Place {
    /// The tables that `object` writes to or declares.
    pub fn of<K: Resource>(object: &K, clickhouse: &ClickHouseTarget) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            database: clickhouse.database().to_owned(),
            prefix: clickhouse.table_prefix().to_owned(),
        }
    }
}

/// The migrations under way.
#[derive(Debug, Default)]
pub struct Migrations {
    begun: Mutex<HashMap<Place, Begun>>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    first: Timestamp,
    last: Timestamp,
}

impl Begun {
    fn is_recent(self, now: Timestamp) -> bool {
        now.duration_since(self.last) < SignedDuration::from_secs(CUT_OFF_SECONDS_MAX)
    }

    fn counts(self, now: Timestamp) -> bool {
        let held = now.duration_since(self.first) < SignedDuration::from_secs(HELD_SECONDS_MAX);
        held && self.is_recent(now)
    }
}

impl Migrations {
    /// Statements are about to run there.
    pub fn begins(&self, place: Place, now: Timestamp) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|_, begun| begun.is_recent(now));
        begun.entry(place).or_insert(Begun { first: now, last: now }).last = now;
    }

    /// None run there any more, or are due.
    pub fn ended(&self, place: &Place) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(place);
    }

    /// Whether a migration is under way there.
    #[must_use]
    pub fn is_under_way(&self, place: &Place, now: Timestamp) -> bool {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(place).is_some_and(|begun| begun.counts(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a migration that ends; one that is cut off and not tried again; one that fails
    /// every five minutes. Guarantee: the first counts until its end, the second for eight minutes,
    /// the third for half an hour, and anew once it has ended.
    #[test]
    fn a_migration_counts_until_it_ends_or_has_failed_for_long() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let place = |database: &str| Place {
            namespace: "telemetry".into(),
            database: database.into(),
            prefix: String::new(),
        };
        let (migrations, otel) = (Migrations::default(), place("otel"));
        migrations.begins(otel.clone(), at(0));
        assert!(migrations.is_under_way(&otel, at(479)));
        assert!(!migrations.is_under_way(&place("other"), at(0)));
        assert!(!migrations.is_under_way(&otel, at(480)));
        migrations.ended(&otel);
        for second in (0..3_600).step_by(300) {
            migrations.begins(otel.clone(), at(second));
            assert_eq!(migrations.is_under_way(&otel, at(second)), second < 1_800, "{second}");
        }
        migrations.ended(&otel);
        migrations.begins(otel.clone(), at(3_600));
        assert!(migrations.is_under_way(&otel, at(3_600)));
    }
}
