//! The operator as a process: its rights, its lease, what it watches and what it reports.

mod access;
mod chart;
mod check;
mod console;
mod lease;
mod standby;
mod traced;
mod watches;
