//! Bodies as real exporters write them, with values that change from scrape to scrape: the families
//! that make most of each, with their names, labels and forms of values.

use std::fmt::Write;

/// Makes a body by the number of its scrape.
pub(super) type Make = fn(u64) -> String;

fn head(body: &mut String, name: &str, help: &str, kind: &str) {
    let _ = write!(body, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// A node exporter's on a machine of 32 processors: the families that make most of its body, with
/// their names, labels and forms of values.
pub(super) fn node_exporter(turn: u64) -> String {
    let mut body = String::new();
    put_processors(&mut body, turn);
    put_disks(&mut body, turn);
    put_networks(&mut body, turn);
    for family in 0..300 {
        let name = format!("node_memory_Figure{family}_bytes");
        head(&mut body, &name, "Memory information field, as the kernel has it.", "gauge");
        let _ = writeln!(body, "{name} {:e}", 1.234_567e9 + (family * turn) as f64);
    }
    let name = "go_gc_duration_seconds";
    head(
        &mut body,
        name,
        "A summary of the pause duration of garbage collection cycles.",
        "summary",
    );
    for quantile in ["0", "0.25", "0.5", "0.75", "1"] {
        let _ = writeln!(body, "{name}{{quantile=\"{quantile}\"}} 2.6785e-05");
    }
    let _ = write!(body, "{name}_sum 3.214\n{name}_count {}\n", 100 + turn);
    body
}

fn put_processors(body: &mut String, turn: u64) {
    let name = "node_cpu_seconds_total";
    head(body, name, "Seconds the CPUs spent in each mode.", "counter");
    for cpu in 0..32 {
        for (place, mode) in ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"]
            .iter()
            .enumerate()
        {
            let value = 1000.25 * (place + 1) as f64 + f64::from(cpu) + turn as f64 * 1.37;
            let _ = writeln!(body, "{name}{{cpu=\"{cpu}\",mode=\"{mode}\"}} {value:.2}");
        }
    }
}

fn put_disks(body: &mut String, turn: u64) {
    for family in [
        "reads_completed_total",
        "read_bytes_total",
        "writes_completed_total",
        "written_bytes_total",
        "io_time_seconds_total",
        "io_now",
        "read_time_seconds_total",
        "discards_completed_total",
        "flush_requests_total",
        "reads_merged_total",
    ] {
        let name = format!("node_disk_{family}");
        head(body, &name, "The total number of what the device did successfully.", "counter");
        for device in ["nvme0n1", "nvme1n1", "dm-0", "dm-1", "sda", "sdb"] {
            let value = 1.764_123_4e9 + turn as f64 * 4096.0;
            let _ = writeln!(body, "{name}{{device=\"{device}\"}} {value:e}");
        }
    }
    for family in ["avail_bytes", "device_error", "files", "files_free", "free_bytes", "size_bytes"]
    {
        let name = format!("node_filesystem_{family}");
        head(body, &name, "Filesystem space or inodes, as the kernel has it.", "gauge");
        for (device, kind, mount) in [
            ("/dev/nvme0n1p1", "vfat", "/boot/efi"),
            ("/dev/mapper/vg-root", "ext4", "/"),
            ("/dev/mapper/vg-var", "ext4", "/var/lib/containers/storage"),
            ("tmpfs", "tmpfs", "/run/user/1000"),
        ] {
            let labels = format!(
                "device=\"{device}\",device_error=\"\",fstype=\"{kind}\",mountpoint=\"{mount}\""
            );
            let _ = writeln!(body, "{name}{{{labels}}} {:e}", 8.123_456e10 - turn as f64 * 512.0);
        }
    }
}

fn put_networks(body: &mut String, turn: u64) {
    for family in [
        "receive_bytes_total",
        "receive_packets_total",
        "receive_errs_total",
        "receive_drop_total",
        "transmit_bytes_total",
        "transmit_packets_total",
        "transmit_errs_total",
        "mtu_bytes",
        "carrier_changes_total",
        "transmit_queue_length",
    ] {
        let name = format!("node_network_{family}");
        head(body, &name, "Network device statistic, as the kernel has it.", "counter");
        for device in 0..24 {
            let value = 4_294_967 * (device + 1) + turn * 1500;
            let _ = writeln!(body, "{name}{{device=\"veth{device:08x}\"}} {value}");
        }
    }
}

/// An API server's: histograms of twelve buckets, 500 sets of labels.
pub(super) fn histograms(turn: u64) -> String {
    let mut body = String::new();
    let name = "apiserver_request_duration_seconds";
    head(&mut body, name, "Response latency distribution for each verb and resource.", "histogram");
    for number in 0..500 {
        let labels = format!("group=\"apps\",resource=\"r{number}\",verb=\"LIST\",version=\"v1\"");
        for (place, bound) in
            ["0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "0.6", "1", "2", "5", "10", "+Inf"]
                .iter()
                .enumerate()
        {
            let count = 100 * (place as u64 + 1) + turn;
            let _ = writeln!(body, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = 12.345_678_9 + turn as f64;
        let _ = write!(
            body,
            "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {}\n",
            1200 + turn
        );
    }
    body
}

/// Counters with times of creation.
pub(super) fn counters(turn: u64) -> String {
    let mut body = String::new();
    let _ = write!(body, "# HELP http_requests Requests by path.\n# TYPE http_requests counter\n");
    for number in 0..2000 {
        let labels = format!("code=\"200\",handler=\"/api/v1/items/{number}\",method=\"get\"");
        let _ = writeln!(body, "http_requests_total{{{labels}}} {}.0", number + turn);
        let _ = writeln!(body, "http_requests_created{{{labels}}} 1763999000.123");
    }
    body.push_str("# EOF\n");
    body
}

/// kube-state-metrics' of a cluster: per pod nine samples in five families, some 1.7 kB.
pub(super) fn kube_state_metrics(pods: u64, turn: u64) -> String {
    let mut body = String::new();
    head(&mut body, "kube_pod_info", "[STABLE] Information about pod.", "gauge");
    for pod in 0..pods {
        let labels = pod_labels(pod);
        let _ = writeln!(
            body,
            "kube_pod_info{{{labels},host_ip=\"10.0.{}.{}\",pod_ip=\"10.{}.{}.{}\",\
             node=\"ip-10-0-{}-{}.internal\",created_by_kind=\"ReplicaSet\",\
             created_by_name=\"{}\",priority_class=\"\",host_network=\"false\"}} 1",
            pod / 30 / 250,
            pod / 30 % 250,
            16 + pod / 62_500,
            pod / 250 % 250,
            pod % 250,
            pod / 30 / 250,
            pod / 30 % 250,
            owner(pod),
        );
    }
    head(&mut body, "kube_pod_status_phase", "[STABLE] The pods current phase.", "gauge");
    for pod in 0..pods {
        let labels = pod_labels(pod);
        for phase in ["Pending", "Succeeded", "Failed", "Unknown", "Running"] {
            let value = u64::from(phase == "Running");
            let _ = writeln!(body, "kube_pod_status_phase{{{labels},phase=\"{phase}\"}} {value}");
        }
    }
    let name = "kube_pod_container_resource_requests";
    head(&mut body, name, "The number of requested request resource by a container.", "gauge");
    for pod in 0..pods {
        let labels = format!("{},container=\"app\",node=\"ip-10-0-0-1.internal\"", pod_labels(pod));
        let _ = writeln!(body, "{name}{{{labels},resource=\"cpu\",unit=\"core\"}} 0.25");
        let bytes = 1.341_772_8e8 + turn as f64;
        let _ = writeln!(body, "{name}{{{labels},resource=\"memory\",unit=\"byte\"}} {bytes:e}");
    }
    let name = "kube_pod_container_status_restarts_total";
    head(&mut body, name, "[STABLE] The number of container restarts per container.", "counter");
    for pod in 0..pods {
        let labels = pod_labels(pod);
        let _ = writeln!(body, "{name}{{{labels},container=\"app\"}} {}", pod % 7 + turn);
    }
    body
}

/// The labels that every family of a pod has.
fn pod_labels(pod: u64) -> String {
    // A number without visible order, as identities are.
    let id = pod.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "namespace=\"team-{}\",pod=\"{}-{:05x}\",uid=\"{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}\"",
        pod / 20 % 200,
        owner(pod),
        id >> 44,
        id >> 32,
        id >> 16 & 0xffff,
        id >> 4 & 0xfff,
        id >> 20 & 0xfff,
        id & 0xffff_ffff_ffff,
    )
}

/// The name of a pod's replica set.
fn owner(pod: u64) -> String {
    format!("service-{}-{:09x}", pod / 4, (pod / 4).wrapping_mul(0x9e37_79b9) & 0xf_ffff_ffff)
}

/// A kubelet's of a node with 60 containers: long labels, and a time behind each value.
pub(super) fn cadvisor(turn: u64) -> String {
    let mut body = String::new();
    for (name, kind) in [
        ("container_cpu_usage_seconds_total", "counter"),
        ("container_cpu_cfs_throttled_seconds_total", "counter"),
        ("container_memory_working_set_bytes", "gauge"),
        ("container_memory_rss", "gauge"),
        ("container_fs_reads_bytes_total", "counter"),
        ("container_network_receive_bytes_total", "counter"),
    ] {
        head(&mut body, name, "A figure of a container, as the kernel has it.", kind);
        for container in 0..60_u64 {
            let id = container.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let value = 1234.5 * (container + 1) as f64 + turn as f64;
            let _ = writeln!(
                body,
                "{name}{{container=\"app\",id=\"/kubepods.slice/kubepods-burstable.slice/\
                 kubepods-burstable-pod{id:016x}.slice/cri-containerd-{id:016x}{id:016x}.scope\",\
                 image=\"registry.example.com/shop/app:1.{container}.0\",name=\"{id:016x}{id:016x}\",\
                 namespace=\"team-{}\",pod=\"{}-{:05x}\"}} {value} {}",
                container / 20,
                owner(container),
                id >> 44,
                1_764_000_000_000 + turn * 15_000,
            );
        }
    }
    body
}

/// A Java exporter's: gauges of the machine, and histograms by handler, each with a comma behind the
/// last label.
pub(super) fn java(turn: u64) -> String {
    let mut body = String::new();
    for family in ["used", "committed", "max", "init"] {
        let name = format!("jvm_memory_pool_bytes_{family}");
        head(&mut body, &name, "Bytes of a given JVM memory pool.", "gauge");
        for pool in ["CodeHeap 'profiled nmethods'", "G1 Eden Space", "G1 Old Gen", "Metaspace"] {
            let value = 7.340_032e6 + turn as f64 * 4096.0;
            let _ = writeln!(body, "{name}{{pool=\"{pool}\",}} {value:e}");
        }
    }
    let name = "http_server_requests_seconds";
    head(&mut body, name, "Duration of HTTP server request handling", "histogram");
    for handler in 0..60 {
        let labels = format!(
            "exception=\"None\",method=\"GET\",outcome=\"SUCCESS\",status=\"200\",\
             uri=\"/api/v1/items/{handler}/{{id}}\","
        );
        for (place, bound) in
            ["0.001", "0.01", "0.05", "0.1", "0.5", "1.0", "5.0", "+Inf"].iter().enumerate()
        {
            let count = 10 * (place as u64 + 1) + turn;
            let _ = writeln!(body, "{name}_bucket{{{labels}le=\"{bound}\",}} {count}.0");
        }
        let count = 80 + turn;
        let _ = write!(
            body,
            "{name}_count{{{labels}}} {count}.0\n{name}_sum{{{labels}}} {}\n",
            count as f64 * 0.0371
        );
    }
    body
}
