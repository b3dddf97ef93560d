//! Commands of pages, as a reader's shell runs them: those of a page in its order, in one bash, from
//! the page's own text. The test says what a page's names stand for where it runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_docs::runs::Script;
use tempfile::TempDir;

use crate::process::{Process, last_lines};
use crate::{binaries, wait};

/// What the shell says before each command.
const MARK: &str = "==> ";
/// The beginning of a page's remark beside a command that must fail.
const REFUSED: &str = "# refused";
/// What goes on until Ctrl-C, and what it says once it works.
const GOES_ON: [(&str, &str); 2] =
    [(" port-forward ", "Forwarding from"), ("make try", "from start to checked rows")];
/// Lines of output that an error carries.
const SHOWN_LINES: usize = 40;

/// A shell that is set up as a page's reader has it.
#[derive(Debug)]
pub struct Shell {
    folder: TempDir,
    begins_in: PathBuf,
    variables: Vec<(String, String)>,
    names: Vec<(String, String)>,
}

impl Shell {
    /// One that begins in the repository's root. Its reader is root: `sudo` runs what it is given.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn new() -> Result<Self> {
        let folder = TempDir::new().context("no temporary folder")?;
        let begins_in = binaries::root();
        let shell = Self { folder, begins_in, variables: Vec::new(), names: Vec::new() };
        for folder in [shell.installed(), shell.programs()] {
            fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        shell.script("sudo", "exec \"$@\"")?;
        Ok(shell)
    }

    /// The same, which finds these of our programs.
    ///
    /// # Errors
    /// When one isn't built.
    pub fn with_programs(names: &[&str]) -> Result<Self> {
        let shell = Self::new()?;
        for name in names {
            shell.program(name, &binaries::path(name)?)?;
        }
        Ok(shell)
    }

    /// Where a page may install programs: the first place where one is looked for.
    pub fn installed(&self) -> PathBuf {
        self.folder.path().join("installed")
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    /// A program under the name that pages call it by.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn program(&self, name: &str, path: &Path) -> Result<()> {
        symlink(path, self.programs().join(name)).with_context(|| format!("no link {name}"))
    }

