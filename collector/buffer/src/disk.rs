//! The queue's interface to a disk, and the real one: a folder of files.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A folder of numbered files that are appended to.
///
/// What was not synced may be lost by a crash, in whole or in part, and so may be what was made or
/// removed before a folder was synced.
pub trait Disk {
    /// Numbers of the files there are, in any order.
    ///
    /// # Errors
    /// When the folder can't be read.
    fn list(&mut self) -> io::Result<Vec<u64>>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// When it is there already, or can't be made.
    fn create(&mut self, file: u64) -> io::Result<()>;

    /// Appends bytes. On an error some of them may have been written.
    ///
    /// # Errors
    /// When the disk is full or broken.
    fn append(&mut self, file: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file.
    ///
    /// # Errors
    /// When it can't be cut.
    fn truncate(&mut self, file: u64, length: u64) -> io::Result<()>;

    /// Bytes of a file.
    ///
    /// # Errors
    /// When it can't be asked.
    fn length(&mut self, file: u64) -> io::Result<u64>;

    /// Reads at a place. May give fewer bytes than there is room for; none only at the end.
    ///
    /// # Errors
    /// When it can't be read.
    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Returns when all that was appended to the file is safe.
    ///
    /// # Errors
    /// When that isn't known. Some of it may then never be safe, whatever is tried.
    fn sync(&mut self, file: u64) -> io::Result<()>;

    /// Returns when all that was made and removed is so after a crash too.
    ///
    /// # Errors
    /// When that can't be said.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// When it can't be removed.
    fn remove(&mut self, file: u64) -> io::Result<()>;
}

/// How a segment's file name ends.
const SUFFIX: &str = ".segment";

/// A folder on a file system, locked for this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    folder: File,
    files: HashMap<u64, File>,
    /// Held, not read.
    _lock: File,
}

/// A folder that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It can't be made or opened.
    #[error("the folder {path} cannot be used: {source}")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the folder {path} is in use by another process: give each its own")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
}

impl Folder {
    /// Opens a folder, makes it if need be, and locks it until this is dropped.
    ///
    /// # Errors
    /// When it can't be used, or another process has it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(unusable)?;
        let folder = File::open(path).map_err(unusable)?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join("lock"));
        let lock = lock.map_err(unusable)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FolderError::InUse { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), folder, files: HashMap::new(), _lock: lock })
    }

    fn name(&self, file: u64) -> PathBuf {
        self.path.join(format!("{file:020}{SUFFIX}"))
    }

    fn file(&mut self, file: u64) -> io::Result<&File> {
        let name = self.name(file);
        match self.files.entry(file) {
            std::collections::hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let opened = OpenOptions::new().read(true).append(true).open(name)?;
                Ok(entry.insert(opened))
            }
        }
    }
}

impl Disk for Folder {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse::<u64>().ok());
            files.extend(number);
        }
        Ok(files)
    }

    fn create(&mut self, file: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let made = options.read(true).append(true).create_new(true).open(self.name(file))?;
        self.files.insert(file, made);
        Ok(())
    }

    fn append(&mut self, file: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file(file)?;
        file.write_all(bytes)
    }

    fn truncate(&mut self, file: u64, length: u64) -> io::Result<()> {
        self.file(file)?.set_len(length)
    }

    fn length(&mut self, file: u64) -> io::Result<u64> {
        Ok(self.file(file)?.metadata()?.len())
    }

    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file(file)?.read_at(into, offset)
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        self.file(file)?.sync_data()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn remove(&mut self, file: u64) -> io::Result<()> {
        self.files.remove(&file);
        fs::remove_file(self.name(file))
    }
}
