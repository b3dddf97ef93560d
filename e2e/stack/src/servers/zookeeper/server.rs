//! One ZooKeeper of an ensemble: a process with settings, data and a log of its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{Addresses, EnsembleOptions, install, role, settings};
use crate::servers::java;
use crate::servers::service::{self, Result, Service, ServiceError};

/// A server ends within a second of being asked; then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A server. It keeps its addresses and data whatever happens to its process.
#[derive(Debug)]
pub struct Server {
    service: Option<Service>,
    paused: bool,
    addresses: Addresses,
    /// Settings and log.
    dir: PathBuf,
    data: PathBuf,
    /// The ensemble's folder, which goes when its owner dies.
    scratch: PathBuf,
    /// What stands before the command.
    prefix: Vec<String>,
    java: PathBuf,
    jars: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Server {
    pub(super) fn prepare(
        scratch: &Path,
        index: usize,
        all: &[Addresses],
        options: &EnsembleOptions,
    ) -> Result<Self> {
        let id = index + 1;
        let Some(addresses) = all.get(index) else {
            let problem = format!("there is no address for server {id}");
            return Err(ServiceError::Option { field: "size", problem });
        };
        let dir = scratch.join(id.to_string());
        let data = options.data_dirs.get(index).cloned().unwrap_or_else(|| dir.join("data"));
        service::create_dir(&dir)?;
        service::create_dir(&data)?;
        service::write_file(&data.join("myid"), &format!("{id}\n"))?;
        let text = settings::server(&data, index, all, options);
        service::write_file(&dir.join("zoo.cfg"), &text)?;
        let mut arguments = vec![format!("-Xmx{}m", options.heap_mib)];
        arguments.extend(options.jvm_arguments.iter().cloned());
        Ok(Self {
            service: None,
            paused: false,
            addresses: *addresses,
            dir,
            data,
            scratch: scratch.to_owned(),
            prefix: options.hosts.get(index).map(|host| host.prefix.clone()).unwrap_or_default(),
            java: java::launcher()?,
            jars: install(options.version)?,
            arguments,
            variables: options.variables.clone(),
        })
    }

    fn command(&self) -> Command {
        let mut words = self.prefix.iter().map(AsRef::as_ref).chain([self.java.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .args(java::QUICK_START)
            .args(["-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            .args(["-Dorg.slf4j.simpleLogger.showDateTime=true"])
            .args(["-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"])
            .args(["-Dzookeeper.jmx.log4j.disable=true"])
            .args(&self.arguments)
            .args(["-cp".into(), self.jars.join("*").into_os_string()])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.dir.join("zoo.cfg"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the process with the data that is there, unless it runs. It does not serve yet: see
    /// [`Self::wait_serving`].
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(&mut self) -> Result<()> {
        if self.service.is_none() {
            let service = Service::spawn(
                "zookeeper",
                self.command(),
                self.dir.join("zookeeper.log"),
                Some(&self.scratch),
                STOP_GRACE,
            )?;
            self.service = Some(service);
        }
        Ok(())
    }

    /// Ends the process in good order and starts it again with its data.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        self.start()
    }

    /// Waits until clients are served: it leads, follows or is alone.
    ///
    /// # Errors
    /// It is stopped, has ended, or does not serve in time; the error quotes its log.
    pub fn wait_serving(&mut self, patience: Duration) -> Result<()> {
        let address = self.addresses.client;
        self.running()?.wait_ready(patience, || role(address).map(drop))
    }

    /// Ends the process in good order, also one that is paused.
    pub fn stop(&mut self) {
        // A paused process would not hear that it is asked to end. One that has ended can't.
        let _ = self.resume();
        self.service = None;
    }

    /// Kills the process with SIGKILL. [`Self::start`] brings it back with what it had written.
    pub fn kill9(&mut self) {
        self.paused = false;
        if let Some(mut service) = self.service.take() {
            service.kill9();
        }
    }

    /// Pauses the process (SIGSTOP): connections stay open and nothing is answered.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.running()?.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.paused = false;
        self.running()?.signal(Signal::CONT)
    }

    fn running(&mut self) -> Result<&mut Service> {
        let stopped = || ServiceError::Io {
            action: "reach a ZooKeeper".to_owned(),
            source: io::Error::other("it is stopped: start it first"),
        };
        self.service.as_mut().ok_or_else(stopped)
    }

    /// Where clients connect; four-letter words go there too.
    #[must_use]
    pub fn client_address(&self) -> SocketAddr {
        self.addresses.client
    }

    /// Where the AdminServer listens (`/commands/monitor`), if it was asked for.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.addresses.admin
    }

    /// Where Prometheus' metrics are (`/metrics`), if they were asked for.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.addresses.metrics
    }

    /// The process id; none while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.service.as_ref().map(Service::pid)
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// The end of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.service.as_ref().map_or_else(String::new, Service::log_tail)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
