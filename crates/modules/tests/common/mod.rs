//! The Message Groups program and a cluster for it, which several files of tests use.

use solera_embedded::{ClusterSpec, Overrides};

/// Three sites, with the spaces of the stores that the program declares.
pub(crate) const SPACES: &str = include_str!("../../../../tests/groups.toml");

/// Such a cluster.
pub(crate) fn spec() -> ClusterSpec {
    ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap()
}
