//! The device that gives the kernel's log, and the boot that the log is of.
//!
//! It opens for reading alone, and knows why that may be refused.

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

const FORBIDDEN: &str = "; the container's device cgroup forbids the device, whatever is mounted \
                         and whichever capabilities it has, or kernel.dmesg_restrict is 1 and \
                         CAP_SYSLOG is missing: run the container privileged, as the operator does \
                         where receivers.kernel is given; outside of containers, as root";
const MISSING: &str = "; mount the node's /dev/kmsg there (hostPath, type CharDevice)";
const UNREADABLE: &str = "; its mode, SELinux or AppArmor forbids it: run as root, and let the \
                          profile read it";

type Open = dyn Fn() -> io::Result<OwnedFd> + Send + Sync;

/// A kernel's log.
pub struct Log {
    /// For people.
    device: String,
    boot_id: String,
    open: Box<Open>,
}

impl Debug for Log {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Log").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Log {
    /// This machine's, by its device.
    ///
    /// # Errors
    /// When the boot's id can't be read.
    pub fn of(device: &Path) -> Result<Self, StartError> {
        let id = fs::read_to_string(BOOT_ID);
        let id = id.map_err(|source| StartError::Boot { path: BOOT_ID, source })?;
        let path = device.to_owned();
        Ok(Self::new(&device.display().to_string(), id.trim(), move || open(&path)))
    }

    /// One that gives a record for each read, the oldest first each time that it is opened, and
    /// never blocks.
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

    pub(super) fn open(&self) -> Result<OwnedFd, StartError> {
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

fn open(device: &Path) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(device)?;
    let found = file.metadata()?;
    let numbers = (major(found.rdev()), minor(found.rdev()));
    if !found.file_type().is_char_device() || numbers != KMSG {
        return Err(io::Error::other("it is not the kernel's log, which is character device 1:11"));
    }
    Ok(file.into())
}

/// When the kernel's clock was at 0, in nanoseconds since 1970. It doesn't run while the machine
/// sleeps, as `CLOCK_MONOTONIC`, so that records since the last sleep have their right time.
pub(super) fn zero_unix_nano() -> u64 {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
    };
    nanos(ClockId::Realtime).saturating_sub(nanos(ClockId::Monotonic))
}
