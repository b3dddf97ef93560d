//! Builds the pod template of a collector: one restricted container, with configuration and secrets
//! as files. Merges the spec's additions over it (`merge`). Pure.
//!
//! The template must not depend on the operator's own version: upgrading the operator restarts no
//! pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, ContainerStatus,
    EmptyDirVolumeSource, EnvVar, EnvVarSource, EphemeralVolumeSource, HTTPGetAction,
    HostPathVolumeSource, ObjectFieldSelector, PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate, Pod, PodSecurityContext, PodSpec, PodStatus, PodTemplateSpec,
    Probe, ResourceRequirements, SeccompProfile, SecurityContext, TopologySpreadConstraint, Volume,
    VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use millrace_autoscale::Resources as PodResources;
use millrace_crds::v1alpha1::{Allocator, CollectorSettings, EdgeBuffer, PodTemplate, Resources};
use serde_json::json;

use super::merge;
use super::secrets::{SECRETS_ANNOTATION, SecretUses};
use super::volumes::{
    BUFFER_VOLUME, CONFIG_VOLUME, DOCKER_LOGS_VOLUME, KMSG_VOLUME, NODE_LOGS_VOLUME,
    POSITIONS_VOLUME, mount_volume,
};
use crate::context::Images;
use crate::error::Invalid;
use crate::hash::hash_of;
use crate::pods::{ADMIN_PORT, CONTAINER};
use crate::pool::discover;
use crate::pool::names::PoolNames;

/// OTLP over gRPC.
pub const OTLP_GRPC_PORT: i32 = 4317;
/// OTLP over HTTP.
pub const OTLP_HTTP_PORT: i32 = 4318;
/// The mount path of the configuration.
const CONFIG_FOLDER: &str = "/etc/millrace/config";
/// The mount path of a buffer's volume.
const BUFFER_MOUNT: &str = "/var/lib/millrace";
/// The buffer's folder in the volume. It is not the root, where file systems put entries of their
/// own.
pub const BUFFER_FOLDER: &str = "/var/lib/millrace/buffer";
/// The minimum size of a volume beyond its buffer: one segment that begins before the oldest is
/// removed (16 MiB), and the file system's own needs.
const BUFFER_SPARE_BYTES: u64 = 64 << 20;
/// The divisor for the same size: common file systems use an eighth, with their reserve.
const BUFFER_SPARE_SHARE: u64 = 8;
/// The directory of a node's logs, on the node and in a pod that reads them.
const NODE_LOGS: &str = "/var/log";
/// The node's kernel log, on the node and in the pod.
const KMSG: &str = "/dev/kmsg";
/// The node's directory with the position directories of all pools.
const NODE_POSITIONS: &str = "/var/lib/millrace";
/// The pool's position directory in a pod.
pub const POSITIONS_FOLDER: &str = "/var/lib/millrace/positions";
/// The user that reads a node's files and kernel log: container runtimes write logs for root alone,
/// and the kernel may give its log only to root.
const FILES_USER: i64 = 0;
/// The only capability of root that this user retains: to read files, and search directories, of
/// other owners.
const FILES_CAPABILITY: &str = "DAC_READ_SEARCH";
/// The configuration's file name in its ConfigMap.
pub const CONFIG_KEY: &str = "collector.yaml";
/// The environment variable with the pod's own name; for a gateway the static member's id in its
/// group.
pub const POD_NAME_ENV: &str = "POD_NAME";
/// The environment variables with the pod's namespace and uid, by which it finds its share.
const POD_NAMESPACE_ENV: &str = "POD_NAMESPACE";
const POD_UID_ENV: &str = "POD_UID";
/// The environment variable with the name of the pod's node.
const NODE_NAME_ENV: &str = "NODE_NAME";
/// The user and group that images are made for: `nonroot`.
pub const USER: i64 = 65_532;
/// The kubelet's wait after the drain before it kills a pod: sockets close and logs are written.
const GRACE_BEYOND_DRAIN_SECONDS: u32 = 10;
/// Start-up may wait for a broker: 30 * 2 s before liveness counts.
const STARTUP_ATTEMPTS: i32 = 30;

