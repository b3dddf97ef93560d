//! Waiting for a condition of the real world: polled, bounded by a deadline, and when the deadline
//! passes, saying what was awaited and what was seen last.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Between two looks. Short against every deadline used, long against the cost of a look.
const POLL: Duration = Duration::from_millis(100);

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
            Err(_) => thread::sleep(POLL),
        }
    }
}
