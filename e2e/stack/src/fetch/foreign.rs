//! What building and trying for another architecture needs: its C libraries and QEMU, from Debian's
//! packages, unpacked into the cache. The compilers are Debian's cross compilers, installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::fetch::debian::Set;
use crate::fetch::image::Platform;
use crate::prerequisites;
use crate::progress::Progress;

/// What our programs are linked with, and the headers that librdkafka is compiled with.
const LIBRARIES: [&str; 6] =
    ["libc6", "libgcc-s1", "libssl3", "libssl-dev", "zlib1g", "zlib1g-dev"];
const EMULATORS: Set<'_> = Set {
    folder: "debian-qemu-user-static",
    architecture: None,
    packages: &["qemu-user-static"],
    megabytes: 63,
};

/// The C libraries of a platform that isn't this machine's, as they would be in `/`, with the
/// cross compilers installed.
///
/// # Errors
/// When a package can't be fetched or installed.
pub fn libraries(platform: Platform, progress: &dyn Progress) -> Result<PathBuf> {
    let compilers = ["gcc", "g++"].map(|it| format!("{it}-{}", platform.multiarch()));
    let [gcc, gxx] = ["gcc", "g++"].map(|it| format!("/usr/bin/{}-{it}", platform.multiarch()));
    let [gcc_package, gxx_package] = &compilers;
    prerequisites::install(&[(gcc_package, &[&gcc]), (gxx_package, &[&gxx])], progress)?;
    let folder = format!("debian-libraries-{}", platform.architecture());
    let set = Set {
        folder: &folder,
        architecture: Some(platform.architecture()),
        packages: &LIBRARIES,
        megabytes: 8,
    };
    set.unpacked(progress)
}

/// A command that runs a program of a platform that isn't this machine's, with the libraries in
/// `root`; its arguments are to be added.
///
/// # Errors
/// When QEMU can't be fetched.
pub fn emulated(
    platform: Platform,
    root: &Path,
    program: &Path,
    progress: &dyn Progress,
) -> Result<Command> {
    let unpacked = EMULATORS.unpacked(progress)?;
    let mut command = Command::new(unpacked.join("usr/bin").join(platform.emulator()));
    command.arg("-L").arg(root).arg(program);
    Ok(command)
}
