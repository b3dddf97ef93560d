SELECT
    tables.name AS "Table",
    nullIf(max(parts.max_time), toDateTime(0)) AS "Newest row",
    dateDiff('second', "Newest row", now()) AS "Age",
    dateDiff('second', nullIf(max(parts.modification_time), toDateTime(0)), now())
        AS "Last part written"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT table, max_time, modification_time
    FROM system.parts
    WHERE active AND database = ${database:singlequote}
) AS parts ON parts.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
GROUP BY tables.name
ORDER BY "Table"
