//! JSON columns of a live table with typed paths.
//!
//! A server converts a plain `JSON` to such a column by writing each value as text and parsing it
//! again, which costs several times the rest of an insert. It accepts a block with the live type
//! unchanged. Only types whose own paths are texts are supported; the server converts any other,
//! and also a column in whose block such a path has an array or a list. This module builds no
//! columns.

use millrace_schema::TableKind;

/// A JSON column, its type in the server's words, and the type's typed paths.
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
    /// Returns a column of a live table; `None` if its type isn't `JSON` with typed paths, or isn't
    /// supported.
    #[must_use]
    pub fn from_live(table: TableKind, name: &str, ty: &str) -> Option<Self> {
        let paths = parse_paths(ty)?;
        Some(Self { table, name: name.to_owned(), ty: ty.to_owned(), paths })
    }

    pub(crate) fn table(&self) -> TableKind {
        self.table
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type in the server's words: a block must state it to be accepted unchanged.
    pub(crate) fn ty(&self) -> &str {
        &self.ty
    }

    /// Returns the paths by name, in the format's order.
    pub(crate) fn paths(&self) -> &[TypedText] {
        &self.paths
    }
}

/// Returns the paths in ``JSON(max_dynamic_paths=256, level String, `k8s.pod.name`
/// LowCardinality(String))``. Returns `None` for a type without paths, for another type, or for one
/// that skips a path (`SKIP`).
fn parse_paths(ty: &str) -> Option<Vec<TypedText>> {
    let inside = ty.strip_prefix("JSON(")?.strip_suffix(')')?;
    let is_limit = |item: &&str| {
        item.starts_with("max_dynamic_paths=") || item.starts_with("max_dynamic_types=")
    };
    let items = inside.split(", ").filter(|item| !is_limit(item));
    let mut paths = items.map(parse_path).collect::<Option<Vec<_>>>()?;
    paths.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    (!paths.is_empty()).then_some(paths)
}

fn parse_path(item: &str) -> Option<TypedText> {
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
        let column = TypedColumn::from_live(TableKind::Logs, "LogAttributes", ty)?;
        assert_eq!((column.name(), column.ty()), ("LogAttributes", ty));
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        Some(column.paths().iter().map(|path| (text(&path.name), path.form)).collect())
    }

    /// Scenario: types of live columns. Guarantee: paths are sorted by name, and the server
    /// converts a type with any path that isn't a text.
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
