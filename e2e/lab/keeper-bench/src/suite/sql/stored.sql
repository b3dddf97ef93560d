-- Which samples of a round are in the table, and how many names each has. A point that came twice
-- counts once.
SELECT
    Attributes['server'] AS server,
    toFloat64(toUnixTimestamp64Milli(TimeUnix)) AS time_ms,
    toUInt32(uniqExact(MetricName)) AS names
FROM otel_metrics_gauge
WHERE ServiceName = 'keeper-bench'
    AND Attributes['run'] = {run:String}
    AND Attributes['cell'] = {cell:String}
    AND Attributes['repeat'] = {repeat:String}
GROUP BY server, time_ms
FORMAT JSONEachRow
