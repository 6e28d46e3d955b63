//! DBSIZE: how many keys the site has.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::{Context, Unreachable};
use crate::session::Session;

/// DBSIZE: the keys of the whole site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dbsize;

impl Request for Dbsize {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Dbsize, String> {
        Ok(Dbsize)
    }

    async fn reply<W: Context>(self, session: &mut Session<W>) {
        match count_keys(session).await {
            (keys, None) => session.out.integer(keys as i64),
            (_, Some(missing)) => session.fail(missing.to_string()),
        }
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
