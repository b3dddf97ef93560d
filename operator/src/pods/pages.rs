//! Reads lists to their end, page by page: a decision on half a list is wrong.
//!
//! Each page is reduced to what is needed before the next one is read, so a long list takes the
//! memory of that and one page. Pages are of one resource version. Limits: none; a pool has at most
//! 1,000 pods, or one on each node.

use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

/// Objects asked for at once, in watches too: it bounds the memory of a cold start. A pod is some
/// 10 kB as it is sent: 1 MB.
pub const PAGE: u32 = 100;

/// All objects of a list, each as `keep` leaves it.
///
/// # Errors
/// What the API server answers to any page.
pub async fn all<K>(
    api: &Api<K>,
    params: ListParams,
    mut keep: impl FnMut(K) -> K,
) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await?;
        found.extend(page.items.into_iter().map(&mut keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}
