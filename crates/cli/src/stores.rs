//! Databases of others that modules use: where `[[store]]` meets the crates that know them.

mod postgres;
mod redis;

use std::error::Error;
use std::sync::Arc;

use solera::modules::{Host, Settings, Store};
use solera_mixt::store::Database;
use solera_node::{ClusterSpec, ConfigError, Placed, StoreSpec};

/// What runs the modules of a process, with the stores of its configuration.
///
/// # Errors
/// If the configuration cannot be meant so, which tells file and line, or threads cannot be started.
pub(crate) fn host(spec: &ClusterSpec) -> Result<Host, Box<dyn Error>> {
    let settings = Settings::configured(&spec.modules)?;
    Ok(Host::start(settings, all(spec)?)?)
}

/// The stores of a configuration.
///
/// # Errors
/// If they cannot be meant so, which tells file and line.
pub(crate) fn all(spec: &ClusterSpec) -> Result<Vec<Store>, ConfigError> {
    spec.stores.iter().map(store).collect()
}

/// Nothing is connected to yet.
fn store(spec: &StoreSpec) -> Result<Store, ConfigError> {
    let database: Arc<dyn Database> = match spec.kind.value.as_str() {
        "postgres" => Arc::new(postgres::open(spec)?),
        "redis" => Arc::new(redis::open(spec)?),
        other => {
            let reason = format!("there is no kind '{other}'; there are postgres and redis");
            return refuse(spec, &spec.kind, &reason);
        }
    };
    let spaces = spec.spaces.iter().map(|space| space.name.value.as_str().into()).collect();
    Ok(Store { database, spaces })
}

/// An error about a setting of a store.
fn refuse<T, R>(spec: &StoreSpec, setting: &Placed<T>, reason: &str) -> Result<R, ConfigError> {
    setting.invalid(format!("store '{}': {reason}", spec.name))
}

/// Refuses spaces that are to have another level than the only one of their kind.
fn require_level(spec: &StoreSpec, kind: &str, only: &str) -> Result<(), ConfigError> {
    let mut levels = spec.spaces.iter().filter_map(|space| space.level.as_ref());
    match levels.find(|level| level.value != only) {
        Some(level) => refuse(spec, level, &format!("what {kind} keeps is {only}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use solera_node::Overrides;

    use super::*;

    const CACHE: &str = "\
[[store]]
name = 'cache'
kind = 'redis'
url = 'redis://127.0.0.1:1'
[[store.space]]
name = 'log'
[[store.space]]
name = 'hits'
prefix = 'h:'
";

    const SHOP: &str = "\
[[store]]
name = 'shop'
kind = 'postgres'
url = 'postgresql://127.0.0.1:1/shop'
schema = 'own'
[[store.space]]
name = 'stock'
[store.space.operations]
take = 'UPDATE stock SET count = count - $1'
left = 'SELECT count FROM stock'
";

    fn read(text: &str) -> Result<Host, String> {
        let spec = ClusterSpec::parse("s.toml", text, Overrides::default());
        host(&spec.unwrap()).map_err(|error| error.to_string())
    }

    fn assert_refused<const N: usize>(good: &str, cases: [(&str, &str, &str); N]) {
        assert!(read(good).is_ok());
        for (old, new, reason) in cases {
            let error = read(&good.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(reason), "{new}: {error}");
        }
    }

    #[test]
    fn mistakes_about_redis_are_named_with_their_line() {
        assert_refused(
            CACHE,
            [
                (
                    "'redis'",
                    "'cassandra'",
                    "s.toml, line 3: store 'cache': there is no kind 'cassandra'; there are postgres and redis",
                ),
                (
                    "redis://",
                    "http://",
                    "line 4: store 'cache': the URL of a Redis server looks like",
                ),
                (
                    "127.0.0.1:1",
                    "127.0.0.1:99999",
                    "line 4: store 'cache': the URL cannot be read: a port is a number from 1 to 65535",
                ),
                ("redis://", "rediss://", "line 4: store 'cache': TLS to Redis is not supported"),
                (
                    "name = 'log'",
                    "name = 'log'\nlevel = 'causal'",
                    "line 7: store 'cache': what Redis",
                ),
                (
                    "'h:'",
                    "'log:h:'",
                    "line 8: store 'cache': keys that begin with 'log:h:' would be in",
                ),
                (
                    "'h:'",
                    "''",
                    "line 6: store 'cache': keys that begin with 'log:' would be in space 'hits'",
                ),
                (
                    "[[store.space]]",
                    "password_env = 'NONE_SUCH'\n[[store.space]]",
                    "line 5: NONE_SUCH:",
                ),
                (
                    "[[store.space]]",
                    "schema = 's'\n[[store.space]]",
                    "line 5: store 'cache': Redis has",
                ),
                (
                    "prefix =",
                    "operations = { a = 'GET' }\nprefix =",
                    "line 9: store 'cache': spaces of Redis have no operations",
                ),
            ],
        );
    }

    #[test]
    fn mistakes_about_postgres_are_named_with_their_line() {
        assert_refused(
            SHOP,
            [
                ("postgresql://", "http://", "s.toml, line 4: store 'shop': the URL of PostgreSQL"),
                ("'own'", "''", "line 5: store 'shop': `` cannot be a schema"),
                ("'own'", "'own'\npassword_env = 'NONE_SUCH'", "line 6: NONE_SUCH:"),
                (
                    "'stock'",
                    "'stock'\nlevel = 'causal'",
                    "line 8: store 'shop': what PostgreSQL keeps is linearizable",
                ),
                (
                    "'stock'",
                    "'stock'\nprefix = ''",
                    "line 8: store 'shop': spaces of PostgreSQL have",
                ),
                ("'stock'", "\"a\\u0000\"", "line 7: store 'shop': `a\\0` cannot be a space"),
                (
                    "'SELECT",
                    "'COMMIT",
                    "line 10: store 'shop': the operation `left` of the space `stock`",
                ),
            ],
        );
    }
}
