SELECT
    $__timeInterval(event_time) AS time,
    table,
    avg(rows) AS rows_each
FROM system.part_log
WHERE $__dateFilter(event_date) AND $__timeFilter(event_time)
  AND database = ${database:singlequote} AND event_type = 'NewPart' AND error = 0
GROUP BY time, table
ORDER BY time
