SELECT
    tables.name AS "Table",
    sum(parts.rows) AS "Rows",
    sum(parts.bytes_on_disk) AS "On disk",
    sum(parts.bytes_on_disk) / nullIf(sum(parts.rows), 0) AS "Bytes a row",
    sum(parts.data_uncompressed_bytes) / nullIf(sum(parts.data_compressed_bytes), 0) AS "Ratio",
    uniqExactIf(parts.partition, parts.rows > 0) AS "Partitions",
    minIf(parts.partition, parts.rows > 0) AS "Oldest partition"
FROM system.tables AS tables
LEFT JOIN
(
    SELECT table, partition, rows, bytes_on_disk, data_compressed_bytes, data_uncompressed_bytes
    FROM system.parts
    WHERE active AND database = ${database:singlequote}
) AS parts ON parts.table = tables.name
WHERE tables.database = ${database:singlequote} AND tables.engine LIKE '%MergeTree'
GROUP BY tables.name
ORDER BY "On disk" DESC, "Table"
