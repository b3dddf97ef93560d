//! The pod template of a collector: one container, everything restricted, configuration and secrets
//! as files; and over it what the spec adds (`merge`). Pure.
//!
//! Nothing in it may depend on the operator's own version: upgrading the operator restarts no pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, ContainerStatus,
    EmptyDirVolumeSource, EnvVar, EnvVarSource, EphemeralVolumeSource, HTTPGetAction,
    HostPathVolumeSource, ObjectFieldSelector, PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate, PodSecurityContext, PodSpec, PodStatus, PodTemplateSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, TopologySpreadConstraint, Volume,
    VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use millrace_autoscale::Resources as PodResources;
use millrace_crds::v1alpha1::{Allocator, CollectorSettings, EdgeBuffer, PodTemplate, Resources};
use serde_json::json;

use super::discover::{self, MONITORS_VOLUME};
use super::merge;
use super::names::PoolNames;
use super::secrets::{SECRETS_ANNOTATION, SECRETS_VOLUME, SecretUses};
use crate::cluster::hash_of;
use crate::context::Images;
use crate::error::Invalid;
use crate::pods::{ADMIN_PORT, CONTAINER};

/// OTLP over gRPC.
pub const OTLP_GRPC_PORT: i32 = 4317;
/// OTLP over HTTP.
pub const OTLP_HTTP_PORT: i32 = 4318;
/// Where the configuration is mounted.
const CONFIG_FOLDER: &str = "/etc/millrace/config";
/// Where a buffer's volume is mounted.
const BUFFER_MOUNT: &str = "/var/lib/millrace";
/// The buffer's folder in the volume: not its root, where file systems put entries of their own.
pub const BUFFER_FOLDER: &str = "/var/lib/millrace/buffer";
/// Its volume.
pub const BUFFER_VOLUME: &str = "buffer";
/// Least size of a volume beyond its buffer: one segment that begins before the oldest is removed
/// (16 MiB), and the file system's own needs.
const BUFFER_SPARE_BYTES: u64 = 64 << 20;
/// The same as a fraction: what common file systems take, with their reserve.
const BUFFER_SPARE_SHARE: u64 = 8;
/// Where a node's logs are, and where a pod that reads them finds them.
const NODE_LOGS: &str = "/var/log";
/// The volume with them.
pub const NODE_LOGS_VOLUME: &str = "node-logs";
/// The volume with Docker's log files of a node, which a pod finds where the node has them: links
/// lead there.
pub const DOCKER_LOGS_VOLUME: &str = "docker-logs";
/// A node's kernel log, where a pod finds it as well.
const KMSG: &str = "/dev/kmsg";
/// The volume that is this device.
pub const KMSG_VOLUME: &str = "kmsg";
/// Where a node keeps the position directories of all pools.
const NODE_POSITIONS: &str = "/var/lib/millrace";
/// Where a pod finds its pool's.
pub const POSITIONS_FOLDER: &str = "/var/lib/millrace/positions";
/// The volume with it.
pub const POSITIONS_VOLUME: &str = "positions";
/// The user that reads a node's files and kernel log: container runtimes write logs for root alone,
/// and the kernel may give its log to nobody else.
const FILES_USER: i64 = 0;
/// The one capability it keeps of root's: to read files, and search directories, of other owners.
const FILES_CAPABILITY: &str = "DAC_READ_SEARCH";
/// The volume with the configuration.
pub const CONFIG_VOLUME: &str = "config";
/// Volumes that no spec may name, whether a pool has them or not.
pub const OUR_VOLUMES: [&str; 8] = [
    CONFIG_VOLUME,
    SECRETS_VOLUME,
    MONITORS_VOLUME,
    BUFFER_VOLUME,
    NODE_LOGS_VOLUME,
    DOCKER_LOGS_VOLUME,
    KMSG_VOLUME,
    POSITIONS_VOLUME,
];
/// The configuration's file name in its ConfigMap.
pub const CONFIG_KEY: &str = "collector.yaml";
/// The environment variable with the pod's own name; a gateway's fixed name in its group.
pub const POD_NAME_ENV: &str = "POD_NAME";
/// The environment variables with its namespace and uid, by which it finds its share.
const POD_NAMESPACE_ENV: &str = "POD_NAMESPACE";
const POD_UID_ENV: &str = "POD_UID";
/// The environment variable with the name of the pod's node.
const NODE_NAME_ENV: &str = "NODE_NAME";
/// The user and group images are made for: `nonroot`.
pub const USER: i64 = 65_532;
/// What the kubelet waits beyond the drain before it kills: closing sockets and writing logs.
const GRACE_BEYOND_DRAIN_SECONDS: u32 = 10;
/// Start-up may wait for a broker: 30 * 2 s before liveness counts.
const STARTUP_ATTEMPTS: i32 = 30;

