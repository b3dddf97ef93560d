//! Jute, the encoding of ZooKeeper's messages: big-endian numbers, and texts, buffers and lists
//! with a length before them. It allocates nothing but what the caller's buffer grows by.

/// A message ends too early, or a length in it is negative or a text no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's message is malformed")]
pub(crate) struct Malformed;

pub(crate) fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_flag(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// A text is encoded like a buffer. Nothing here comes near 2 GiB: paths and data are bounded by
/// the workload's checks.
pub(crate) fn put_buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(bytes);
}

/// Reads one message from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*head))
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(i64::from_be_bytes(*head))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.take(1)? != [0])
    }

    /// A length of -1 is Java's null, which is taken for empty.
    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        match self.int()? {
            -1 => Ok(&[]),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.buffer()?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: any fields, written and read; then the same message cut anywhere.
        /// Guarantee: they come back the same; a cut message is an error, never a panic.
        #[test]
        fn what_is_written_is_read_again(a: i32, b: i64, c: bool, d: Vec<u8>, e: String, cut: usize) {
            let mut out = Vec::new();
            put_int(&mut out, a);
            put_long(&mut out, b);
            put_flag(&mut out, c);
            put_buffer(&mut out, &d);
            put_buffer(&mut out, e.as_bytes());
            let read = |bytes: &[u8]| -> Result<_, Malformed> {
                let mut reader = Reader::new(bytes);
                let fields = (reader.int()?, reader.long()?, reader.flag()?,
                    reader.buffer()?.to_vec(), reader.text()?.to_owned());
                Ok((fields, reader.0.is_empty()))
            };
            prop_assert_eq!(read(&out), Ok(((a, b, c, d, e), true)));
            prop_assert_eq!(read(&out[..cut % out.len()]), Err(Malformed));
        }
    }
}
