//! Whether things answer, and waiting until they do. Waiting ends early when a process has died.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Stack, servers};
use crate::component::Component;
use crate::error::Result;
use crate::node::{CLUSTER_DNS, NODE_IP, NODE_NAME, SERVICE_API};

/// How long a component may take. On an idle machine all take seconds; a test run beside two
/// compilers on two cores was seen to need ten times that.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks; most looks start a process of their own.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Where the kubelet serves, once it has started in full.
const KUBELET_PORT: u16 = 10250;
/// How long an answer over the node's own link may take.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);

/// Waits until a component answers.
pub(super) fn wait_for(stack: &Stack, component: Component) -> Result<()> {
    let name = component.name();
    wait(stack, name, component, || {
        if !stack.node.is_alive(name) {
            return Err(Look::Ended);
        }
        check(stack, component).map_err(Look::NotYet)
    })
}

/// Waits until a name of the cluster is answered over the name server's service address: that needs
/// the pod network, kube-proxy and CoreDNS at work.
pub(super) fn wait_for_names(stack: &Stack) -> Result<()> {
    wait(stack, "the cluster's name server", Component::Kubelet, || {
        names().map_err(|error| Look::NotYet(error.to_string()))
    })
}

enum Look {
    NotYet(String),
    Ended,
}

fn wait(
    stack: &Stack,
    what: &str,
    log_of: Component,
    mut look: impl FnMut() -> Result<(), Look>,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let last = match look() {
            Ok(()) => return Ok(()),
            Err(Look::Ended) => return Err(stack.node.ended(what)),
            Err(Look::NotYet(last)) => last,
        };
        if began.elapsed() > PATIENCE {
            return Err(stack.node.not_ready(what, log_of.name(), PATIENCE, &last));
        }
        sleep(LOOK_INTERVAL);
    }
}

/// One look at a component that runs; the error is what it lacks.
pub(super) fn check(stack: &Stack, component: Component) -> Result<(), String> {
    match component {
        // Its only client is the API server, which is not ready without it.
        Component::Etcd | Component::ApiServer => api(stack),
        Component::Containerd => containerd(stack),
        Component::Kubelet => node_ready(stack),
        // Made by one of its controllers, and needed by every pod.
        Component::ControllerManager => {
            kubectl(stack, &["get", "serviceaccount", "default", "--namespace=default"]).map(drop)
        }
        // What they do shows in the name server's pod and service: see `wait_for_names`.
        Component::Scheduler | Component::Proxy => Ok(()),
        Component::Kafka => servers::kafka_answers().map_err(|error| error.to_string()),
        Component::ClickHouse => servers::clickhouse_answers().map_err(|error| error.to_string()),
    }
}

/// Whether the API server says it is ready.
pub(super) fn api(stack: &Stack) -> Result<(), String> {
    kubectl(stack, &["get", "--raw=/readyz"]).map(drop)
}

fn containerd(stack: &Stack) -> Result<(), String> {
    let mut command = stack.containerd_client();
    command.arg("version");
    let output = stack.node.inside(&command).map_err(|error| error.to_string())?.output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The API server keeps a node's last word for a while, so the kubelet itself is asked first.
fn node_ready(stack: &Stack) -> Result<(), String> {
    TcpStream::connect_timeout(&SocketAddr::from((NODE_IP, KUBELET_PORT)), ANSWER_PATIENCE)
        .map_err(|error| format!("the kubelet does not listen yet: {error}"))?;
    let condition = "jsonpath={.status.conditions[?(@.type==\"Ready\")]['status','message']}";
    let said = kubectl(stack, &["get", "node", NODE_NAME, "--output", condition])?;
    if said.starts_with("True") { Ok(()) } else { Err(said) }
}

fn kubectl(stack: &Stack, arguments: &[&str]) -> Result<String, String> {
    let arguments = ["--request-timeout=5s"].iter().chain(arguments);
    let output = stack.kubectl(arguments).map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Asks the cluster's name server for the API server's service.
fn names() -> io::Result<()> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(SocketAddr::from((CLUSTER_DNS, 53)))?;
    socket.set_read_timeout(Some(ANSWER_PATIENCE))?;
    socket.send(&question("kubernetes.default.svc.cluster.local"))?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    // The answer's last record is the only one, and its data the address.
    if answer[..length].ends_with(&SERVICE_API.octets()) {
        return Ok(());
    }
    Err(io::Error::other("the cluster's name server does not know the API server's service"))
}

/// A question for an address (RFC 1035, section 4): header with one question, the name as lengths
/// and labels, type A, class IN.
fn question(name: &str) -> Vec<u8> {
    let mut message = vec![0x4d, 0x72, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

#[cfg(test)]
mod tests {
    use super::question;

    /// Each label goes after its length, and the root after them.
    #[test]
    fn a_question_spells_the_name_in_labels() {
        let message = question("a.bcd");
        assert_eq!(&message[12..], b"\x01a\x03bcd\x00\x00\x01\x00\x01");
    }
}
