//! Gets the engine's packages with pip, once, into the cache; carries the front's source.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers::service::{self, Result, ServiceError, io_error};

/// The packages, with their versions.
const REQUIREMENTS: &str = include_str!("../../../clickhouse/requirements.txt");

/// The front's files by name: the binary that starts it may be far from this source.
pub(super) const FRONT: [(&str, &str); 11] = [
    ("access.py", include_str!("../../../clickhouse/access.py")),
    ("body.py", include_str!("../../../clickhouse/body.py")),
    ("codec.py", include_str!("../../../clickhouse/codec.py")),
    ("engine.py", include_str!("../../../clickhouse/engine.py")),
    ("errors.py", include_str!("../../../clickhouse/errors.py")),
    ("faults.py", include_str!("../../../clickhouse/faults.py")),
    ("front.py", include_str!("../../../clickhouse/front.py")),
    ("handler.py", include_str!("../../../clickhouse/handler.py")),
    ("replicated.py", include_str!("../../../clickhouse/replicated.py")),
    ("sql.py", include_str!("../../../clickhouse/sql.py")),
    ("versioned.py", include_str!("../../../clickhouse/versioned.py")),
];

const PYTHON_HINT: &str = "install Python 3.11 or later (apt-get install python3)";
const PIP_HINT: &str = "install pip for python3 (apt-get install python3-pip)";

/// Prints the interpreter's path (past any shim), its version and its ABI.
const DESCRIBE: &str = "import sys; v = sys.version_info; \
    print(sys.executable, v >= (3, 11), sys.implementation.cache_tag, sep='\\n')";

/// The interpreter that runs the front.
#[derive(Debug)]
pub(crate) struct Python {
    pub(crate) path: PathBuf,
    /// Such as `cpython-311`: packages with compiled parts fit one only.
    abi: String,
}

impl Python {
    pub(crate) fn abi(&self) -> &str {
        &self.abi
    }

    /// Puts built packages, and nothing that they depend on, into a folder.
    pub(crate) fn fetch(&self, requirements: &str, dir: &Path, action: &str) -> Result<()> {
        let mut probe = Command::new(&self.path);
        let has_pip = probe.args(["-m", "pip", "--version"]).output();
        if !has_pip.is_ok_and(|output| output.status.success()) {
            return Err(ServiceError::MissingTool { tool: "pip", hint: PIP_HINT });
        }
        let file = dir.join("requirements.txt");
        service::write_file(&file, requirements)?;
        let mut command = Command::new(&self.path);
        command
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--upgrade"])
            .args(["--root-user-action", "ignore", "--only-binary", ":all:"])
            .args(["--target".as_ref(), dir.as_os_str()])
            .args(["--requirement".as_ref(), file.as_os_str()]);
        service::run(action, &mut command)
    }
}

/// Finds Python 3.11 or later.
pub(crate) fn python() -> Result<Python> {
    let missing = || ServiceError::MissingTool { tool: "python3", hint: PYTHON_HINT };
    let found = service::find_tool("python3", PYTHON_HINT)?;
    let output = Command::new(&found)
        .args(["-c", DESCRIBE])
        .output()
        .map_err(io_error(format!("run {}", found.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(path), Some("True"), Some(abi)) => {
            Ok(Python { path: PathBuf::from(path), abi: abi.to_owned() })
        }
        _ => Err(missing()),
    }
}

/// The folder with the engine and what the front needs beside it.
pub(super) fn packages(python: &Python) -> Result<PathBuf> {
    let name = format!("clickhouse-engine-{}", python.abi);
    service::install_once(&name, REQUIREMENTS, |dir| {
        python.fetch(REQUIREMENTS, dir, "fetching the ClickHouse engine with pip")
    })
}
