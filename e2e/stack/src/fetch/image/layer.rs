//! A tar in memory whose bytes depend on its content alone.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};

use crate::error::Result;
use crate::service::io_error;

/// Files and folders by absolute path; folders above a file are added by themselves.
#[derive(Debug, Default)]
pub struct Layer {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
}

impl Layer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder.
    pub fn folder(&mut self, path: &str, mode: u32) {
        self.parents(path);
        self.entries.insert(format!("{}/", relative(path)), Entry::Folder { mode });
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.parents(path);
        self.entries.insert(relative(path).to_owned(), Entry::File { mode, bytes: bytes.to_vec() });
    }

    fn parents(&mut self, path: &str) {
        let path = relative(path);
        for (position, _) in path.match_indices('/') {
            let parent = format!("{}/", &path[..position]);
            self.entries.entry(parent).or_insert(Entry::Folder { mode: 0o755 });
        }
    }

    /// The bytes of the tar.
    ///
    /// # Errors
    /// When a path is too long for a tar.
    pub fn finish(self) -> Result<Vec<u8>> {
        let writing = |path: &str| io_error(format!("add {path} to an archive"));
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            // A fresh header has zero times, and root as its owner.
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            let (kind, mode, bytes) = match entry {
                Entry::Folder { mode } => (tar::EntryType::Directory, *mode, &[][..]),
                Entry::File { mode, bytes } => (tar::EntryType::Regular, *mode, bytes.as_slice()),
            };
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, path, bytes).map_err(writing(path))?;
        }
        Ok(tar.into_inner().map_err(writing("its end"))?)
    }
}

/// Compressed, with no time and no name in it: the same bytes give the same bytes.
///
/// # Errors
/// None but those of memory.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let compress = encoder.write_all(bytes).and_then(|()| encoder.finish());
    Ok(compress.map_err(io_error("compress a layer"))?)
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/').trim_end_matches('/')
}
