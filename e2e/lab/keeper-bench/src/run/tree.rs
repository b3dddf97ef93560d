//! The nodes that a run works on: made before it, removed after it. It removes nothing that this
//! program didn't make: the root has a mark.

use crate::wire::{
    Access, CallError, Connection, DialError, Mode, NO_NODE, NODE_EXISTS, Request, name,
};

/// What the root holds, so that a later run knows it for one of ours.
const MARK: &[u8] = b"made by keeper-bench, and removed by it";
/// Requests sent at once: at 100 bytes each well below what a socket's buffers take.
const AT_ONCE: usize = 500;
/// Bytes sent at once; one request alone may have more.
const BYTES_AT_ONCE: usize = 256 << 10;
const NOT_EMPTY: i32 = -111;

/// The nodes couldn't be made, or not removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{what}: {cause}")]
    Call { what: &'static str, cause: CallError },
    #[error("cannot make {path}: {error}")]
    Make { path: String, error: &'static str },
    #[error("cannot remove {path}: {error}; remove it by hand")]
    Remove { path: String, error: &'static str },
    #[error("{0} is there already and isn't a tree of this program: choose another --root")]
    Foreign(String),
}

fn failed(what: &'static str) -> impl FnOnce(CallError) -> TreeError {
    move |cause| TreeError::Call { what, cause }
}

/// A node to make.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) path: String,
    pub(crate) data_bytes: usize,
}

/// Makes the root and the nodes below it, parents first; what a killed run left goes before.
pub(crate) async fn make(
    access: &Access,
    root: &str,
    nodes: &[Planned],
    data: &[u8],
) -> Result<(), TreeError> {
    let mut connection = Connection::open(access, 0).await?;
    let made = make_with(&mut connection, root, nodes, data).await;
    connection.close().await;
    made
}

async fn make_with(
    connection: &mut Connection,
    root: &str,
    nodes: &[Planned],
    data: &[u8],
) -> Result<(), TreeError> {
    const WHAT: &str = "making the tree";
    let mode = Mode::PERSISTENT;
    for (at, _) in root.match_indices('/').skip(1) {
        let path = &root[..at];
        let call = connection.call(&Request::Create { path, data: &[], mode }).await;
        match call.map_err(failed(WHAT))?.0 {
            0 | NODE_EXISTS => {}
            error => return Err(TreeError::Make { path: path.to_owned(), error: name(error) }),
        }
    }
    let create = Request::Create { path: root, data: MARK, mode };
    let mut error = connection.call(&create).await.map_err(failed(WHAT))?.0;
    if error == NODE_EXISTS {
        let get = Request::Get { path: root, watch: false };
        let (_, reply) = connection.call(&get).await.map_err(failed(WHAT))?;
        if reply.get(4..4 + MARK.len()) != Some(MARK) {
            return Err(TreeError::Foreign(root.to_owned()));
        }
        remove_with(connection, root).await?;
        error = connection.call(&create).await.map_err(failed(WHAT))?.0;
    }
    if error != 0 {
        return Err(TreeError::Make { path: root.to_owned(), error: name(error) });
    }
    let mut rest = nodes;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(AT_ONCE).take_while(|node| {
            bytes += node.path.len() + node.data_bytes;
            bytes <= BYTES_AT_ONCE
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        rest = later;
        let requests: Vec<_> = now
            .iter()
            .map(|Planned { path, data_bytes }| Request::Create {
                path,
                data: &data[..*data_bytes],
                mode,
            })
            .collect();
        let errors = connection.call_many(&requests).await.map_err(failed(WHAT))?;
        if let Some((node, error)) = now.iter().zip(errors).find(|(_, error)| *error != 0) {
            return Err(TreeError::Make { path: node.path.clone(), error: name(error) });
        }
    }
    Ok(())
}

/// Removes the root and everything below it.
pub(crate) async fn remove(access: &Access, root: &str) -> Result<(), TreeError> {
    let mut connection = Connection::open(access, 0).await?;
    let removed = remove_with(&mut connection, root).await;
    connection.close().await;
    removed
}

async fn remove_with(connection: &mut Connection, root: &str) -> Result<(), TreeError> {
    const WHAT: &str = "removing the tree";
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.last().cloned() {
        let list = Request::List { path: &path, watch: false };
        let (error, reply) = connection.call(&list).await.map_err(failed(WHAT))?;
        let children = match error {
            0 => children(reply, &path).map_err(|cause| failed(WHAT)(cause.into()))?,
            _ => Vec::new(),
        };
        if children.is_empty() {
            let delete = connection.call(&Request::Delete { path: &path }).await;
            match delete.map_err(failed(WHAT))?.0 {
                0 | NO_NODE => left.pop(),
                error => return Err(TreeError::Remove { path, error: name(error) }),
            };
            continue;
        }
        for some in children.chunks(AT_ONCE) {
            let requests: Vec<_> = some.iter().map(|path| Request::Delete { path }).collect();
            let errors = connection.call_many(&requests).await.map_err(failed(WHAT))?;
            for (path, error) in some.iter().zip(errors) {
                match error {
                    0 | NO_NODE => {}
                    NOT_EMPTY => left.push(path.clone()),
                    error => {
                        let (path, error) = (path.clone(), name(error));
                        return Err(TreeError::Remove { path, error });
                    }
                }
            }
        }
    }
    Ok(())
}

fn children(reply: &[u8], parent: &str) -> Result<Vec<String>, crate::wire::Malformed> {
    let mut reader = crate::wire::Reader::new(reply);
    (0..reader.int()?).map(|_| Ok(format!("{parent}/{}", reader.text()?))).collect()
}
