//! The server's errors by number and name (`KeeperException.Code` in ZooKeeper's source), and two
//! of our own. Names stand in results and in a workload's `ignore`, so they never change.

/// Ours too: the connection broke, so whether the request took place isn't known.
pub(crate) const CONNECTION_LOSS: i32 = -4;
/// Ours too: no reply within the operation's time limit; the connection is given up.
pub(crate) const OPERATION_TIMEOUT: i32 = -7;
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NODE_EXISTS: i32 = -110;

const NAMES: &[(i32, &str)] = &[
    (-1, "system-error"),
    (-2, "runtime-inconsistency"),
    (-3, "data-inconsistency"),
    (CONNECTION_LOSS, "connection-loss"),
    (-5, "marshalling-error"),
    (-6, "unimplemented"),
    (OPERATION_TIMEOUT, "operation-timeout"),
    (-8, "bad-arguments"),
    (-12, "unknown-session"),
    (NO_NODE, "no-node"),
    (-102, "no-auth"),
    (-103, "bad-version"),
    (-108, "no-children-for-ephemerals"),
    (NODE_EXISTS, "node-exists"),
    (-111, "not-empty"),
    (-112, "session-expired"),
    (-113, "invalid-callback"),
    (-114, "invalid-acl"),
    (-115, "auth-failed"),
    (-118, "session-moved"),
    (-119, "not-read-only"),
    (-120, "ephemeral-on-local-session"),
    (-121, "no-watcher"),
    (-122, "request-timeout"),
    (-124, "session-closed-require-sasl-auth"),
    (-125, "quota-exceeded"),
    (-127, "throttled"),
];

/// The name of an error; numbers that aren't known are `other`.
pub(crate) fn name(code: i32) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == code).map_or("other", |(_, name)| name)
}

/// The number of an error that a workload names.
pub(crate) fn code(name: &str) -> Option<i32> {
    NAMES.iter().find(|(_, known)| *known == name).map(|(code, _)| *code)
}