/// The inputs of a pod template.
#[derive(Clone, Debug)]
pub struct PodPlan<'a> {
    /// Names and labels.
    pub names: &'a PoolNames,
    /// The image with its tag.
    pub image: &'a str,
    /// User and group; `None` where the cluster assigns them.
    pub user: Option<i64>,
    /// Memory and CPU.
    pub resources: PodResources,
    /// The spec's additions to its pods.
    pub theirs: &'a PodTemplate,
    /// Whether no two of the pods share a node.
    pub per_node: bool,
    /// Secrets to mount.
    pub secrets: &'a SecretUses,
    /// The buffer on disk; only for edges.
    pub buffer: Option<&'a EdgeBuffer>,
    /// Whether files of the node are read; only for edges.
    pub reads_files: bool,
    /// The node's directory of Docker's log files, if they are read; only for edges.
    pub docker_directory: Option<&'a str>,
    /// Whether the node's kernel log is read; only for edges.
    pub reads_kernel: bool,
    /// Whether pods of the node are watched; only for edges.
    pub watches_pods: bool,
    /// Whether targets are scraped, according to a share; only for edges.
    pub reads_share: bool,
    /// Whether monitors are followed, whose secrets are files; only for edges.
    pub follows_monitors: bool,
    /// The time limit of a pod's drain.
    pub drain_seconds: u32,
    /// Ports in addition to the admin port, with their names.
    pub ports: &'a [(&'a str, i32)],
    /// The label whose value differs between revisions, for spreading; only for Deployments.
    pub revision_label: Option<&'a str>,
}

/// Returns the image of a spec: repository, version and allocator, and their digest if known. An
/// omitted version is that of `running`, the image of the pool's pods, and a running digest is
/// retained as long as its tag: upgrading the operator changes no image. A new pool gets this
/// release's version.
#[must_use]
pub fn collector_image(
    collector: &CollectorSettings,
    images: &Images,
    running: Option<&str>,
) -> String {
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

/// Returns repository and tag of an image.
#[must_use]
pub fn without_digest(image: &str) -> &str {
    image.split_once('@').map_or(image, |(name, _)| name)
}

/// Returns the version in an image's tag, which ends in its allocator.
fn version_of(image: &str) -> Option<&str> {
    let (_, tag) = without_digest(image).rsplit_once(':')?;
    let (version, allocator) = tag.rsplit_once('-')?;
    let known = Allocator::ALL.iter().any(|it| it.as_str() == allocator);
    (known && !version.is_empty()).then_some(version)
}

/// The annotation with the template of a rollback, during a rollout.
pub const BASELINE_ANNOTATION: &str = "millrace.dev/rollout-baseline";

/// The annotation of templates, and so of their pods, with the image as the operator wrote it:
/// admission may write another into the container, such as a mirror's or one with a digest.
pub const IMAGE_ANNOTATION: &str = "millrace.dev/collector-image";

/// Returns the image and the ConfigMap that a pod is made for; `None` if it is not made from this
/// operator's templates.
#[must_use]
fn image_and_config<'a>(
    metadata: Option<&'a ObjectMeta>,
    spec: Option<&'a PodSpec>,
) -> Option<(&'a str, &'a str)> {
    Some((image_of(metadata, spec)?, config_map(spec?)?))
}

/// Returns the image that a pod is made for.
#[must_use]
pub fn image_of<'a>(
    metadata: Option<&'a ObjectMeta>,
    spec: Option<&'a PodSpec>,
) -> Option<&'a str> {
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let written = annotations.and_then(|all| all.get(IMAGE_ANNOTATION));
    written.or_else(|| collector_container(spec?)?.image.as_ref()).map(String::as_str)
}

/// As [`pod_runs`], for a template.
#[must_use]
pub fn template_runs(template: &PodTemplateSpec) -> Option<(&str, &str)> {
    image_and_config(template.metadata.as_ref(), template.spec.as_ref())
}

/// Returns the image and the ConfigMap that a pod is made for.
#[must_use]
pub fn pod_runs(pod: &Pod) -> Option<(&str, &str)> {
    image_and_config(Some(&pod.metadata), pod.spec.as_ref())
}

/// Returns the collector's own container: pods may have others, even before it.
#[must_use]
pub fn collector_container(pod: &PodSpec) -> Option<&Container> {
    pod.containers.iter().find(|container| container.name == CONTAINER)
}

/// Returns the status of the collector's container.
#[must_use]
pub fn collector_status(status: &PodStatus) -> Option<&ContainerStatus> {
    status.container_statuses.as_ref()?.iter().find(|container| container.name == CONTAINER)
}

/// Returns the ConfigMap that a pod mounts.
#[must_use]
pub fn config_map(pod: &PodSpec) -> Option<&str> {
    let volume = pod.volumes.as_ref()?.iter().find(|volume| volume.name == CONFIG_VOLUME)?;
    Some(volume.config_map.as_ref()?.name.as_str())
}

/// A template with its stored text.
#[derive(Clone, Debug)]
pub struct BaselineTemplate {
    /// The text, as it is stored.
    pub text: String,
    /// The parsed text.
    pub template: PodTemplateSpec,
}

/// Returns the rollback template of a workload.
#[must_use]
pub fn baseline_template<K: Resource>(live: &K) -> Option<BaselineTemplate> {
    let text = live.meta().annotations.as_ref()?.get(BASELINE_ANNOTATION)?;
    Some(BaselineTemplate { text: text.clone(), template: serde_json::from_str(text).ok()? })
}

