//! The section of log files.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::logs::log_records::{Multiline, Parse, RECORD_BYTES, StartAt};
use crate::values::units::ByteSize;

section! {
    /// Log files of the host or of a volume: lines of text.
    pub struct FilesReceiver {
        /// Files to read, as glob patterns: `*` and `?` within a name, `**` for any directories.
        /// Required: at least one.
        pub include: Vec<String> = Vec::new(),
        /// Files of `include` that are not read, as glob patterns.
        pub exclude: Vec<String> = Vec::new(),
        /// Where to start reading a file without a stored position.
        pub start_at: StartAt = StartAt::End,
        /// Text encoding of the files.
        pub encoding: Encoding = Encoding::Utf8,
        /// Rule that joins lines into one record; each line is a record when absent.
        pub multiline: Option<Multiline> = None,
        /// How fields are parsed from a record's text.
        pub parse: Parse = Parse::default(),
        /// Longest record; the remainder is cut, marked and counted.
        pub max_line_bytes: ByteSize = ByteSize::kib(256),
    }
}

/// Text encoding of a file. A byte order mark decides the byte order of UTF-16.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8.
    #[serde(rename = "UTF-8")]
    Utf8,
    /// UTF-16, little-endian.
    #[serde(rename = "UTF-16LE")]
    Utf16Le,
    /// UTF-16, big-endian.
    #[serde(rename = "UTF-16BE")]
    Utf16Be,
    /// ISO 8859-1.
    #[serde(rename = "ISO-8859-1")]
    Latin1,
}

impl Checker<'_> {
    pub(crate) fn check_files(&mut self, field: &str, files: &FilesReceiver) {
        let FilesReceiver {
            include,
            exclude,
            start_at: _,
            encoding: _,
            multiline,
            parse,
            max_line_bytes,
        } = files;
        self.check_parse(&format!("{field}.parse"), parse);
        if include.is_empty() {
            let example = "no file is configured: set at least one pattern, as in [/var/log/*.log]";
            self.add_problem(&format!("{field}.include"), example);
        }
        for (name, patterns) in [("include", include), ("exclude", exclude)] {
            for (index, pattern) in patterns.iter().enumerate() {
                self.check_absolute(&format!("{field}.{name}[{index}]"), Path::new(pattern));
            }
        }
        self.check_range(&format!("{field}.maxLineBytes"), *max_line_bytes, RECORD_BYTES);
        self.check_multiline(&format!("{field}.multiline"), multiline.as_ref());
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::{Encoding, FilesReceiver};
    use crate::document::round_trip::size;
    use crate::logs::log_records::arbitrary::{multiline, parse, start_at};
    use proptest::option;
    use proptest::prelude::Strategy;

    pub(crate) fn files() -> impl Strategy<Value = FilesReceiver> {
        let patterns = || proptest::collection::vec("[ -~]{0,20}", 0..3);
        let encodings = [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be, Encoding::Latin1];
        let begin = (start_at(), proptest::sample::select(encodings.to_vec()));
        (patterns(), patterns(), begin, option::of(multiline()), parse(), size()).prop_map(
            |(include, exclude, (start_at, encoding), multiline, parse, max_line_bytes)| {
                FilesReceiver {
                    include,
                    exclude,
                    start_at,
                    encoding,
                    multiline,
                    parse,
                    max_line_bytes,
                }
            },
        )
    }
}
