//! The whole tool but its printing: a command line, an API server in memory, the text that comes out,
//! held against committed files. `GOLDEN=write` writes them anew; read the difference before it is
//! committed. docs/kubectl.md shows the same files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arguments;
mod bundle;
mod convert;
mod plan;
mod program;
mod rights;
mod rollout;
mod status;
mod support;
mod test_run;
mod uninstall;
mod words;
mod writes;
