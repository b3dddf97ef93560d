//! Renders reports as text: sentences in lines of 100 columns, tables as wide as their content.
//! Pure: the caller decides about colours.

mod convert;
mod explain_defaults;
mod lag;
mod plan;
mod rollout;
mod sizing;
mod status;
mod table;
mod test_run;
mod top;
mod uninstall;

pub use convert::render_conversion;
pub use explain_defaults::render_effective_spec;
pub use lag::render_lag;
pub use millrace_reports::units::{
    format_bytes, format_count, format_duration, format_plural, format_rate,
};
pub use plan::render_plan;
pub use rollout::render_rollouts;
pub use sizing::render_sizing;
pub use status::render_status;
pub use table::{TextCell, TextTable};
pub use test_run::{render_hops, render_tally};
pub use top::render_top;
pub use uninstall::render_uninstall;

/// Columns of a wrapped text.
const COLUMNS: usize = 100;

/// The style of a text on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Unstyled.
    #[default]
    Plain,
    /// For good states.
    Good,
    /// For problems.
    Bad,
    /// For warnings.
    Warn,
    /// For secondary text.
    Dim,
    /// A heading.
    Bold,
}

impl Paint {
    const fn escape_code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warn => "\x1b[33m",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
        }
    }
}

/// Whether the text gets colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// True to write colours.
    pub colours: bool,
}

impl Palette {
    /// No colours.
    pub const PLAIN: Self = Self { colours: false };

    /// Paints a text. Control characters in it are shown, never executed.
    #[must_use]
    pub fn paint(self, text: &str, paint: Paint) -> String {
        let text = sanitize_text(text);
        match (self.colours, paint) {
            (false, _) | (_, Paint::Plain) => text,
            (true, paint) => format!("{}{text}\x1b[0m", paint.escape_code()),
        }
    }
}

/// Returns a text without control characters: a status or a log must not move a terminal's cursor.
#[must_use]
pub fn sanitize_text(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}

/// A page under construction.
#[derive(Debug)]
pub struct TextPage {
    palette: Palette,
    text: String,
}

impl TextPage {
    /// An empty page.
    #[must_use]
    pub const fn new(palette: Palette) -> Self {
        Self { palette, text: String::new() }
    }

    /// Appends a line.
    pub fn push_line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// Appends a heading, with an empty line before it.
    pub fn push_heading(&mut self, text: &str) {
        self.push_line("");
        let text = self.palette.paint(text, Paint::Bold);
        self.push_line(&text);
    }

    /// Appends a table, indented.
    pub fn push_table(&mut self, table: &TextTable) {
        let lines = table.render_lines(self.palette);
        for line in lines {
            self.push_line(&line);
        }
    }

    /// Appends a text of several words, wrapped and indented.
    pub fn push_wrapped(&mut self, first: &str, rest: &str, text: &str, paint: Paint) {
        for line in wrap_text(&sanitize_text(text), first, rest) {
            let line = match (self.palette.colours, paint) {
                (true, paint) if paint != Paint::Plain => {
                    format!("{}{line}\x1b[0m", paint.escape_code())
                }
                _ => line,
            };
            self.push_line(&line);
        }
    }

    /// Returns the palette.
    #[must_use]
    pub const fn palette(&self) -> Palette {
        self.palette
    }

    /// Returns the complete text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Wraps words at `COLUMNS`; a longer word has a separate line.
fn wrap_text(text: &str, first: &str, rest: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let longer = line.chars().count() + 1 + word.chars().count();
        if !empty && longer > COLUMNS {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// Appends the gaps to the end of a page.
pub fn push_gaps(page: &mut TextPage, gaps: &[crate::facts::Gap]) {
    if gaps.is_empty() {
        return;
    }
    page.push_heading("NOT SHOWN");
    for gap in gaps {
        page.push_wrapped("  ", "    ", &format!("{}: {}", gap.what, gap.why), Paint::Warn);
    }
}
