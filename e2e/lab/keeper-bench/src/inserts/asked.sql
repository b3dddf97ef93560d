-- What this server asked of ZooKeeper since its start, and its merges.
SELECT event, value
FROM system.events
WHERE event IN (
    'ZooKeeperTransactions', 'ZooKeeperCreate', 'ZooKeeperRemove', 'ZooKeeperSet', 'ZooKeeperGet',
    'ZooKeeperExists', 'ZooKeeperList', 'ZooKeeperMulti', 'ZooKeeperCheck', 'ZooKeeperSync', 'Merge'
)
