SELECT
    name AS "Disk",
    total_space AS "Size",
    unreserved_space AS "Free",
    keep_free_space AS "Kept free",
    1 - unreserved_space / total_space AS "Used"
FROM system.disks
ORDER BY name
