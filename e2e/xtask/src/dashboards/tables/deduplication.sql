WITH
    (
        SELECT toUInt64(value) FROM system.replicated_merge_tree_settings
        WHERE name = 'replicated_deduplication_window'
    ) AS replicated,
    (
        SELECT toUInt64(value) FROM system.merge_tree_settings
        WHERE name = 'non_replicated_deduplication_window'
    ) AS plain
SELECT
    tables.name AS "Table",
    tables.inserts AS "Inserts remembered",
    log.most AS "Inserts a minute, at most",
    60 * tables.inserts / nullIf(log.most, 0) AS "Remembered for"
FROM
(
    SELECT
        name,
        extract(engine_full, 'replicated_deduplication_window = (\\d+)') AS own,
        multiIf(own != '', toUInt64OrZero(own), engine LIKE 'Replicated%', replicated, plain)
            AS inserts
    FROM system.tables
    WHERE database = ${database:singlequote} AND engine LIKE '%MergeTree'
) AS tables
LEFT JOIN
(
    SELECT table, max(inserts) AS most
    FROM
    (
        SELECT table, toStartOfMinute(event_time) AS minute, count() AS inserts
        FROM system.part_log
        WHERE $__dateFilter(event_date) AND $__timeFilter(event_time)
          AND database = ${database:singlequote} AND event_type = 'NewPart' AND error = 0
        GROUP BY table, minute
    )
    GROUP BY table
) AS log ON log.table = tables.name
ORDER BY "Remembered for" ASC NULLS LAST, "Table"
