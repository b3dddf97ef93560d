SELECT
    tables.name AS "Table",
    extract(tables.engine_full, ' TTL (.*?) SETTINGS ') AS "Rows go after",
    minIf(parts.partition, parts.rows > 0) AS "Oldest partition",
    countIf(parts.due) AS "Parts due",
    sumIf(parts.rows, parts.due) AS "Rows due",
    sumIf(parts.bytes_on_disk, parts.due) AS "Bytes due",
    maxIf(dateDiff('second', parts.expired, now()), parts.due) AS "Overdue by"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT
        table,
        partition,
        rows,
        bytes_on_disk,
        delete_ttl_info_max AS expired,
        toUnixTimestamp(expired) > 0 AND expired < now() AS due
    FROM system.parts
    WHERE active AND database = ${database:singlequote}
) AS parts ON parts.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
GROUP BY tables.name, tables.engine_full
ORDER BY "Bytes due" DESC, "Table"
