//! What is made once so that each broker starts in less processor time: the JVM's archive of loaded
//! classes, and a formatted folder. A start takes 1.8 s of processor time with them instead of 3.8,
//! and a run of all tests starts a hundred brokers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{BrokerOptions, DATA, Prepared};
use crate::servers::service::{self, Result, Service, io_error};

/// What the archive is made for is named by it: another JVM, other jars make another.
const FOLDER: &str = "kafka-4.1.0-start";
const CLASSES: &str = "classes.jsa";

/// Both, in the cache.
#[derive(Debug, Clone)]
pub(super) struct StartFiles {
    dir: PathBuf,
}

impl StartFiles {
    /// Makes them unless they are there: a broker is formatted, started and stopped, in 10 s.
    pub(super) fn install(jars: &Path, java: &Path) -> Result<Self> {
        let launcher =
            fs::canonicalize(java).map_err(io_error(format!("find {}", java.display())))?;
        let metadata =
            fs::metadata(&launcher).map_err(io_error(format!("read {}", launcher.display())))?;
        let recipe = format!(
            "{}\n{} {}\n{}\n",
            jars.display(),
            launcher.display(),
            metadata.mtime(),
            super::settings::CLUSTER_ID
        );
        let dir = service::install_once(FOLDER, &recipe, |dir| make(dir, jars, java))?;
        Ok(Self { dir })
    }

    /// The JVM's option that loads the classes. A JVM that can't use them goes on without.
    pub(super) fn option(&self) -> Option<String> {
        let classes = self.dir.join(CLASSES);
        classes.is_file().then(|| format!("-XX:SharedArchiveFile={}", classes.display()))
    }

    /// Makes a broker's data folder as the formatting tool does where there are no credentials.
    pub(super) fn format(&self, dir: &Path) -> Result<()> {
        copy_files(&self.dir.join(DATA), &dir.join(DATA))
    }
}

fn make(dir: &Path, jars: &Path, java: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().map_err(io_error("make a temporary folder"))?;
    let options = BrokerOptions { is_brief: true, ..BrokerOptions::default() };
    let prepared = Prepared::build(scratch.path(), &options, jars, java, None)?;
    copy_files(&scratch.path().join(DATA), &dir.join(DATA))?;
    let mut command = prepared.command();
    command.env(
        "JDK_JAVA_OPTIONS",
        format!("-XX:ArchiveClassesAtExit={}", dir.join(CLASSES).display()),
    );
    let mut broker: Service = prepared.spawn(command, Some(scratch.path()))?;
    broker.stop();
    Ok(())
}

/// Copies the files of a folder that has no folders in it.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let failed = |action: &str, path: &Path| io_error(format!("{action} {}", path.display()));
    service::create_dir(to)?;
    for entry in fs::read_dir(from).map_err(failed("list", from))? {
        let entry = entry.map_err(failed("list", from))?;
        let copy = to.join(entry.file_name());
        fs::copy(entry.path(), &copy).map_err(failed("write", &copy))?;
    }
    Ok(())
}
