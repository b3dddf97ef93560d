//! Parses the format of containerd and CRI-O, and defines a part of a container's line.

pub(crate) mod docker;
pub(crate) mod json_text;
pub(crate) mod time;

use crate::text::without_cr;

/// The stream of a line. Each stream has separate records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout = 0,
    Stderr = 1,
    /// A plain file, or a container's line without the format.
    Unknown = 2,
}

pub(crate) const STREAMS: usize = 3;

impl OutputStream {
    /// All streams, in order.
    pub(crate) const ALL: [Self; STREAMS] = [Self::Stdout, Self::Stderr, Self::Unknown];

    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"stdout" => Some(Self::Stdout),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// A line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePart<'a> {
    pub(crate) stream: OutputStream,
    /// Nanoseconds since 1970; 0 if unknown.
    pub(crate) time_unix_nano: u64,
    pub(crate) text: &'a [u8],
    /// Whether the line ends here.
    pub(crate) is_last: bool,
    /// Whether the remainder of the line was skipped.
    pub(crate) is_cut: bool,
}

/// Parses `TIME STREAM TAGS TEXT`. None if the line has another form.
#[inline]
pub(crate) fn parse_cri(line: &[u8]) -> Option<LinePart<'_>> {
    let (time_unix_nano, rest) = time::parse_rfc3339(line)?;
    let rest = rest.strip_prefix(b" ")?;
    let (name, rest) = rest.split_first_chunk::<6>()?;
    let stream = OutputStream::from_name(name)?;
    let (tags, text) = match rest {
        // Nearly all lines have one tag of one byte.
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
    Some(LinePart { stream, time_unix_nano, text, is_last, is_cut: false })
}
