//! Groups problems by cause, so that people read each cause once. Pure.
//!
//! Two problems have one cause if their root reasons are equal and either one object reports both,
//! or one message contains the other. Names of pods and counts of them are not compared: each pool
//! writes its own. Where an image may be at fault, the images are equal too.

use millrace_crds::Reason;

use crate::problems::findings::Finding;

/// Problems with one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct ProblemGroup<'a> {
    /// The objects that report it, each once: kind and name.
    pub objects: Vec<String>,
    /// The problem that names the cause: its message and remedy are those of the group.
    pub main: &'a Finding,
}

/// The cause of a problem, as far as it can be compared.
struct Cause<'a> {
    reason: &'a str,
    image: Option<&'a str>,
    message: String,
}

/// A group under construction.
struct Members<'a> {
    causes: Vec<(Cause<'a>, &'a Finding)>,
}

/// Groups problems with the same cause, in the order of their first problem.
#[must_use]
pub fn group_findings(findings: &[Finding]) -> Vec<ProblemGroup<'_>> {
    let mut groups: Vec<Members<'_>> = Vec::new();
    for finding in findings {
        let cause = cause_of(finding);
        let same = groups.iter().enumerate().filter(|(_, it)| it.has_cause(&cause, finding));
        let same: Vec<usize> = same.map(|(at, _)| at).collect();
        match same.split_first() {
            None => groups.push(Members { causes: vec![(cause, finding)] }),
            Some((first, others)) => {
                // A message with two causes joins their groups. From the end: indexes stay valid.
                let mut joined = vec![(cause, finding)];
                for at in others.iter().rev() {
                    joined.extend(groups.remove(*at).causes);
                }
                if let Some(group) = groups.get_mut(*first) {
                    group.causes.extend(joined);
                }
            }
        }
    }
    groups.iter().filter_map(Members::summarize).collect()
}

impl<'a> Members<'a> {
    fn has_cause(&self, cause: &Cause<'_>, finding: &Finding) -> bool {
        self.causes.iter().any(|(known, member)| {
            let is_same_object = (&member.kind, &member.name) == (&finding.kind, &finding.name);
            known.reason == cause.reason
                && known.image == cause.image
                && (is_same_object
                    || known.message.contains(&cause.message)
                    || cause.message.contains(&known.message))
        })
    }

    fn summarize(&self) -> Option<ProblemGroup<'a>> {
        let mut objects: Vec<String> = Vec::new();
        for (_, member) in &self.causes {
            let object = format!("{} {}", member.kind, member.name);
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        // `RolledBack` is a consequence: the problem with the root reason has the remedy. A message
        // that contains all others is complete.
        let of_root = || self.causes.iter().filter(|(cause, it)| cause.reason == it.reason);
        let contains_all =
            |message: &str| self.causes.iter().all(|(other, _)| message.contains(&other.message));
        let complete = of_root().find(|(cause, _)| contains_all(&cause.message));
        let (_, main) = complete.or_else(|| of_root().next()).or(self.causes.first())?;
        Some(ProblemGroup { objects, main })
    }
}

fn cause_of(finding: &Finding) -> Cause<'_> {
    let (reason, message) = match &finding.rollout {
        Some(rollout) => (&*rollout.reason, &*rollout.message),
        None => (&*finding.reason, &*finding.message),
    };
    let image = finding.image.as_deref().filter(|_image| can_be_of_image(reason));
    Cause { reason, image, message: without_pods(message, &finding.name) }
}

/// Returns whether another image may be the remedy.
fn can_be_of_image(reason: &str) -> bool {
    matches!(
        Reason::parse(reason),
        Some(Reason::ImagePullFailed | Reason::PodCrashing | Reason::PodOutOfMemory)
    )
}

/// Returns a message without names of the object and its pods, and without how many more pods have
/// the problem.
fn without_pods(message: &str, object: &str) -> String {
    const MORE: &str = " (and ";
    let message = match message.split_once(MORE) {
        Some((before, after)) => match after.split_once(" more)") {
            Some((count, rest)) if count.parse::<u32>().is_ok() => format!("{before}{rest}"),
            _ => message.to_owned(),
        },
        None => message.to_owned(),
    };
    let pod_prefix = format!("{object}-");
    let words = message.split_whitespace().map(|word| {
        let name = word.trim_matches(|it: char| matches!(it, ':' | ',' | ';' | '.' | '"'));
        match !object.is_empty() && (name == object || name.starts_with(&pod_prefix)) {
            true => word.replace(name, "*"),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
