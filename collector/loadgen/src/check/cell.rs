//! Reads `RowBinary` rows of any table from a stream that is cut anywhere. The table's definition
//! determines the cells of a row. Cells borrow from the buffer; an incomplete row waits for more
//! bytes. Lengths come from a server, so every one is checked.

use std::fmt;

use millrace_schema::{ColumnType, Table};

/// Maximum row accepted. Ours are below 4 KB; a table may hold rows that someone else wrote under
/// our service name.
const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The stream does not hold rows of the query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected answer: {0}")]
pub struct RowError(&'static str);

/// A stored value, borrowed from the answer. Numbers are their bits, so that equality is exact:
/// unsigned ones zero-extended, signed ones sign-extended, doubles unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredCell<'a> {
    Number(u64),
    /// Text, and attributes as JSON.
    Text(&'a [u8]),
    Numbers(Vec<u64>),
    Texts(Vec<&'a [u8]>),
}

impl StoredCell<'_> {
    pub(crate) fn as_number(&self) -> Option<u64> {
        if let Self::Number(bits) = self { Some(*bits) } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl fmt::Display for StoredCell<'_> {
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

/// The encoding of a column's value in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellForm {
    Fixed { bytes: usize, is_signed: bool },
    Text,
    FixedList { bytes: usize, is_signed: bool },
    TextList,
}

/// Returns the forms of a table's columns, as the query for its rows selects them.
pub(crate) fn column_forms(table: &Table) -> Vec<CellForm> {
    table.insert_columns().map(|column| form_of_type(column.ty)).collect()
}

fn form_of_type(ty: ColumnType) -> CellForm {
    match ty {
        ColumnType::UInt8 | ColumnType::Bool => CellForm::Fixed { bytes: 1, is_signed: false },
        ColumnType::UInt32 | ColumnType::DateTime => CellForm::Fixed { bytes: 4, is_signed: false },
        ColumnType::Int32 => CellForm::Fixed { bytes: 4, is_signed: true },
        ColumnType::UInt64 | ColumnType::Float64 | ColumnType::DateTime64 => {
            CellForm::Fixed { bytes: 8, is_signed: false }
        }
        ColumnType::String
        | ColumnType::LowCardinalityString
        | ColumnType::Json
        | ColumnType::Map
        | ColumnType::DictionaryMap
        | ColumnType::Array(ColumnType::Json | ColumnType::Map) => CellForm::Text,
        ColumnType::Array(item) => match form_of_type(*item) {
            CellForm::Fixed { bytes, is_signed } => CellForm::FixedList { bytes, is_signed },
            CellForm::Text | CellForm::FixedList { .. } | CellForm::TextList => CellForm::TextList,
        },
    }
}

/// Why a value could not be read.
enum Short {
    /// More bytes are needed.
    Needed,
    /// More bytes would not help.
    Wrong(&'static str),
}

struct CellReader<'a>(&'a [u8]);

impl<'a> CellReader<'a> {
    fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Short::Needed)?;
        self.0 = rest;
        Ok(head)
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

    fn read_text(&mut self) -> Result<&'a [u8], Short> {
        let len = self.len()?;
        self.take_bytes(len)
    }

    fn read_fixed(&mut self, bytes: usize, is_signed: bool) -> Result<u64, Short> {
        let head = self.take_bytes(bytes)?;
        let is_negative = is_signed && head.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut word = if is_negative { [0xFF; 8] } else { [0; 8] };
        word[..bytes].copy_from_slice(head);
        Ok(u64::from_le_bytes(word))
    }

    fn read_list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Short>,
    ) -> Result<Vec<T>, Short> {
        let len = self.len()?;
        // An item has at least one byte, so an invalid length can't reserve more than the received
        // bytes.
        let mut items = Vec::with_capacity(len.min(self.0.len()));
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn read_cell(&mut self, form: CellForm) -> Result<StoredCell<'a>, Short> {
        Ok(match form {
            CellForm::Fixed { bytes, is_signed } => {
                StoredCell::Number(self.read_fixed(bytes, is_signed)?)
            }
            CellForm::Text => StoredCell::Text(self.read_text()?),
            CellForm::FixedList { bytes, is_signed } => {
                StoredCell::Numbers(self.read_list(|reader| reader.read_fixed(bytes, is_signed))?)
            }
            CellForm::TextList => StoredCell::Texts(self.read_list(Self::read_text)?),
        })
    }
}

/// Bytes that arrived and are not read yet.
pub(crate) struct Rows<'f> {
    forms: &'f [CellForm],
    pending: Vec<u8>,
}

impl<'f> Rows<'f> {
    pub(crate) const fn new(forms: &'f [CellForm]) -> Self {
        Self { forms, pending: Vec::new() }
    }

    /// Adds a part of the answer and passes on each complete row.
    pub(crate) fn feed(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[StoredCell<'_>]),
    ) -> Result<(), RowError> {
        self.pending.extend_from_slice(piece);
        let mut used = 0;
        let mut cells = Vec::with_capacity(self.forms.len());
        'rows: while used < self.pending.len() {
            let mut reader = CellReader(&self.pending[used..]);
            cells.clear();
            for form in self.forms {
                match reader.read_cell(*form) {
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

    /// Ends the answer.
    pub(crate) fn finish(self) -> Result<(), RowError> {
        if self.pending.is_empty() { Ok(()) } else { Err(RowError("it ends within a row")) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
