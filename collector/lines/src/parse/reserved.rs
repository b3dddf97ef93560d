//! Names that no field of a line may have: the receiver's own attributes.

/// Trees of names that are always the receiver's.
const TREES: [&str; 4] = ["k8s", "log.file", "log.iostream", crate::request::TRUNCATED];

/// The prefix of a field with a reserved name. The field is kept; its name says that the line is
/// its source.
pub(crate) const PREFIX: &[u8] = b"line.";

/// Reserved are names that the receiver writes, what is below them (`k8s.pod.name` is below `k8s`),
/// and objects above them, whose members would get the same paths in tables (`log` with a member
/// `iostream`).
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    /// Names in none of the known trees: nearly always none. Each open file has its own.
    further: Vec<Box<str>>,
    /// A bit for each first byte: nearly no other name has one.
    firsts: u128,
}

impl Reserved {
    /// The known trees, and further names.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let is_known =
            |name: &&str| TREES.iter().any(|tree| is_within(name.as_bytes(), tree.as_bytes()));
        let further: Vec<Box<str>> = names.filter(|name| !is_known(name)).map(Box::from).collect();
        let all = TREES.iter().copied().chain(further.iter().map(|name| &**name));
        let firsts = all.filter_map(|name| name.bytes().next()).fold(0, |all, one| all | bit(one));
        Self { further, firsts }
    }

    /// The prefix of a field's name.
    #[inline]
    pub(crate) fn prefix(&self, name: &[u8], is_object: bool) -> &'static [u8] {
        match name.first() {
            Some(first) if self.firsts & bit(*first) != 0 && self.has(name, is_object) => PREFIX,
            _ => &[],
        }
    }

    fn has(&self, name: &[u8], is_object: bool) -> bool {
        let mut all = TREES.iter().copied().chain(self.further.iter().map(|name| &**name));
        all.any(|reserved| {
            let reserved = reserved.as_bytes();
            is_within(name, reserved) || is_object && is_within(reserved, name)
        })
    }
}

/// Bytes that aren't ASCII share the last one.
#[inline]
const fn bit(first: u8) -> u128 {
    1 << if first < 127 { first } else { 127 }
}

/// Whether `name` is `tree` or below it.
fn is_within(name: &[u8], tree: &[u8]) -> bool {
    name.strip_prefix(tree).is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names at, below, above and beside those that the receiver writes. Guarantee: what
    /// would come to a reserved path gets the prefix, and nothing else does.
    #[test]
    fn names_of_the_receiver_are_no_fields() {
        let reserved = Reserved::new(["service.name", "k8s.pod.name"].into_iter());
        for (name, is_object, expected) in [
            ("log.iostream", false, true),
            ("log.file.path", false, true),
            ("log.file", true, true),
            ("log", true, true),
            ("log", false, false),
            ("log.level", false, false),
            ("log.record.truncated", false, true),
            ("k8s.pod.name", false, true),
            ("k8s", false, true),
            ("k8s.anything", true, true),
            ("k8", true, false),
            ("k8sx", true, false),
            ("service.name", false, true),
            ("service", true, true),
            ("service", false, false),
            ("", true, false),
        ] {
            let prefix = reserved.prefix(name.as_bytes(), is_object);
            assert_eq!(!prefix.is_empty(), expected, "{name} {is_object}");
        }
    }
}
