//! What can go wrong with the stack, each with what to do next.
//!
//! Errors of single processes and of the file system come from `service` and are passed on whole.

use std::path::PathBuf;

use crate::service::ServiceError;

/// Why the stack could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A file, a command or a server process failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The stack makes namespaces, interfaces and mounts.
    #[error("the local stack needs root: run it as root, or point KUBECONFIG at another cluster")]
    NotRoot,
    /// A tool is there, but too old.
    #[error("{tool} is {found}, too old: {hint}")]
    OldTool {
        /// The program.
        tool: &'static str,
        /// The version it says it has.
        found: String,
        /// How to get a newer one.
        hint: &'static str,
    },
    /// Another network on this machine uses an address range of the stack.
    #[error(
        "the stack's range {range} is already routed on this machine: `{route}`; remove it first"
    )]
    RangeTaken {
        /// The range wanted.
        range: &'static str,
        /// The route in the way, as `ip route` prints it.
        route: String,
    },
    /// The state folder is inside a folder that the node hides from its processes.
    #[error("the state folder {path} cannot be under {hidden}: set MILLRACE_STATE elsewhere", path = path.display())]
    HiddenState {
        /// The state folder.
        path: PathBuf,
        /// The folder that is replaced inside the node.
        hidden: &'static str,
    },
    /// The state folder was made by a stack of other versions.
    #[error("the state in {path} is of another version of the stack: run `make down` first", path = path.display())]
    OtherVersion {
        /// The state folder.
        path: PathBuf,
    },
    /// Something was asked of a stack that does not run.
    #[error("the local stack is not up: run `make demo`, or `millrace-stack up`")]
    NotUp,
    /// A process of the stack ended by itself.
    #[error("{component} has ended; {log} ends with:\n{tail}", log = log.display())]
    Ended {
        /// The component.
        component: String,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// Something did not become ready in time.
    #[error("{what} was not ready within {waited_seconds} s ({last}); {log} ends with:\n{tail}", log = log.display())]
    NotReady {
        /// What was waited for.
        what: String,
        /// How long.
        waited_seconds: u64,
        /// What the last look at it found.
        last: String,
        /// The log most likely to say why.
        log: PathBuf,
        /// The end of that log.
        tail: String,
    },
    /// A key or certificate could not be made.
    #[error("cannot make the certificate for {subject}: {source}")]
    Certificate {
        /// Whose certificate.
        subject: String,
        /// The library's answer.
        source: rcgen::Error,
    },
    /// Something could not be written as JSON or YAML.
    #[error("cannot render {what}: {problem}")]
    Render {
        /// The document.
        what: String,
        /// The library's answer.
        problem: String,
    },
    /// An image archive is not what it should be.
    #[error("image {image}: {problem}")]
    Image {
        /// The image's name or the archive's path.
        image: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Something of the stack is still there after it was removed.
    #[error("left behind by the stack: {what}; remove it by hand, then run `make down` again")]
    LeftBehind {
        /// The process, mount, interface or cgroup.
        what: String,
    },
}

/// Shorthand of this crate.
pub type Result<T, E = StackError> = std::result::Result<T, E>;
