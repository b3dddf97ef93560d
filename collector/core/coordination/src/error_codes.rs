//! ClickHouse's error codes in one table, with the handling that each requires of a refused insert.
//!
//! Names are those of [`SOURCE`]. Which codes are retried follows the Kafka Connect sink for
//! ClickHouse where it decides, and otherwise the names. An unlisted code is [`Class::Stop`]: the
//! records stay in Kafka and a person is alerted, which can be undone; dropping them or endless
//! fast retries can't.

use Class::{BadRows, RefreshSchema, RetrySame, SlowDown, Stop};
use Concern::{
    Access, Conversion, Coordination, Database, LogIn, Memory, Other, Quota, Schema, Setting,
    Table, Unreadable,
};
use ErrorOrigin::{TableOnly, TableOrView};
use Reach::{EachReplica, ThisServer};

/// ClickHouse's list of codes and names.
pub const SOURCE: &str =
    "https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp";

/// The handling that an answer requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The rows are stored.
    Done,
    /// The failure is temporary, or the outcome unknown: send the same bytes with the same token
    /// again.
    RetrySame,
    /// As `RetrySame`, but the server is overloaded: wait longer.
    SlowDown,
    /// The table differs from the one that the block was made for: a column is missing, or the
    /// bytes were read as other columns. Send the same bytes again once the table is repaired;
    /// divide them if that doesn't help.
    RefreshSchema,
    /// Some of the rows can never be stored.
    BadRows,
    /// Nothing can be stored until a person or the operator acts.
    Stop,
}

impl Class {
    /// Returns a short name, for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RetrySame => "retry_same",
            Self::SlowDown => "slow_down",
            Self::RefreshSchema => "refresh_schema",
            Self::BadRows => "bad_rows",
            Self::Stop => "stop",
        }
    }
}

/// The subject of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concern {
    /// Keeper or ZooKeeper, or replicas without coordination.
    Coordination,
    /// Values that can't be converted to a column's type. Ours always can, so the column was
    /// changed; unless the live table is as declared, and the values are odd.
    Conversion,
    /// Bytes that the server can't read: truncated in transit, or for a table with other columns.
    Unreadable,
    /// Columns of the table.
    Schema,
    /// Too little memory for the insert; a shorter one may fit.
    Memory,
    /// The user's name or password.
    LogIn,
    /// The user's rights.
    Access,
    /// A missing table.
    Table,
    /// A missing database.
    Database,
    /// The user's quota.
    Quota,
    /// A setting of the insert.
    Setting,
    /// Anything else.
    Other,
}

/// The servers that give the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Only this server: disk, memory, users and sessions are each server's, so another replica may
    /// accept the insert.
    ThisServer,
    /// Every replica: they share the table's parts and read the same bytes.
    EachReplica,
}

/// The points at which an exception with this code may be thrown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// Before a materialized view runs, so nothing is stored.
    TableOnly,
    /// Also in a materialized view, after the table itself has been written.
    TableOrView,
}

/// A ClickHouse error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The number.
    pub code: u32,
    /// ClickHouse's name for it.
    pub name: &'static str,
    /// The handling that it requires.
    pub class: Class,
    /// Its subject.
    pub concern: Concern,
    /// The servers that give the same answer.
    pub reach: Reach,
    /// The points at which it may be thrown.
    pub origin: ErrorOrigin,
}

const fn row(
    code: u32,
    name: &'static str,
    class: Class,
    concern: Concern,
    reach: Reach,
    origin: ErrorOrigin,
) -> ErrorCode {
    ErrorCode { code, name, class, concern, reach, origin }
}

