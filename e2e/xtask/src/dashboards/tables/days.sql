SELECT
    partition AS "Partition",
    table AS "Table",
    sum(rows) AS "Rows",
    sum(bytes_on_disk) AS "On disk",
    sum(data_uncompressed_bytes) / nullIf(sum(data_compressed_bytes), 0) AS "Ratio"
FROM system.parts
WHERE active AND database = ${database:singlequote}
GROUP BY partition, table
ORDER BY "Partition" DESC, "On disk" DESC
LIMIT 500
