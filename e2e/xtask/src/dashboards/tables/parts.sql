WITH
    (
        SELECT toUInt64(value) FROM system.merge_tree_settings
        WHERE name = 'parts_to_throw_insert'
    ) AS plain,
    (
        SELECT toUInt64(value) FROM system.replicated_merge_tree_settings
        WHERE name = 'parts_to_throw_insert'
    ) AS replicated
SELECT
    parts.table AS "Table",
    parts.partition AS "Partition",
    parts.many AS "Parts",
    limits.most AS "Refused at",
    parts.many / limits.most AS "Of that",
    parts.fresh AS "Never merged",
    parts.rows_all / parts.many AS "Rows a part"
FROM
(
    SELECT table, partition, count() AS many, countIf(level = 0) AS fresh, sum(rows) AS rows_all
    FROM system.parts
    WHERE active AND database = ${database:singlequote}
    GROUP BY table, partition
) AS parts
INNER JOIN
(
    SELECT
        name,
        toUInt64OrZero(extract(engine_full, 'parts_to_throw_insert = (\\d+)')) AS own,
        multiIf(own > 0, own, engine LIKE 'Replicated%', replicated, plain) AS most
    FROM system.tables
    WHERE database = ${database:singlequote}
) AS limits ON limits.name = parts.table
ORDER BY "Of that" DESC, "Table", "Partition" DESC
LIMIT 50