/// Every code with its own decision, by number.
#[rustfmt::skip]
pub const ERROR_CODES: &[ErrorCode] = &[
    row(3, "UNEXPECTED_END_OF_FILE", RetrySame, Other, ThisServer, TableOrView),
    row(6, "CANNOT_PARSE_TEXT", BadRows, Conversion, EachReplica, TableOrView),
    row(10, "NOT_FOUND_COLUMN_IN_BLOCK", RefreshSchema, Schema, ThisServer, TableOrView),
    row(16, "NO_SUCH_COLUMN_IN_TABLE", RefreshSchema, Schema, ThisServer, TableOrView),
    row(20, "NUMBER_OF_COLUMNS_DOESNT_MATCH", RefreshSchema, Schema, ThisServer, TableOrView),
    row(26, "CANNOT_PARSE_QUOTED_STRING", BadRows, Conversion, EachReplica, TableOrView),
    row(27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED", BadRows, Conversion, EachReplica, TableOrView),
    row(33, "CANNOT_READ_ALL_DATA", RefreshSchema, Unreadable, EachReplica, TableOrView),
    row(38, "CANNOT_PARSE_DATE", BadRows, Conversion, EachReplica, TableOrView),
    row(41, "CANNOT_PARSE_DATETIME", BadRows, Conversion, EachReplica, TableOrView),
    row(44, "ILLEGAL_COLUMN", RefreshSchema, Schema, ThisServer, TableOrView),
    row(53, "TYPE_MISMATCH", BadRows, Conversion, EachReplica, TableOrView),
    row(60, "UNKNOWN_TABLE", Stop, Table, ThisServer, TableOrView),
    row(70, "CANNOT_CONVERT_TYPE", Stop, Conversion, ThisServer, TableOrView),
    row(72, "CANNOT_PARSE_NUMBER", BadRows, Conversion, EachReplica, TableOrView),
    row(81, "UNKNOWN_DATABASE", Stop, Database, ThisServer, TableOrView),
    row(107, "FILE_DOESNT_EXIST", RetrySame, Other, ThisServer, TableOrView),
    row(115, "UNKNOWN_SETTING", Stop, Setting, ThisServer, TableOnly),
    row(117, "INCORRECT_DATA", BadRows, Conversion, EachReplica, TableOrView),
    row(128, "TOO_LARGE_ARRAY_SIZE", BadRows, Other, EachReplica, TableOrView),
    row(131, "TOO_LARGE_STRING_SIZE", RefreshSchema, Unreadable, EachReplica, TableOrView),
    row(159, "TIMEOUT_EXCEEDED", RetrySame, Other, ThisServer, TableOrView),
    // The user's profile is read-only. A read-only table or replica has 242.
    row(164, "READONLY", Stop, Access, ThisServer, TableOrView),
    row(192, "UNKNOWN_USER", Stop, LogIn, ThisServer, TableOnly),
    row(193, "WRONG_PASSWORD", Stop, LogIn, ThisServer, TableOnly),
    row(194, "REQUIRED_PASSWORD", Stop, LogIn, ThisServer, TableOnly),
    row(201, "QUOTA_EXCEEDED", Stop, Quota, ThisServer, TableOrView),
    row(202, "TOO_MANY_SIMULTANEOUS_QUERIES", SlowDown, Other, ThisServer, TableOrView),
    row(203, "NO_FREE_CONNECTION", RetrySame, Other, ThisServer, TableOrView),
    row(209, "SOCKET_TIMEOUT", RetrySame, Other, ThisServer, TableOrView),
    row(210, "NETWORK_ERROR", RetrySame, Other, ThisServer, TableOrView),
    row(225, "NO_ZOOKEEPER", RetrySame, Coordination, ThisServer, TableOrView),
    row(236, "ABORTED", RetrySame, Other, ThisServer, TableOrView),
    row(241, "MEMORY_LIMIT_EXCEEDED", SlowDown, Memory, ThisServer, TableOrView),
    // The replica has no session.
    row(242, "TABLE_IS_READ_ONLY", RetrySame, Coordination, ThisServer, TableOrView),
    row(243, "NOT_ENOUGH_SPACE", SlowDown, Other, ThisServer, TableOrView),
    row(252, "TOO_MANY_PARTS", SlowDown, Other, EachReplica, TableOrView),
    row(279, "ALL_CONNECTION_TRIES_FAILED", RetrySame, Other, ThisServer, TableOrView),
    row(285, "TOO_FEW_LIVE_REPLICAS", RetrySame, Coordination, ThisServer, TableOrView),
    row(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", RetrySame, Coordination, ThisServer, TableOrView),
    // The session was lost while the insert was committed.
    row(319, "UNKNOWN_STATUS_OF_INSERT", RetrySame, Coordination, ThisServer, TableOrView),
    row(321, "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", BadRows, Conversion, EachReplica, TableOrView),
    row(349, "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN", BadRows, Other, EachReplica, TableOrView),
    row(364, "RECEIVED_ERROR_TOO_MANY_REQUESTS", SlowDown, Other, ThisServer, TableOrView),
    row(376, "CANNOT_PARSE_UUID", Stop, Conversion, ThisServer, TableOrView),
    // The rows are already stored.
    row(389, "INSERT_WAS_DEDUPLICATED", Class::Done, Other, EachReplica, TableOnly),
    // Somebody killed the insert, or the server shuts down.
    row(394, "QUERY_WAS_CANCELLED", RetrySame, Other, ThisServer, TableOrView),
    row(425, "SYSTEM_ERROR", RetrySame, Other, ThisServer, TableOrView),
    row(439, "CANNOT_SCHEDULE_TASK", SlowDown, Other, ThisServer, TableOrView),
    row(452, "SETTING_CONSTRAINT_VIOLATION", Stop, Setting, ThisServer, TableOnly),
    row(469, "VIOLATED_CONSTRAINT", BadRows, Other, EachReplica, TableOrView),
    row(472, "READONLY_SETTING", Stop, Setting, ThisServer, TableOnly),
    row(497, "ACCESS_DENIED", Stop, Access, ThisServer, TableOrView),
    row(499, "S3_ERROR", RetrySame, Other, ThisServer, TableOrView),
    row(516, "AUTHENTICATION_FAILED", Stop, LogIn, ThisServer, TableOnly),
    row(691, "UNKNOWN_ELEMENT_OF_ENUM", Stop, Conversion, ThisServer, TableOrView),
    row(999, "KEEPER_EXCEPTION", RetrySame, Coordination, ThisServer, TableOrView),
];

impl ErrorCode {
    /// Returns the row of a code. An unlisted code gets a row without a name.
    #[must_use]
    pub fn from_code(code: u32) -> Self {
        let listed = ERROR_CODES.binary_search_by_key(&code, |row| row.code);
        let listed = listed.ok().and_then(|at| ERROR_CODES.get(at)).copied();
        listed.unwrap_or(row(code, "", Stop, Other, ThisServer, TableOrView))
    }

    /// Whether the table lists it.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        !self.name.is_empty()
    }

    /// Whether a server with this answer has stored nothing of the insert, provided that no view
    /// was reached. A temporary failure may come after the write, and the effect of an unlisted
    /// code is unknown.
    #[must_use]
    pub const fn stores_nothing(self) -> bool {
        self.is_listed() && !matches!(self.class, RetrySame | Class::Done)
    }

    /// Returns a link to the places where ClickHouse throws it, which show its meaning.
    #[must_use]
    pub fn meaning_link(self) -> String {
        let Self { name, .. } = self;
        if !self.is_listed() {
            return SOURCE.to_owned();
        }
        format!("https://github.com/search?q=repo%3AClickHouse%2FClickHouse+{name}&type=code")
    }
}

#[cfg(test)]
mod tests;
