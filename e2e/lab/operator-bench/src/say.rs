//! The only place that prints: progress on standard error, figures on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use serde_json::{Value, json};

use crate::settings::Settings;

/// What is going on.
pub(crate) fn progress(text: &str) {
    eprintln!("operator-bench: {text}");
}

/// The figures of one step, as a JSON line.
pub(crate) fn figures(step: &str, settings: &Settings, figures: Value) {
    let api = settings.api.name();
    let mut line =
        json!({ "bench": "operator", "step": step, "build": settings.build, "api": api });
    if let (Some(line), Value::Object(figures)) = (line.as_object_mut(), figures) {
        line.extend(figures);
    }
    println!("{line}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    eprintln!("operator-bench: error: {text}");
}
