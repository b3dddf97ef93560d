//! Waiting for a condition of the real world: polled, bounded by a deadline, and when the deadline
//! passes, saying what was awaited and what was seen last.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The pause between two looks: a tenth of the time waited so far, within these bounds. A look at
/// the cluster starts a kubectl, which takes 0.06 s of a processor before its first request, and
/// several tests wait side by side: every look takes time from what they wait for.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// The last look comes at the limit, so that waiting in steps makes no limit longer.
fn pause(waited: Duration, limit: Duration) -> Duration {
    (waited / 10).clamp(PAUSE.0, PAUSE.1).min(limit.saturating_sub(waited))
}

/// Look until `look` gives a value. A look that gives `Err` says what is still missing.
///
/// # Errors
/// After `limit`, with what was awaited and the last thing missing.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        match look() {
            Ok(value) => return Ok(value),
            Err(missing) if started.elapsed() >= limit => {
                bail!("waited {:.0} s for {what}: {missing:#}", limit.as_secs_f64())
            }
            Err(_) => thread::sleep(pause(started.elapsed(), limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::pause;

    /// Scenario: waits of several lengths, one near its limit. Guarantee: short waits look often,
    /// long ones twice a second, and none looks past its limit.
    #[test]
    fn a_long_wait_looks_less_often() {
        let pause = |waited, limit| {
            pause(Duration::from_millis(waited), Duration::from_secs(limit)).as_millis()
        };
        assert_eq!([0, 900, 2_000, 30_000].map(|waited| pause(waited, 60)), [100, 100, 200, 500]);
        assert_eq!(pause(4_800, 5), 200);
        assert_eq!(pause(5_100, 5), 0);
    }
}
