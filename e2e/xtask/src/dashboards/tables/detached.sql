SELECT
    tables.name AS "Table",
    countIf(detached.name != '') AS "Detached parts",
    sum(detached.bytes_on_disk) AS "On disk",
    arrayStringConcat(groupUniqArrayIf(
        if(detached.reason = '', 'by hand', detached.reason), detached.name != ''
    ), ', ') AS "Why"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT table, name, bytes_on_disk, ifNull(reason, '') AS reason
    FROM system.detached_parts
    WHERE database = ${database:singlequote}
) AS detached ON detached.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
GROUP BY tables.name
ORDER BY "Detached parts" DESC, "Table"
