//! What the machine must have before the stack can be built and run, and the Debian packages that
//! are installed when missing.
//!
//! Installing a package neither starts a service nor leaves one enabled: the stack runs its own
//! containerd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::error::{Result, StackError};
use crate::progress::Progress;
use crate::service::{ServiceError, find_tool, io_error, run};
use crate::versions;

const GO_HINT: &str = "install Go 1.24 or newer (https://go.dev/dl) and put it on the PATH";

/// Programs that must be there; each with what to do when it is not. Package names are Debian 12's.
const TOOLS: &[(&str, &str)] = &[
    ("apt-get", "the local stack runs on Debian 12 or later"),
    ("cargo", "install Rust 1.89 or newer (https://rustup.rs)"),
    ("make", "apt-get install make"),
    ("go", GO_HINT),
    ("java", "apt-get install openjdk-17-jre-headless"),
    ("mvn", "apt-get install maven"),
    ("unshare", "apt-get install util-linux"),
    ("nsenter", "apt-get install util-linux"),
    ("setsid", "apt-get install util-linux"),
    ("mount", "apt-get install mount"),
];

/// Packages installed when missing, each with a file that shows it is there. The C libraries that
/// crates are compiled with are the business of `prerequisites.sh`, before any crate is.
const PACKAGES: &[(&str, &[&str])] = &[
    ("containerd", &["/usr/bin/containerd"]),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    ("containernetworking-plugins", &["/usr/lib/cni/bridge"]),
    ("nftables", &["/usr/sbin/nft"]),
    ("conntrack", &["/usr/sbin/conntrack"]),
    ("iproute2", &["/usr/sbin/ip", "/bin/ip", "/usr/bin/ip"]),
    ("ca-certificates", &["/etc/ssl/certs/ca-certificates.crt"]),
];

/// A package script asks this file whether a service may start; ours answers "no" while we install.
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";
/// There when systemd is the machine's init (sd_booted(3)).
const SYSTEMD_RUNS: &str = "/run/systemd/system";

/// Checks that this process is root and that every tool is there and new enough.
///
/// # Errors
/// The first thing that is missing, in one line with how to get it.
pub(crate) fn check() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(StackError::NotRoot);
    }
    for (tool, hint) in TOOLS {
        find_tool(tool, hint)?;
    }
    check_go()
}

fn check_go() -> Result<()> {
    let output = Command::new("go")
        .arg("version")
        .env("GOTOOLCHAIN", "local")
        .output()
        .map_err(io_error("run go version"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match go_version(&text) {
        Some(version) if version >= versions::OLDEST_GO => Ok(()),
        _ => {
            let found = text.trim().to_owned();
            Err(StackError::OldTool { tool: "go", found, hint: GO_HINT })
        }
    }
}

/// The major and minor number in `go version go1.26.8 linux/amd64`.
fn go_version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("go1"))?;
    let minor: String =
        number.strip_prefix('.')?.chars().take_while(char::is_ascii_digit).collect();
    Some((1, minor.parse().ok()?))
}

/// Installs the Debian packages that are missing, and says which.
///
/// # Errors
/// When apt fails; its last lines are in the error.
pub(crate) fn install_packages(progress: &dyn Progress) -> Result<()> {
    install(PACKAGES, progress)
}

/// Installs those of some packages that are missing, each named with files that show it is there.
///
/// # Errors
/// When apt fails; its last lines are in the error.
pub fn install(packages: &[(&str, &[&str])], progress: &dyn Progress) -> Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|(_, files)| !files.iter().any(|file| Path::new(file).exists()))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    progress.tell(&format!("installing Debian packages: {} (about 20 s)", missing.join(" ")));
    let _policy = NoServices::begin()?;
    apt("refresh the package lists", &["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    apt("install Debian packages", &install)?;
    if missing.contains(&"containerd") && Path::new(SYSTEMD_RUNS).exists() {
        let mut disable = Command::new("systemctl");
        disable.args(["disable", "--quiet", "containerd.service"]);
        run("keep Debian's containerd from starting at boot", &mut disable)?;
    }
    Ok(())
}

fn apt(action: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    Ok(run(action, &mut command)?)
}

/// Keeps package scripts from starting services for as long as it lives. A policy that the
/// machine already has is left alone.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Result<Self, ServiceError> {
        let policy = Path::new(SERVICE_POLICY);
        if policy.exists() {
            return Ok(Self { ours: false });
        }
        fs::write(policy, "#!/bin/sh\nexit 101\n")
            .and_then(|()| fs::set_permissions(policy, fs::Permissions::from_mode(0o755)))
            .map_err(io_error(format!("write {SERVICE_POLICY}")))?;
        Ok(Self { ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(SERVICE_POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::go_version;

    /// The minor number decides, and a release candidate counts as its release.
    #[test]
    fn a_go_version_line_is_read() {
        assert_eq!(go_version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(go_version("go version go1.24rc1 linux/amd64"), Some((1, 24)));
        assert_eq!(go_version("gccgo (Debian 12) 12.2.0"), None);
    }
}
