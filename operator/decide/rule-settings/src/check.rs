//! Compiles rules without their secrets.

use std::fmt;

use millrace_processing::{CompileError, CompileErrors, Config, RuleSet};

/// The most errors in a message; a condition's message has 1,024 characters.
const ERRORS_SHOWN: usize = 3;
/// The most supported names in a message: a list of all functions would fill it.
const SUPPORTED_SHOWN: usize = 8;

/// Why rules don't compile, with the first errors in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// All errors, in the order of the steps.
    pub errors: CompileErrors,
}

/// Compiles rules as the collector does. Hashes get a stand-in for their key, so the result must
/// not process records of users.
///
/// # Errors
/// When the collector would refuse the rules.
pub fn compile_rules(config: &Config) -> Result<RuleSet, RuleError> {
    RuleSet::compile_without_secrets(config).map_err(|errors| RuleError { errors })
}

impl fmt::Display for RuleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompileErrors(errors) = &self.errors;
        for (index, error) in errors.iter().take(ERRORS_SHOWN).enumerate() {
            if index > 0 {
                formatter.write_str("; ")?;
            }
            write_error(formatter, error)?;
        }
        match errors.len().saturating_sub(ERRORS_SHOWN) {
            0 => Ok(()),
            1 => formatter.write_str("; and 1 more error"),
            more => write!(formatter, "; and {more} more errors"),
        }
    }
}

impl std::error::Error for RuleError {}

/// Writes an error with as many supported names as a line has space for.
fn write_error(formatter: &mut fmt::Formatter<'_>, error: &CompileError) -> fmt::Result {
    if error.supported.len() <= SUPPORTED_SHOWN {
        return write!(formatter, "{error}");
    }
    let short = CompileError { supported: Vec::new(), ..error.clone() };
    write!(formatter, "{short}; the page Rules of the documentation lists what is supported")
}
