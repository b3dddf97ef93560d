//! Starts one Kafka broker on loopback, prints its address, and ends it at the end of its input.
//!
//! `cargo run -p millrace-stack --example broker [-- sasl]`, then Ctrl-D.

#![allow(clippy::print_stdout)]

use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener};
use millrace_stack::service::{Secret, ServiceError};

fn main() -> Result<(), ServiceError> {
    let mut options = BrokerOptions::default();
    if std::env::args().nth(1).as_deref() == Some("sasl") {
        let credentials = Credentials { user: Secret::new("edge")?, password: Secret::random() };
        println!("user={} password={}", credentials.user.expose(), credentials.password.expose());
        options.sasl = Some((Listener::LOOPBACK, credentials));
    }
    let broker = Broker::start(options)?;
    println!("bootstrap={}", broker.bootstrap());
    if let Some(address) = broker.sasl_bootstrap() {
        println!("sasl_bootstrap={address}");
    }
    println!("pid={} dir={}", broker.pid(), broker.dir().display());
    println!("end with Ctrl-D");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    Ok(())
}
