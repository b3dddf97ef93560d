//! Errors of one statement, with their position in it.

/// What is wrong with a statement, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatementError {
    /// The position in bytes.
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) nearest: Option<String>,
    pub(crate) supported: Vec<String>,
}

impl StatementError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), nearest: None, supported: Vec::new() }
    }

    /// Returns the error of an unknown name, with the supported names.
    pub(crate) fn unknown<'n>(
        at: usize,
        message: impl Into<String>,
        name: &str,
        supported: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        let supported: Vec<String> = supported.into_iter().map(str::to_owned).collect();
        let nearest = nearest(name, &supported);
        Self { at, message: message.into(), nearest, supported }
    }

    /// Returns the line and column of the position, in characters from 1.
    pub(crate) fn line_and_column(&self, statement: &str) -> (usize, usize) {
        let before = statement.get(..self.at).unwrap_or(statement);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Returns the name that is nearest to `name`, if it is near enough to be what was meant.
fn nearest(name: &str, names: &[String]) -> Option<String> {
    let lower = name.to_lowercase();
    names
        .iter()
        .map(|candidate| (edits(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, candidate)| *edits <= 1 + candidate.len() / 4)
        .map(|(_, candidate)| candidate.clone())
}

/// Returns the number of inserted, deleted and replaced bytes between two names (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to = to.as_bytes();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, byte) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(byte != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
