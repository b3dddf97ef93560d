//! Finds the names that a Rust file defines, line by line as rustfmt lays them out: items, and the
//! fields and variants of its types. It judges nothing.
//!
//! Fields and variants that users read or write as text are left out: their names are the API's.
//! Names that a macro makes up are not found; [`super::locals`] finds what functions bind.

/// What follows in a file is its tests.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// What in the attributes of a type makes text for users of its fields or variants.
const SHOWN: &[&str] = &[
    "Args",
    "Deserialize",
    "EncodeLabelSet",
    "Error",
    "JsonSchema",
    "Parser",
    "Serialize",
    "Subcommand",
    "ValueEnum",
];
/// The macro whose structs are sections of the collector's file (`collector/core/config`).
const SECTION: &str = "section!";

const TYPES: &[&str] = &["enum", "struct", "trait", "type", "union"];
const OTHERS: &[&str] = &["const", "fn", "mod", "static"];
const MODIFIERS: &[&str] = &["async", "\"C\"", "default", "extern", "unsafe"];

/// A name where it is defined.
#[derive(Debug)]
pub(super) struct Definition<'t> {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) name: &'t str,
    pub(super) kind: DefinitionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    Type,
    /// A function, a constant, a module, a field or a variant.
    Item,
    /// A name that a function binds.
    Local,
}

/// The body of a type that is being read.
#[derive(Clone, Copy)]
struct Body {
    indent: usize,
    is_enum: bool,
    /// Users see its names.
    is_shown: bool,
}

/// The reader's state between two lines.
#[derive(Default)]
struct LineReader {
    /// Of the next item.
    attributes: String,
    /// An attribute continues on the next line.
    in_attribute: bool,
    in_section: bool,
    /// A type whose body has not begun: its bounds come first.
    awaited: Option<Body>,
    body: Option<Body>,
}

/// A file's text up to its tests.
pub(super) fn product_part(text: &str) -> &str {
    text.split(TESTS).next().unwrap_or_default()
}

/// All names that a file defines, up to its tests.
pub(super) fn definitions(text: &str) -> Vec<Definition<'_>> {
    let mut reader = LineReader::default();
    let mut found = Vec::new();
    for (number, line) in product_part(text).lines().enumerate() {
        let (names, is_type) = reader.read_line(line);
        let kind = if is_type { DefinitionKind::Type } else { DefinitionKind::Item };
        let definition = |name| Definition { line: number + 1, name, kind };
        found.extend(names.into_iter().map(definition));
    }
    found
}

impl LineReader {
    /// The names that a line defines, and whether they are names of types.
    fn read_line<'t>(&mut self, line: &'t str) -> (Vec<&'t str>, bool) {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.is_empty() || code.starts_with("//") || self.read_attribute(code) {
            return (Vec::new(), false);
        }
        let attributes = std::mem::take(&mut self.attributes);
        self.in_section = (self.in_section && line != "}") || code.starts_with(SECTION);
        if let Some(body) = self.body {
            if indent == body.indent && code.starts_with('}') {
                self.body = None;
            }
            let names = if body.is_shown { Vec::new() } else { members(code, body.is_enum) };
            return (names, false);
        }
        if self.awaited.is_some() {
            self.begin_body(code);
            return (Vec::new(), false);
        }
        let Some((keyword, name)) = item(code) else { return (Vec::new(), false) };
        if matches!(keyword, "enum" | "struct" | "union") {
            let is_shown = self.in_section || SHOWN.iter().any(|word| attributes.contains(word));
            self.awaited = Some(Body { indent, is_enum: keyword == "enum", is_shown });
            self.begin_body(code);
        }
        // A `type` with an indent is an associated one, which the trait names.
        let is_type = TYPES.contains(&keyword) && (keyword != "type" || indent == 0);
        (vec![name], is_type)
    }

    /// Reads the line if it is part of an attribute.
    fn read_attribute(&mut self, code: &str) -> bool {
        if !self.in_attribute && !code.starts_with("#[") {
            return false;
        }
        self.attributes.push_str(code);
        self.in_attribute = !code.ends_with(']');
        true
    }

    /// Begins the awaited body with a line that opens it; a line that ends the type forgets it.
    fn begin_body(&mut self, code: &str) {
        if code.ends_with('{') {
            self.body = self.awaited.take();
        } else if code.ends_with([';', '}']) {
            self.awaited = None;
        }
    }
}

