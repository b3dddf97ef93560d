SELECT
    $__timeInterval(event_time) AS time,
    transform(
        toString(event_type),
        ['NewPart', 'MergeParts', 'DownloadPart', 'MutatePart'],
        ['inserts', 'merges', 'fetched from replicas', 'mutations'],
        ''
    ) AS by,
    sum(size_in_bytes) / $__interval_s AS bytes
FROM system.part_log
WHERE $__dateFilter(event_date) AND $__timeFilter(event_time)
  AND database = ${database:singlequote}
  AND event_type IN ('NewPart', 'MergeParts', 'DownloadPart', 'MutatePart')
GROUP BY time, by
ORDER BY time
