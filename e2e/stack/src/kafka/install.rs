//! Gets Kafka's jars from Maven, once, into the cache.

use std::path::PathBuf;
use std::process::Command;

use crate::service::{self, Result};

/// The project whose dependencies are the broker; the version of Kafka is said there.
const POM: &str = include_str!("../../kafka/pom.xml");
const JDK_HINT: &str =
    "install a JDK of version 17 or later (apt-get install openjdk-17-jdk-headless)";

/// The folder with every jar of the broker.
pub(super) fn jars() -> Result<PathBuf> {
    service::install_once("kafka-4.1.0", POM, |dir| {
        let maven = service::find_tool("mvn", "install Maven (apt-get install maven)")?;
        let pom = dir.join("pom.xml");
        service::write_file(&pom, POM)?;
        let mut command = Command::new(maven);
        command
            .args(["--batch-mode", "--quiet", "--file"])
            .arg(&pom)
            .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
            .arg(format!("-DoutputDirectory={}", dir.display()));
        service::run("fetching Kafka with Maven", &mut command)
    })
}

/// The Java launcher: `JAVA_HOME`'s, or the PATH's.
pub(super) fn java() -> Result<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    match home.filter(|java| java.is_file()) {
        Some(java) => Ok(java),
        None => service::find_tool("java", JDK_HINT),
    }
}
