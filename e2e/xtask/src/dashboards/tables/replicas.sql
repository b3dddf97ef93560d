SELECT
    tables.name AS "Table",
    if(replicas.zookeeper_path = '', 'not replicated', replicas.replica_name) AS "Replica",
    replicas.active_replicas AS "Active",
    replicas.total_replicas AS "Of",
    replicas.is_readonly AS "Read-only",
    replicas.absolute_delay AS "Delay",
    replicas.queue_size AS "Queue",
    replicas.inserts_in_queue AS "To fetch",
    replicas.merges_in_queue AS "To merge",
    if(replicas.queue_size > 0, dateDiff('second', replicas.queue_oldest_time, now()), 0)
        AS "Oldest in queue",
    replicas.zookeeper_exception AS "Coordination says"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT *
    FROM system.replicas
    WHERE database = ${database:singlequote}
) AS replicas ON replicas.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
ORDER BY "Read-only" DESC, "Delay" DESC, "Queue" DESC, "Table"
