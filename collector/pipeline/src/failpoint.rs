//! Named points at which a test can kill the process.
//!
//! Without the feature `failpoints` a point is nothing: no code, no read of the environment. With
//! it, `MILLRACE_FAILPOINT=name:nth` aborts the process at its nth visit of that point. The feature
//! can't be built in release mode, so no shipped binary can have it.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("the feature `failpoints` is for tests alone: build without --release");

/// Whether points do anything in this build.
pub const COMPILED_IN: bool = cfg!(feature = "failpoints");

/// A point of the given name. Does nothing unless a test asked for this one.
#[inline(always)]
pub fn hit(name: &'static str) {
    #[cfg(feature = "failpoints")]
    armed::hit(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The variable that arms a point.
    const VARIABLE: &str = "MILLRACE_FAILPOINT";

    struct Armed {
        name: String,
        /// Visits left, this one included.
        left: AtomicU64,
    }

    pub(super) fn hit(name: &'static str) {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let Some(armed) = ARMED.get_or_init(read).as_ref() else { return };
        if armed.name == name && armed.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nothing is flushed or reported: what SIGKILL at this line would leave.
            std::process::abort();
        }
    }

    /// `name:nth`; anything else arms nothing.
    fn read() -> Option<Armed> {
        let text = std::env::var(VARIABLE).ok()?;
        let (name, nth) = text.split_once(':')?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
        Some(Armed { name: name.to_owned(), left: AtomicU64::new(nth) })
    }
}
