//! What the reconciler tests share: an API server in memory, a clock that stands still, a lag that
//! is set by hand, and a world that runs reconcilers against them.

// What only the simulation uses is dead here.
#[allow(dead_code)]
pub(crate) mod apiserver;
pub(crate) mod world;
