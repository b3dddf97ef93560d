//! What a server sends: the head of a reply, a multi's results, a watch's notification.

use super::jute::{Malformed, Reader, put_int, put_long};
use super::request::op;

/// The number that notifications have instead of a request's.
pub(crate) const WATCH_XID: i32 = -1;
/// A node's figures: five numbers of 64 bits, six of 32 (two of them before the last 64).
pub(crate) const STAT_BYTES: usize = 68;
/// In a multi that failed: this part would have worked, but another didn't.
const ROLLED_BACK: i32 = -2;

/// What every reply begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) xid: i32,
    pub(crate) error: i32,
}

impl Head {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let xid = reader.int()?;
        reader.long()?; // the transaction's number
        Ok(Self { xid, error: reader.int()? })
    }

    pub(crate) fn put(self, out: &mut Vec<u8>, zxid: i64) {
        put_int(out, self.xid);
        put_long(out, zxid);
        put_int(out, self.error);
    }
}

/// A watch has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification<'a> {
    /// False for a change of the session's state, which names no node.
    pub(crate) is_change: bool,
    pub(crate) path: &'a str,
}

impl<'a> Notification<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let what = reader.int()?;
        reader.int()?; // the session's state
        Ok(Self { is_change: what > 0, path: reader.text()? })
    }
}

/// The first error among a multi's results that isn't another's consequence. The head of the reply
/// says nothing of it.
pub(crate) fn multi_error(reader: &mut Reader<'_>) -> Result<Option<i32>, Malformed> {
    let mut first = None;
    loop {
        let code = reader.int()?;
        let done = reader.flag()?;
        reader.int()?;
        if done {
            return Ok(first);
        }
        match code {
            op::ERROR => {
                let error = reader.int()?;
                if error != 0 && error != ROLLED_BACK {
                    first = first.or(Some(error));
                }
            }
            op::CREATE => drop(reader.buffer()?),
            op::SET_DATA => drop(reader.take(STAT_BYTES)?),
            op::GET_DATA => {
                reader.buffer()?;
                reader.take(STAT_BYTES)?;
            }
            op::GET_CHILDREN => {
                for _ in 0..reader.int()? {
                    reader.buffer()?;
                }
            }
            op::DELETE | op::CHECK => {}
            _ => return Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::jute::put_buffer;
    use super::super::request::put_multi_head;
    use super::*;

    /// Scenario: a multi whose second part failed, so the first is rolled back; one of reads that
    /// worked; one cut short. Guarantee: the second part's error; none; malformed.
    #[test]
    fn a_multi_fails_with_the_part_that_failed() {
        let mut failed = Vec::new();
        for error in [ROLLED_BACK, super::super::NO_NODE, ROLLED_BACK] {
            put_multi_head(&mut failed, op::ERROR, false, error);
            put_int(&mut failed, error);
        }
        put_multi_head(&mut failed, -1, true, -1);
        assert_eq!(multi_error(&mut Reader::new(&failed)), Ok(Some(super::super::NO_NODE)));

        let mut reads = Vec::new();
        put_multi_head(&mut reads, op::GET_DATA, false, 0);
        put_buffer(&mut reads, b"data");
        reads.extend([0; STAT_BYTES]);
        put_multi_head(&mut reads, op::GET_CHILDREN, false, 0);
        put_int(&mut reads, 1);
        put_buffer(&mut reads, b"child");
        put_multi_head(&mut reads, -1, true, -1);
        assert_eq!(multi_error(&mut Reader::new(&reads)), Ok(None));
        assert_eq!(multi_error(&mut Reader::new(&reads[..reads.len() - 1])), Err(Malformed));
    }
}
