SELECT
    table AS "Table",
    name AS "Column",
    data_compressed_bytes AS "On disk",
    data_uncompressed_bytes / nullIf(data_compressed_bytes, 0) AS "Ratio",
    data_compressed_bytes / nullIf(sum(data_compressed_bytes) OVER (PARTITION BY table), 0)
        AS "Of the table",
    type AS "Type"
FROM system.columns
WHERE database = ${database:singlequote} AND default_kind != 'ALIAS'
  AND table IN (
      SELECT name FROM system.tables
      WHERE database = ${database:singlequote} AND engine LIKE '%MergeTree'
  )
ORDER BY "On disk" DESC, "Table", "Column"
LIMIT 50
