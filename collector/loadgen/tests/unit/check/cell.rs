//! Tests of what `check/cell.rs` keeps to itself.

use super::*;
use millrace_schema::{Attributes, TableKind, table};
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
pub(crate) fn encode(cells: &[Cell<'_>], forms: &[Form], out: &mut Vec<u8>) {
    assert_eq!(cells.len(), forms.len());
    for (cell, form) in cells.iter().zip(forms) {
        match (cell, form) {
            (Cell::Number(bits), Form::Fixed { bytes, .. }) => {
                out.extend(&bits.to_le_bytes()[..*bytes]);
            }
            (Cell::Text(text), Form::Text) => put_text(out, text),
            (Cell::Numbers(list), Form::FixedList { bytes, .. }) => {
                put_len(out, list.len());
                list.iter().for_each(|bits| out.extend(&bits.to_le_bytes()[..*bytes]));
            }
            (Cell::Texts(list), Form::TextList) => {
                put_len(out, list.len());
                list.iter().for_each(|text| put_text(out, text));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A row of a form's kind from random bits.
fn row<'a>(forms: &[Form], bits: u64, text: &'a [u8]) -> Vec<Cell<'a>> {
    let number = |bytes: usize, is_signed: bool| match (bytes, is_signed) {
        (1, _) => bits & 0xFF,
        (4, false) => bits & 0xFFFF_FFFF,
        (4, true) => i64::from(bits as i32) as u64,
        _ => bits,
    };
    let cell = |form: &Form| match *form {
        Form::Fixed { bytes, is_signed } => Cell::Number(number(bytes, is_signed)),
        Form::Text => Cell::Text(text),
        Form::FixedList { bytes, is_signed } => Cell::Numbers(vec![number(bytes, is_signed); 2]),
        Form::TextList => Cell::Texts(vec![text; 3]),
    };
    forms.iter().map(cell).collect()
}

proptest! {
    /// Guarantee: rows of every table, cut into pieces anywhere, are read whole, once, in
    /// order, and to the bit.
    #[test]
    fn rows_survive_any_cut(
        kind in 0..TableKind::ALL.len(),
        cut in 1_usize..50,
        values in proptest::collection::vec((any::<u64>(), "[a-z]{0,200}"), 1..6),
    ) {
        let forms = forms(&table(TableKind::ALL[kind], Attributes::Json));
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

    /// Guarantee: no bytes make the reader panic.
    #[test]
    fn any_bytes_are_answered(kind in 0..TableKind::ALL.len(), bytes: Vec<u8>) {
        let forms = forms(&table(TableKind::ALL[kind], Attributes::Map));
        let mut rows = Rows::new(&forms);
        let _ = rows.feed(&bytes, |_| {});
    }
}
