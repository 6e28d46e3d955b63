//! The cluster for the Message Groups program, which several test files use.

use solera_embedded::{ClusterSpec, Overrides};

/// Three sites, with the spaces of the stores that the program declares.
pub(crate) const SPACES: &str = include_str!("../../../../tests/groups.toml");

/// Returns the configuration of such a cluster.
pub(crate) fn spec() -> ClusterSpec {
    ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap()
}
