//! Who reads the files: our collector, the OpenTelemetry Collector's filelog receiver, or vlagent;
//! each with settings that ask for the same work, as far as it can do it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use millrace_stack::service::free_port;

use super::corpus::{links, pods};
use crate::collector::Collector;
use crate::collector::peer::Place;
use crate::world::account::Account;

const FILELOG: &str = include_str!("../../peers/otelcol-files.yaml");
/// By how a trace begins, as ours and filelog take it.
const TRACE_START: &str = r"^\d{4}-\d{2}-\d{2}";
/// A time, a level, a message.
const GROUPS: &str = r"^(?P<time>\S+) (?P<level>[A-Z]+) (?P<message>.*)$";

/// What is read, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A line is a record.
    Lines,
    /// A line with a time begins a record.
    Traces,
    /// A line is a record, with three groups.
    Groups,
    /// The logs of a node's containers.
    Containers,
}

/// Where a run happens.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    /// The folder with the files.
    pub(super) root: &'a Path,
    /// For positions: fresh for each run.
    pub(super) state: &'a Path,
    pub(super) form: Form,
    pub(super) broker: &'a str,
    pub(super) topic: &'a str,
    /// Of messages: `none` or `zstd`.
    pub(super) compression: &'a str,
    /// Of the server that stands in for VictoriaLogs and Kubernetes.
    pub(super) stand_in: &'a str,
    /// Ours, where labels of pods are asked for.
    pub(super) account: Option<&'a Account>,
    /// The settings file that is to be written.
    pub(super) config: &'a Path,
}

/// How a program is started.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Variables that it needs.
    pub(super) variables: Vec<(&'static str, String)>,
    /// What the settings file holds.
    pub(super) settings: String,
}

/// A collector of log files.
#[derive(Debug, Clone)]
pub(super) enum Agent {
    Ours(Box<Collector>),
    Filelog(PathBuf),
    Vlagent(PathBuf),
}

impl Agent {
    /// Its name in results.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "millrace",
            Self::Filelog(_) => "otelcol-filelog",
            Self::Vlagent(_) => "vlagent",
        }
    }

    /// Its version; for those that can't say it, their folder's name, which has it.
    pub(super) fn version(&self) -> String {
        match self {
            Self::Ours(collector) => collector.version.clone(),
            Self::Filelog(program) => said(program),
            Self::Vlagent(program) => {
                let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
                folder.to_string_lossy().trim_start_matches("vlagent-").to_owned()
            }
        }
    }

    /// Whether it is ours.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether it writes to Kafka.
    pub(super) fn speaks_kafka(&self) -> bool {
        !matches!(self, Self::Vlagent(_))
    }

    /// Whether it can do the work. vlagent knows neither records of several lines nor patterns.
    pub(super) fn can(&self, form: Form) -> bool {
        self.speaks_kafka() || matches!(form, Form::Lines | Form::Containers)
    }

    /// How it is started for a run.
    pub(super) fn launch(&self, setting: &Setting<'_>) -> Result<Launch> {
        let Setting { config, .. } = setting;
        let plain = |program: &Path, arguments, settings| Launch {
            program: program.to_owned(),
            arguments,
            variables: Vec::new(),
            settings,
        };
        Ok(match self {
            Self::Ours(collector) => {
                let (program, arguments) = collector.command(config);
                match setting.account {
                    None => plain(&program, arguments, ours(setting)),
                    Some(account) => {
                        let (program, arguments) = account.around(&program, arguments);
                        let launch = plain(&program, arguments, ours(setting));
                        Launch { variables: account.variables(), ..launch }
                    }
                }
            }
            Self::Filelog(program) => {
                let arguments = ["--config".to_owned(), config.display().to_string()];
                plain(program, arguments.to_vec(), filelog(setting))
            }
            Self::Vlagent(program) => {
                let variable = ("KUBECONFIG", config.display().to_string());
                let settings = kubeconfig(setting.stand_in);
                let launch = plain(program, vlagent(setting)?, settings);
                Launch { variables: vec![variable], ..launch }
            }
        })
    }
}

fn said(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let last = said.ok().and_then(|text| text.split_whitespace().last().map(str::to_owned));
    last.unwrap_or_default()
}

/// The pattern of plain files.
fn include(root: &Path) -> String {
    root.join("*.log").display().to_string()
}

