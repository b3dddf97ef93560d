//! What our collector has in a pod and not here: an account, and the API server behind TLS. The
//! files are mounted for the collector alone, where the kubelet would mount them; the address is the
//! stand-in's, behind a proxy that ends TLS.
//!
//! Needs root, as mounts do. The proxy is the harness's, so its work doesn't count.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use millrace_certificates::Authority;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// The node's name.
pub(crate) const NODE: &str = "node-1";
/// Where a pod has its account.
const MOUNTED: &str = "/run/secrets/kubernetes.io/serviceaccount";
/// Starts a program in mounts of its own, under the process id that the shell had.
const SCRIPT: &str = "mount -t tmpfs none /run && mkdir -p \"$0\" && cp \"$1\"/* \"$0\" && shift && \
     exec \"$@\"";

/// An account, and a server for it. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct Account {
    folder: TempDir,
    port: u16,
    _proxy: Runtime,
}

impl Account {
    /// An account at the server of that address, which speaks plain HTTP.
    pub(crate) fn new(server: SocketAddr) -> Result<Self> {
        let authority = Authority::new("kubernetes");
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("ca.crt"), authority.pem())?;
        fs::write(folder.path().join("token"), "token")?;
        let proxy = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("api-server")
            .enable_all()
            .build()?;
        let socket = proxy.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = socket.local_addr()?.port();
        let tls = TlsAcceptor::from(authority.sign("127.0.0.1").server());
        proxy.spawn(serve(socket, tls, server));
        Ok(Self { folder, port, _proxy: proxy })
    }

    /// What a pod's variables are.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", self.port.to_string()),
            ("NODE_NAME", NODE.to_owned()),
        ]
    }

    /// How a program is started so that it finds the account.
    pub(crate) fn around(&self, program: &Path, arguments: Vec<String>) -> (PathBuf, Vec<String>) {
        let (account, program) = (self.folder.path().display(), program.display());
        let mut all = ["--mount", "sh", "-c", SCRIPT, MOUNTED].map(str::to_owned).to_vec();
        all.extend([account.to_string(), program.to_string()]);
        all.extend(arguments);
        (PathBuf::from("unshare"), all)
    }
}

async fn serve(socket: TcpListener, tls: TlsAcceptor, server: SocketAddr) {
    while let Ok((client, _)) = socket.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            // Either side may go whenever it likes.
            let Ok(mut client) = tls.accept(client).await else { return };
            let Ok(mut server) = TcpStream::connect(server).await else { return };
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}
