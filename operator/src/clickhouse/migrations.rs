//! Which tables are being migrated now: pools that write to them keep their size.
//!
//! A migration is under way from its first statement until it succeeds or is refused permanently.
//! If it is cut off (no answer, reconcile timeout) or another run executes it, the server may
//! continue it, and we retry: it counts for [`CUT_OFF_SECONDS_MAX`] more, and for at most
//! [`HELD_SECONDS_MAX`] in all, because a migration that fails repeatedly must not hold a
//! backlogged pool for ever. In memory: an operator compares all tables when it starts. Decides
//! nothing. Limits: one entry per set of tables.

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

/// Identifies a set of tables by the names in one namespace's objects. Endpoints are not compared:
/// one server has many names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableLocation {
    namespace: String,
    database: String,
    prefix: String,
}

impl TableLocation {
    /// Returns the tables that `object` writes to or declares.
    pub fn of_object<K: Resource>(object: &K, clickhouse: &ClickHouseTarget) -> Self {
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
    begun: Mutex<HashMap<TableLocation, MigrationTimes>>,
}

#[derive(Clone, Copy, Debug)]
struct MigrationTimes {
    first: Timestamp,
    last: Timestamp,
}

impl MigrationTimes {
    fn is_recent(self, now: Timestamp) -> bool {
        now.duration_since(self.last) < SignedDuration::from_secs(CUT_OFF_SECONDS_MAX)
    }

    fn is_counted(self, now: Timestamp) -> bool {
        let held = now.duration_since(self.first) < SignedDuration::from_secs(HELD_SECONDS_MAX);
        held && self.is_recent(now)
    }
}

impl Migrations {
    /// Records that statements are about to run on these tables.
    pub fn record_start(&self, location: TableLocation, now: Timestamp) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|_, begun| begun.is_recent(now));
        begun.entry(location).or_insert(MigrationTimes { first: now, last: now }).last = now;
    }

    /// Records that no statements run on these tables any more, or are due.
    pub fn record_end(&self, location: &TableLocation) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(location);
    }

    /// Returns whether a migration of these tables is under way.
    #[must_use]
    pub fn is_migrating(&self, location: &TableLocation, now: Timestamp) -> bool {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(location).is_some_and(|begun| begun.is_counted(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a migration that ends; one that is cut off and not retried; one that fails every
    /// five minutes. Guarantee: the first counts until its end, the second for eight minutes, the
    /// third for half an hour, and again once it has ended.
    #[test]
    fn a_migration_counts_until_it_ends_or_has_failed_for_long() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let place = |database: &str| TableLocation {
            namespace: "telemetry".into(),
            database: database.into(),
            prefix: String::new(),
        };
        let (migrations, otel) = (Migrations::default(), place("otel"));
        migrations.record_start(otel.clone(), at(0));
        assert!(migrations.is_migrating(&otel, at(479)));
        assert!(!migrations.is_migrating(&place("other"), at(0)));
        assert!(!migrations.is_migrating(&otel, at(480)));
        migrations.record_end(&otel);
        for second in (0..3_600).step_by(300) {
            migrations.record_start(otel.clone(), at(second));
            assert_eq!(migrations.is_migrating(&otel, at(second)), second < 1_800, "{second}");
        }
        migrations.record_end(&otel);
        migrations.record_start(otel.clone(), at(3_600));
        assert!(migrations.is_migrating(&otel, at(3_600)));
    }
}
