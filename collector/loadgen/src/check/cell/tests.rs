//! Tests of private items of `check/cell.rs`.

use super::*;
use millrace_schema::{AttributeStorage, TableKind, build_table};
use proptest::prelude::*;

fn put_len(out: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_len(out, text.len());
    out.extend_from_slice(text);
}

/// Writes a row as the server would.
pub(crate) fn encode(cells: &[StoredCell<'_>], forms: &[CellForm], out: &mut Vec<u8>) {
    assert_eq!(cells.len(), forms.len());
    for (cell, form) in cells.iter().zip(forms) {
        match (cell, form) {
            (StoredCell::Number(bits), CellForm::Fixed { bytes, .. }) => {
                out.extend(&bits.to_le_bytes()[..*bytes]);
            }
            (StoredCell::Text(text), CellForm::Text) => put_text(out, text),
            (StoredCell::Numbers(list), CellForm::FixedList { bytes, .. }) => {
                put_len(out, list.len());
                list.iter().for_each(|bits| out.extend(&bits.to_le_bytes()[..*bytes]));
            }
            (StoredCell::Texts(list), CellForm::TextList) => {
                put_len(out, list.len());
                list.iter().for_each(|text| put_text(out, text));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Creates a row of these forms from random bits.
fn row<'a>(forms: &[CellForm], bits: u64, text: &'a [u8]) -> Vec<StoredCell<'a>> {
    let number = |bytes: usize, is_signed: bool| match (bytes, is_signed) {
        (1, _) => bits & 0xFF,
        (4, false) => bits & 0xFFFF_FFFF,
        (4, true) => i64::from(bits as i32) as u64,
        _ => bits,
    };
    let cell = |form: &CellForm| match *form {
        CellForm::Fixed { bytes, is_signed } => StoredCell::Number(number(bytes, is_signed)),
        CellForm::Text => StoredCell::Text(text),
        CellForm::FixedList { bytes, is_signed } => {
            StoredCell::Numbers(vec![number(bytes, is_signed); 2])
        }
        CellForm::TextList => StoredCell::Texts(vec![text; 3]),
    };
    forms.iter().map(cell).collect()
}

proptest! {
    /// Guarantee: rows of every table, cut into pieces anywhere, are read completely, once, in
    /// order, and to the bit.
    #[test]
    fn rows_survive_any_cut(
        kind in 0..TableKind::ALL.len(),
        cut in 1_usize..50,
        values in proptest::collection::vec((any::<u64>(), "[a-z]{0,200}"), 1..6),
    ) {
        let forms = column_forms(&build_table(TableKind::ALL[kind], AttributeStorage::Json));
        let rows: Vec<_> =
            values.iter().map(|(bits, text)| row(&forms, *bits, text.as_bytes())).collect();
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| encode(row, &forms, &mut bytes));
        let (mut reader, mut read) = (Rows::new(&forms), 0);
        for piece in bytes.chunks(cut) {
            reader.feed(piece, |cells| {
                assert_eq!(cells, rows[read]);
                read += 1;
            }).unwrap();
        }
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(read, rows.len());
    }

    /// Guarantee: the reader panics at no input.
    #[test]
    fn any_bytes_are_answered(kind in 0..TableKind::ALL.len(), bytes: Vec<u8>) {
        let forms = column_forms(&build_table(TableKind::ALL[kind], AttributeStorage::Map));
        let mut rows = Rows::new(&forms);
        let _ = rows.feed(&bytes, |_| {});
    }
}