/// What a pod template is made from.
#[derive(Clone, Debug)]
pub struct PodPlan<'a> {
    /// Names and labels.
    pub names: &'a PoolNames,
    /// The image with its tag.
    pub image: &'a str,
    /// User and group; none where the cluster assigns them.
    pub user: Option<i64>,
    /// Memory and processor time.
    pub resources: PodResources,
    /// What the spec writes of its pods.
    pub theirs: &'a PodTemplate,
    /// No two of the pods share a node.
    pub per_node: bool,
    /// Secrets to mount.
    pub secrets: &'a SecretUses,
    /// A buffer on disk; an edge's only.
    pub buffer: Option<&'a EdgeBuffer>,
    /// Whether files of the node are read; an edge's only.
    pub reads_files: bool,
    /// Where the node has Docker's log files, if they are read; an edge's only.
    pub docker_directory: Option<&'a str>,
    /// Whether the node's kernel log is read; an edge's only.
    pub reads_kernel: bool,
    /// Whether pods of the node are watched; an edge's only.
    pub watches_pods: bool,
    /// Whether targets are scraped, as a share says; an edge's only.
    pub reads_share: bool,
    /// Whether monitors are followed, whose secrets are files; an edge's only.
    pub follows_monitors: bool,
    /// How long a pod may drain.
    pub drain_seconds: u32,
    /// Ports besides the admin port, with their names.
    pub ports: &'a [(&'a str, i32)],
    /// Label whose value differs between revisions, for spreading; Deployments only.
    pub revision_label: Option<&'a str>,
}

/// The image of a spec: repository, version and allocator, and the digest where one is known for
/// them. A version left out is that of `running`, the image of the pool's pods, and a digest that
/// runs stays while its tag does: upgrading the operator changes no image. A new pool gets this
/// release's.
#[must_use]
pub fn image(collector: &CollectorSettings, images: &Images, running: Option<&str>) -> String {
    let repository = collector
        .image_repository
        .as_ref()
        .map_or(images.collector_repository.as_str(), |r| r.as_str());
    let version = match &collector.version {
        Some(version) => version.as_str(),
        None => running.and_then(version_of).unwrap_or(&images.collector_version_default),
    };
    let tag = format!("{version}-{}", collector.allocator.as_str());
    let name = format!("{repository}:{tag}");
    let known = images.collector_digests.get(&tag);
    let known = known.filter(|_| repository == images.collector_repository);
    match (known, running) {
        (Some(digest), _) => format!("{name}@{digest}"),
        (None, Some(running)) if without_digest(running) == name => running.to_owned(),
        (None, _) => name,
    }
}

/// Repository and tag of an image.
#[must_use]
pub fn without_digest(image: &str) -> &str {
    image.split_once('@').map_or(image, |(name, _)| name)
}

/// The version in an image's tag, which ends in its allocator.
fn version_of(image: &str) -> Option<&str> {
    let (_, tag) = without_digest(image).rsplit_once(':')?;
    let (version, allocator) = tag.rsplit_once('-')?;
    let known = Allocator::ALL.iter().any(|it| it.as_str() == allocator);
    (known && !version.is_empty()).then_some(version)
}

/// Annotation with the template of a rollback, during a rollout.
pub const BASELINE_ANNOTATION: &str = "millrace.dev/rollout-baseline";

/// The image and the ConfigMap of a pod; `None` for one that this operator's templates don't make.
#[must_use]
pub fn runs(pod: &PodSpec) -> Option<(&str, &str)> {
    Some((collector(pod)?.image.as_deref()?, config_map(pod)?))
}

