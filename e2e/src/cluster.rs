//! The cluster under test, through kubectl as a user would use it, and namespaces that go with
//! their test.

pub mod console;
pub mod pipeline;
pub mod rights;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use millrace_stack::Stack;
use serde_json::Value;

use crate::wait;

/// The namespace that the operator is installed into.
pub const OPERATOR_NAMESPACE: &str = "millrace-system";

/// Calls the stack's Helm on its cluster.
///
/// # Errors
/// When it fails; the message is its own.
pub fn helm(stack: &Stack, args: &[&str]) -> Result<()> {
    let output = stack.helm(args)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {said}", args.join(" "));
    Ok(())
}

/// A condition of an object, or null.
#[must_use]
pub fn condition_of<'a>(object: &'a Value, of: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == of).unwrap_or(&Value::Null)
}

/// A cluster reached by kubeconfig.
#[derive(Debug, Clone)]
pub struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

/// What one call of kubectl gave.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// Whether it exited with 0.
    pub ok: bool,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A condition in an object's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The stable reason.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The generation it speaks of.
    pub observed_generation: i64,
}

impl Condition {
    fn of(object: &Value, of: &str) -> Result<Self> {
        let found = condition_of(object, of);
        ensure!(!found.is_null(), "there is no condition {of} yet");
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            observed_generation: found["observedGeneration"].as_i64().unwrap_or(-1),
        })
    }
}

impl Cluster {
    /// The local stack's cluster.
    ///
    /// # Errors
    /// When the stack has no kubectl.
    pub fn of(stack: &Stack) -> Result<Self> {
        let kubectl = stack.tool("kubectl").context("the stack has no kubectl")?;
        Ok(Self { kubectl, kubeconfig: stack.kubeconfig() })
    }

    /// Call kubectl; `input` goes to its standard input.
    ///
    /// # Errors
    /// When it can't be run. What it answers, good or bad, is the result.
    pub fn call(&self, args: &[&str], input: &str) -> Result<Spoken> {
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.kubectl.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok(Spoken {
            ok: output.status.success(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Call kubectl and take what it prints.
    ///
    /// # Errors
    /// When it fails; the message is its own.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let spoken = self.call(args, "")?;
        if !spoken.ok {
            bail!("kubectl {}: {}", args.join(" "), spoken.err.trim());
        }
        Ok(spoken.out)
    }

    /// `kubectl apply --server-side` of a document, as a GitOps tool does.
    ///
    /// # Errors
    /// When the API server refuses it; the message is its own.
    pub fn apply(&self, namespace: &str, document: &str) -> Result<()> {
        let args = ["-n", namespace, "apply", "--server-side", "--force-conflicts", "-f", "-"];
        let spoken = self.call(&args, document)?;
        if !spoken.ok {
            bail!("refused: {}", spoken.err.trim());
        }
        Ok(())
    }

    /// One object as JSON.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Value> {
        let text = self.kubectl(&["-n", namespace, "get", kind, name, "-o", "json"])?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    /// A list as JSON objects.
    ///
    /// # Errors
    /// When the kind is not known.
    pub fn list(&self, namespace: &str, kind: &str, selector: &str) -> Result<Vec<Value>> {
        let args = ["-n", namespace, "get", kind, "-l", selector, "-o", "json"];
        let list: Value = serde_json::from_str(&self.kubectl(&args)?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The pods of an edge pool.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn edge_pods(&self, namespace: &str, pool: &str) -> Result<Vec<Value>> {
        let selector = format!(
            "app.kubernetes.io/name=millrace-collector,app.kubernetes.io/component=edge,\
             app.kubernetes.io/instance={pool}"
        );
        self.list(namespace, "pods", &selector)
    }

    /// One condition of an object, when it has it.
    ///
    /// # Errors
    /// When the object or the condition is not there.
    pub fn condition(&self, ns: &str, kind: &str, name: &str, of: &str) -> Result<Condition> {
        let object = self.get(ns, kind, name)?;
        Condition::of(&object, of).with_context(|| format!("{kind}/{name}"))
    }

    /// Wait until a condition has a status and, unless empty, a reason, for the newest generation.
    ///
    /// # Errors
    /// After `limit`: the message says what the condition was last.
    pub fn wait_for(
        &self,
        (namespace, kind, name): (&str, &str, &str),
        (condition, status, reason): (&str, &str, &str),
        limit: Duration,
    ) -> Result<Condition> {
        let what = format!("{kind}/{name} to be {condition}={status} {reason}");
        wait::until(&what, limit, || {
            let object = self.get(namespace, kind, name)?;
            let seen = Condition::of(&object, condition)?;
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            let reason_fits = reason.is_empty() || seen.reason == reason;
            if seen.status != status || !reason_fits || seen.observed_generation != generation {
                bail!("generation {generation}, last seen {seen:?}");
            }
            Ok(seen)
        })
    }

    /// Wait for an event with a reason, about any object of a namespace.
    ///
    /// # Errors
    /// When none comes within `limit`.
    pub fn expect_event(&self, namespace: &str, reason: &str, limit: Duration) -> Result<()> {
        wait::until(&format!("an event {reason}"), limit, || {
            let text = self.kubectl(&["-n", namespace, "get", "events", "-o", "json"])?;
            let list: Value = serde_json::from_str(&text)?;
            let items = list["items"].as_array();
            let reasons: Vec<&str> =
                items.into_iter().flatten().filter_map(|event| event["reason"].as_str()).collect();
            if reasons.contains(&reason) {
                return Ok(());
            }
            bail!("events so far: {reasons:?}")
        })
    }

    /// A namespace with the strictest pod security, removed with its guard.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn namespace(&self, purpose: &str) -> Result<Namespace<'_>> {
        self.namespace_enforcing("restricted", purpose)
    }

    /// The same, with another pod security level than `restricted`.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn namespace_enforcing(&self, level: &str, purpose: &str) -> Result<Namespace<'_>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("e2e-{purpose}-{:x}", now.as_millis() & 0xff_ffff);
        let object = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, \
             labels: {{pod-security.kubernetes.io/enforce: {level}}}}}}}"
        );
        let spoken = self.call(&["create", "-f", "-"], &object)?;
        if !spoken.ok {
            bail!("cannot make the namespace {name}: {}", spoken.err.trim());
        }
        Ok(Namespace { cluster: self, name })
    }
}

/// A test's own namespace.
#[derive(Debug)]
pub struct Namespace<'c> {
    cluster: &'c Cluster,
    /// Its name.
    pub name: String,
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // Without waiting: the next test has a namespace of its own.
        let _ = self.cluster.kubectl(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}
