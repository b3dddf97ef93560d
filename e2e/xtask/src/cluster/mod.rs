//! What needs the local stack: the stack itself, and tasks that install or try something on it.

pub(crate) mod argocd;
pub(crate) mod demo;
pub(crate) mod install;
pub(crate) mod pages;
pub(crate) mod stack;
pub(crate) mod upgrades;