/// The keyword and the name of the item that a line begins.
fn item(code: &str) -> Option<(&str, &str)> {
    let mut keyword = "";
    for word in without_visibility(code).split_whitespace() {
        if TYPES.contains(&word) || OTHERS.contains(&word) || MODIFIERS.contains(&word) {
            keyword = word;
            continue;
        }
        let name = identifier(word);
        let is_item = !name.is_empty() && !MODIFIERS.contains(&keyword);
        return (is_item && !keyword.is_empty()).then_some((keyword, name));
    }
    None
}

/// The fields that a line of a type's body names, and its variant.
fn members(code: &str, is_enum: bool) -> Vec<&str> {
    let mut names = Vec::new();
    for piece in code.split(['{', ',']) {
        let piece = without_visibility(piece.trim());
        let name = identifier(piece);
        let (_, behind) = piece.split_at(name.len());
        let is_field = behind.starts_with(':') && !behind.starts_with("::");
        let is_variant = is_enum && names.is_empty() && name.starts_with(char::is_uppercase);
        if !name.is_empty() && (is_field || (is_variant && code.starts_with(name))) {
            names.push(name);
        }
    }
    names
}

fn without_visibility(code: &str) -> &str {
    if let Some(code) = code.strip_prefix("pub ") {
        return code;
    }
    let scope = code.strip_prefix("pub(").and_then(|scope| scope.split_once(") "));
    scope.map_or(code, |(_, code)| code)
}

/// The identifier at the beginning of a text, or nothing.
fn identifier(text: &str) -> &str {
    let is_outside = |character: char| !character.is_alphanumeric() && character != '_';
    text.split(is_outside).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{DefinitionKind, definitions};

    /// Scenario: a file with each kind of definition, over one line and over several. Guarantee:
    /// each name is found with its line, and names of types are known as such.
    #[test]
    fn each_kind_of_definition_is_found() {
        let text = "\
pub(crate) mod wire;
pub const MAX: usize = 1;
pub(super) const fn first<T>(one: T) {}
#[derive(
    Clone,
)]
struct Pair<T>
where
    T: Copy,
{
    pub(crate) left: Map<T, u8>,
    published: io::Error,
}
enum Shape {
    Round(u8),
    Flat { wide: u8, high: u8 },
    Deep {
        depth: u8,
    },
}
type Alias = u8;
impl Trait for Pair {
    type Output = u8;
    unsafe extern \"C\" fn second(two: u8) {}
}
struct Unit;
trait Third {}
";
        let found = definitions(text);
        let names: Vec<_> = found.iter().map(|it| (it.line, it.name)).collect();
        let expected = [
            (1, "wire"),
            (2, "MAX"),
            (3, "first"),
            (7, "Pair"),
            (11, "left"),
            (12, "published"),
            (14, "Shape"),
            (15, "Round"),
            (16, "Flat"),
            (16, "wide"),
            (16, "high"),
            (17, "Deep"),
            (18, "depth"),
            (21, "Alias"),
            (23, "Output"),
            (24, "second"),
            (26, "Unit"),
            (27, "Third"),
        ];
        assert_eq!(names, expected);
        let types = found.iter().filter(|it| it.kind == DefinitionKind::Type).map(|it| it.name);
        assert!(types.eq(["Pair", "Shape", "Alias", "Unit", "Third"]));
    }
}
