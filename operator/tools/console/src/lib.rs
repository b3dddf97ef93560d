//! The operator's console: pages as HTML text, from the reports that `kubectl millrace` shows too.
//!
//! Pure: no clock, no I/O, and no figures computed here. Pages have no script. Markup comes only
//! from literals; every value passes [`html::Html::push_text`], which escapes it. Links are
//! relative, so that pages work behind a path of the API server's proxy.
//!
//! Limits: [`list::ROWS_MAX`] pipelines on a page; of a pipeline [`pipeline::POOLS_MAX`] edge pools
//! of a signal, [`pipeline::ITEMS_MAX`] rows of anything else.

pub mod html;
pub mod lag_meter;
pub mod links;
pub mod list;
pub mod pipeline;
mod style;

pub use style::STYLE;

/// The interval of reloads, in seconds: a little longer than a reading of pods is cached.
pub const RELOAD_SECONDS: u32 = 10;
