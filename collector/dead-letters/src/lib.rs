//! The dead-letter commands: [`list`] lists them, [`show`] prints one, [`resend`] sends them back
//! to their source topic.
//!
//! A dead letter is a record that a gateway could not store: the original bytes, key and headers,
//! and behind them the headers of [`millrace_pipeline::dead_letter`]. Dead letters are only read; a
//! mark behind them in the same partition records that one was sent again (see [`Sent`]).
//!
//! This crate reads topics from end to end, one message at a time, and never joins a consumer
//! group. Control characters are removed from a topic's content before it is printed.

mod error;
mod hex;
mod list;
mod reader;
mod resend;
mod select;
mod sent;
mod show;
mod text;

pub use error::DeadLetterError;
pub use list::{Format, ListOptions, list};
pub use reader::{DeadLetterTopic, Desk, Found};
pub use resend::{ResendOptions, Resent, resend};
pub use select::{Place, Places, SelectError, Selection, parse_since};
pub use sent::{Sent, SentError};
pub use show::{show, shown};
