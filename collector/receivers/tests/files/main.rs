//! Reading log files: a real file system, a publisher that does as it is told.

mod model;
mod odd;
mod rig;
mod rotation;
mod sending;
