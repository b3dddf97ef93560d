//! Whether a rollout is complete, moving or stuck: a pure function. No clock, no I/O.
