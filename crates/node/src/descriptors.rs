//! Limit of open file descriptors, and the number that remains for clients. A journal fails for
//! good if no descriptor is free when it opens its next file.

use std::fs;

use rlimit::Resource;
use solera_config::areas::RESOURCES;
use solera_config::{ClusterSpec, MAX_CONNECTIONS};
use tracing::{debug, warn};

use crate::http::CONNECTIONS;
use crate::links::unwelcome_callers;

/// Descriptors for everything that is not counted: standard streams, files that are read,
/// libraries.
const RESERVE: usize = 64;
/// Descriptors of a worker: its journal, its event loop, its ports.
const PER_WORKER: usize = 16;

/// Parts of a process that need descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Sites with clients.
    pub(crate) sites: usize,
    pub(crate) workers: usize,
    /// All nodes of the cluster.
    pub(crate) nodes: usize,
}

impl Needs {
    /// Returns the number of clients that each site may have, if `limit` descriptors are too few
    /// for `wanted` clients.
    fn clients(self, limit: usize, wanted: usize) -> Option<usize> {
        // There are two connections with each node.
        let nodes = 2 * self.nodes + unwelcome_callers(self.nodes);
        let kept = RESERVE + PER_WORKER * self.workers + CONNECTIONS + nodes;
        let left = limit.saturating_sub(kept) / self.sites;
        // With a limit below one, no client could connect, and the operator needs a connection to
        // investigate.
        (left < wanted).then_some(left.max(1))
    }

    /// Reduces `max_connections` to the number that the limit of descriptors permits, and warns if
    /// that is much less.
    pub(crate) fn limit_connections(self, spec: &mut ClusterSpec) {
        let Some(limit) = limit().filter(|_| self.sites > 0) else { return };
        let wanted = spec.max_connections;
        if let Some(clients) = self.clients(limit, wanted) {
            spec.max_connections = clients;
            let line = format!(
                "max_connections is {clients} instead of {wanted}, because this process may have only \
                 {limit} open files; raise that limit (ulimit -n, LimitNOFILE)"
            );
            // An operator has not chosen the default, and few clusters need all of it.
            if wanted == MAX_CONNECTIONS && clients >= MAX_CONNECTIONS / 10 {
                debug!(target: RESOURCES, "{line}");
            } else {
                warn!(target: RESOURCES, "{line}");
            }
        }
    }
}

/// Raises the soft limit of open files to the hard limit. Shells and service managers start
/// processes with a low soft limit because of old programs.
pub fn raise_descriptor_limit() {
    let raised = Resource::NOFILE.get().and_then(|(soft, hard)| {
        Resource::NOFILE.set(hard, hard)?;
        Ok((soft, hard))
    });
    match raised {
        Ok((soft, hard)) if soft == hard => {}
        Ok((soft, hard)) => {
            debug!(
                target: RESOURCES,
                "this process may have {hard} open files; the limit was {soft} at the start"
            );
        }
        Err(error) => {
            debug!(target: RESOURCES, "cannot raise the limit of open files: {error}");
        }
    }
}

/// Returns the limit of descriptors; `None` where the system does not report it.
fn limit() -> Option<usize> {
    soft_limit(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left() {
        let needs = Needs { sites: 1, workers: 2, nodes: 3 };
        let left = 1024 - 64 - 2 * 16 - 128 - (2 * 3 + 4 * 3 + 16);
        assert_eq!(needs.clients(1024, 10_000), Some(left));
        assert_eq!(needs.clients(1024, left), None);
        assert_eq!(Needs { sites: 3, ..needs }.clients(1024, 10_000), Some(left / 3));
        assert_eq!(needs.clients(16, 10_000), Some(1));
    }

    #[test]
    fn the_limit_is_read_from_the_limits_file_of_linux() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             1000                 2000                 processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(text), Some(1024));
        assert_eq!(soft_limit("Max open files            unlimited  unlimited  files"), None);
        assert!(limit().is_some_and(|limit| limit > 0));
    }
}
