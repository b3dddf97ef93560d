SELECT
    $__timeInterval(event_time) AS time,
    table,
    sum(duration_ms) / 1000 / $__interval_s AS threads
FROM system.part_log
WHERE $__dateFilter(event_date) AND $__timeFilter(event_time)
  AND database = ${database:singlequote} AND event_type IN ('MergeParts', 'MutatePart')
GROUP BY time, table
ORDER BY time
