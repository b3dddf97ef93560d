//! Every limit on rules, with its reason.

/// The most steps of one rule set. Real configurations have under ten; each step that writes to a
/// higher context costs one more walk over a request, so 64 bound a request's cost to 64 walks.
pub const STEPS: usize = 64;

/// The most statements and conditions of one rule set: 1,024. Each has a counter of 56 bytes, and
/// at 5 ns for a condition that doesn't match, all of them cost 5 µs a record.
pub const RULES: usize = 1_024;

/// The most topics of `route` steps in one rule set: 16. Each has a message that is being filled
/// for each partition, and a division of a request by each takes another walk.
pub const ROUTE_TOPICS: usize = 16;

/// The longest statement or condition: 8 KiB, far above any that a person reads.
pub const STATEMENT_BYTES: usize = 8 * 1024;

/// The deepest nesting of parentheses, lists, maps and calls in one statement. Parsing, compiling
/// and evaluating recurse this deep, at under 1 KiB of stack each: 32 KiB.
pub const EXPRESSION_DEPTH: u32 = 32;

/// The most memory for one compiled pattern: 1 MiB, a tenth of the library's default. 1,024 rules
/// with the largest pattern each stay under 1 GiB; usual patterns take some 10 KiB.
pub const PATTERN_BYTES: usize = 1 << 20;

/// The longest list that a statement creates by writing to an index behind its end, as
/// `set(attributes["a"][7], 1)` does on an absent key: the most members that a reader accepts.
pub const LIST_LEN: i64 = millrace_wire::limits::ATTRIBUTES as i64;

/// The largest request after rules: 128 MiB, so that the [`WORK_FACTOR`]-fold, 512 MiB, stays
/// below the 1 GiB of positions of 30 bits. The caller's limit is far lower.
pub const OUTPUT_BYTES: usize = 128 << 20;

/// The memory for new values in a run, in multiples of the longest output: four. A value that a
/// rule computes, stores and sets is copied up to three times, and earlier values of a record stay
/// until the request ends.
pub const WORK_FACTOR: usize = 4;
