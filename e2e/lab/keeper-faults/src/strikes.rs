//! What is done to the ensemble, and undone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use millrace_stack::disk::Disk;
use millrace_stack::random::Random;
use millrace_stack::zookeeper::{Ensemble, Server};

use crate::network::Network;

/// Three JVMs that start together serve after some seconds; a busy machine needs many.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at who leads.
const POLL: Duration = Duration::from_millis(50);
/// How long it lasts, at least and at most. A leader without followers gives up after 5 ticks of
/// 250 ms, and then two others elect one.
const LASTS: [Duration; 2] = [Duration::from_millis(1500), Duration::from_millis(4000)];
/// What is left free of a full disk: some pages, so that it is full within the strike.
const NOTHING_BYTES: u64 = 16 << 10;
/// How far clocks step.
pub const CLOCK_STEP_SECONDS: i64 = 3600;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Strike {
    /// Nothing: what the judge says of an ensemble that is left alone.
    Calm,
    /// The leader gets SIGKILL and is started again.
    LeaderKilled,
    /// The leader is paused until others lead, and wakes up as one of the past.
    LeaderPaused,
    /// A follower is paused, and wakes up behind the others.
    FollowerPaused,
    /// A follower is restarted in good order: its sessions move to other servers.
    SessionMoved,
    /// All get SIGKILL at once and are started again.
    AllRestarted,
    /// The leader is parted from the other servers, while clients reach all of them.
    Partition,
    /// The leader's disk is full; once there is room it is started again, if it ended.
    DiskFull,
    /// The clocks of all servers step by an hour, and back.
    ClockStep,
}

/// What strikes need beside the servers.
#[derive(Debug, Default)]
pub struct Tools {
    /// The servers' disks, in their order, where this is root.
    pub disks: Vec<Disk>,
    /// The servers' network, where this is root.
    pub network: Option<Network>,
    /// The file by which the servers' clocks are moved.
    pub clock: Option<PathBuf>,
}

impl Strike {
    /// What it needs is not there.
    #[must_use]
    pub fn lacks(self, tools: &Tools) -> Option<&'static str> {
        match self {
            Self::DiskFull if tools.disks.is_empty() => Some("mounting disks needs root"),
            Self::Partition if tools.network.is_none() => Some("network namespaces need root"),
            Self::ClockStep if tools.clock.is_none() => {
                Some("the library is missing: cargo build -p millrace-clock")
            }
            _ => None,
        }
    }

    /// Strikes, waits, undoes it, and returns once all servers serve: whether another leads then.
    ///
    /// # Errors
    /// When it can't be done or has no effect, or the servers don't come back.
    pub fn strike(
        self,
        ensemble: &mut Ensemble,
        tools: &Tools,
        random: &mut Random,
    ) -> Result<bool> {
        let lasts = random.between(LASTS[0], LASTS[1]);
        let leader = wait_leader(ensemble)?;
        // Three servers: one of the two others.
        let follower = (leader + 1 + random.below(2) as usize) % ensemble.servers().len();
        match self {
            Self::Calm => std::thread::sleep(lasts),
            Self::LeaderKilled => {
                server(ensemble, leader)?.kill9();
                std::thread::sleep(lasts);
                server(ensemble, leader)?.start()?;
            }
            Self::LeaderPaused => pause(server(ensemble, leader)?, lasts)?,
            Self::FollowerPaused => pause(server(ensemble, follower)?, lasts)?,
            Self::SessionMoved => server(ensemble, follower)?.restart()?,
            Self::AllRestarted => {
                ensemble.servers_mut().iter_mut().for_each(Server::kill9);
                std::thread::sleep(lasts / 4);
                ensemble.servers_mut().iter_mut().try_for_each(Server::start)?;
            }
            Self::Partition => {
                let network = tools.network.as_ref().context("there is no network to part")?;
                network.part(leader)?;
                std::thread::sleep(lasts);
                network.join(leader)?;
            }
            Self::DiskFull => {
                let disk = tools.disks.get(leader).context("the leader has no disk")?;
                disk.fill(NOTHING_BYTES)?;
                std::thread::sleep(lasts);
                let deposed = poll(|| (ensemble.leader() != Some(leader)).then_some(()));
                disk.free()?;
                deposed.context("the leader still leads: it has not met the full disk")?;
                // One that could not write has ended; one that could not answer is of no use.
                let server = server(ensemble, leader)?;
                server.kill9();
                server.start()?;
            }
            Self::ClockStep => {
                let clock = tools.clock.as_ref().context("there is no clock to move")?;
                let step = |seconds: i64| {
                    let nanos = seconds * 1_000_000_000;
                    overwrite(clock, &nanos.to_ne_bytes())
                };
                let forth = if random.chance(50) { 1 } else { -1 };
                step(forth * CLOCK_STEP_SECONDS)?;
                std::thread::sleep(lasts);
                step(0)?;
            }
        }
        Ok(wait_leader(ensemble)? != leader)
    }
}

/// Writes over a file in place: servers have it mapped.
fn overwrite(path: &std::path::Path, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path);
    let file = file.with_context(|| format!("{} can't be opened", path.display()))?;
    Ok(file.write_all_at(bytes, 0)?)
}

fn pause(server: &mut Server, lasts: Duration) -> Result<()> {
    server.pause()?;
    std::thread::sleep(lasts);
    Ok(server.resume()?)
}

fn server(ensemble: &mut Ensemble, index: usize) -> Result<&mut Server> {
    ensemble.servers_mut().get_mut(index).context("there is no such server")
}

fn wait_leader(ensemble: &mut Ensemble) -> Result<usize> {
    ensemble.wait_serving(PATIENCE)?;
    poll(|| ensemble.leader()).context("all serve and nobody leads")
}

/// Waits until `look` finds something, for [`PATIENCE`] at most.
fn poll<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() > PATIENCE {
            return found;
        }
        std::thread::sleep(POLL);
    }
}
