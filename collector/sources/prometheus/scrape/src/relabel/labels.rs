//! Labels that rules change: one text with all names and values, and their positions.
//!
//! The order is that of Prometheus' builder: the original labels by name, then those that rules
//! added, in the order of adding. It decides which label wins if `labelmap` gives two the same
//! name.

use std::fmt;

/// The most bytes of one series' labels while rules change them: a value that refers to itself
/// doubles with each rule. It is twice the longest line, so that each label fits twice.
pub const LABELS_BYTES_MAX: usize = 128 * 1024;

/// The most labels while rules change them: twice those of a sample.
pub const RELABELED_LABELS_MAX: usize = 256;

/// The labels exceed [`LABELS_BYTES_MAX`] or [`RELABELED_LABELS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("relabeling produces more than {LABELS_BYTES_MAX} bytes or {RELABELED_LABELS_MAX} labels")]
pub struct TooLong;

/// A set of labels. A label with an empty value doesn't exist.
#[derive(Default, Clone)]
pub struct LabelSet {
    text: String,
    entries: Vec<LabelEntry>,
    is_sorted: bool,
}

#[derive(Debug, Clone, Copy)]
struct LabelEntry {
    name: TextSpan,
    value: TextSpan,
    is_added: bool,
}

/// A range of the text.
#[derive(Debug, Clone, Copy)]
struct TextSpan {
    start: u32,
    end: u32,
}

impl TextSpan {
    fn slice_of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl LabelSet {
    /// Removes all labels and retains the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.is_sorted = true;
    }

    /// Adds a label of the source, before rules are applied. Names must be distinct. Empty values
    /// are skipped.
    #[inline]
    pub fn push(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let entry = LabelEntry {
            name: self.append_text(name),
            value: self.append_text(value),
            is_added: false,
        };
        self.entries.push(entry);
        self.is_sorted = false;
    }

    /// Returns the value of a label; empty if it doesn't exist.
    #[inline]
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.find_index(name).map_or("", |index| self.entries[index].value.slice_of(&self.text))
    }

    /// Sets a label. An empty value removes it.
    ///
    /// # Errors
    /// The labels would be too long; this one isn't set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), TooLong> {
        if value.is_empty() {
            self.remove(name);
            return Ok(());
        }
        let is_full = self.entries.len() >= RELABELED_LABELS_MAX;
        let has_room = |text: &str| text.len() + name.len() + value.len() <= LABELS_BYTES_MAX;
        if !has_room(&self.text) {
            self.compact_text();
        }
        if !has_room(&self.text) {
            return Err(TooLong);
        }
        match self.find_index(name) {
            Some(index) if self.entries[index].is_added => {
                self.entries[index].value = self.append_text(value);
            }
            found => {
                if let Some(index) = found {
                    self.entries.remove(index);
                } else if is_full {
                    return Err(TooLong);
                }
                let entry = LabelEntry {
                    name: self.append_text(name),
                    value: self.append_text(value),
                    is_added: true,
                };
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Removes a label.
    pub fn remove(&mut self, name: &str) {
        if let Some(index) = self.find_index(name) {
            self.entries.remove(index);
        }
    }

    /// Retains the labels whose names satisfy `fits`.
    pub fn retain(&mut self, mut fits: impl FnMut(&str) -> bool) {
        let text = &self.text;
        self.entries.retain(|entry| fits(entry.name.slice_of(text)));
    }

    /// Returns the number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns names and values; sorted by name after [`LabelSet::sort`].
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = self.text.as_str();
        self.entries
            .iter()
            .map(move |entry| (entry.name.slice_of(text), entry.value.slice_of(text)))
    }

    /// Sorts the labels by name.
    pub fn sort(&mut self) {
        let Self { text, entries, .. } = self;
        entries
            .sort_unstable_by(|one, other| one.name.slice_of(text).cmp(other.name.slice_of(text)));
        for entry in entries {
            entry.is_added = false;
        }
        self.is_sorted = true;
    }

    /// Sorts pushed labels, before the first rule.
    #[inline]
    pub(super) fn ensure_sorted(&mut self) {
        if !self.is_sorted {
            self.sort();
        }
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<LabelEntry>()
    }

    #[inline]
    fn find_index(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name.slice_of(&self.text) == name)
    }

    #[inline]
    fn append_text(&mut self, part: &str) -> TextSpan {
        let start = self.text.len() as u32;
        self.text.push_str(part);
        TextSpan { start, end: self.text.len() as u32 }
    }

    /// Drops texts that no label refers to.
    fn compact_text(&mut self) {
        let old = std::mem::take(&mut self.text);
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            entry.name = self.append_text(entry.name.slice_of(&old));
            entry.value = self.append_text(entry.value.slice_of(&old));
        }
        self.entries = entries;
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelSet {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(pairs: T) -> Self {
        let mut labels = Self::default();
        for (name, value) in pairs {
            labels.push(name, value);
        }
        labels
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}
