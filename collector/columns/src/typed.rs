//! JSON columns of a live table that hold some paths with a type of their own.
//!
//! A server turns a plain `JSON` into such a column by writing each value as text and reading it
//! again, which costs several times the rest of an insert. A block that brings the live type is
//! taken as it is. Only types whose own paths are texts are known here; any other is left to the
//! server, and so is a column in whose block such a path has an array or a list. Builds no columns.

use millrace_schema::TableKind;

/// A JSON column, its type in the server's words, and what that type says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedColumn {
    table: TableKind,
    name: String,
    ty: String,
    paths: Vec<TypedText>,
}

/// A path that is stored as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedText {
    pub(crate) name: Vec<u8>,
    pub(crate) form: TextForm,
}

/// How the texts of a path are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// `String`.
    Each,
    /// `LowCardinality(String)`.
    Repeating,
}

impl TypedColumn {
    /// A column of a live table; none if its type isn't `JSON` with paths of their own, or one that
    /// isn't known here.
    #[must_use]
    pub fn of_live(table: TableKind, name: &str, ty: &str) -> Option<Self> {
        let paths = paths(ty)?;
        Some(Self { table, name: name.to_owned(), ty: ty.to_owned(), paths })
    }

    pub(crate) fn table(&self) -> TableKind {
        self.table
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The type in the server's words, which is what a block says to be taken as it is.
    pub(crate) fn ty(&self) -> &str {
        &self.ty
    }

    /// By name, as the format has them.
    pub(crate) fn paths(&self) -> &[TypedText] {
        &self.paths
    }
}

/// The paths in `JSON(max_dynamic_paths=256, level String, `k8s.pod.name` LowCardinality(String))`.
/// None where there is none, or something else: another type, a path that is left out (`SKIP`).
fn paths(ty: &str) -> Option<Vec<TypedText>> {
    let inside = ty.strip_prefix("JSON(")?.strip_suffix(')')?;
    let is_limit = |item: &&str| {
        item.starts_with("max_dynamic_paths=") || item.starts_with("max_dynamic_types=")
    };
    let items = inside.split(", ").filter(|item| !is_limit(item));
    let mut paths = items.map(path).collect::<Option<Vec<_>>>()?;
    paths.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    (!paths.is_empty()).then_some(paths)
}

fn path(item: &str) -> Option<TypedText> {
    let (name, ty) = item.rsplit_once(' ')?;
    let form = match ty {
        "String" => TextForm::Each,
        "LowCardinality(String)" => TextForm::Repeating,
        _ => return None,
    };
    let name = name.strip_prefix('`').map_or(Some(name), |name| name.strip_suffix('`'))?;
    let is_plain = !name.is_empty() && !name.contains(['`', '\\', ' ', '\'']);
    is_plain.then(|| TypedText { name: name.as_bytes().to_vec(), form })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ty: &str) -> Option<Vec<(String, TextForm)>> {
        let column = TypedColumn::of_live(TableKind::Logs, "LogAttributes", ty)?;
        assert_eq!((column.name(), column.ty()), ("LogAttributes", ty));
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        Some(column.paths().iter().map(|path| (text(&path.name), path.form)).collect())
    }

    /// Scenario: types of live columns. Guarantee: paths come by name, and a type with anything
    /// that isn't a text is left to the server.
    #[test]
    fn paths_of_a_type_are_read() {
        let both = "JSON(max_dynamic_paths=16, level String, `host.name` LowCardinality(String))";
        let expected =
            [("host.name".to_owned(), TextForm::Repeating), ("level".to_owned(), TextForm::Each)];
        assert_eq!(read(both).unwrap(), expected);
        for ty in [
            "JSON",
            "JSON()",
            "JSON(max_dynamic_paths=16)",
            "JSON(level String, SKIP secret)",
            "JSON(level String, SKIP REGEXP 'a String')",
            "JSON(level String, SKIP `a b`)",
            "JSON(status UInt16, level String)",
            "JSON(level Nullable(String))",
            "JSON(`a``b` String)",
            "Array(JSON(level String))",
            "Map(LowCardinality(String), String)",
            "String",
        ] {
            assert_eq!(read(ty), None, "{ty}");
        }
    }
}
