//! What the servers written in Java share: the launcher, and jars from Maven in the cache.

use std::path::PathBuf;
use std::process::Command;

use crate::servers::service::{self, Result};

const JDK_HINT: &str =
    "install a JDK of version 17 or later (apt-get install openjdk-17-jdk-headless)";

/// For servers of tests, which run for seconds: compiled quickly instead of well, with the collector
/// that starts the quickest. Benchmarks are release builds.
pub(crate) const QUICK_START: &[&str] =
    if cfg!(debug_assertions) { &["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] } else { &[] };

/// The Java launcher: `JAVA_HOME`'s, or the PATH's.
pub(crate) fn launcher() -> Result<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    match home.filter(|java| java.is_file()) {
        Some(java) => Ok(java),
        None => service::find_tool("java", JDK_HINT),
    }
}

/// The cache's folder `name` with every jar that the project `pom` depends on, fetched with Maven
/// unless it is there. `properties` replace those of the project.
pub(crate) fn jars(name: &str, pom: &str, properties: &[(&str, &str)]) -> Result<PathBuf> {
    let defined: Vec<String> =
        properties.iter().map(|(key, value)| format!("-D{key}={value}")).collect();
    let recipe = format!("{pom}{}", defined.concat());
    service::install_once(name, &recipe, |dir| {
        let maven = service::find_tool("mvn", "install Maven (apt-get install maven)")?;
        let file = dir.join("pom.xml");
        service::write_file(&file, pom)?;
        let mut command = Command::new(maven);
        command
            .args(["--batch-mode", "--quiet", "--file"])
            .arg(&file)
            .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
            .args(&defined)
            .arg(format!("-DoutputDirectory={}", dir.display()));
        service::run(&format!("fetching {name} with Maven"), &mut command)
    })
}
