//! Reports as text: sentences in lines of 100 columns, tables as wide as what they hold. Pure:
//! colours are asked for by whoever prints.

mod convert;
mod lag;
mod plan;
mod rollout;
mod sizing;
mod status;
mod table;
mod test_run;
mod top;
mod uninstall;

pub use convert::conversion;
pub use lag::lag;
pub use millrace_reports::units::{ago, bytes, count, rate};
pub use plan::plan;
pub use rollout::rollouts;
pub use sizing::sizing;
pub use status::status;
pub use table::{Cell, Table};
pub use test_run::{hops, tally};
pub use top::top;
pub use uninstall::uninstall;

/// Columns of a wrapped text.
const COLUMNS: usize = 100;

/// How a text looks on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Well.
    Good,
    /// Wrong.
    Bad,
    /// Worth a look.
    Warn,
    /// Beside the point.
    Dim,
    /// A heading.
    Bold,
}

impl Paint {
    const fn code(self) -> &'static str {
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

/// Whether colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// On.
    pub colours: bool,
}

impl Palette {
    /// No colours.
    pub const PLAIN: Self = Self { colours: false };

    /// A text in its colour. Control characters of what was read are shown, never obeyed.
    #[must_use]
    pub fn paint(self, text: &str, paint: Paint) -> String {
        let text = harmless(text);
        match (self.colours, paint) {
            (false, _) | (_, Paint::Plain) => text,
            (true, paint) => format!("{}{text}\x1b[0m", paint.code()),
        }
    }
}

/// A text without control characters: a status or a log must not move a terminal's cursor.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}

/// A page that grows line by line.
#[derive(Debug)]
pub struct Page {
    palette: Palette,
    text: String,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub const fn new(palette: Palette) -> Self {
        Self { palette, text: String::new() }
    }

    /// A line.
    pub fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// A heading, with an empty line before it.
    pub fn heading(&mut self, text: &str) {
        self.line("");
        let text = self.palette.paint(text, Paint::Bold);
        self.line(&text);
    }

    /// A table, indented.
    pub fn table(&mut self, table: &Table) {
        let lines = table.lines(self.palette);
        for line in lines {
            self.line(&line);
        }
    }

    /// A text of several words, wrapped and indented.
    pub fn wrapped(&mut self, first: &str, rest: &str, text: &str, paint: Paint) {
        for line in wrap(&harmless(text), first, rest) {
            let line = match (self.palette.colours, paint) {
                (true, paint) if paint != Paint::Plain => {
                    format!("{}{line}\x1b[0m", paint.code())
                }
                _ => line,
            };
            self.line(&line);
        }
    }

    /// The palette.
    #[must_use]
    pub const fn palette(&self) -> Palette {
        self.palette
    }

    /// The whole text.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

/// Words in lines of `COLUMNS`; a longer word has a line of its own.
fn wrap(text: &str, first: &str, rest: &str) -> Vec<String> {
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

/// What could not be read, at the end of a page.
pub fn gaps(page: &mut Page, gaps: &[crate::facts::Gap]) {
    if gaps.is_empty() {
        return;
    }
    page.heading("NOT SHOWN");
    for gap in gaps {
        page.wrapped("  ", "    ", &format!("{}: {}", gap.what, gap.why), Paint::Warn);
    }
}
