//! Starts one ClickHouse engine on loopback, prints its address, and ends it at the end of its
//! input.
//!
//! `cargo run -p millrace-stack --example engine [-- faults]`, then Ctrl-D.

#![allow(clippy::print_stdout)]

use millrace_stack::clickhouse::{Engine, EngineOptions};
use millrace_stack::service::ServiceError;

fn main() -> Result<(), ServiceError> {
    let test_faults = std::env::args().nth(1).as_deref() == Some("faults");
    let engine = Engine::start(EngineOptions { test_faults, ..EngineOptions::default() })?;
    println!("url={} user={} password={}", engine.url(), engine.user(), engine.password());
    println!("pid={} dir={}", engine.pid(), engine.dir().display());
    println!(
        "try: curl -H 'X-ClickHouse-User: {}' -H 'X-ClickHouse-Key: {}' {} -d 'SELECT version()'",
        engine.user(),
        engine.password(),
        engine.url()
    );
    println!("end with Ctrl-D");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    Ok(())
}
