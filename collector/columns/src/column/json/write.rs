//! How a JSON column is written: as plain `JSON`, or as the live type of its table, whose own paths
//! are columns of their own before the others, with a text for each row.

use crate::body::BodyWriter;
use crate::column::json::path::Path;
use crate::column::json::{FLATTENED, Json};
use crate::column::{Column, Dictionary, Strings};
use crate::shape::Shape;
use crate::typed::{TextForm, TypedText};

impl Json {
    /// Whether all that this block has in these paths can be written as texts here: no arrays, and
    /// no members of lists, of which the server makes a text in the list's own path.
    pub(crate) fn fits(&self, typed: &[TypedText]) -> bool {
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

    /// The paths of this block by name, which must not depend on the blocks before it; not those
    /// that are typed.
    fn used_paths(&self, typed: &[TypedText]) -> Vec<&Path> {
        let is_typed = |path: &Path| typed.iter().any(|typed| typed.name == path.name());
        let used = self.paths.iter().filter(|path| !path.is_unused() && !is_typed(path));
        let mut paths: Vec<&Path> = used.collect();
        paths.sort_unstable_by_key(|path| path.name());
        paths
    }

    /// Writes what precedes the values: the list of paths but those that are typed, which the
    /// column's type names, then what precedes the values of each.
    pub(crate) fn write_prefix_as(&self, typed: &[TypedText], body: &mut BodyWriter) {
        body.word(FLATTENED);
        let paths = self.used_paths(typed);
        body.varint(paths.len() as u64);
        paths.iter().for_each(|path| body.string(path.name()));
        typed.iter().for_each(|path| write_text_prefix(path.form, body));
        paths.iter().for_each(|path| path.write_prefix(body));
    }

    /// Writes the values: of typed paths, then of the others.
    pub(crate) fn write_values_as(
        &self,
        typed: &[TypedText],
        shape: Shape<'_>,
        body: &mut BodyWriter,
    ) {
        for TypedText { name, form } in typed {
            write_texts(self.find(name), *form, self.row, shape, body);
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
    path: Option<&Path>,
    form: TextForm,
    rows: u32,
    shape: Shape<'_>,
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

fn each_text(path: Option<&Path>, rows: u32, mut take: impl FnMut(&[u8])) {
    match path {
        Some(path) => path.each_text(rows, take),
        None => (0..rows).for_each(|_| take(b"")),
    }
}
