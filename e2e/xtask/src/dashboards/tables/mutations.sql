SELECT
    tables.name AS "Table",
    countIf(mutations.command != '') AS "Unfinished mutations",
    maxIf(dateDiff('second', mutations.create_time, now()), mutations.command != '') AS "Oldest",
    sum(mutations.parts_to_do) AS "Parts to do",
    anyIf(mutations.command, mutations.command != '') AS "One of them",
    anyIf(mutations.latest_fail_reason, mutations.latest_fail_reason != '') AS "Last failure"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT table, command, create_time, parts_to_do, latest_fail_reason
    FROM system.mutations
    WHERE database = ${database:singlequote} AND NOT is_done
) AS mutations ON mutations.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
GROUP BY tables.name
ORDER BY "Unfinished mutations" DESC, "Table"
