//! The parser of one reader's records.

use std::sync::Arc;

use millrace_wire::otlp::TimeRange;

use crate::form::RecordRules;
use crate::parse::{Locations, ParseBuffers, ParseFault, ParsedRecord, ReservedNames};

/// A source's rules with one reader's state.
#[derive(Debug)]
pub(crate) struct RecordParser {
    form: Arc<RecordRules>,
    /// The positions of a pattern's groups.
    locations: Option<Locations>,
}

impl RecordParser {
    /// Returns None if the form parses nothing.
    pub(crate) fn new(form: &Arc<RecordRules>) -> Option<Self> {
        let locations = form.parse.as_ref()?.new_locations();
        Some(Self { form: Arc::clone(form), locations })
    }

    /// Parses a record's text: see [`crate::ParseRules`].
    ///
    /// # Errors
    /// Why the text can't be parsed: the content of `buffers` is then meaningless.
    pub(crate) fn parse_text<'a>(
        &mut self,
        text: &'a [u8],
        reserved: &ReservedNames,
        buffers: &mut ParseBuffers,
        times: TimeRange,
    ) -> Result<ParsedRecord<'a>, ParseFault> {
        let rules = self.form.parse.as_ref().ok_or(ParseFault::Malformed)?;
        rules.parse_text(text, &mut self.locations, reserved, buffers, times)
    }
}
