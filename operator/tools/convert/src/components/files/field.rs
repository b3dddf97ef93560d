//! Names of an entry's fields as the Collector's operators write them: `attributes.level`,
//! `body["a.b"]`, `resource.x`. A name without a prefix is a field of the body.

/// The part of the entry that has the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Attributes,
    Body,
    Resource,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryField {
    pub(super) of: Of,
    /// Steps below that part; empty for all of it.
    pub(super) keys: Vec<String>,
}

impl EntryField {
    /// Parses a field; `None` if it is invalid.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut keys = parse_steps(text.trim())?;
        let of = match keys.first().map(String::as_str) {
            Some("attributes") => Some(Of::Attributes),
            Some("body") => Some(Of::Body),
            Some("resource") => Some(Of::Resource),
            _ => None,
        };
        if of.is_some() {
            keys.remove(0);
        }
        Some(Self { of: of.unwrap_or(Of::Body), keys })
    }

    /// Returns whether it is the complete body.
    pub(super) fn is_body(&self) -> bool {
        self.of == Of::Body && self.keys.is_empty()
    }

    /// Returns the name of a parsed field: one step below attributes or body.
    pub(super) fn parsed_name(&self) -> Option<&str> {
        match (self.of, &self.keys[..]) {
            (Of::Attributes | Of::Body, [name]) => Some(name),
            _ => None,
        }
    }
}

fn parse_steps(text: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let quote = inner.chars().next().filter(|one| matches!(one, '"' | '\''))?;
            let (name, after) = inner.get(1..)?.split_once(quote)?;
            steps.push(name.to_owned());
            rest = after.strip_prefix(']')?;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at_checked(end)?;
            if name.is_empty() {
                return None;
            }
            steps.push(name.to_owned());
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                return None;
            }
            rest = after;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::{EntryField, Of};

    /// Scenario: fields as operators write them, and invalid texts. Guarantee: the part of the
    /// entry, and the steps below it.
    #[test]
    fn fields_are_read_in_each_form() {
        let read = |text: &str| EntryField::read(text).map(|it| (it.of, it.keys));
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        for (text, of, below) in [
            ("body", Of::Body, &[][..]),
            ("level", Of::Body, &["level"]),
            ("body.level", Of::Body, &["level"]),
            ("attributes.level", Of::Attributes, &["level"]),
            (r#"attributes["log.file.path"]"#, Of::Attributes, &["log.file.path"]),
            (r#"resource["k8s.pod.name"]"#, Of::Resource, &["k8s.pod.name"]),
            ("attributes.a.b", Of::Attributes, &["a", "b"]),
        ] {
            assert_eq!(read(text), Some((of, keys(below))), "{text}");
        }
        for text in ["", ".", "a.", "a..b", "attributes[x]", "attributes[\"x\""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
