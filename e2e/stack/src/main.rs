//! `millrace-stack`: the local stack from the command line.
//!
//! Progress goes to standard error, results to standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use millrace_stack::component::Component;
use millrace_stack::progress::Timed;
use millrace_stack::stack::Stack;

/// A real Kubernetes, Kafka and ClickHouse engine on this machine, from package registries alone.
///
/// State is in MILLRACE_STATE (/var/lib/millrace-stack), what was built in MILLRACE_CACHE
/// (~/.cache/millrace).
#[derive(Debug, Parser)]
#[command(name = "millrace-stack", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start what does not run, and return when everything answers.
    Up,
    /// Download and build what `up` needs, and start nothing.
    Install,
    /// Stop everything and remove its state.
    Down,
    /// Say what runs; the exit code is 0 only when everything does.
    Status,
    /// Restart one component, such as `kafka` or `kubelet`.
    Restart {
        /// Its name, as `status` prints it.
        #[arg(value_parser = component)]
        component: Component,
    },
    /// Import image archives into the cluster.
    Load {
        /// OCI archives (tar).
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Run a command inside the node's namespaces, such as `exec -- ps aux`.
    Exec {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
}

fn component(name: &str) -> Result<Component, String> {
    Component::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Component::ALL.iter().map(|component| component.name()).collect();
        format!("there is no such component; there are: {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    match act(Arguments::parse().action) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> Result<ExitCode, Box<dyn Error>> {
    let stack = Stack::open()?;
    let progress = Timed::new(io::stderr());
    match action {
        Action::Up => {
            stack.up(&progress)?;
            println!("{}", stack.summary());
        }
        Action::Install => stack.install(&progress)?,
        Action::Down => stack.down(&progress)?,
        Action::Status => {
            let status = stack.status();
            println!("{status}");
            return Ok(if status.is_up() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Action::Restart { component } => stack.restart(component)?,
        Action::Load { archives } => {
            for archive in archives {
                let done = if stack.load_image(&archive)? { "imported" } else { "already there" };
                println!("{}: {done}", archive.display());
            }
        }
        Action::Exec { command } => {
            let mut words = command.into_iter();
            let mut inner = Command::new(words.next().unwrap_or_default());
            inner.args(words);
            let status = stack.node().inside(&inner)?.status()?;
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            return Ok(ExitCode::from(code));
        }
    }
    Ok(ExitCode::SUCCESS)
}
