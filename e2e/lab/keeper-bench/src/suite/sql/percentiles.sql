-- Percentiles over the rounds of each cell of a run. CPU and memory come from the samples between
-- a round's beginning and end, everything else from its result. Between two rounds percentiles are
-- interpolated.
WITH
    results AS (
        SELECT
            LogAttributes['cell'] AS cell,
            LogAttributes['repeat'] AS repeat,
            any(Body) AS result,
            JSONExtractUInt(result, 'begun_ms') AS begun_ms,
            JSONExtractUInt(result, 'ended_ms') AS ended_ms,
            arrayFirst(
                kind -> JSONExtractString(kind, 'kind') = 'all',
                JSONExtractArrayRaw(result, 'kinds')
            ) AS everything
        FROM otel_logs
        WHERE ServiceName = 'keeper-bench' AND LogAttributes['run'] = {run:String}
        GROUP BY cell, repeat
    ),
    points AS (
        SELECT
            Attributes['cell'] AS cell,
            Attributes['repeat'] AS repeat,
            Attributes['server'] AS server,
            toUnixTimestamp64Milli(TimeUnix) AS time_ms,
            MetricName AS name,
            Value AS value
        FROM otel_metrics_gauge
        WHERE ServiceName = 'keeper-bench'
            AND MetricName IN ('keeper_bench_cpu_seconds', 'keeper_bench_memory_bytes')
            AND Attributes['run'] = {run:String}
    ),
    servers AS (
        SELECT
            cell,
            repeat,
            server,
            maxIf(value, name = 'keeper_bench_cpu_seconds')
                - minIf(value, name = 'keeper_bench_cpu_seconds') AS cpu_seconds,
            maxIf(value, name = 'keeper_bench_memory_bytes') AS memory_bytes
        FROM points
        INNER JOIN results USING (cell, repeat)
        WHERE time_ms BETWEEN begun_ms AND ended_ms
        GROUP BY cell, repeat, server
    ),
    sums AS (
        SELECT
            cell,
            repeat,
            toNullable(sum(cpu_seconds)) AS cpu_seconds,
            toNullable(max(memory_bytes)) AS memory_bytes
        FROM servers
        GROUP BY cell, repeat
    ),
    rounds AS (
        SELECT
            cell,
            [
                ('seconds', JSONExtract(everything, 'window_seconds', 'Nullable(Float64)')),
                ('operations/s', JSONExtract(everything, 'per_second', 'Nullable(Float64)')),
                ('p99 ms', JSONExtract(everything, 'latency_us', '99', 'Nullable(Float64)') / 1e3),
                ('server CPU s', cpu_seconds),
                ('server MiB', memory_bytes / 1048576),
                (
                    'requests each',
                    JSONExtract(everything, 'requests', 'at_servers', 'Nullable(Float64)')
                        / JSONExtract(everything, 'operations', 'Nullable(Float64)')
                )
            ] AS figures
        FROM results
        LEFT JOIN sums USING (cell, repeat)
    )
SELECT
    cell,
    figure.1 AS name,
    toUInt32(count(figure.2)) AS rounds,
    quantilesExactInclusive(0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)(figure.2) AS percentiles
FROM rounds
ARRAY JOIN figures AS figure
GROUP BY cell, name
HAVING rounds > 0
FORMAT JSONEachRow
