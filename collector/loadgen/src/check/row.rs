//! Reads `RowBinary` rows of the span query from a stream that is cut anywhere. Rows borrow from
//! the buffer; a row that is not whole yet waits for more. Lengths come from a server, so every one
//! is checked.

/// The longest row taken. Ours are below 2 KB; a table may hold rows that someone else wrote under
/// our service name.
const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The stream does not hold rows of the query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not what was asked for: {0}")]
pub struct RowError(&'static str);

/// One stored span, as text and numbers. Borrowed from the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) timestamp_nanos: i64,
    pub(crate) trace_id: &'a [u8],
    pub(crate) span_id: &'a [u8],
    pub(crate) parent_id: &'a [u8],
    pub(crate) trace_state: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) kind: &'a [u8],
    pub(crate) service_name: &'a [u8],
    pub(crate) resource_attributes: &'a [u8],
    pub(crate) scope_name: &'a [u8],
    pub(crate) scope_version: &'a [u8],
    pub(crate) attributes: &'a [u8],
    pub(crate) duration_nanos: u64,
    pub(crate) status_code: &'a [u8],
    pub(crate) status_message: &'a [u8],
    pub(crate) event_nanos: Vec<i64>,
    pub(crate) event_names: Vec<&'a [u8]>,
    pub(crate) event_attributes: &'a [u8],
    pub(crate) link_trace_ids: Vec<&'a [u8]>,
    pub(crate) link_span_ids: Vec<&'a [u8]>,
    pub(crate) link_trace_states: Vec<&'a [u8]>,
    pub(crate) link_attributes: &'a [u8],
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

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Short::Needed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn len(&mut self) -> Result<usize, Short> {
        let mut value = 0_usize;
        for at in 0..4 {
            let [byte] = self.fixed::<1>()?;
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

    fn i64(&mut self) -> Result<i64, Short> {
        self.fixed().map(i64::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Short> {
        self.fixed().map(u64::from_le_bytes)
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, Short>) -> Result<Vec<T>, Short> {
        let len = self.len()?;
        // An item takes at least a byte: a wrong length cannot reserve more than what is there.
        let mut items = Vec::with_capacity(len.min(self.0.len()));
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// The fields in the order of the query.
    fn row(&mut self) -> Result<Row<'a>, Short> {
        Ok(Row {
            timestamp_nanos: self.i64()?,
            trace_id: self.text()?,
            span_id: self.text()?,
            parent_id: self.text()?,
            trace_state: self.text()?,
            name: self.text()?,
            kind: self.text()?,
            service_name: self.text()?,
            resource_attributes: self.text()?,
            scope_name: self.text()?,
            scope_version: self.text()?,
            attributes: self.text()?,
            duration_nanos: self.u64()?,
            status_code: self.text()?,
            status_message: self.text()?,
            event_nanos: self.list(Self::i64)?,
            event_names: self.list(Self::text)?,
            event_attributes: self.text()?,
            link_trace_ids: self.list(Self::text)?,
            link_span_ids: self.list(Self::text)?,
            link_trace_states: self.list(Self::text)?,
            link_attributes: self.text()?,
        })
    }
}

/// Bytes that arrived and are not read yet.
#[derive(Default)]
pub(crate) struct Rows {
    pending: Vec<u8>,
}

impl Rows {
    /// Takes a piece of the answer and hands over each row that is whole now.
    pub(crate) fn feed(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&Row<'_>),
    ) -> Result<(), RowError> {
        self.pending.extend_from_slice(piece);
        let mut used = 0;
        loop {
            let mut reader = Reader(&self.pending[used..]);
            if reader.0.is_empty() {
                break;
            }
            match reader.row() {
                Ok(row) => each(&row),
                Err(Short::Needed) if self.pending.len() - used > ROW_BYTES_MAX => {
                    return Err(RowError("a row is too long"));
                }
                Err(Short::Needed) => break,
                Err(Short::Wrong(what)) => return Err(RowError(what)),
            }
            used = self.pending.len() - reader.0.len();
        }
        self.pending.drain(..used);
        Ok(())
    }

    /// The end of the answer.
    pub(crate) fn finish(self) -> Result<(), RowError> {
        if self.pending.is_empty() { Ok(()) } else { Err(RowError("it ends within a row")) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
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

    fn put_texts(out: &mut Vec<u8>, texts: &[&[u8]]) {
        put_len(out, texts.len());
        for text in texts {
            put_text(out, text);
        }
    }

    /// Writes a row as the server would.
    pub(crate) fn encode(row: &Row<'_>, out: &mut Vec<u8>) {
        out.extend(row.timestamp_nanos.to_le_bytes());
        for text in [
            row.trace_id,
            row.span_id,
            row.parent_id,
            row.trace_state,
            row.name,
            row.kind,
            row.service_name,
            row.resource_attributes,
            row.scope_name,
            row.scope_version,
            row.attributes,
        ] {
            put_text(out, text);
        }
        out.extend(row.duration_nanos.to_le_bytes());
        put_text(out, row.status_code);
        put_text(out, row.status_message);
        put_len(out, row.event_nanos.len());
        for nanos in &row.event_nanos {
            out.extend(nanos.to_le_bytes());
        }
        put_texts(out, &row.event_names);
        put_text(out, row.event_attributes);
        put_texts(out, &row.link_trace_ids);
        put_texts(out, &row.link_span_ids);
        put_texts(out, &row.link_trace_states);
        put_text(out, row.link_attributes);
    }

    proptest! {
        /// Guarantee: rows cut into pieces anywhere are read whole, once, in order.
        #[test]
        fn rows_survive_any_cut(cut in 1_usize..50, names in proptest::collection::vec("[a-z]{0,200}", 1..10)) {
            let mut bytes = Vec::new();
            for name in &names {
                let row = Row {
                    name: name.as_bytes(),
                    event_nanos: vec![1, 2],
                    event_names: vec![b"a", name.as_bytes()],
                    ..Row::default()
                };
                encode(&row, &mut bytes);
            }
            let (mut rows, mut read) = (Rows::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                rows.feed(piece, |row| read.push(row.name.to_vec())).unwrap();
            }
            prop_assert_eq!(rows.finish(), Ok(()));
            let names: Vec<_> = names.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(read, names);
        }

        /// Guarantee: no bytes make the reader panic.
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let mut rows = Rows::default();
            let _ = rows.feed(&bytes, |_| {});
        }
    }
}
