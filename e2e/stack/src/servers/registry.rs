//! A container registry on loopback, as users have one: Debian's docker-registry, unpacked into the
//! cache. For trying a release; it has no log-in and no TLS, and keeps nothing safe.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::Result;
use crate::fetch::debian::Set;
use crate::progress::Progress;
use crate::servers::http;
use crate::servers::service::{Service, create_dir, free_port, write_file};

const PACKAGE: Set<'_> = Set {
    folder: "debian-docker-registry",
    architecture: None,
    packages: &["docker-registry"],
    megabytes: 5,
};
/// It serves within a second, on a machine that does nothing else.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Requests that run get this long.
const STOP_GRACE: Duration = Duration::from_secs(5);
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// A running registry. It stops when dropped.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    // Held for its end.
    _service: Service,
}

impl Registry {
    /// Starts one that keeps what it is given in `folder`.
    ///
    /// # Errors
    /// The package can't be fetched, or the registry doesn't serve in time.
    pub fn start(folder: &Path, progress: &dyn Progress) -> Result<Self> {
        let unpacked = PACKAGE.unpacked(progress)?;
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let address = SocketAddr::new(host, free_port(host)?);
        create_dir(folder)?;
        let settings = folder.join("settings.yml");
        write_file(&settings, &settings_for(address, &folder.join("data")))?;
        let mut command = Command::new(unpacked.join("usr/bin/docker-registry"));
        command.arg("serve").arg(&settings);
        let log = folder.join("registry.log");
        let mut service = Service::spawn("docker-registry", command, log, None, STOP_GRACE)?;
        service.wait_ready(START_PATIENCE, || {
            let answer = http::ask(address, "GET", "/v2/", &[], &[], ASK_TIMEOUT)?;
            match answer.status {
                200 => Ok(()),
                other => Err(std::io::Error::other(format!("it answered {other}"))),
            }
        })?;
        Ok(Self { address, _service: service })
    }

    /// Where it answers, as names of images begin.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

fn settings_for(address: SocketAddr, data: &Path) -> String {
    format!(
        "version: 0.1\nlog: {{level: warn, accesslog: {{disabled: true}}}}\n\
         storage: {{filesystem: {{rootdirectory: {:?}}}}}\nhttp: {{addr: \"{address}\"}}\n",
        data.display().to_string()
    )
}

#[cfg(test)]
mod tests {
    use super::settings_for;

    /// Scenario: a folder with a quote in its name. Guarantee: the settings are YAML that says it.
    #[test]
    fn settings_are_yaml() {
        let text = settings_for(([127, 0, 0, 1], 5000).into(), "/a\"b/data".as_ref());
        let read: serde_json::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(read["storage"]["filesystem"]["rootdirectory"], "/a\"b/data");
        assert_eq!(read["http"]["addr"], "127.0.0.1:5000");
    }
}
