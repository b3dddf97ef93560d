//! Aligned columns, with colours that have no width.

use super::{Paint, Palette, sanitize_text};

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct TextCell {
    text: String,
    paint: Paint,
    right: bool,
}

impl TextCell {
    /// Creates a cell with a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: sanitize_text(&text.into()), ..Self::default() }
    }

    /// Creates a right-aligned cell with a number; `-` if it is unknown.
    #[must_use]
    pub fn number(text: Option<String>) -> Self {
        Self { right: true, ..Self::text(text.unwrap_or_else(|| "-".to_owned())) }
    }

    /// Sets the colour.
    #[must_use]
    pub fn with_paint(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }
}

impl From<&str> for TextCell {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    indent: usize,
    rows: Vec<Vec<TextCell>>,
}

impl TextTable {
    /// Creates an empty table, indented by `indent` columns.
    #[must_use]
    pub const fn new(indent: usize) -> Self {
        Self { indent, rows: Vec::new() }
    }

    /// Appends a row.
    pub fn push_row(&mut self, cells: Vec<TextCell>) {
        self.rows.push(cells);
    }

    /// Appends a row of column names; those of numbers are right-aligned.
    pub fn push_head(&mut self, names: &[&str]) {
        let cells = names.iter().map(|name| match name.strip_prefix('>') {
            Some(name) => TextCell { right: true, ..TextCell::text(name) },
            None => TextCell::text(*name),
        });
        self.rows.push(cells.map(|cell| cell.with_paint(Paint::Dim)).collect());
    }

    pub(super) fn render_lines(&self, palette: Palette) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| self.render_line(row, &widths, palette)).collect()
    }

    fn render_line(&self, row: &[TextCell], widths: &[usize], palette: Palette) -> String {
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
