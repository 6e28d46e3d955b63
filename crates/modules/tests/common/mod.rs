//! The Message Groups program and a cluster for it, which several files of tests use.

use solera_embedded::{ClusterSpec, Overrides};

/// Three sites, with the spaces of the stores that the program declares.
pub(crate) const SPACES: &str = "
sites = 3
[[space]]
name = 'directory'
prefix = 'dir:'
level = 'linearizable'
[[space]]
name = 'mail'
prefix = 'mail:'
level = 'causal'
[[space]]
name = 'audit'
prefix = 'log:'
level = 'eventual'
";

/// Such a cluster.
pub(crate) fn spec() -> ClusterSpec {
    ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap()
}