/// The collector's own container: others may be added to pods, before it too.
#[must_use]
pub fn collector(pod: &PodSpec) -> Option<&Container> {
    pod.containers.iter().find(|container| container.name == CONTAINER)
}

/// What its node says of it.
#[must_use]
pub fn collector_status(status: &PodStatus) -> Option<&ContainerStatus> {
    status.container_statuses.as_ref()?.iter().find(|container| container.name == CONTAINER)
}

/// The ConfigMap that a pod mounts.
#[must_use]
pub fn config_map(pod: &PodSpec) -> Option<&str> {
    let volume = pod.volumes.as_ref()?.iter().find(|volume| volume.name == CONFIG_VOLUME)?;
    Some(volume.config_map.as_ref()?.name.as_str())
}

/// The rollback template of a workload, as text and parsed.
#[must_use]
pub fn kept<K: Resource>(live: &K) -> Option<(String, PodTemplateSpec)> {
    let text = live.meta().annotations.as_ref()?.get(BASELINE_ANNOTATION)?;
    Some((text.clone(), serde_json::from_str(text).ok()?))
}

/// The pod template, with what the spec adds to it. Its configuration is in `config_map`.
///
/// # Errors
/// When the spec's part can't be merged into it.
pub fn pod_template(plan: &PodPlan<'_>, config_map: &str) -> Result<PodTemplateSpec, Invalid> {
    let metadata = ObjectMeta { labels: Some(plan.names.labels()), ..ObjectMeta::default() };
    let spec = Some(pod_spec(plan, config_map));
    let built = PodTemplateSpec { metadata: Some(metadata), spec };
    merge::merged(built, plan.theirs, plan.per_node)
}

/// Adds the digest of its Secrets' content, if it needs any.
pub fn note_secrets(template: &mut PodTemplateSpec, digest: Option<&str>) {
    if let Some(digest) = digest {
        let metadata = template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(SECRETS_ANNOTATION.into(), digest.into());
    }
}

/// Gives the collector other resources.
pub fn give(template: &mut PodTemplateSpec, wanted: &PodResources) {
    let containers = template.spec.iter_mut().flat_map(|pod| &mut pod.containers);
    for container in containers.filter(|container| container.name == CONTAINER) {
        container.resources = Some(resources(wanted));
    }
}

/// What names a pool's ConfigMap, and with it the unit that its pods run: the configuration, and
/// what the spec writes of its pods.
#[must_use]
pub fn unit_hash(config: &str, theirs: &PodTemplate) -> String {
    hash_of(&merge::written(theirs).map_or_else(|| config.into(), |theirs| json!([config, theirs])))
}