fn ours(setting: &Setting<'_>) -> String {
    let Setting { root, state, form, broker, topic, compression, .. } = setting;
    let (pods, files) = (pods(root), include(root));
    let receiver = match form {
        Form::Containers => {
            let labels = match setting.account {
                Some(_) => "podMetadata: KubernetesApi, labels: [\"*\"], ",
                None => "",
            };
            let pods = pods.display();
            format!("containers: {{{labels}directory: \"{pods}\", startAt: Beginning}}")
        }
        Form::Lines => format!("files: [{{include: [\"{files}\"], startAt: Beginning}}]"),
        Form::Traces => format!(
            "files: [{{include: [\"{files}\"], startAt: Beginning, \
             multiline: {{start: '{TRACE_START}'}}}}]"
        ),
        Form::Groups => format!(
            "files: [{{include: [\"{files}\"], startAt: Beginning, \
             parse: {{format: Regex, pattern: '{GROUPS}', timestamp: {{fields: [time]}}}}}}]"
        ),
    };
    format!(
        "admin: {{address: \"127.0.0.1:0\"}}\n\
         memory: {{limitBytes: 256Mi}}\n\
         receivers:\n  {receiver}\n\
         positions: {{directory: \"{}\"}}\n\
         exporters:\n  kafka:\n    connection: {{bootstrapServers: [\"{broker}\"]}}\n    \
         topics: {{logs: {topic}}}\n    compression: {compression}\n",
        state.display()
    )
}

fn filelog(setting: &Setting<'_>) -> String {
    let Setting { root, state, form, broker, topic, compression, .. } = setting;
    let pods = pods(root).join("*/*/*.log").display().to_string();
    let (include, parsing, batch) = match form {
        Form::Containers => (pods, "operators: [{type: container}]".to_owned(), "1500"),
        Form::Lines => (include(root), String::new(), "1000"),
        Form::Traces => {
            let start = format!("multiline: {{line_start_pattern: '{TRACE_START}'}}");
            (include(root), start, "400")
        }
        Form::Groups => {
            let operator = format!(
                "operators: [{{type: regex_parser, regex: '{GROUPS}', \
                 timestamp: {{parse_from: attributes.time, layout_type: gotime, \
                 layout: '2006-01-02T15:04:05.000Z'}}, \
                 severity: {{parse_from: attributes.level}}}}, \
                 {{type: move, from: attributes.message, to: body}}]"
            );
            (include(root), operator, "500")
        }
    };
    Place::default()
        .with("include", include)
        .with("parsing", parsing)
        .with("batch", batch)
        .with("state", state.display().to_string())
        .with("broker", *broker)
        .with("topic", *topic)
        .with("compression", *compression)
        .fill(FILELOG)
}

fn vlagent(setting: &Setting<'_>) -> Result<Vec<String>> {
    let Setting { root, state, form, stand_in, .. } = setting;
    let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let mut arguments = vec![
        format!("-httpListenAddr=127.0.0.1:{port}"),
        format!("-tmpDataPath={}", state.display()),
        format!("-remoteWrite.url={stand_in}/insert/native"),
    ];
    arguments.extend(match form {
        Form::Containers => vec![
            "-kubernetesCollector".to_owned(),
            format!("-kubernetesCollector.logsPath={}", links(root).display()),
            "-kubernetesCollector.includePodLabels=true".to_owned(),
        ],
        Form::Lines | Form::Traces | Form::Groups => {
            vec![format!("-fileCollector.glob={}", include(root))]
        }
    });
    Ok(arguments)
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
         clusters: [{{name: bench, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: bench, user: {{}}}}]\n\
         contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Agent, Form, Setting};

    /// Scenario: every form by both peers. Guarantee: no placeholder is left in the settings, and
    /// vlagent isn't asked for what it can't do.
    #[test]
    fn settings_of_peers_are_filled() {
        for form in [Form::Lines, Form::Traces, Form::Groups, Form::Containers] {
            let setting = Setting {
                root: Path::new("/logs"),
                state: Path::new("/state"),
                form,
                broker: "b:1",
                topic: "t",
                compression: "zstd",
                stand_in: "http://s",
                account: None,
                config: Path::new("/c.yaml"),
            };
            let filelog = Agent::Filelog(PathBuf::from("otelcol"));
            let settings = filelog.launch(&setting).unwrap().settings;
            let words = ["include", "parsing", "batch", "state", "broker", "topic", "compression"];
            let left = words.iter().find(|word| settings.contains(&format!("{{{word}}}")));
            assert_eq!(left, None, "{settings}");
            let vlagent = Agent::Vlagent(PathBuf::from("vlagent-v1/vlagent"));
            assert_eq!(vlagent.can(form), matches!(form, Form::Lines | Form::Containers));
            assert_eq!(vlagent.version(), "v1");
        }
    }
}
