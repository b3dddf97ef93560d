-- What a run has in both tables: samples of finished rounds, their rows, and results.
WITH
    results AS (
        SELECT
            LogAttributes['cell'] AS cell,
            LogAttributes['repeat'] AS repeat,
            any(JSONExtractUInt(Body, 'begun_ms')) AS begun_ms,
            any(JSONExtractUInt(Body, 'ended_ms')) AS ended_ms
        FROM otel_logs
        WHERE ServiceName = 'keeper-bench' AND LogAttributes['run'] = {run:String}
        GROUP BY cell, repeat
    ),
    points AS (
        SELECT
            Attributes['cell'] AS cell,
            Attributes['repeat'] AS repeat,
            Attributes['server'] AS server,
            toUnixTimestamp64Milli(TimeUnix) AS time_ms
        FROM otel_metrics_gauge
        WHERE ServiceName = 'keeper-bench' AND Attributes['run'] = {run:String}
    )
SELECT
    toFloat64((SELECT count() FROM results)) AS results,
    toFloat64(uniqExact(cell, repeat, server, time_ms)) AS samples,
    toFloat64(count()) AS rows
FROM points
INNER JOIN results USING (cell, repeat)
WHERE time_ms BETWEEN begun_ms AND ended_ms
FORMAT JSONEachRow