fn pod_spec(plan: &PodPlan<'_>, config_map: &str) -> PodSpec {
    let mut volumes = vec![Volume {
        name: CONFIG_VOLUME.into(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.into(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }];
    let mut mounts = vec![VolumeMount {
        name: CONFIG_VOLUME.into(),
        mount_path: CONFIG_FOLDER.into(),
        read_only: Some(true),
        ..VolumeMount::default()
    }];
    if let Some((volume, mount)) = plan.secrets.volume() {
        volumes.push(volume);
        mounts.push(mount);
    }
    if plan.follows_monitors {
        let (volume, mount) = discover::secrets_volume(plan.names);
        volumes.push(volume);
        mounts.push(mount);
    }
    if let Some(buffer) = plan.buffer {
        volumes.push(buffer_volume(buffer));
        mounts.push(VolumeMount {
            name: BUFFER_VOLUME.into(),
            mount_path: BUFFER_MOUNT.into(),
            ..VolumeMount::default()
        });
    }
    for (volume, mount) in node_volumes(plan) {
        volumes.push(volume);
        mounts.push(mount);
    }
    let reads_node = plan.reads_files || plan.reads_kernel;
    let user = if reads_node { Some(FILES_USER) } else { plan.user };
    PodSpec {
        service_account_name: Some(plan.names.base.clone()),
        automount_service_account_token: Some(plan.watches_pods || plan.reads_share),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(i64::from(
            plan.drain_seconds + GRACE_BEYOND_DRAIN_SECONDS,
        )),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(!reads_node),
            run_as_user: user,
            run_as_group: user,
            fs_group: user,
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".into(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(plan, mounts)],
        volumes: Some(volumes),
        topology_spread_constraints: Some(spread(plan)),
        ..PodSpec::default()
    }
}

/// A node's logs and kernel log, as far as they are read, and where; with them the directory of
/// this pool on the node: it outlives the pod, and its name is no other pool's, as names of
/// namespaces have no dots.
fn node_volumes(plan: &PodPlan<'_>) -> Vec<(Volume, VolumeMount)> {
    let host = |name: &str, type_: &str, path: &str, (mount_path, read_only): (&str, _)| {
        let source = HostPathVolumeSource { path: path.into(), type_: Some(type_.into()) };
        let volume = Volume { name: name.into(), host_path: Some(source), ..Volume::default() };
        let mount = VolumeMount {
            name: name.into(),
            mount_path: mount_path.into(),
            read_only,
            ..VolumeMount::default()
        };
        (volume, mount)
    };
    let (names, read_only) = (plan.names, Some(true));
    let positions = format!("{NODE_POSITIONS}/{}.{}", names.namespace, names.base);
    let logs = || host(NODE_LOGS_VOLUME, "Directory", NODE_LOGS, (NODE_LOGS, read_only));
    let kmsg = || host(KMSG_VOLUME, "CharDevice", KMSG, (KMSG, read_only));
    let kept = || host(POSITIONS_VOLUME, "DirectoryOrCreate", &positions, (POSITIONS_FOLDER, None));
    let docker = |path| host(DOCKER_LOGS_VOLUME, "Directory", path, (path, read_only));
    let docker = plan.docker_directory.map(docker);
    let logs = plan.reads_files.then(logs);
    let kmsg = plan.reads_kernel.then(kmsg);
    let kept = (plan.reads_files || plan.reads_kernel).then(kept);
    [logs, docker, kmsg, kept].into_iter().flatten().collect()
}

/// A volume that lives as long as the pod. Pods of a Deployment or DaemonSet have no lasting names,
/// so they can have no other.
fn buffer_volume(buffer: &EdgeBuffer) -> Volume {
    let bytes = buffer.bytes();
    let size = Quantity(memory_text(bytes + BUFFER_SPARE_BYTES.max(bytes / BUFFER_SPARE_SHARE)));
    let volume = Volume { name: BUFFER_VOLUME.into(), ..Volume::default() };
    let Some(class) = &buffer.storage_class_name else {
        let empty_dir = EmptyDirVolumeSource { size_limit: Some(size), medium: None };
        return Volume { empty_dir: Some(empty_dir), ..volume };
    };
    let claim = PersistentVolumeClaimSpec {
        access_modes: Some(vec!["ReadWriteOnce".into()]),
        storage_class_name: Some(class.as_str().to_owned()),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
            limits: None,
        }),
        // As the API server itself would write it.
        volume_mode: Some("Filesystem".into()),
        ..PersistentVolumeClaimSpec::default()
    };
    let template = PersistentVolumeClaimTemplate { metadata: None, spec: claim };
    let ephemeral = EphemeralVolumeSource { volume_claim_template: Some(template) };
    Volume { ephemeral: Some(ephemeral), ..volume }
}

