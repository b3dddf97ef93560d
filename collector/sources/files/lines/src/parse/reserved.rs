//! Reserves the receiver's own attribute names, which no field of a line may set.

/// The attribute of a record that was cut, or that the next one continues.
pub const TRUNCATED: &str = "log.record.truncated";

/// Trees of names that are always reserved.
const TREES: [&str; 4] = ["k8s", "log.file", "log.iostream", TRUNCATED];

/// The prefix of a field with a reserved name. The field is stored; its name shows that it comes
/// from the line.
pub(crate) const PREFIX: &[u8] = b"line.";

/// The reserved names: those that the receiver writes, those below them (`k8s.pod.name` is below
/// `k8s`), and objects above them, whose members would get the same paths in tables (`log` with a
/// member `iostream`).
#[derive(Clone, Debug)]
pub(crate) struct ReservedNames {
    /// Reserved names outside the known trees: nearly always none. Each open file has its own list.
    further: Vec<Box<str>>,
    /// A bit for each reserved name's first byte, which nearly no other name shares.
    firsts: u128,
}

impl ReservedNames {
    /// Reserves the known trees and these names.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let is_known =
            |name: &&str| TREES.iter().any(|tree| is_within(name.as_bytes(), tree.as_bytes()));
        let further: Vec<Box<str>> = names.filter(|name| !is_known(name)).map(Box::from).collect();
        let all = TREES.iter().copied().chain(further.iter().map(|name| &**name));
        let firsts =
            all.filter_map(|name| name.bytes().next()).fold(0, |all, one| all | byte_bit(one));
        Self { further, firsts }
    }

    /// Returns the prefix of a field's name, empty if it isn't reserved.
    #[inline]
    pub(crate) fn prefix_for(&self, name: &[u8], is_object: bool) -> &'static [u8] {
        match name.first() {
            Some(first)
                if self.firsts & byte_bit(*first) != 0 && self.is_reserved(name, is_object) =>
            {
                PREFIX
            }
            _ => &[],
        }
    }

    fn is_reserved(&self, name: &[u8], is_object: bool) -> bool {
        let mut all = TREES.iter().copied().chain(self.further.iter().map(|name| &**name));
        all.any(|reserved| {
            let reserved = reserved.as_bytes();
            is_within(name, reserved) || is_object && is_within(reserved, name)
        })
    }
}

/// All bytes that aren't ASCII share the last bit.
#[inline]
const fn byte_bit(first: u8) -> u128 {
    1 << if first < 127 { first } else { 127 }
}

/// Whether `name` is `tree` or below it.
fn is_within(name: &[u8], tree: &[u8]) -> bool {
    name.strip_prefix(tree).is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names at, below, above and next to those that the receiver writes. Guarantee:
    /// names that would get a reserved path get the prefix, and no others.
    #[test]
    fn names_of_the_receiver_are_no_fields() {
        let reserved = ReservedNames::new(["service.name", "k8s.pod.name"].into_iter());
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
            let prefix = reserved.prefix_for(name.as_bytes(), is_object);
            assert_eq!(!prefix.is_empty(), expected, "{name} {is_object}");
        }
    }
}
