//! Named points at which a test can kill the process.
//!
//! Builds with debug assertions have them: `MILLRACE_FAILPOINT=name:nth` aborts the process at its
//! nth visit of that point. In other builds a point compiles to nothing and reads no environment.
//! Only the test profile has debug assertions (`cargo xtask structure`), so no shipped binary has
//! points.

/// Whether points are active in this build.
pub const COMPILED_IN: bool = cfg!(debug_assertions);

/// A point with the given name. Does nothing unless a test armed it.
#[inline(always)]
pub fn hit(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::abort_if_armed(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The variable that arms a point.
    const VARIABLE: &str = "MILLRACE_FAILPOINT";

    struct Armed {
        name: String,
        /// The remaining visits, including this one.
        left: AtomicU64,
    }

    pub(super) fn abort_if_armed(name: &'static str) {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let Some(armed) = ARMED.get_or_init(read).as_ref() else { return };
        if armed.name == name && armed.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nothing is flushed or reported, as after SIGKILL at this line.
            std::process::abort();
        }
    }

    /// Parses `name:nth`; anything else arms nothing.
    fn read() -> Option<Armed> {
        let text = std::env::var(VARIABLE).ok()?;
        let (name, nth) = text.split_once(':')?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
        Some(Armed { name: name.to_owned(), left: AtomicU64::new(nth) })
    }
}
