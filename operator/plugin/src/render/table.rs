//! Columns that line up, with colours that take no room.

use super::{Paint, Palette, harmless};

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    paint: Paint,
    right: bool,
}

impl Cell {
    /// A text.
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: harmless(&text.into()), ..Self::default() }
    }

    /// A number, at the right of its column; `-` where it is not known.
    #[must_use]
    pub fn number(text: Option<String>) -> Self {
        Self { right: true, ..Self::of(text.unwrap_or_else(|| "-".to_owned())) }
    }

    /// In a colour.
    #[must_use]
    pub fn painted(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    indent: usize,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty one, indented by so many columns.
    #[must_use]
    pub const fn new(indent: usize) -> Self {
        Self { indent, rows: Vec::new() }
    }

    /// A row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// A row of column names; those of numbers end where these do.
    pub fn head(&mut self, names: &[&str]) {
        let cells = names.iter().map(|name| match name.strip_prefix('>') {
            Some(name) => Cell { right: true, ..Cell::of(name) },
            None => Cell::of(*name),
        });
        self.rows.push(cells.map(|cell| cell.painted(Paint::Dim)).collect());
    }

    pub(super) fn lines(&self, palette: Palette) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| self.line(row, &widths, palette)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], palette: Palette) -> String {
        let mut line = " ".repeat(self.indent);
        for (cell, width) in row.iter().zip(widths) {
            let gap = " ".repeat(width.saturating_sub(cell.text.chars().count()));
            let text = palette.paint(&cell.text, cell.paint);
            match cell.right {
                true => line.push_str(&format!("{gap}{text}")),
                false => line.push_str(&format!("{text}{gap}")),
            }
            line.push_str("  ");
        }
        line.trim_end().to_owned()
    }
}
