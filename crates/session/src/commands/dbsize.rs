//! DBSIZE: counts the keys of the site.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::{Context, Unreachable};
use crate::session::ClientSession;

/// DBSIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dbsize;

impl Request for Dbsize {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Dbsize, String> {
        Ok(Dbsize)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match count_keys(session).await {
            (keys, None) => session.out.integer(keys as i64),
            (_, Some(missing)) => session.fail(missing.to_string()),
        }
    }
}

/// Returns the number of keys at the site's reachable workers, and a worker that is unreachable, if
/// any.
pub(super) async fn count_keys<W: Context>(
    session: &ClientSession<W>,
) -> (usize, Option<Unreachable>) {
    let worker = &session.worker;
    let (mut keys, mut missing) = (0, None);
    for other in worker.workers() {
        match worker.count_keys(other).await {
            Some(more) => keys += more,
            None => {
                missing = Some(Unreachable(worker.node_name(other)));
                break;
            }
        }
    }
    // The list of moves of homes is in keys of UniStore, one for each move.
    let moves = worker.with_occult(|occult| occult.homes().epoch()).unwrap_or(0);
    (keys.saturating_sub(moves as usize), missing)
}
