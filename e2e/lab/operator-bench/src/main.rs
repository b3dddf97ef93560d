//! What one operator costs and how fast it is with thousands of objects on a real API server, or
//! on one that costs next to nothing, as JSON lines. `cargo xtask bench-operator` builds and calls
//! it (docs/internals/operator-performance.md).
//!
//! The objects are edge pools in DaemonSet mode that fit on no node: every object of theirs is
//! real and the real controllers act on it, but no pod runs. Steps: bring all about, start again
//! (cold), resynchronise, changes at a rate, drift, take-over. With `KIND=gateway` they are gateway
//! pools of many tenants, whose pods are the bench's; then the steps end with a quiet time. With
//! `KAFKA=1` a broker knows each tenant as a user, else there is none.

mod board;
mod brokers;
mod figures;
mod operator;
mod pods;
mod say;
mod settings;
mod standin;
mod steps;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match settings::Settings::from_env() {
        Ok(settings) => steps::run(settings).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
