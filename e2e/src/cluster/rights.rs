//! Rights that roles grant, compared with the requests of an audit log: which right nobody used, and
//! which request was refused.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

/// What a Helm release wrote is annotated with its name.
const RELEASE: &str = "meta.helm.sh/release-name";

/// One verb on one resource, which a role grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The role.
    pub role: String,
    /// Whether the operator's account has it. Otherwise accounts of pools get it, from the operator.
    pub is_operators: bool,
    /// The API group; the core's is empty.
    pub group: String,
    /// The resource, with its subresource behind a slash.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The objects; empty: all.
    pub names: Vec<String>,
    /// The namespace; empty: all.
    pub namespace: String,
}

/// A request as the audit log has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Who sent it.
    pub account: String,
    /// The API group; the core's is empty.
    pub group: String,
    /// The resource, with its subresource behind a slash.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The object; empty for lists and creations.
    pub name: String,
    /// The namespace; empty for all and for objects without one.
    pub namespace: String,
    /// Whether roles allowed it. Admission may have refused it afterwards.
    pub allowed: bool,
}

impl Grant {
    /// Whether this request needed the right, if the operator's account is called that.
    fn covers(&self, request: &Request, operator: &str) -> bool {
        request.allowed
            && self.is_operators == (request.account == operator)
            && (&self.group, &self.resource, &self.verb)
                == (&request.group, &request.resource, &request.verb)
            && (self.names.is_empty() || self.names.contains(&request.name))
            && (self.namespace.is_empty() || self.namespace == request.namespace)
    }
}

