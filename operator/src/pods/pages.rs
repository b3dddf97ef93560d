//! Reads complete lists, page by page: a decision on half a list would be wrong.
//!
//! Each page is reduced to what is needed before the next one is read, so a long list takes the
//! memory of the reduced objects and one page. Pages are of one resource version. Limits: none; a
//! pool has at most 1,000 pods, or one on each node.

use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

/// The number of objects per request, in watches too: it bounds the memory of a cold start. A pod
/// is some 10 kB on the wire: 1 MB.
pub const PAGE: u32 = 100;

/// Returns all objects of a list, each reduced by `reduce`.
///
/// # Errors
/// The API server's error for any page.
pub async fn list_all<K>(
    api: &Api<K>,
    params: ListParams,
    mut reduce: impl FnMut(K) -> K,
) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await?;
        found.extend(page.items.into_iter().map(&mut reduce));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}
