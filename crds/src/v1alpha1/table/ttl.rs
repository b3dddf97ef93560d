//! How long tables retain rows: `7d`, `Forever`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::amounts::Period;
use crate::names::{InvalidText, checked_schema};

const FOREVER: &str = "Forever";
const ADVICE: &str = "write a whole number and a unit: s, m, h or d, for example 30d, or Forever";
/// Retention of a pipeline's tables, if its spec has none: a disk fills without one, and a month
/// covers what is read after an incident.
const PIPELINE_DAYS: u16 = 30;

/// How long a table retains rows, by their own time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TableTtl {
    /// Rows are deleted after this period.
    After(Period),
    /// Rows are never deleted.
    Forever,
}

impl TableTtl {
    /// The retention of a pipeline's tables, if its spec has none.
    #[must_use]
    pub(crate) fn of_pipelines() -> Self {
        Self::After(Period::from_days(PIPELINE_DAYS))
    }

    /// The period, unless it is forever.
    #[must_use]
    pub const fn period(&self) -> Option<&Period> {
        match self {
            Self::After(period) => Some(period),
            Self::Forever => None,
        }
    }
}

impl TryFrom<String> for TableTtl {
    type Error = InvalidText;

    fn try_from(text: String) -> Result<Self, InvalidText> {
        if text == FOREVER {
            return Ok(Self::Forever);
        }
        let period = Period::try_from(text.clone()).map(Self::After);
        period.map_err(|_| InvalidText::new(&text, "retention", ADVICE))
    }
}

impl FromStr for TableTtl {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        Self::try_from(text.to_owned())
    }
}

impl From<TableTtl> for String {
    fn from(ttl: TableTtl) -> Self {
        ttl.to_string()
    }
}

impl fmt::Display for TableTtl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(period) => period.fmt(formatter),
            Self::Forever => formatter.write_str(FOREVER),
        }
    }
}

impl JsonSchema for TableTtl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TableTtl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("{}|^{FOREVER}$", Period::PATTERN);
        checked_schema(Period::MAX_LENGTH, &pattern, ADVICE)
    }
}

#[cfg(test)]
mod tests {
    use super::TableTtl;

    /// Scenario: texts of a spec. Guarantee: periods and the one word are read and written back as
    /// they were; what is close to either is refused with advice.
    #[test]
    fn a_period_or_forever_is_read_and_written_back() {
        for text in ["30d", "12h", "Forever"] {
            assert_eq!(text.parse::<TableTtl>().unwrap().to_string(), text);
        }
        for text in ["", "forever", "Forever ", "0d", "30", "1d12h"] {
            let refused = text.parse::<TableTtl>().unwrap_err().to_string();
            assert!(refused.contains("or Forever"), "{text}: {refused}");
        }
        assert_eq!(TableTtl::of_pipelines().period().unwrap().seconds(), 30 * 86_400);
        assert_eq!(TableTtl::of_pipelines(), "30d".parse().unwrap());
    }
}
