//! Reads a file of the user's, or standard input.
//!
//! Limits: 3 MiB, the maximum that the API server accepts.

pub(super) mod convert;
pub(super) mod explain_defaults;
pub(super) mod plan;
pub(super) mod rules;

use std::io::Read;

use crate::error::Error;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 3 << 20;

/// Returns its text; `-` is standard input.
pub(super) fn read_input(path: &str) -> Result<String, Error> {
    let failed = |cause: String| Error::File { path: path.to_owned(), cause };
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_string(&mut text),
        path => {
            let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
            file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
        }
    };
    let bytes = read.map_err(|error| failed(error.to_string()))?;
    match bytes as u64 > FILE_BYTES_MAX {
        true => Err(failed(format!("it is longer than {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}