/// Builds the pod template, with the spec's additions. Its configuration is in `config_map`.
///
/// # Errors
/// When the spec's additions can't be merged.
pub fn pod_template(plan: &PodPlan<'_>, config_map: &str) -> Result<PodTemplateSpec, Invalid> {
    let image = [(IMAGE_ANNOTATION.to_owned(), plan.image.to_owned())];
    let metadata = ObjectMeta {
        labels: Some(plan.names.labels()),
        annotations: Some(image.into()),
        ..ObjectMeta::default()
    };
    let spec = Some(pod_spec(plan, config_map));
    let built = PodTemplateSpec { metadata: Some(metadata), spec };
    merge::merge_template(built, plan.theirs, plan.per_node)
}

/// Records the image that the template is made for.
pub fn annotate_image(template: &mut PodTemplateSpec, image: &str) {
    let metadata = template.metadata.get_or_insert_default();
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(IMAGE_ANNOTATION.into(), image.into());
}

/// Records the digest of the content of the template's Secrets, if it needs any.
pub fn annotate_secrets(template: &mut PodTemplateSpec, digest: Option<&str>) {
    if let Some(digest) = digest {
        let metadata = template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(SECRETS_ANNOTATION.into(), digest.into());
    }
}

/// Sets the collector's resources.
pub fn set_resources(template: &mut PodTemplateSpec, resources: &PodResources) {
    let containers = template.spec.iter_mut().flat_map(|pod| &mut pod.containers);
    for container in containers.filter(|container| container.name == CONTAINER) {
        container.resources = Some(build_resources(resources, None));
    }
}

/// Returns the hash that names a pool's ConfigMap, and with it the unit that its pods run: the
/// configuration and the spec's additions.
#[must_use]
pub fn unit_hash(config: &str, theirs: &PodTemplate) -> String {
    hash_of(
        &merge::declared_template(theirs)
            .map_or_else(|| config.into(), |theirs| json!([config, theirs])),
    )
}

