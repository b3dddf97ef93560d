//! Labels that rules change: one text that holds all names and values, and where they lie in it.
//!
//! The order is that of Prometheus' builder: what was there first, by name; then what rules added,
//! in the order of adding. It decides which of two labels wins that `labelmap` gives one name.

use std::fmt;

/// The longest text of one series' labels while rules change them: a value that refers to itself
/// doubles with each rule. Twice the longest line, so that each label may be there twice.
pub const LABELS_BYTES_MAX: usize = 128 * 1024;

/// Most labels while rules change them: twice what a sample may have.
pub const RELABELED_LABELS_MAX: usize = 256;

/// Labels became longer than [`LABELS_BYTES_MAX`], or more than [`RELABELED_LABELS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "relabeling makes more than {LABELS_BYTES_MAX} bytes or {RELABELED_LABELS_MAX} labels of it"
)]
pub struct TooLong;

/// A set of labels. None has an empty value: that is a label that isn't there.
#[derive(Default, Clone)]
pub struct Labels {
    text: String,
    entries: Vec<Entry>,
    is_sorted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: Place,
    value: Place,
    is_added: bool,
}

/// A part of the text.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Labels {
    /// Forgets all labels and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.is_sorted = true;
    }

    /// Adds a label of the source, before any rule is applied. No two may have one name. An empty
    /// value is none.
    #[inline]
    pub fn push(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let entry = Entry { name: self.put(name), value: self.put(value), is_added: false };
        self.entries.push(entry);
        self.is_sorted = false;
    }

    /// The value of a label; empty if it isn't there.
    #[inline]
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.find(name).map_or("", |place| self.entries[place].value.of(&self.text))
    }

    /// Sets a label. An empty value removes it.
    ///
    /// # Errors
    /// The labels are too long then; this one isn't set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), TooLong> {
        if value.is_empty() {
            self.remove(name);
            return Ok(());
        }
        let is_full = self.entries.len() >= RELABELED_LABELS_MAX;
        let has_room = |text: &str| text.len() + name.len() + value.len() <= LABELS_BYTES_MAX;
        if !has_room(&self.text) {
            self.pack();
        }
        if !has_room(&self.text) {
            return Err(TooLong);
        }
        match self.find(name) {
            Some(place) if self.entries[place].is_added => {
                self.entries[place].value = self.put(value);
            }
            found => {
                if let Some(place) = found {
                    self.entries.remove(place);
                } else if is_full {
                    return Err(TooLong);
                }
                let entry = Entry { name: self.put(name), value: self.put(value), is_added: true };
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Removes a label.
    pub fn remove(&mut self, name: &str) {
        if let Some(place) = self.find(name) {
            self.entries.remove(place);
        }
    }

    /// Keeps labels whose names fit.
    pub fn retain(&mut self, mut fits: impl FnMut(&str) -> bool) {
        let text = &self.text;
        self.entries.retain(|entry| fits(entry.name.of(text)));
    }

    /// How many labels there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and values; by name once [`Labels::sort`] was called.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = self.text.as_str();
        self.entries.iter().map(move |entry| (entry.name.of(text), entry.value.of(text)))
    }

    /// Puts them in the order of their names.
    pub fn sort(&mut self) {
        let Self { text, entries, .. } = self;
        entries.sort_unstable_by(|one, other| one.name.of(text).cmp(other.name.of(text)));
        for entry in entries {
            entry.is_added = false;
        }
        self.is_sorted = true;
    }

    /// Puts what was pushed in order, before the first rule.
    #[inline]
    pub(super) fn begin(&mut self) {
        if !self.is_sorted {
            self.sort();
        }
    }

    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    #[inline]
    fn find(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name.of(&self.text) == name)
    }

    #[inline]
    fn put(&mut self, part: &str) -> Place {
        let start = self.text.len() as u32;
        self.text.push_str(part);
        Place { start, end: self.text.len() as u32 }
    }

    /// Drops texts that no label has any more.
    fn pack(&mut self) {
        let old = std::mem::take(&mut self.text);
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            entry.name = self.put(entry.name.of(&old));
            entry.value = self.put(entry.value.of(&old));
        }
        self.entries = entries;
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(pairs: T) -> Self {
        let mut labels = Self::default();
        for (name, value) in pairs {
            labels.push(name, value);
        }
        labels
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}
