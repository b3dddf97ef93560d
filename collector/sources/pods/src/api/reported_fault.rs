//! The fault of a watch that was logged last, so that each is logged once until it changes.

use crate::api::ApiError;

#[derive(Debug, Default)]
pub(crate) struct ReportedFault(Option<String>);

impl ReportedFault {
    /// Records a failure. Returns whether it is another than the last one.
    pub(crate) fn record_failure(&mut self, error: &ApiError) -> bool {
        let text = Some(error.to_string());
        let is_new = self.0 != text;
        self.0 = text;
        is_new
    }

    /// Ends the fault. Returns whether there was one.
    pub(crate) fn end_fault(&mut self) -> bool {
        self.0.take().is_some()
    }
}
