//! Tests of the complete tool except its printing: a command line, an API server in memory, and the
//! text compared with committed files. `GOLDEN=write` rewrites them; read the difference before you
//! commit it. docs/kubectl.md shows the same files.

mod arguments;
mod bundle;
mod file;
mod program;
mod rights;
mod rollout;
mod status;
mod support;
mod test_run;
mod uninstall;
mod words;
mod writes;
