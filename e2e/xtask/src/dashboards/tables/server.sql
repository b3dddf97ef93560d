SELECT
    hostName() AS "Server",
    version() AS "Version",
    uptime() AS "Up for",
    sumIf(value, event = 'DelayedInserts') AS "Inserts delayed",
    sumIf(value, event = 'RejectedInserts') AS "Inserts refused",
    sumIf(value, event = 'FailedInsertQuery') AS "Inserts failed"
FROM system.events
