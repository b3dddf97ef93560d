SELECT
    tables.name AS "Table",
    parts.many AS "Parts",
    parts.fresh AS "Never merged",
    merges.running AS "Merges now",
    merges.longest AS "Longest",
    merges.bytes AS "Bytes merged",
    merges.progress AS "Done"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT table, count() AS many, countIf(level = 0) AS fresh
    FROM system.parts
    WHERE active AND database = ${database:singlequote}
    GROUP BY table
) AS parts ON parts.table = tables.name
LEFT JOIN
(
    SELECT
        table,
        count() AS running,
        max(elapsed) AS longest,
        sum(total_size_bytes_compressed) AS bytes,
        min(merges.progress) AS progress
    FROM system.merges AS merges
    WHERE database = ${database:singlequote}
    GROUP BY table
) AS merges ON merges.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
ORDER BY "Merges now" DESC, "Never merged" DESC, "Table"
