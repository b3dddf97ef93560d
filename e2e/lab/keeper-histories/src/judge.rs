//! Holds a history against all rules.

use crate::history::{History, Malformed};
use crate::known::Known;
use crate::verdict::Verdict;
use crate::{order, register, watches};

/// Holds a history against every rule. Each node's search may take `budget` steps.
///
/// # Errors
/// A history that is not well formed.
pub fn judge(history: &History, budget: u64) -> Result<Verdict, Malformed> {
    history.check()?;
    let mut verdict = Verdict::default();
    let known = Known::gather(history, &mut verdict);
    order::judge(history, &known, &mut verdict);
    watches::judge(history, &mut verdict);
    register::judge(history, &known, budget, &mut verdict);
    Ok(verdict)
}
