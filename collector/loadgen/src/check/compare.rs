//! Compares a stored row with what its record must be, column by column.

use millrace_ddl::Attributes as Variant;

use super::cell::Cell;
use super::text::{is_set, leaves, list_of_leaves, shown};
use crate::content::{Attributes, Resource, Scope};

/// A resource, and what was compared with it and found right: resources repeat on every row, and
/// reading their text is the dear part.
pub(super) struct Known {
    pub(super) resource: Resource,
    pub(super) right: Vec<u8>,
}

/// A row under comparison. Descriptions name the wanted values in the order of the columns.
pub(crate) struct Comparison<'a> {
    pub(super) cells: &'a [Cell<'a>],
    pub(super) at: usize,
    /// The first wrong column, and what it should be.
    pub(super) fault: Option<(usize, String)>,
    pub(super) variant: Variant,
    pub(super) schema_url: &'static str,
    pub(super) scope: Scope,
    pub(super) known: &'a mut Known,
    pub(super) right_scope: &'a mut Vec<u8>,
    /// For texts that a description has to make.
    pub(crate) scratch: &'a mut String,
}

impl Comparison<'_> {
    /// Takes the next cell; `wanted` is only asked when it is wrong.
    #[inline]
    fn cell(&mut self, is_right: impl FnOnce(&Cell<'_>) -> bool, wanted: impl FnOnce() -> String) {
        let at = self.at;
        self.at += 1;
        if self.fault.is_none() && !self.cells.get(at).is_some_and(is_right) {
            self.fault = Some((at, wanted()));
        }
    }

    pub(crate) fn number(&mut self, wanted: u64) {
        self.cell(|cell| cell.number() == Some(wanted), || format!("{wanted:#x}"));
    }

    pub(crate) fn signed(&mut self, wanted: i32) {
        self.number(i64::from(wanted) as u64);
    }

    pub(crate) fn double(&mut self, wanted: f64) {
        let bits = wanted.to_bits();
        let shown = || format!("{bits:#x} ({wanted})");
        self.cell(|cell| cell.number() == Some(bits), shown);
    }

    pub(crate) fn text(&mut self, wanted: &str) {
        self.cell(|cell| cell.text() == Some(wanted.as_bytes()), || format!("{wanted:?}"));
    }

    /// A trace's id in hexadecimal; empty when it is 0.
    pub(crate) fn trace_id(&mut self, id: u128) {
        self.text(&trace_text(id));
    }

    /// A span's id in hexadecimal; empty when it is 0.
    pub(crate) fn span_id(&mut self, id: u64) {
        self.text(&span_text(id));
    }

    pub(crate) fn numbers(&mut self, wanted: impl IntoIterator<Item = u64>) {
        let wanted: Vec<u64> = wanted.into_iter().collect();
        self.cell(
            |cell| matches!(cell, Cell::Numbers(found) if *found == wanted),
            || format!("{wanted:#x?}"),
        );
    }

    pub(crate) fn doubles(&mut self, wanted: &[f64]) {
        self.numbers(wanted.iter().map(|number| number.to_bits()));
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, wanted: impl IntoIterator<Item = T>) {
        let wanted: Vec<T> = wanted.into_iter().collect();
        let bytes = || wanted.iter().map(|text| text.as_ref().as_bytes());
        self.cell(
            |cell| matches!(cell, Cell::Texts(found) if found.iter().copied().eq(bytes())),
            || format!("{:?}", wanted.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
        );
    }

    pub(crate) fn set(&mut self, wanted: &impl Attributes) {
        let variant = self.variant;
        self.cell(|cell| is_set_text(cell, wanted, variant), || shown(wanted));
    }

    pub(crate) fn sets(&mut self, wanted: &[impl Attributes]) {
        let variant = self.variant;
        let is_right = |cell: &Cell<'_>| match (cell.text(), wanted) {
            // What nearly every row has: nothing, or one empty set.
            (Some(b"[]"), wanted) => wanted.is_empty(),
            (Some(b"[{}]"), [one]) => one.count() == 0,
            (Some(text), wanted) => list_of_leaves(text).is_some_and(|found| {
                found.len() == wanted.len()
                    && found.iter().zip(wanted).all(|(found, one)| is_set(found, one, variant))
            }),
            (None, _) => false,
        };
        self.cell(is_right, || wanted.iter().map(shown).collect::<Vec<_>>().join(", "));
    }

    pub(crate) fn service_name(&mut self) {
        let at = self.at;
        self.at += 1;
        let wanted = self.known.resource.service_name.as_bytes();
        let is_right = self.cells.get(at).and_then(Cell::text) == Some(wanted);
        if self.fault.is_none() && !is_right {
            self.fault = Some((at, self.known.resource.service_name.clone()));
        }
    }

    pub(crate) fn resource_attributes(&mut self) {
        let at = self.at;
        self.at += 1;
        let Known { resource, right } = &mut *self.known;
        check_known(self.cells.get(at), resource, right, self.variant, &mut self.fault, at);
    }

    pub(crate) fn resource_schema_url(&mut self) {
        self.text(self.schema_url);
    }

    pub(crate) fn scope_name(&mut self) {
        self.text(Scope::NAME);
    }

    pub(crate) fn scope_version(&mut self) {
        self.text(Scope::VERSION);
    }

    pub(crate) fn scope_attributes(&mut self) {
        let at = self.at;
        self.at += 1;
        let (scope, right) = (&self.scope, &mut *self.right_scope);
        check_known(self.cells.get(at), scope, right, self.variant, &mut self.fault, at);
    }

    pub(crate) fn scope_dropped(&mut self) {
        self.number(self.scope.dropped().into());
    }

    pub(crate) fn scope_schema_url(&mut self) {
        self.text(self.scope.schema_url());
    }
}

fn is_set_text(cell: &Cell<'_>, wanted: &impl Attributes, variant: Variant) -> bool {
    match cell.text() {
        Some(b"{}") => wanted.count() == 0,
        Some(text) => leaves(text).is_some_and(|found| is_set(&found, wanted, variant)),
        None => false,
    }
}

/// Compares a set that repeats: its text is read once, and known from then on.
fn check_known(
    cell: Option<&Cell<'_>>,
    wanted: &impl Attributes,
    right: &mut Vec<u8>,
    variant: Variant,
    fault: &mut Option<(usize, String)>,
    at: usize,
) {
    let Some(text) = cell.and_then(Cell::text) else {
        fault.get_or_insert_with(|| (at, shown(wanted)));
        return;
    };
    if !right.is_empty() && right == text {
        return;
    }
    if leaves(text).is_some_and(|found| is_set(&found, wanted, variant)) {
        right.clear();
        right.extend_from_slice(text);
    } else {
        fault.get_or_insert_with(|| (at, shown(wanted)));
    }
}

/// A trace's id as tables hold it.
pub(crate) fn trace_text(id: u128) -> String {
    if id == 0 { String::new() } else { format!("{id:032x}") }
}

/// A span's id as tables hold it.
pub(crate) fn span_text(id: u64) -> String {
    if id == 0 { String::new() } else { format!("{id:016x}") }
}
