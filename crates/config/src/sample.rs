//! Configurations for tests, here and in other crates.

use crate::spec::{ClusterSpec, Overrides};

/// Two sites of one node each.
pub const TWO_SITES: &str = "\
[[site]]
name = 'eu'
[[site.node]]
resp = 'a:1'
peer = 'a:2'
admin = 'a:3'
[[site]]
name = 'us'
[[site.node]]
resp = 'b:1'
peer = 'b:2'
admin = 'b:3'
";

/// A store of modules, with one space.
pub const CACHE: &str = "\
[[store]]
name = 'cache'
kind = 'redis'
url = 'redis://h'
[[store.space]]
name = 'log'
";

/// Parses a file `s.toml` with this content.
///
/// # Panics
/// If the content is invalid.
pub fn parse(text: &str) -> ClusterSpec {
    ClusterSpec::parse("s.toml", text, Overrides::default())
        .expect("a test gives what can be parsed")
}
