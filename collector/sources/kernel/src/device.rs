//! Opens the device of the kernel's log, and identifies the boot that the log belongs to.
//!
//! It opens the device read-only, and explains refusals.

use std::fmt::{self, Debug, Formatter};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::StartError;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The device's numbers, the same on every Linux.
const KMSG: (u32, u32) = (1, 11);

const FORBIDDEN: &str = "; the container's device cgroup forbids the device regardless of mounts \
                         and capabilities, or kernel.dmesg_restrict is 1 and CAP_SYSLOG is \
                         missing: run the container privileged, as the operator does with \
                         receivers.kernel; outside of containers, run as root";
const MISSING: &str = "; mount the node's /dev/kmsg at this path (hostPath, type CharDevice)";
const UNREADABLE: &str =
    "; its mode, SELinux or AppArmor forbids it: run as root, and allow the profile to read it";

type OpenFn = dyn Fn() -> io::Result<OwnedFd> + Send + Sync;

/// A kernel's log.
pub struct Log {
    /// The device's name for messages.
    device: String,
    boot_id: String,
    open: Box<OpenFn>,
}

impl Debug for Log {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Log").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Log {
    /// Returns this machine's log, read from its device.
    ///
    /// # Errors
    /// The boot's id can't be read.
    pub fn from_device(device: &Path) -> Result<Self, StartError> {
        let id = fs::read_to_string(BOOT_ID);
        let id = id.map_err(|source| StartError::Boot { path: BOOT_ID, source })?;
        let path = device.to_owned();
        Ok(Self::new(&device.display().to_string(), id.trim(), move || open_device(&path)))
    }

    /// Returns a log with another `open` function. Its file must return one record per read, begin
    /// with the oldest each time that it is opened, and never block.
    #[must_use]
    pub fn new(
        device: &str,
        boot_id: &str,
        open: impl Fn() -> io::Result<OwnedFd> + Send + Sync + 'static,
    ) -> Self {
        Self { device: device.to_owned(), boot_id: boot_id.to_owned(), open: Box::new(open) }
    }

    pub(super) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    pub(super) fn open_log(&self) -> Result<OwnedFd, StartError> {
        (self.open)().map_err(|source| {
            let advice = match (Errno::from_io_error(&source), source.kind()) {
                (Some(Errno::PERM), _) => FORBIDDEN,
                (_, ErrorKind::NotFound) => MISSING,
                (_, ErrorKind::PermissionDenied) => UNREADABLE,
                _ => "",
            };
            StartError::Open { device: self.device.clone(), source, advice }
        })
    }
}

fn open_device(device: &Path) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(device)?;
    let found = file.metadata()?;
    let numbers = (major(found.rdev()), minor(found.rdev()));
    if !found.file_type().is_char_device() || numbers != KMSG {
        return Err(io::Error::other("it is not the kernel log, which is character device 1:11"));
    }
    Ok(file.into())
}

/// Returns the time at which the kernel's clock was 0, in nanoseconds since 1970. Like
/// `CLOCK_MONOTONIC`, that clock stops while the machine sleeps, so that records since the last
/// sleep get their right time.
pub(super) fn zero_unix_nano() -> u64 {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
    };
    nanos(ClockId::Realtime).saturating_sub(nanos(ClockId::Monotonic))
}