    /// A script as a program, instead of one of this name.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn script(&self, name: &str, body: &str) -> Result<()> {
        let path = self.programs().join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755))
            .with_context(|| format!("cannot make {name} a program"))
    }

    /// The folder in which the next page begins.
    pub fn begins_in(&mut self, folder: &Path) {
        folder.clone_into(&mut self.begins_in);
    }

    /// A variable of its environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// What a page's name stands for here. Names that contain others come first.
    pub fn stands_for(&mut self, theirs: &str, ours: &str) {
        self.names.push((theirs.to_owned(), ours.to_owned()));
    }

    /// Types a page's commands; `told` gets each before it runs. A command fails the page by its exit
    /// code, or by success where the page remarks that it is refused. One that goes on gets Ctrl-C
    /// once it says that it works, and must leave no process.
    ///
    /// # Errors
    /// When one fails or they take longer than `limit`, with the end of what they printed.
    pub fn run(&self, script: &Script, limit: Duration, told: impl Fn(&str)) -> Result<()> {
        let name = script.page.replace(['/', '.'], "-");
        let [file, log] = ["sh", "log"].map(|end| self.folder.path().join(format!("{name}.{end}")));
        fs::write(&file, self.text(script)).context("cannot write the page's script")?;
        let path = std::env::var("PATH").context("there is no PATH")?;
        let path = format!("{}:{}:{path}", self.installed().display(), self.programs().display());
        let mut command = Command::new("bash");
        command.arg(&file).env("PATH", path);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut bash = Process::start("bash", &mut command, &log)?;
        let mut known = 0;
        let ended = wait::until(&format!("the commands of {}", script.page), limit, || {
            // What it said before it ended, too.
            let ended = bash.ended()?;
            let output = bash.output();
            let marks = output.lines().filter(|line| line.starts_with(MARK));
            known += marks.skip(known).inspect(|line| told(line)).count();
            ended.context("still running")
        });
        let shown = || last_lines(&bash.output(), SHOWN_LINES);
        let status = ended.with_context(shown)?;
        ensure!(status.success(), "{}: {status}\n{}", script.page, shown());
        Ok(())
    }

    /// The page's commands with what its names stand for, each announced by its place and own text.
    fn text(&self, script: &Script) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let folder = quoted(&self.begins_in.to_string_lossy());
        let mut text = format!("set -euo pipefail\ncd {folder}\n");
        for statement in &script.statements {
            let mut ours = statement.text.clone();
            for (theirs, here) in &self.names {
                ours = ours.replace(theirs, here);
            }
            let shown = statement.text.replace("\\\n", " ");
            let mark = format!("{MARK}{}: {}", statement.place, shown.trim());
            text.push_str(&format!("echo {}\n", quoted(&mark)));
            let goes_on = GOES_ON.iter().find(|(what, _)| statement.text.contains(what));
            text.push_str(&match goes_on {
                _ if statement.text.contains(REFUSED) => {
                    format!("if {{\n{ours}\n}}; then echo 'it was not refused'; exit 1; fi\n")
                }
                Some((_, said)) => self.going_on(&ours, said),
                None => format!("{ours}\n"),
            });
        }
        text
    }

    /// A command in a group of processes of its own, which gets what a terminal sends at Ctrl-C, and
    /// of which nothing may be left then. Where tests run in the background the signal is ignored by
    /// all that they start, unless it is asked for.
    fn going_on(&self, command: &str, said: &str) -> String {
        let log = self.folder.path().join("going-on.log");
        let log = log.display();
        format!(
            "rm -f {log}\nset -m\n{{\nexec env --default-signal=INT {command}\n}} >{log} 2>&1 </dev/null &\n\
             pid=$!\nset +m\n\
             until grep -qs '{said}' {log}; do\n\
             kill -0 $pid || {{ cat {log}; exit 1; }}\nsleep 0.1\ndone\n\
             kill -INT -- -$pid\nwait $pid || true\n\
             for look in $(seq 100); do kill -0 -- -$pid 2>/dev/null || break; sleep 0.1; done\n\
             if kill -0 -- -$pid 2>/dev/null; then echo 'some of it is left'; exit 1; fi\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::Result;
    use millrace_docs::pages::Page;
    use millrace_docs::runs::Script;

    use super::Shell;

    /// For a bash that says a few words.
    const LIMIT: Duration = Duration::from_secs(30);

    fn typed(shell: &Shell, lines: &str) -> Result<()> {
        let page = Page { path: "a.md".to_owned(), text: format!("```sh\n{lines}\n```\n") };
        let script = Script { statements: page.statements(), page: page.path };
        shell.run(&script, LIMIT, |_| {})
    }

    /// Scenario: a page that sets a variable for later lines, names a host and a program of its own,
    /// has a line that goes on, a pipe, and a command that is refused. Guarantee: all of it works as
    /// typed.
    #[test]
    fn a_page_is_typed_in_one_shell() {
        let mut shell = Shell::new().unwrap();
        shell.script("say", "echo \"$@\"").unwrap();
        shell.stands_for("http://db", "http://localhost");
        let lines = "export A='b c'\nsay \"$A\" \\\n  http://db | grep -qx 'b c http://localhost'\n\
                     sudo false   # refused: why\n";
        typed(&shell, lines).unwrap();
    }

    /// Scenario: a command that fails, also within a pipe; one that isn't refused as the page says;
    /// one that can't go on. Guarantee: the error has its place and its output.
    #[test]
    fn a_page_that_is_wrong_fails_with_the_place() {
        let shell = Shell::new().unwrap();
        for lines in ["true\nfalse", "false | cat", "true # refused: why", "false port-forward a"] {
            let error = format!("{:#}", typed(&shell, lines).unwrap_err());
            assert!(error.contains("==> a.md:1: ") && error.contains("exit status"), "{error}");
        }
    }

    /// Scenario: a command that goes on. Guarantee: it is ended once it says that it works.
    #[test]
    fn what_goes_on_is_ended() {
        let shell = Shell::new().unwrap();
        shell.script("forward", "echo \"$1\"; echo Forwarding from here; exec sleep 600").unwrap();
        typed(&shell, "forward port-forward 1   # for ever").unwrap();
    }
}
