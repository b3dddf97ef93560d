//! The heaviest producers in bounded memory, by the Space-Saving algorithm (Metwally, Agrawal and
//! El Abbadi, 2005). Pure.
//!
//! A producer that finds no slot takes that of the lightest and inherits its bytes. So a sum is too
//! high by at most the bytes of all divided by [`SLOTS`] (0.4 %), and a producer with more than
//! that is never missing.

use std::collections::HashMap;

/// Maximum producers: 256 of at most 2 x 128 bytes with 60 of overhead are 80 KiB, and a meter has
/// three such tables while it answers.
pub(super) const SLOTS: usize = 256;
/// Maximum bytes of a name. Clients choose names.
const NAME_BYTES_MAX: usize = 128;

/// Who sends records. A name that the resource lacks is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Producer {
    /// `service.name`.
    pub(super) service: String,
    /// `k8s.namespace.name`.
    pub(super) namespace: String,
}

/// Bytes by producer.
#[derive(Clone, Debug, Default)]
pub(super) struct Heaviest {
    bytes: HashMap<Producer, u64>,
}

impl Heaviest {
    /// Adds a producer's bytes.
    pub(super) fn add(&mut self, producer: Producer, bytes: u64) {
        if let Some(sum) = self.bytes.get_mut(&producer) {
            *sum += bytes;
            return;
        }
        let inherited = match self.bytes.len() < SLOTS {
            true => 0,
            false => self.remove_lightest(),
        };
        self.bytes.insert(producer, inherited + bytes);
    }

    /// Adds another table's sums, the heaviest first, so that those keep their slots.
    pub(super) fn add_all(&mut self, other: &Self) {
        for (producer, bytes) in other.clone().into_sorted() {
            self.add(producer, bytes);
        }
    }

    /// Returns the producers, the heaviest first.
    pub(super) fn into_sorted(self) -> Vec<(Producer, u64)> {
        let mut all: Vec<_> = self.bytes.into_iter().collect();
        all.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then_with(|| a.cmp(b)));
        all
    }

    fn remove_lightest(&mut self) -> u64 {
        let lightest = self.bytes.iter().min_by_key(|(_, bytes)| **bytes);
        let lightest = lightest.map(|(producer, _)| producer.clone());
        lightest.and_then(|producer| self.bytes.remove(&producer)).unwrap_or(0)
    }
}

/// Returns a name of at most [`NAME_BYTES_MAX`] bytes.
pub(super) fn cut_name(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let end = (0..=NAME_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}
