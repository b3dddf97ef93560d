-- A small table of spans, at a path in ZooKeeper that no other server's has. By default a table
-- remembers a thousand inserts and log entries, and is cleaned twice a minute: within minutes
-- nothing would be removed. With these settings it is soon as one that has served for long.
CREATE TABLE inserts.{table}
(
    Time DateTime64(3),
    Service LowCardinality(String),
    Name String,
    DurationNanos UInt64
)
ENGINE = ReplicatedMergeTree('{path}', '{replica}')
PARTITION BY toDate(Time)
ORDER BY (Service, Time)
SETTINGS
    replicated_deduplication_window = 20,
    min_replicated_logs_to_keep = 10,
    max_replicated_logs_to_keep = 20,
    old_parts_lifetime = 5,
    cleanup_delay_period = 5,
    cleanup_delay_period_random_add = 0,
    max_cleanup_delay_period = 5