/// The name of an account in the audit log.
#[must_use]
pub fn user(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// The rights of a release's roles. `roles` and `bindings` are objects of both scopes.
#[must_use]
pub fn grants(release: &str, operator: &str, roles: &[Value], bindings: &[Value]) -> Vec<Grant> {
    let mut grants = Vec::new();
    for role in roles.iter().filter(|role| role["metadata"]["annotations"][RELEASE] == release) {
        let mut subjects = bindings
            .iter()
            .filter(|binding| binds(binding, role))
            .flat_map(|binding| binding["subjects"].as_array().into_iter().flatten());
        let is_operators =
            subjects.any(|it| user(&text(&it["namespace"]), &text(&it["name"])) == operator);
        for rule in role["rules"].as_array().into_iter().flatten() {
            add_rule(&mut grants, role, rule, is_operators);
        }
    }
    grants
}

fn add_rule(grants: &mut Vec<Grant>, role: &Value, rule: &Value, is_operators: bool) {
    for group in texts(&rule["apiGroups"]) {
        for resource in texts(&rule["resources"]) {
            for verb in texts(&rule["verbs"]) {
                grants.push(Grant {
                    role: text(&role["metadata"]["name"]),
                    is_operators,
                    group: group.clone(),
                    resource: resource.clone(),
                    verb,
                    names: texts(&rule["resourceNames"]),
                    namespace: text(&role["metadata"]["namespace"]),
                });
            }
        }
    }
}

fn binds(binding: &Value, role: &Value) -> bool {
    let to = &binding["roleRef"];
    to["kind"] == role["kind"]
        && to["name"] == role["metadata"]["name"]
        && binding["metadata"]["namespace"] == role["metadata"]["namespace"]
}

/// The request of a line of an audit log; none for what has no resource, two for a patch that made
/// its object, since that needs the right to create it too.
///
/// # Errors
/// When the line is not JSON.
pub fn requests(line: &str) -> Result<Vec<Request>> {
    let event: Value = serde_json::from_str(line).context("the audit log is not JSON")?;
    let object = &event["objectRef"];
    if !object["resource"].is_string() {
        return Ok(Vec::new());
    }
    let resource = match text(&object["subresource"]) {
        below if below.is_empty() => text(&object["resource"]),
        below => format!("{}/{below}", text(&object["resource"])),
    };
    let request = Request {
        account: text(&event["user"]["username"]),
        group: text(&object["apiGroup"]),
        resource,
        verb: text(&event["verb"]),
        name: text(&object["name"]),
        namespace: text(&object["namespace"]),
        allowed: event["annotations"]["authorization.k8s.io/decision"] == "allow",
    };
    let is_creation = request.verb == "patch" && event["responseStatus"]["code"] == 201;
    let creation = is_creation.then(|| Request { verb: "create".to_owned(), ..request.clone() });
    Ok([request].into_iter().chain(creation).collect())
}

/// The rights that no request needed.
#[must_use]
pub fn unused(grants: &[Grant], requests: &BTreeSet<Request>, operator: &str) -> Vec<Grant> {
    let is_unused =
        |grant: &&Grant| !requests.iter().any(|request| grant.covers(request, operator));
    grants.iter().filter(is_unused).cloned().collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{Grant, Request, grants, requests, unused, user};

    fn role(name: &str, namespace: Option<&str>, rules: &Value) -> Value {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        json!({"kind": kind, "rules": rules, "metadata": {"name": name, "namespace": namespace,
            "annotations": {"meta.helm.sh/release-name": "millrace"}}})
    }

    fn event(user: &str, verb: &str, object: &Value, decision: &str) -> Request {
        let event = json!({"user": {"username": user}, "verb": verb, "objectRef": object,
            "annotations": {"authorization.k8s.io/decision": decision}});
        requests(&event.to_string()).unwrap().remove(0)
    }

    fn verbs(grants: &[Grant]) -> Vec<String> {
        let words = |it: &Grant| [&*it.group, &it.resource, &it.verb].join(" ");
        grants.iter().map(words).collect()
    }

    /// Scenario: a cluster's role of the operator, one of its namespace by name, one that pools get,
    /// one of another release; requests for some of it, by others too, and one that was refused.
    /// Guarantee: each right is used only by its account, group, subresource, verb, name and
    /// namespace, and the other release's role isn't judged.
    #[test]
    fn a_right_is_used_by_a_request_that_needs_it() {
        let pods = json!([{"apiGroups": [""], "resources": ["pods", "pods/resize"],
            "verbs": ["list", "patch"]}]);
        let lease = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": ["millrace"], "verbs": ["get", "update"]}]);
        let maps =
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch"]}]);
        let mut other = role("other", None, &pods);
        other["metadata"]["annotations"]["meta.helm.sh/release-name"] = "other".into();
        let roles = [
            role("wide", None, &pods),
            role("lease", Some("own"), &lease),
            role("share", None, &maps),
            other,
        ];
        let bindings = ["wide", "lease"].map(|name| {
            let of = roles.iter().find(|it| it["metadata"]["name"] == name).unwrap();
            let mut binding = of.clone();
            binding["roleRef"] = json!({"kind": of["kind"], "name": name});
            binding["subjects"] =
                json!([{"kind": "ServiceAccount", "namespace": "own", "name": "millrace"}]);
            binding
        });
        let operator = &*user("own", "millrace");
        let granted = grants("millrace", operator, &roles, &bindings);
        assert_eq!(granted.len(), 8);

        let lease = |name: &str, namespace: &str| {
            json!({"apiGroup": "coordination.k8s.io",
            "resource": "leases", "name": name, "namespace": namespace})
        };
        let pods = json!({"resource": "pods", "namespace": "a"});
        let resize = json!({"resource": "pods", "subresource": "resize", "name": "p"});
        let maps = json!({"resource": "configmaps", "namespace": "a"});
        let requests = BTreeSet::from([
            event(operator, "list", &pods, "allow"),
            event(&user("a", "default"), "patch", &pods, "allow"),
            event(operator, "patch", &resize, "forbid"),
            event(operator, "get", &lease("millrace", "own"), "allow"),
            event(operator, "update", &lease("millrace", "a"), "allow"),
            event(operator, "update", &lease("other", "own"), "allow"),
            event(&user("a", "pool"), "watch", &maps, "allow"),
        ]);
        let expected = [
            " pods patch",
            " pods/resize list",
            " pods/resize patch",
            "coordination.k8s.io leases update",
            " configmaps get",
        ];
        assert_eq!(verbs(&unused(&granted, &requests, operator)), expected);
        assert_eq!(requests.iter().filter(|it| !it.allowed).count(), 1);
    }

    /// Scenario: a request for no resource, a line that was cut, and patches that change and that
    /// create their object. Guarantee: the first isn't judged, the second is an error, and only the
    /// last needs the right to create.
    #[test]
    fn only_requests_for_resources_are_read() {
        assert!(requests("{\"requestURI\": \"/version\"}").unwrap().is_empty());
        assert!(requests("{\"requestURI\"").is_err());
        for (code, expected) in [(200, &["patch"][..]), (201, &["patch", "create"])] {
            let event = json!({"verb": "patch", "objectRef": {"resource": "services"},
                "responseStatus": {"code": code}});
            let found = requests(&event.to_string()).unwrap();
            assert_eq!(found.iter().map(|it| &*it.verb).collect::<Vec<_>>(), expected);
        }
    }
}
