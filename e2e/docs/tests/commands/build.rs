//! Command lines of whoever builds: make, cargo, docker.

use millrace_docs::shell::Command;

use crate::commands::tree::Tree;

/// Variables whose values are names, and the file that has those: between quotes, or as words of an
/// enumeration.
const NAMED: [(&str, &str); 7] = [
    ("CASE", "e2e/bench/src/case.rs"),
    ("COLLECTORS", "e2e/xtask/src/build.rs"),
    ("FAULT", "e2e/chaos/src/faults/mod.rs"),
    ("FROM", "e2e/xtask/src/test/mod.rs"),
    ("ONLY", "e2e/xtask/src/nightly.rs"),
    ("STRIKE", "e2e/lab/keeper-faults/src/strikes.rs"),
    ("TARGET", "e2e/fuzz/src/lib.rs"),
];

/// A target's rule, up to the next empty line.
fn rule<'a>(makefile: &'a str, target: &str) -> Option<&'a str> {
    let begins = format!("\n{target}:");
    let at = makefile.find(&begins)?;
    let rule = &makefile[at + 1..];
    Some(rule.split("\n\n").next().unwrap_or(rule))
}

pub(crate) fn make(tree: &Tree, command: &Command) -> Vec<String> {
    let mut faults = Vec::new();
    let (variables, targets): (Vec<_>, Vec<_>) =
        command.words[1..].iter().partition(|word| word.contains('='));
    let rules: Vec<&str> =
        targets.iter().filter_map(|target| rule(&tree.makefile, target)).collect();
    if rules.len() != targets.len() || targets.is_empty() {
        faults.push(format!("make has no target {targets:?}"));
    }
    let given = variables.iter().filter_map(|word| word.split_once('='));
    let set = command.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in given.chain(set) {
        let told = [format!("{name}="), format!("$({name})")];
        let known = rules.iter().any(|rule| told.iter().any(|it| rule.contains(it)));
        if !known && !tree.quotes(name) {
            faults.push(format!("nothing reads {name}"));
        }
        let Some((_, file)) = NAMED.iter().find(|(known, _)| *known == name) else { continue };
        // Steps of `make nightly` have names there; any part of a test's path is one elsewhere.
        if name == "ONLY" && !targets.iter().any(|target| *target == "nightly") {
            continue;
        }
        let names = tree.read(file);
        for value in value.split(',').filter(|value| !is_name(&names, value)) {
            faults.push(format!("{file} has no {value}"));
        }
    }
    faults
}

/// Whether a value is, or begins, a quoted text, or is the name of an enumeration's word.
fn is_name(text: &str, value: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_');
    let quoted = text.split('"').skip(1).step_by(2);
    let mut quoted = quoted.filter_map(|it| it.strip_prefix(value));
    let parts = value.split(['_', '-']).map(|part| match part.split_at_checked(1) {
        Some((first, rest)) => first.to_uppercase() + rest,
        None => String::new(),
    });
    let variant = format!("{},", parts.collect::<String>());
    quoted.any(ends) || text.lines().any(|line| line.trim() == variant)
}

pub(crate) fn cargo(tree: &Tree, words: &[String]) -> Vec<String> {
    // `xtask structure` reads tasks and their arguments by xtask's own definition.
    const JUDGED_ELSEWHERE: [&str; 3] = ["deny", "tree", "xtask"];
    const WITH_VALUE: [&str; 3] = ["-p", "--package", "--features"];
    const BARE: [&str; 5] = ["--lib", "--locked", "--release", "--workspace", "--no-fail-fast"];
    const RUNNER: [&str; 2] = ["--ignored", "--nocapture"];
    let verb = words.get(1).map_or("", String::as_str);
    if JUDGED_ELSEWHERE.contains(&verb) {
        return Vec::new();
    }
    if !["build", "clippy", "fmt", "run", "test"].contains(&verb) {
        return vec![format!("cargo {verb} is unknown")];
    }
    let mut faults = Vec::new();
    let (mut package, mut example, mut filters) = (None, None, Vec::new());
    let mut rest = words[2..].iter();
    let mut runner = false;
    while let Some(word) = rest.next() {
        let word = word.as_str();
        match word {
            // What the program is given.
            "--" if verb == "run" => break,
            "--" => runner = true,
            "-p" | "--package" if !runner => package = rest.next(),
            "--example" if !runner => example = rest.next(),
            _ if WITH_VALUE.contains(&word) && !runner => {
                rest.next();
            }
            _ if BARE.contains(&word) && !runner || RUNNER.contains(&word) && runner => {}
            _ if word.starts_with('-') => faults.push(format!("{word} is unknown")),
            _ => filters.push(word),
        }
    }
    // `-p CRATE` stands for any.
    let Some(package) = package.filter(|it| !it.bytes().all(|it| it.is_ascii_uppercase())) else {
        return faults;
    };
    let Some(folder) = tree.crates.get(package) else {
        faults.push(format!("there is no crate {package}"));
        return faults;
    };
    if let Some(name) = example {
        let examples = tree.root().join(folder).join("examples");
        if !examples.join(name).is_dir() && !examples.join(format!("{name}.rs")).is_file() {
            faults.push(format!("{package} has no example {name}"));
        }
    }
    let tests = tree.tests(folder);
    if tests.is_empty() && verb == "test" {
        faults.push(format!("{package} has no tests"));
    } else {
        let unmet = filters.iter().filter(|it| !tests.iter().any(|test| test.contains(**it)));
        faults.extend(unmet.map(|filter| format!("no test has {filter} in its name")));
    }
    faults
}

pub(crate) fn docker(tree: &Tree, words: &[String]) -> Vec<String> {
    let mut file = "Dockerfile";
    let mut arguments = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-f" => file = rest.next().map_or("", String::as_str),
            "--build-arg" => arguments.extend(rest.next().and_then(|it| it.split_once('='))),
            _ => {}
        }
    }
    if !tree.has(file) {
        return vec![format!("there is no {file}")];
    }
    let text = tree.read(file);
    let unknown = arguments.iter().filter(|(name, _)| !text.contains(&format!("ARG {name}")));
    unknown.map(|(name, _)| format!("{file} has no ARG {name}")).collect()
}
