//! A client of the ddl crate for a local engine, and a runtime to wait on. For tests alone: shared
//! by those files that include this one.
#![allow(clippy::unwrap_used, dead_code)]

use millrace_ddl::{ClientOptions, DdlClient, Secret, UserCredentials};
use millrace_stack::clickhouse::Engine;

/// Settings for the engine behind `url`, with this password for its user.
pub(crate) fn options(engine: &Engine, url: &str, password: &str) -> ClientOptions {
    let mut options = ClientOptions::new(vec![url.parse().unwrap()]);
    options.credentials = UserCredentials::Password {
        user: engine.user().to_owned(),
        password: Secret::new(password),
    };
    options
}

/// A client of the engine by another way than its own address.
pub(crate) fn client_at(engine: &Engine, url: &str) -> DdlClient {
    DdlClient::new(options(engine, url, engine.password())).unwrap()
}

/// A client of the engine.
pub(crate) fn client(engine: &Engine) -> DdlClient {
    client_at(engine, &engine.url())
}

/// Waits for a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
