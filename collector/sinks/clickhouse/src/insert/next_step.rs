//! Decides the next step of an insert from its answers so far.
//!
//! The same bytes go with the same token until they are known to be stored. An insert is returned
//! to be divided, which sends its rows under other tokens, only when none of its attempts can have
//! stored a row: the table refuses the bytes as such, or the server had too little memory for them.
//!
//! Pure: answers in, a step out.

use millrace_coordination::error_codes::Concern;
use millrace_pipeline::sink::DeliveryOutcome;
use millrace_pipeline::telemetry::Unverified;

use crate::insert::response::{Class, Count, InsertResponse};
use crate::servers::circuit_breaker::Pace;

/// The answers after which bytes that the server can't read count as bad rows: a body cut in
/// transit has the same answer once, and a table with other columns answers with another code.
const UNREADABLE_TRIES: u32 = 3;
/// The answers after which an insert that the server has too little memory for is returned, to be
/// stored in smaller ones: after two waits of seconds, in which other queries may have freed
/// memory. An insert of one message can't be made smaller: it is retried indefinitely, as its rows
/// are good.
const MEMORY_TRIES: u32 = 3;
/// The answers after which an insert with fewer written rows than sent counts as stored, if the
/// table doesn't recognise repetitions: each further one would store the written rows again.
const SHORT_TRIES: u32 = 2;

/// The evidence of the answers so far.
#[derive(Debug)]
pub(crate) struct History {
    /// It has several messages, which can be stored separately.
    has_parts: bool,
    attempts: u32,
    /// Some attempt may have stored all or some of the rows.
    may_be_stored: bool,
    /// An attempt reached a view: the table has accepted these bytes.
    is_in_table: bool,
    /// It was sent again only to get the number of written rows.
    was_recounted: bool,
    short_counts: u32,
    memory_refusals: u32,
    unreadable: u32,
}

/// The known facts of the table at the endpoint that answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFacts {
    /// Whether it recognises a repeated insert, once known.
    pub(crate) deduplicates: Option<bool>,
    /// The endpoint never states the number of written rows.
    pub(crate) hides_counts: bool,
    /// A check after this answer found it changed, and the next attempt follows that.
    pub(crate) was_changed: bool,
}

/// The step to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// It is stored; with a reason if no count proves that.
    Finish(Option<Unverified>),
    /// Its source divides it: some rows can't be stored, or not all in one insert.
    Divide,
    /// Send the same again after a short pause: the endpoint isn't at fault.
    Repeat,
    /// Send the same again once a replica accepts it.
    Retry {
        pace: Pace,
        /// Each replica would answer the same.
        everywhere: bool,
    },
}

impl History {
    /// Starts the history of an insert of `messages`. `may_be_stored`: an earlier attempt of this
    /// or another process may have stored it.
    pub(crate) fn new(messages: i64, may_be_stored: bool) -> Self {
        Self {
            has_parts: messages > 1,
            attempts: 0,
            may_be_stored,
            is_in_table: false,
            was_recounted: false,
            short_counts: 0,
            memory_refusals: 0,
            unreadable: 0,
        }
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn was_recounted(&self) -> bool {
        self.was_recounted
    }

    /// Returns whether an insert that is read again would have to collect these answers again.
    pub(crate) fn is_needed(&self) -> bool {
        self.memory_refusals > 0 || self.short_counts > 0 || self.was_recounted
    }

    /// Returns the outcome of an insert that is returned before it is stored.
    pub(crate) fn unstored_outcome(&self) -> DeliveryOutcome {
        if self.may_be_stored { DeliveryOutcome::Abandoned } else { DeliveryOutcome::Deferred }
    }

    /// Adds an answer. Returns the next step.
    pub(crate) fn next_step(&mut self, verdict: &InsertResponse, table: TableFacts) -> NextStep {
        self.attempts += 1;
        self.is_in_table |= verdict.view.is_some();
        let step = self.choose_step(verdict, table);
        self.may_be_stored |= !verdict.stored_nothing();
        step
    }

    fn choose_step(&mut self, verdict: &InsertResponse, table: TableFacts) -> NextStep {
        let retry =
            |pace| NextStep::Retry { pace, everywhere: !verdict.may_another_replica_help() };
        match verdict.class {
            Class::Done => self.after_success(verdict, table),
            Class::RetrySame if verdict.count == Count::Short => self.after_short_count(table),
            Class::RetrySame => retry(Pace::Retry),
            Class::SlowDown if self.is_too_large(verdict) => NextStep::Divide,
            Class::SlowDown => retry(Pace::Overload),
            Class::BadRows if !self.is_in_table => NextStep::Divide,
            Class::RefreshSchema if self.is_unreadable(verdict) => NextStep::Divide,
            Class::RefreshSchema | Class::Stop if table.was_changed => NextStep::Repeat,
            Class::BadRows | Class::RefreshSchema | Class::Stop => retry(Pace::Repair),
        }
    }

    /// Returns the step after a success: the end, unless it states no row count. Then the same
    /// insert is sent once more, if the table recognises it: the server stores what it lacks.
    fn after_success(&mut self, verdict: &InsertResponse, table: TableFacts) -> NextStep {
        if verdict.count == Count::Complete {
            return NextStep::Finish(None);
        }
        if self.was_recounted || table.hides_counts || table.deduplicates != Some(true) {
            return NextStep::Finish(Some(Unverified::NoCount));
        }
        self.was_recounted = true;
        NextStep::Repeat
    }

    /// Returns the step after too few written rows: again, until all are stored. If the table
    /// doesn't recognise repetitions, that is done once.
    fn after_short_count(&mut self, table: TableFacts) -> NextStep {
        self.short_counts += 1;
        if self.short_counts < SHORT_TRIES || table.deduplicates != Some(false) {
            return NextStep::Repeat;
        }
        NextStep::Finish(Some(Unverified::ShortCount))
    }

    /// Returns whether the server lacked memory so often that smaller inserts should be tried. It
    /// stores nothing of an insert that it refuses for that. But if an earlier attempt may have
    /// stored the rows, or reached a view, only the same token avoids duplicates.
    fn is_too_large(&mut self, verdict: &InsertResponse) -> bool {
        self.memory_refusals += u32::from(verdict.is_about(Concern::Memory));
        let is_divisible = self.has_parts && !self.may_be_stored && !self.is_in_table;
        is_divisible && self.memory_refusals >= MEMORY_TRIES
    }

    /// Returns whether the bytes are at fault: each attempt was refused as unreadable before any
    /// row was written.
    fn is_unreadable(&mut self, verdict: &InsertResponse) -> bool {
        self.unreadable += u32::from(verdict.is_about(Concern::Unreadable));
        !self.is_in_table && self.unreadable >= UNREADABLE_TRIES
    }
}

#[cfg(test)]
mod tests;
