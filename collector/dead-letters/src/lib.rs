//! Dead letters for people: [`list`] says which there are, [`show`] takes one apart, [`resend`]
//! puts them back where they came from.
//!
//! A dead letter is a record that a gateway could not store: the original bytes, key and headers,
//! and behind them what [`millrace_pipeline::dead_letter`] writes. They are only ever read; that
//! one was sent again is written behind it, into the same partition, as a mark (see [`Sent`]).
//!
//! This room reads topics from end to end, one message at a time, and never joins a consumer group.
//! Whatever is in a topic is text for a terminal only after control characters are taken out.

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
