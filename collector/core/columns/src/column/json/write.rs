//! Writes a JSON column as plain `JSON`, or as the live type of its table. The live type's own
//! paths are separate columns before the others, with a text for each row.

use crate::body::BodyWriter;
use crate::column::json::path::JsonPath;
use crate::column::json::{FLATTENED, Json};
use crate::column::{ColumnBuilder, Dictionary, Strings};
use crate::shape::ColumnShape;
use crate::typed::{TextForm, TypedText};

impl Json {
    /// Returns whether all this block's values in these paths can be written as texts: no arrays,
    /// and no members of lists, which the server stores as a text in the list's own path.
    pub(crate) fn fits_typed(&self, typed: &[TypedText]) -> bool {
        let is_member = |name: &[u8], list: &[u8]| {
            name.strip_prefix(list).is_some_and(|rest| rest.first() == Some(&b'.'))
        };
        let mut used = self.paths.iter().filter(|path| !path.is_unused());
        used.all(|path| {
            typed.iter().all(|TypedText { name, .. }| match path.name() == name {
                true => !path.has_arrays(),
                false => !is_member(path.name(), name),
            })
        })
    }

    /// Returns the block's paths by name, without typed ones. The order must not depend on earlier
    /// blocks.
    fn used_paths(&self, typed: &[TypedText]) -> Vec<&JsonPath> {
        let is_typed = |path: &JsonPath| typed.iter().any(|typed| typed.name == path.name());
        let used = self.paths.iter().filter(|path| !path.is_unused() && !is_typed(path));
        let mut paths: Vec<&JsonPath> = used.collect();
        paths.sort_unstable_by_key(|path| path.name());
        paths
    }

    /// Writes the prefix: the list of paths without typed ones, which the column's type names, then
    /// each path's prefix.
    pub(crate) fn write_prefix_as(&self, typed: &[TypedText], body: &mut BodyWriter) {
        body.put_u64(FLATTENED);
        let paths = self.used_paths(typed);
        body.put_varint(paths.len() as u64);
        paths.iter().for_each(|path| body.put_string(path.name()));
        typed.iter().for_each(|path| write_text_prefix(path.form, body));
        paths.iter().for_each(|path| path.write_prefix(body));
    }

    /// Writes the values of typed paths, then of the others.
    pub(crate) fn write_values_as(
        &self,
        typed: &[TypedText],
        shape: ColumnShape<'_>,
        body: &mut BodyWriter,
    ) {
        for TypedText { name, form } in typed {
            write_texts(self.find_used(name), *form, self.row, shape, body);
        }
        for path in self.used_paths(typed) {
            path.write_values(self.row, shape, body);
        }
    }
}

fn write_text_prefix(form: TextForm, body: &mut BodyWriter) {
    match form {
        TextForm::Each => Strings::default().write_prefix(body),
        TextForm::Repeating => Dictionary::default().write_prefix(body),
    }
}

/// Writes the texts of `path`, which may have none, for each of a column's `rows`.
fn write_texts(
    path: Option<&JsonPath>,
    form: TextForm,
    rows: u32,
    shape: ColumnShape<'_>,
    body: &mut BodyWriter,
) {
    match form {
        TextForm::Each => {
            let mut texts = Strings::default();
            each_text(path, rows, |text| texts.push(text));
            texts.write_values(shape, body);
        }
        TextForm::Repeating => {
            let mut texts = Dictionary::default();
            each_text(path, rows, |text| texts.push(text));
            texts.write_values(shape, body);
        }
    }
}

fn each_text(path: Option<&JsonPath>, rows: u32, mut take: impl FnMut(&[u8])) {
    match path {
        Some(path) => path.each_text(rows, take),
        None => (0..rows).for_each(|_| take(b"")),
    }
}
