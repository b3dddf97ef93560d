//! Reads `RowBinary` rows of any table from a stream that is cut anywhere. Which cells a row has
//! follows from the table's definition. Cells borrow from the buffer; a row that is not whole yet
//! waits for more. Lengths come from a server, so every one is checked.

use std::fmt;

use millrace_schema::{ColumnType, Table};

/// The longest row taken. Ours are below 4 KB; a table may hold rows that someone else wrote under
/// our service name.
const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The stream does not hold rows of the query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not what was asked for: {0}")]
pub struct RowError(&'static str);

/// A stored value, borrowed from the answer. Numbers are their bits, so that equality is exact:
/// unsigned ones widened with zeros, signed ones with their sign, doubles as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Number(u64),
    /// Text, and attributes as JSON.
    Text(&'a [u8]),
    Numbers(Vec<u64>),
    Texts(Vec<&'a [u8]>),
}

impl Cell<'_> {
    pub(crate) fn number(&self) -> Option<u64> {
        if let Self::Number(bits) = self { Some(*bits) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(bits) => write!(f, "{bits:#x}"),
            Self::Text(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
            Self::Numbers(list) => write!(f, "{list:#x?}"),
            Self::Texts(list) => f
                .debug_list()
                .entries(list.iter().map(|text| String::from_utf8_lossy(text)))
                .finish(),
        }
    }
}

/// How a column's value is written in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Fixed { bytes: usize, is_signed: bool },
    Text,
    FixedList { bytes: usize, is_signed: bool },
    TextList,
}

/// The forms of a table's columns, as the query for its rows has them.
pub(crate) fn forms(table: &Table) -> Vec<Form> {
    table.insert_columns().map(|column| form(column.ty)).collect()
}

fn form(ty: ColumnType) -> Form {
    match ty {
        ColumnType::UInt8 | ColumnType::Bool => Form::Fixed { bytes: 1, is_signed: false },
        ColumnType::UInt32 | ColumnType::DateTime => Form::Fixed { bytes: 4, is_signed: false },
        ColumnType::Int32 => Form::Fixed { bytes: 4, is_signed: true },
        ColumnType::UInt64 | ColumnType::Float64 | ColumnType::DateTime64 => {
            Form::Fixed { bytes: 8, is_signed: false }
        }
        ColumnType::String
        | ColumnType::LowCardinalityString
        | ColumnType::Json
        | ColumnType::Map
        | ColumnType::Array(ColumnType::Json | ColumnType::Map) => Form::Text,
        ColumnType::Array(item) => match form(*item) {
            Form::Fixed { bytes, is_signed } => Form::FixedList { bytes, is_signed },
            Form::Text | Form::FixedList { .. } | Form::TextList => Form::TextList,
        },
    }
}

/// Why a value could not be read.
enum Short {
    /// More bytes are needed.
    Needed,
    /// No bytes would help.
    Wrong(&'static str),
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Short::Needed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn len(&mut self) -> Result<usize, Short> {
        let mut value = 0_usize;
        for at in 0..4 {
            let (&byte, rest) = self.0.split_first().ok_or(Short::Needed)?;
            self.0 = rest;
            value |= usize::from(byte & 0x7F) << (7 * at);
            if byte < 0x80 {
                return if value <= ROW_BYTES_MAX {
                    Ok(value)
                } else {
                    Err(Short::Wrong("a value is too long"))
                };
            }
        }
        Err(Short::Wrong("a length is too long"))
    }

    fn text(&mut self) -> Result<&'a [u8], Short> {
        let len = self.len()?;
        self.take(len)
    }

    fn fixed(&mut self, bytes: usize, is_signed: bool) -> Result<u64, Short> {
        let taken = self.take(bytes)?;
        let is_negative = is_signed && taken.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut word = if is_negative { [0xFF; 8] } else { [0; 8] };
        word[..bytes].copy_from_slice(taken);
        Ok(u64::from_le_bytes(word))
    }

    fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Short>,
    ) -> Result<Vec<T>, Short> {
        let len = self.len()?;
        // An item takes at least a byte: a wrong length cannot reserve more than what is there.
        let mut items = Vec::with_capacity(len.min(self.0.len()));
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn cell(&mut self, form: Form) -> Result<Cell<'a>, Short> {
        Ok(match form {
            Form::Fixed { bytes, is_signed } => Cell::Number(self.fixed(bytes, is_signed)?),
            Form::Text => Cell::Text(self.text()?),
            Form::FixedList { bytes, is_signed } => {
                Cell::Numbers(self.list(|reader| reader.fixed(bytes, is_signed))?)
            }
            Form::TextList => Cell::Texts(self.list(Self::text)?),
        })
    }
}

/// Bytes that arrived and are not read yet.
pub(crate) struct Rows<'f> {
    forms: &'f [Form],
    pending: Vec<u8>,
}

impl<'f> Rows<'f> {
    pub(crate) const fn new(forms: &'f [Form]) -> Self {
        Self { forms, pending: Vec::new() }
    }

    /// Takes a piece of the answer and hands over each row that is whole now.
    pub(crate) fn feed(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[Cell<'_>]),
    ) -> Result<(), RowError> {
        self.pending.extend_from_slice(piece);
        let mut used = 0;
        let mut cells = Vec::with_capacity(self.forms.len());
        'rows: while used < self.pending.len() {
            let mut reader = Reader(&self.pending[used..]);
            cells.clear();
            for form in self.forms {
                match reader.cell(*form) {
                    Ok(cell) => cells.push(cell),
                    Err(Short::Needed) if self.pending.len() - used > ROW_BYTES_MAX => {
                        return Err(RowError("a row is too long"));
                    }
                    Err(Short::Needed) => break 'rows,
                    Err(Short::Wrong(what)) => return Err(RowError(what)),
                }
            }
            each(&cells);
            used = self.pending.len() - reader.0.len();
        }
        drop(cells);
        self.pending.drain(..used);
        Ok(())
    }

    /// The end of the answer.
    pub(crate) fn finish(self) -> Result<(), RowError> {
        if self.pending.is_empty() { Ok(()) } else { Err(RowError("it ends within a row")) }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/check/cell.rs"]
pub(crate) mod tests;