fn container(plan: &PodPlan<'_>, mounts: Vec<VolumeMount>) -> Container {
    let ports = plan.ports.iter().copied().chain([("admin", ADMIN_PORT)]);
    Container {
        name: CONTAINER.into(),
        image: Some(plan.image.to_owned()),
        image_pull_policy: Some("IfNotPresent".into()),
        args: Some(vec!["run".into(), "--config".into(), format!("{CONFIG_FOLDER}/{CONFIG_KEY}")]),
        env: Some(environment(plan)),
        ports: Some(
            ports
                .map(|(name, port)| ContainerPort {
                    name: Some(name.into()),
                    container_port: port,
                    protocol: Some("TCP".into()),
                    ..ContainerPort::default()
                })
                .collect(),
        ),
        resources: Some(resources(&plan.resources)),
        // The last output of a failed container is in its pod's status: a rollout reports it.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        startup_probe: Some(probe("/livez", 2, STARTUP_ATTEMPTS)),
        liveness_probe: Some(probe("/livez", 10, 3)),
        readiness_probe: Some(probe("/readyz", 3, 2)),
        security_context: Some(security(plan)),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// As little as there can be. A device of the node opens in privileged containers alone: the device
/// cgroup of any other forbids it, whatever is mounted and whichever capabilities it has. A
/// privileged container has all capabilities, and the API server refuses to have one without
/// escalation.
fn security(plan: &PodPlan<'_>) -> SecurityContext {
    let mut context =
        SecurityContext { read_only_root_filesystem: Some(true), ..SecurityContext::default() };
    if plan.reads_kernel {
        context.privileged = Some(true);
    } else {
        restrict(&mut context, plan.reads_files.then_some(FILES_CAPABILITY));
    }
    context
}

/// No capability but one, and no way to more.
pub fn restrict(context: &mut SecurityContext, capability: Option<&str>) {
    context.allow_privilege_escalation = Some(false);
    context.capabilities = Some(Capabilities {
        drop: Some(vec!["ALL".into()]),
        add: capability.map(|capability| vec![capability.to_owned()]),
    });
}

fn environment(plan: &PodPlan<'_>) -> Vec<EnvVar> {
    let needs_node = plan.watches_pods || plan.reads_kernel;
    let node = needs_node.then_some((NODE_NAME_ENV, "spec.nodeName"));
    let share = [(POD_NAMESPACE_ENV, "metadata.namespace"), (POD_UID_ENV, "metadata.uid")];
    let share = share.into_iter().filter(|_| plan.reads_share);
    let fields = [(POD_NAME_ENV, "metadata.name")].into_iter().chain(share).chain(node);
    let variable = |(name, path): (&str, &str)| EnvVar {
        name: name.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".into()),
                field_path: path.into(),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    fields.map(variable).collect()
}

fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String("admin".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(2),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// What a spec writes of them, defaults filled in.
#[must_use]
pub fn written(wanted: &Resources) -> PodResources {
    let (memory_request_bytes, memory_limit_bytes) = wanted.memory.bytes();
    let (cpu_request_millicores, cpu_limit_millicores) = wanted.cpu.millicores();
    PodResources {
        memory_request_bytes,
        memory_limit_bytes,
        cpu_request_millicores,
        cpu_limit_millicores,
    }
}

fn resources(wanted: &PodResources) -> ResourceRequirements {
    let memory = |bytes| ("memory".to_owned(), Quantity(memory_text(bytes)));
    let cpu = |millicores| ("cpu".to_owned(), Quantity(cpu_text(millicores)));
    let limits = BTreeMap::from([memory(wanted.memory_limit_bytes)]);
    let requests =
        BTreeMap::from([memory(wanted.memory_request_bytes), cpu(wanted.cpu_request_millicores)]);
    let limits = limits.into_iter().chain(wanted.cpu_limit_millicores.map(cpu)).collect();
    ResourceRequirements { limits: Some(limits), requests: Some(requests), claims: None }
}

/// Bytes in the form the API server itself would write.
#[must_use]
pub fn memory_text(bytes: u64) -> String {
    [("Gi", 30u32), ("Mi", 20), ("Ki", 10)]
        .into_iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Thousandths of a core in the form the API server itself would write.
#[must_use]
pub fn cpu_text(millicores: u64) -> String {
    if millicores.is_multiple_of(1000) {
        (millicores / 1000).to_string()
    } else {
        format!("{millicores}m")
    }
}

/// Over zones, then nodes, as far as possible: a cluster with one node must still run all.
fn spread(plan: &PodPlan<'_>) -> Vec<TopologySpreadConstraint> {
    ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        .into_iter()
        .map(|key| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: key.into(),
            when_unsatisfiable: "ScheduleAnyway".into(),
            label_selector: Some(LabelSelector {
                match_labels: Some(plan.names.selector()),
                match_expressions: None,
            }),
            match_label_keys: plan.revision_label.map(|label| vec![label.to_owned()]),
            ..TopologySpreadConstraint::default()
        })
        .collect()
}

#[cfg(test)]
#[path = "../../tests/unit/pool/template.rs"]
mod tests;
