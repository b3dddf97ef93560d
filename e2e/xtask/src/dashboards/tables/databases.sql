SELECT DISTINCT database
FROM system.tables
WHERE engine LIKE '%MergeTree' AND database != 'system'
ORDER BY database
