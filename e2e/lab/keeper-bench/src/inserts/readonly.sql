-- Tables that take no inserts yet.
SELECT countIf(is_readonly OR active_replicas < total_replicas) FROM system.replicas
