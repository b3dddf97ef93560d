//! The wall clocks of collectors that were started with `millrace-clock` preloaded: how far each is
//! off, and what it says it is.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use jiff::fmt::rfc2822;
use millrace_e2e::collector::{Collector, Launch};
use millrace_e2e::{http, wait};

/// A collector's answers bear the wall time to the second, which its server renews each second.
const TOLD_WITHIN_SECONDS: i64 = 5;
/// How long a step may take to be told.
const TOLD_LIMIT: Duration = Duration::from_secs(30);

/// Where the library is, and the file it reads.
const VARIABLES: [&str; 2] = ["LD_PRELOAD", "MILLRACE_CLOCK"];

/// A collector's wall clock.
#[derive(Debug)]
pub struct Clock {
    path: PathBuf,
    file: File,
    /// The furthest ahead that it has been.
    told_seconds: Cell<i64>,
}

impl Clock {
    /// A clock that is right, for the collector of this name.
    ///
    /// # Errors
    /// When its file can't be written.
    pub fn new(folder: &std::path::Path, name: &str) -> Result<Self> {
        let path = folder.join(format!("{name}.clock"));
        fs::write(&path, 0_i64.to_ne_bytes())?;
        let file = File::options().write(true).open(&path)?;
        Ok(Self { path, file, told_seconds: Cell::new(0) })
    }

    /// The same start of a collector, with this clock.
    ///
    /// # Errors
    /// When the library isn't built.
    pub fn launch(&self, launch: &Launch) -> Result<Launch> {
        let library = std::env::current_exe()?.with_file_name("libmillrace_clock.so");
        if !library.exists() {
            bail!("{} is missing: run `make chaos`", library.display());
        }
        let mut launch = launch.clone();
        for (name, path) in VARIABLES.into_iter().zip([&library, &self.path]) {
            launch.variables.push((name.to_owned(), path.to_string_lossy().into_owned()));
        }
        Ok(launch)
    }

    /// A start with the machine's clock again.
    pub fn forget(launch: &mut Launch) {
        launch.variables.retain(|(name, _)| !VARIABLES.contains(&&**name));
    }

    /// Steps it to be off by `seconds`. If that is further ahead than ever, waits until the
    /// collector says so: hyper keeps the latest date that it told.
    ///
    /// # Errors
    /// When it doesn't say so: the step would be none.
    pub fn set(&self, seconds: i64, collector: &Collector) -> Result<()> {
        self.file.write_all_at(&(seconds * 1_000_000_000).to_ne_bytes(), 0)?;
        if seconds <= self.told_seconds.get() {
            return Ok(());
        }
        self.told_seconds.set(seconds);
        let what = format!("the clock of {} to be {seconds} s off", collector.name());
        wait::until(&what, TOLD_LIMIT, || {
            let answer = http::get(collector.ports.admin, "/readyz")?;
            let date = answer.header("date").context("the answer bears no date")?;
            let told = rfc2822::parse(date)?.timestamp().as_second();
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let off = told - i64::try_from(now)?;
            if (off - seconds).abs() > TOLD_WITHIN_SECONDS {
                bail!("it is {off} s off");
            }
            Ok(())
        })
    }
}
