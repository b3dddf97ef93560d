//! The queue's interface to a disk, and its implementation as a directory of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A directory of numbered files that are only appended to.
///
/// A crash may lose unsynced data, all or part of it, and may undo creations and removals made
/// since the directory was last synced.
pub trait Disk {
    /// Returns the numbers of the files, in any order.
    ///
    /// # Errors
    /// If the directory can't be read.
    fn list_files(&mut self) -> io::Result<Vec<u64>>;

    /// Creates an empty file.
    ///
    /// # Errors
    /// If it exists already, or can't be created.
    fn create_file(&mut self, file: u64) -> io::Result<()>;

    /// Appends bytes. On an error some of them may have been written.
    ///
    /// # Errors
    /// If the disk is full or broken.
    fn append_bytes(&mut self, file: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates a file.
    ///
    /// # Errors
    /// If it can't be truncated.
    fn truncate_file(&mut self, file: u64, length: u64) -> io::Result<()>;

    /// Returns a file's length in bytes.
    ///
    /// # Errors
    /// If the length can't be read.
    fn file_length(&mut self, file: u64) -> io::Result<u64>;

    /// Reads at an offset. May return fewer bytes than `into` holds; returns 0 only at the end.
    ///
    /// # Errors
    /// If the file can't be read.
    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Returns once everything that was appended to the file is safe.
    ///
    /// # Errors
    /// If that isn't certain. Part of it may then never be safe, whatever is tried.
    fn sync_file(&mut self, file: u64) -> io::Result<()>;

    /// Returns once creations and removals of files are safe from a crash.
    ///
    /// # Errors
    /// If that isn't certain.
    fn sync_folder(&mut self) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// If it can't be removed.
    fn remove_file(&mut self, file: u64) -> io::Result<()>;

    /// Retains a file's bytes under another name: it is no longer one of the files.
    ///
    /// # Errors
    /// If it can't be renamed.
    fn set_aside_file(&mut self, file: u64) -> io::Result<()>;

    /// Returns the bytes of all files that were set aside.
    ///
    /// # Errors
    /// If the directory can't be read.
    fn set_aside_bytes(&mut self) -> io::Result<u64>;
}

/// The most files that stay open: the one being read, the one being appended to, and two for the
/// change from one to the next. A file with unsynced bytes is never closed.
const MAX_OPEN_FILES: usize = 4;

/// The suffix of a segment's file name.
const SUFFIX: &str = ".segment";
/// The suffix of a segment that couldn't be read, and was set aside.
const UNREADABLE_SUFFIX: &str = ".unreadable";

/// A directory on a file system, locked for this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    folder: File,
    /// The most recently used file is the last.
    open: Vec<OpenFile>,
    /// Held for the lock only.
    _lock: File,
}

#[derive(Debug)]
struct OpenFile {
    number: u64,
    file: File,
    is_dirty: bool,
}

/// The reason why a directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The directory can't be created or opened.
    #[error("the folder {path} cannot be used: {source}")]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process has locked the directory.
    #[error("the folder {path} is in use by another process: give each process its own folder")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
}

impl Folder {
    /// Opens a directory, creates it if it doesn't exist, and locks it until this value is dropped.
    ///
    /// # Errors
    /// If it can't be used, or another process has locked it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(unusable)?;
        let folder = File::open(path).map_err(unusable)?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join("lock"));
        let lock = lock.map_err(unusable)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FolderError::InUse { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), folder, open: Vec::new(), _lock: lock })
    }

    fn file_path(&self, file: u64) -> PathBuf {
        self.path.join(format!("{file:020}{SUFFIX}"))
    }

    fn open_file(&mut self, number: u64) -> io::Result<&mut OpenFile> {
        let file = match self.open.iter().position(|open| open.number == number) {
            Some(index) => self.open.remove(index),
            None => {
                let file =
                    OpenOptions::new().read(true).append(true).open(self.file_path(number))?;
                OpenFile { number, file, is_dirty: false }
            }
        };
        Ok(self.retain_open(file))
    }

    /// Stores an open file, and closes the least recently used one if too many are open.
    fn retain_open(&mut self, file: OpenFile) -> &mut OpenFile {
        if self.open.len() >= MAX_OPEN_FILES
            && let Some(index) = self.open.iter().position(|open| !open.is_dirty)
        {
            self.open.remove(index);
        }
        let last = self.open.len();
        self.open.push(file);
        &mut self.open[last]
    }
}

impl Disk for Folder {
    fn list_files(&mut self) -> io::Result<Vec<u64>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse::<u64>().ok());
            files.extend(number);
        }
        Ok(files)
    }

    fn create_file(&mut self, file: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let made = options.read(true).append(true).create_new(true).open(self.file_path(file))?;
        self.retain_open(OpenFile { number: file, file: made, is_dirty: false });
        Ok(())
    }

    fn append_bytes(&mut self, file: u64, bytes: &[u8]) -> io::Result<()> {
        let open = self.open_file(file)?;
        open.is_dirty = true;
        open.file.write_all(bytes)
    }

    fn truncate_file(&mut self, file: u64, length: u64) -> io::Result<()> {
        self.open_file(file)?.file.set_len(length)
    }

    fn file_length(&mut self, file: u64) -> io::Result<u64> {
        // By its name, because it may be one that can't be opened.
        Ok(fs::metadata(self.file_path(file))?.len())
    }

    fn read_at(&mut self, file: u64, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.open_file(file)?.file.read_at(into, offset)
    }

    fn sync_file(&mut self, file: u64) -> io::Result<()> {
        let open = self.open_file(file)?;
        // Also after a failure: the system has reported it and won't report it again.
        open.is_dirty = false;
        open.file.sync_data()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn remove_file(&mut self, file: u64) -> io::Result<()> {
        self.open.retain(|open| open.number != file);
        fs::remove_file(self.file_path(file))
    }

    fn set_aside_file(&mut self, file: u64) -> io::Result<()> {
        self.open.retain(|open| open.number != file);
        let new_path = self.path.join(format!("{file:020}{UNREADABLE_SUFFIX}"));
        fs::rename(self.file_path(file), new_path)
    }

    fn set_aside_bytes(&mut self) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.ends_with(UNREADABLE_SUFFIX)) {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes)
    }
}
