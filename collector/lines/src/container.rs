//! The format of containerd and CRI-O; and a container's line in general: a part of a stream.

use crate::text::without_cr;
use crate::time;

/// Where a line comes from. Each stream has records of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout = 0,
    Stderr = 1,
    /// A plain file, or a container's line without the format.
    Unknown = 2,
}

/// How many there are.
pub(crate) const STREAMS: usize = 3;

impl Stream {
    /// All of them, in order.
    pub(crate) const ALL: [Self; STREAMS] = [Self::Stdout, Self::Stderr, Self::Unknown];

    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"stdout" => Some(Self::Stdout),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// A line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) stream: Stream,
    /// Nanoseconds since 1970; 0 if unknown.
    pub(crate) time_unix_nano: u64,
    pub(crate) text: &'a [u8],
    /// Whether the line ends here.
    pub(crate) is_last: bool,
    /// Whether its rest was skipped.
    pub(crate) is_cut: bool,
}

/// Reads `TIME STREAM TAGS TEXT`. None if the line has another form.
#[inline]
pub(crate) fn cri(line: &[u8]) -> Option<Part<'_>> {
    let (time_unix_nano, rest) = time::parse(line)?;
    let rest = rest.strip_prefix(b" ")?;
    let (name, rest) = rest.split_first_chunk::<6>()?;
    let stream = Stream::named(name)?;
    let (tags, text) = match rest {
        // Nearly all.
        [b' ', tag, b' ', text @ ..] => (std::slice::from_ref(tag), text),
        [b' ', rest @ ..] => match rest.iter().position(|byte| *byte == b' ') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &[][..]),
        },
        _ => return None,
    };
    // Further tags may follow a colon.
    let is_last = match tags {
        [b'F'] | [b'F', b':', ..] => true,
        [b'P'] | [b'P', b':', ..] => false,
        _ => return None,
    };
    let text = if is_last { without_cr(text) } else { text };
    Some(Part { stream, time_unix_nano, text, is_last, is_cut: false })
}
