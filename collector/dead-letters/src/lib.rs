//! The dead-letter commands: [`list_letters`] lists them, [`show_letter`] prints one,
//! [`resend_letters`] sends them back to their source topic.
//!
//! A dead letter is a record that a gateway could not store: the original bytes, key and headers,
//! followed by the headers of [`millrace_pipeline::dead_letter`]. Dead letters are only read; a
//! mark after them in the same partition records that one was sent again (see [`SentOffsets`]).
//!
//! This crate reads topics from end to end, one message at a time, and never joins a consumer
//! group. Control characters are removed from a topic's content before it is printed.

mod error;
mod hex;
mod list;
mod reader;
mod resend;
mod select;
mod sent_offsets;
mod show;
mod text;

pub use error::DeadLetterError;
pub use list::{ListOptions, OutputFormat, list_dead_letters};
pub use reader::{DeadLetterAccess, DeadLetterRecord, DeadLetterTopic};
pub use resend::{ResendOptions, ResendReport, resend_dead_letters};
pub use select::{PartitionOffset, PartitionRange, SelectError, Selection, parse_since};
pub use sent_offsets::{SentOffsets, SentOffsetsError};
pub use show::{render_dead_letter, show_dead_letter};
