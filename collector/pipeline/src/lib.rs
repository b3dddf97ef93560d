//! Bounded flow between a source and a sink: budget, batches, retries, drain.