fn pod_spec(plan: &PodPlan<'_>, config_map: &str) -> PodSpec {
    let config = Volume {
        name: CONFIG_VOLUME.into(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.into(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let buffer = plan.buffer.map(|it| mount_volume(buffer_volume(it), BUFFER_MOUNT, false));
    let all = [mount_volume(config, CONFIG_FOLDER, true)].into_iter();
    let all = all.chain(plan.secrets.build_volume());
    let all = all.chain(plan.follows_monitors.then(|| discover::secrets_volume(plan.names)));
    let (volumes, mounts): (Vec<_>, Vec<_>) = all.chain(buffer).chain(node_volumes(plan)).unzip();
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
        containers: vec![build_container(plan, mounts)],
        volumes: Some(volumes),
        topology_spread_constraints: Some(spread_constraints(plan)),
        ..PodSpec::default()
    }
}

/// Returns the volumes of a node's logs and kernel log that the pool reads, with their mounts, and
/// the pool's position directory on the node. That directory outlives the pod, and its name belongs
/// to no other pool, since names of namespaces have no dots.
fn node_volumes(plan: &PodPlan<'_>) -> Vec<(Volume, VolumeMount)> {
    let host = |name: &str, type_: &str, path: &str| {
        let source = HostPathVolumeSource { path: path.into(), type_: Some(type_.into()) };
        Volume { name: name.into(), host_path: Some(source), ..Volume::default() }
    };
    // What is read of the node has the node's path in the pod.
    let read = |name, type_, path| mount_volume(host(name, type_, path), path, true);
    let logs = plan.reads_files.then(|| read(NODE_LOGS_VOLUME, "Directory", NODE_LOGS));
    let docker = plan.docker_directory.map(|it| read(DOCKER_LOGS_VOLUME, "Directory", it));
    let kmsg = plan.reads_kernel.then(|| read(KMSG_VOLUME, "CharDevice", KMSG));
    let positions = (plan.reads_files || plan.reads_kernel).then(|| {
        let path = format!("{NODE_POSITIONS}/{}.{}", plan.names.namespace, plan.names.base);
        let positions = host(POSITIONS_VOLUME, "DirectoryOrCreate", &path);
        mount_volume(positions, POSITIONS_FOLDER, false)
    });
    [logs, docker, kmsg, positions].into_iter().flatten().collect()
}

fn volume_bytes(buffer: &EdgeBuffer) -> u64 {
    let bytes = buffer.capacity_bytes();
    bytes + BUFFER_SPARE_BYTES.max(bytes / BUFFER_SPARE_SHARE)
}

/// Returns the buffer's size on the node's own disk.
fn node_disk_bytes(buffer: &EdgeBuffer) -> Option<u64> {
    buffer.storage_class_name.is_none().then(|| volume_bytes(buffer))
}

/// Returns a volume with the lifetime of the pod. Pods of a Deployment or DaemonSet have no lasting
/// names, so no other volume is possible.
fn buffer_volume(buffer: &EdgeBuffer) -> Volume {
    let size = Quantity(memory_text(volume_bytes(buffer)));
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
        // The API server itself would write this default.
        volume_mode: Some("Filesystem".into()),
        ..PersistentVolumeClaimSpec::default()
    };
    let template = PersistentVolumeClaimTemplate { metadata: None, spec: claim };
    let ephemeral = EphemeralVolumeSource { volume_claim_template: Some(template) };
    Volume { ephemeral: Some(ephemeral), ..volume }
}

fn build_container(plan: &PodPlan<'_>, mounts: Vec<VolumeMount>) -> Container {
    let ports = plan.ports.iter().copied().chain([("admin", ADMIN_PORT)]);
    Container {
        name: CONTAINER.into(),
        image: Some(plan.image.to_owned()),
        image_pull_policy: Some("IfNotPresent".into()),
        args: Some(vec!["run".into(), "--config".into(), format!("{CONFIG_FOLDER}/{CONFIG_KEY}")]),
        env: Some(build_environment(plan)),
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
        resources: Some(build_resources(&plan.resources, plan.buffer.and_then(node_disk_bytes))),
        // With this policy, a failed container's last output enters its pod's status, from which a
        // rollout reports it.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        startup_probe: Some(build_probe("/livez", 2, STARTUP_ATTEMPTS)),
        liveness_probe: Some(build_probe("/livez", 10, 3)),
        readiness_probe: Some(build_probe("/readyz", 3, 2)),
        security_context: Some(security_context(plan)),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// Returns the minimum of rights. Only privileged containers can open a device of the node: the
/// device cgroup of any other forbids it, whatever is mounted and whichever capabilities it has. A
/// privileged container has all capabilities, and the API server refuses one without escalation.
fn security_context(plan: &PodPlan<'_>) -> SecurityContext {
    let mut context =
        SecurityContext { read_only_root_filesystem: Some(true), ..SecurityContext::default() };
    if plan.reads_kernel {
        context.privileged = Some(true);
    } else {
        restrict_context(&mut context, plan.reads_files.then_some(FILES_CAPABILITY));
    }
    context
}

/// Drops all capabilities except `capability`, and forbids escalation.
fn restrict_context(context: &mut SecurityContext, capability: Option<&str>) {
    context.allow_privilege_escalation = Some(false);
    context.capabilities = Some(Capabilities {
        drop: Some(vec!["ALL".into()]),
        add: capability.map(|capability| vec![capability.to_owned()]),
    });
}

fn build_environment(plan: &PodPlan<'_>) -> Vec<EnvVar> {
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

fn build_probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
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

/// Returns the spec's resources, with defaults.
#[must_use]
pub fn declared_resources(resources: &Resources) -> PodResources {
    let (memory_request_bytes, memory_limit_bytes) = resources.memory_bytes();
    let (cpu_request_millicores, cpu_limit_millicores) = resources.cpu_millicores();
    PodResources {
        memory_request_bytes,
        memory_limit_bytes,
        cpu_request_millicores,
        cpu_limit_millicores,
    }
}

/// Requests the node's disk, so that no node gets more buffers than fit: it would evict pods, and
/// their buffers with them.
fn build_resources(resources: &PodResources, node_disk_bytes: Option<u64>) -> ResourceRequirements {
    let memory = |bytes| ("memory".to_owned(), Quantity(memory_text(bytes)));
    let disk =
        node_disk_bytes.map(|it| ("ephemeral-storage".to_owned(), Quantity(memory_text(it))));
    let cpu = |millicores| ("cpu".to_owned(), Quantity(cpu_text(millicores)));
    let limits = BTreeMap::from([memory(resources.memory_limit_bytes)]);
    let requests = [memory(resources.memory_request_bytes), cpu(resources.cpu_request_millicores)];
    let requests = requests.into_iter().chain(disk).collect();
    let limits = limits.into_iter().chain(resources.cpu_limit_millicores.map(cpu)).collect();
    ResourceRequirements { limits: Some(limits), requests: Some(requests), claims: None }
}

/// Formats bytes as the API server itself would.
#[must_use]
pub fn memory_text(bytes: u64) -> String {
    [("Gi", 30u32), ("Mi", 20), ("Ki", 10)]
        .into_iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Formats thousandths of a core as the API server itself would.
#[must_use]
pub fn cpu_text(millicores: u64) -> String {
    if millicores.is_multiple_of(1000) {
        (millicores / 1000).to_string()
    } else {
        format!("{millicores}m")
    }
}

/// Spreads pods over zones, then nodes, as far as possible: a cluster with one node must still run
/// all.
fn spread_constraints(plan: &PodPlan<'_>) -> Vec<TopologySpreadConstraint> {
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
mod tests;
