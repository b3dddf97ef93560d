//! Another collector, given by a command and two settings files with placeholders.
//!
//! In the command `{config}` stands for the settings file of a run. In settings the words of
//! [`Place`] stand in braces. The defaults are the OpenTelemetry Collector's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const GATEWAY: &str = include_str!("../../peers/otelcol-gateway.yaml");
const EDGE: &str = include_str!("../../peers/otelcol-edge.yaml");
const RULES: &str = include_str!("../../peers/otelcol-rules.yaml");

/// The words that a settings file may hold in braces, and what each becomes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place(Vec<(&'static str, String)>);

impl Place {
    /// Adds a word.
    pub(crate) fn with(mut self, word: &'static str, value: impl Into<String>) -> Self {
        self.0.push((word, value.into()));
        self
    }

    /// The text with each word replaced.
    pub(crate) fn fill(&self, template: &str) -> String {
        self.0.iter().fold(template.to_owned(), |text, (word, value)| {
            text.replace(&format!("{{{word}}}"), value)
        })
    }
}

/// Another collector.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Its name in results.
    pub(crate) name: String,
    program: PathBuf,
    arguments: Vec<String>,
    gateway: String,
    edge: String,
}

impl Peer {
    /// From a command line and, where they aren't the OpenTelemetry Collector's, settings files.
    pub(crate) fn new(
        command: &str,
        name: Option<&str>,
        gateway: Option<&Path>,
        edge: Option<&Path>,
    ) -> Result<Self> {
        let mut words = command.split_whitespace();
        let program = PathBuf::from(words.next().context("the peer's command is empty")?);
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        if !arguments.iter().any(|word| word.contains("{config}")) {
            bail!("the peer's command names no {{config}}: {command}");
        }
        let read = |file: Option<&Path>, default: &str| match file {
            Some(file) => {
                fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
            }
            None => Ok(default.to_owned()),
        };
        let own_name = || program.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.map(str::to_owned).or_else(own_name).unwrap_or_default();
        let (gateway, edge) = (read(gateway, GATEWAY)?, read(edge, EDGE)?);
        Ok(Self { name, program, arguments, gateway, edge })
    }

    /// The program and its arguments for a settings file.
    pub(crate) fn command(&self, config: &Path) -> (PathBuf, Vec<String>) {
        let config = config.display().to_string();
        let fill = |word: &String| word.replace("{config}", &config);
        (self.program.clone(), self.arguments.iter().map(fill).collect())
    }

    /// Settings of a gateway.
    pub(crate) fn gateway(&self, place: &Place) -> String {
        place.fill(&self.gateway)
    }

    /// Settings of an edge.
    pub(crate) fn edge(&self, place: &Place) -> String {
        place.fill(&self.edge)
    }

    /// Settings of an edge with processors, which only the OpenTelemetry Collector has.
    pub(crate) fn edge_with_processors(place: &Place) -> String {
        place.fill(RULES)
    }

    /// What it says to `--version`: the last word.
    pub(crate) fn version(&self) -> String {
        let said = Command::new(&self.program).arg("--version").output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        said.ok()
            .and_then(|text| text.split_whitespace().last().map(str::to_owned))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Peer, Place};

    /// Scenario: a command and a place. Guarantee: every placeholder of both built-in settings is
    /// filled.
    #[test]
    fn every_placeholder_is_filled() {
        let peer = Peer::new("/opt/otelcol --config {config}", None, None, None).unwrap();
        assert_eq!(peer.name, "otelcol");
        let (_, arguments) = peer.command(Path::new("/tmp/c.yaml"));
        assert_eq!(arguments, ["--config", "/tmp/c.yaml"]);
        let words = ["broker", "topic", "group", "endpoint", "signal", "json", "grpc", "http"];
        let place = words.into_iter().fold(Place::default(), |place, word| place.with(word, "x"));
        let place = place.with("processors", "x").with("names", "x").with("batch", "1");
        let rules = Peer::edge_with_processors(&place);
        for text in [peer.gateway(&place), peer.edge(&place), rules] {
            let left = words.iter().find(|word| text.contains(&format!("{{{word}}}")));
            assert_eq!(left, None, "{text}");
        }
        assert!(Peer::new("otelcol", None, None, None).is_err());
    }
}
