//! Compares a stored row with its expected record, column by column.

use millrace_ddl::AttributeStorage as Variant;

use super::cell::StoredCell;
use super::text::{describe_set, is_set, list_of_leaves, parse_leaves};
use crate::content::{AttributeList, Resource, ScopeContent};

/// A resource, and texts that were compared with it and found right: resources repeat on every row,
/// and parsing their text is expensive.
pub(super) struct Known {
    pub(super) resource: Resource,
    pub(super) right: Vec<u8>,
}

/// A row under comparison. Descriptions give the expected values in the order of the columns.
pub(crate) struct Comparison<'a> {
    pub(super) cells: &'a [StoredCell<'a>],
    pub(super) at: usize,
    /// The first wrong column, and its expected value.
    pub(super) fault: Option<(usize, String)>,
    pub(super) variant: Variant,
    pub(super) schema_url: &'static str,
    pub(super) scope: ScopeContent,
    pub(super) known: &'a mut Known,
    pub(super) right_scope: &'a mut Vec<u8>,
    /// A buffer for texts that a description has to build.
    pub(crate) scratch: &'a mut String,
}

impl Comparison<'_> {
    /// Checks the next cell; `expected` is only called when it is wrong.
    #[inline]
    fn check_cell(
        &mut self,
        is_right: impl FnOnce(&StoredCell<'_>) -> bool,
        expected: impl FnOnce() -> String,
    ) {
        let at = self.at;
        self.at += 1;
        if self.fault.is_none() && !self.cells.get(at).is_some_and(is_right) {
            self.fault = Some((at, expected()));
        }
    }

    pub(crate) fn expect_number(&mut self, expected: u64) {
        self.check_cell(|cell| cell.as_number() == Some(expected), || format!("{expected:#x}"));
    }

    pub(crate) fn expect_signed(&mut self, expected: i32) {
        self.expect_number(i64::from(expected) as u64);
    }

    pub(crate) fn expect_double(&mut self, expected: f64) {
        let bits = expected.to_bits();
        let shown = || format!("{bits:#x} ({expected})");
        self.check_cell(|cell| cell.as_number() == Some(bits), shown);
    }

    pub(crate) fn expect_text(&mut self, expected: &str) {
        self.check_cell(
            |cell| cell.as_text() == Some(expected.as_bytes()),
            || format!("{expected:?}"),
        );
    }

    /// Expects a trace's id in hexadecimal; empty when it is 0.
    pub(crate) fn expect_trace_id(&mut self, id: u128) {
        self.expect_text(&trace_text(id));
    }

    /// Expects a span's id in hexadecimal; empty when it is 0.
    pub(crate) fn expect_span_id(&mut self, id: u64) {
        self.expect_text(&span_text(id));
    }

    pub(crate) fn expect_numbers(&mut self, expected: impl IntoIterator<Item = u64>) {
        let expected: Vec<u64> = expected.into_iter().collect();
        self.check_cell(
            |cell| matches!(cell, StoredCell::Numbers(found) if *found == expected),
            || format!("{expected:#x?}"),
        );
    }

    pub(crate) fn expect_doubles(&mut self, expected: &[f64]) {
        self.expect_numbers(expected.iter().map(|number| number.to_bits()));
    }

    pub(crate) fn expect_texts<T: AsRef<str>>(&mut self, expected: impl IntoIterator<Item = T>) {
        let expected: Vec<T> = expected.into_iter().collect();
        let bytes = || expected.iter().map(|text| text.as_ref().as_bytes());
        self.check_cell(
            |cell| matches!(cell, StoredCell::Texts(found) if found.iter().copied().eq(bytes())),
            || format!("{:?}", expected.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
        );
    }

    pub(crate) fn expect_set(&mut self, expected: &impl AttributeList) {
        let variant = self.variant;
        self.check_cell(|cell| is_set_text(cell, expected, variant), || describe_set(expected));
    }

    pub(crate) fn expect_sets(&mut self, expected: &[impl AttributeList]) {
        let variant = self.variant;
        let is_right = |cell: &StoredCell<'_>| match (cell.as_text(), expected) {
            // The most frequent values: nothing, or one empty set.
            (Some(b"[]"), expected) => expected.is_empty(),
            (Some(b"[{}]"), [one]) => one.len() == 0,
            (Some(text), expected) => list_of_leaves(text).is_some_and(|found| {
                found.len() == expected.len()
                    && found.iter().zip(expected).all(|(found, one)| is_set(found, one, variant))
            }),
            (None, _) => false,
        };
        self.check_cell(is_right, || {
            expected.iter().map(describe_set).collect::<Vec<_>>().join(", ")
        });
    }

    pub(crate) fn expect_service_name(&mut self) {
        let at = self.at;
        self.at += 1;
        let expected = self.known.resource.service_name.as_bytes();
        let is_right = self.cells.get(at).and_then(StoredCell::as_text) == Some(expected);
        if self.fault.is_none() && !is_right {
            self.fault = Some((at, self.known.resource.service_name.clone()));
        }
    }

    pub(crate) fn expect_resource_attributes(&mut self) {
        let at = self.at;
        self.at += 1;
        let Known { resource, right } = &mut *self.known;
        check_known(self.cells.get(at), resource, right, self.variant, &mut self.fault, at);
    }

    pub(crate) fn expect_resource_schema_url(&mut self) {
        self.expect_text(self.schema_url);
    }

    pub(crate) fn expect_scope_name(&mut self) {
        self.expect_text(ScopeContent::NAME);
    }

    pub(crate) fn expect_scope_version(&mut self) {
        self.expect_text(ScopeContent::VERSION);
    }

    pub(crate) fn expect_scope_attributes(&mut self) {
        let at = self.at;
        self.at += 1;
        let (scope, right) = (&self.scope, &mut *self.right_scope);
        check_known(self.cells.get(at), scope, right, self.variant, &mut self.fault, at);
    }

    pub(crate) fn expect_scope_dropped(&mut self) {
        self.expect_number(self.scope.dropped_count().into());
    }

    pub(crate) fn expect_scope_schema_url(&mut self) {
        self.expect_text(self.scope.schema_url());
    }
}

fn is_set_text(cell: &StoredCell<'_>, expected: &impl AttributeList, variant: Variant) -> bool {
    match cell.as_text() {
        Some(b"{}") => expected.len() == 0,
        Some(text) => parse_leaves(text).is_some_and(|found| is_set(&found, expected, variant)),
        None => false,
    }
}

/// Compares a set that repeats: its text is parsed once and cached.
fn check_known(
    cell: Option<&StoredCell<'_>>,
    expected: &impl AttributeList,
    right: &mut Vec<u8>,
    variant: Variant,
    fault: &mut Option<(usize, String)>,
    at: usize,
) {
    let Some(text) = cell.and_then(StoredCell::as_text) else {
        fault.get_or_insert_with(|| (at, describe_set(expected)));
        return;
    };
    if !right.is_empty() && right == text {
        return;
    }
    if parse_leaves(text).is_some_and(|found| is_set(&found, expected, variant)) {
        right.clear();
        right.extend_from_slice(text);
    } else {
        fault.get_or_insert_with(|| (at, describe_set(expected)));
    }
}

/// Returns a trace's id as tables store it.
pub(crate) fn trace_text(id: u128) -> String {
    if id == 0 { String::new() } else { format!("{id:032x}") }
}

/// Returns a span's id as tables store it.
pub(crate) fn span_text(id: u64) -> String {
    if id == 0 { String::new() } else { format!("{id:016x}") }
}
