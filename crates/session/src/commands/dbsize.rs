//! DBSIZE: how many keys the site has.

use crate::context::{Context, Unreachable};
use crate::session::Session;

/// The keys of the whole site.
pub(crate) async fn dbsize<W: Context>(session: &mut Session<W>) {
    match count_keys(session).await {
        (keys, None) => session.out.integer(keys as i64),
        (_, Some(missing)) => session.fail(missing.to_string()),
    }
}

/// How many keys the site's workers have that can be reached, and one that cannot.
pub(super) async fn count_keys<W: Context>(session: &Session<W>) -> (usize, Option<Unreachable>) {
    let worker = &session.worker;
    let (mut keys, mut missing) = (0, None);
    for other in worker.workers() {
        if other == worker.address() {
            let now = worker.now();
            keys += worker.with(|replica| replica.count_keys(now));
            continue;
        }
        match worker.count_keys(other).await {
            Some(more) => keys += more,
            None => {
                missing = Some(Unreachable(worker.node_name(other)));
                break;
            }
        }
    }
    (keys, missing)
}
