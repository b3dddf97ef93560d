-- Which rounds of a run have their result in the table.
SELECT LogAttributes['cell'] AS cell, toUInt32(LogAttributes['repeat']) AS repeat
FROM otel_logs
WHERE ServiceName = 'keeper-bench' AND LogAttributes['run'] = {run:String}
GROUP BY cell, repeat
FORMAT JSONEachRow
