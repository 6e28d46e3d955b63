//! Databases of others that modules use: where `[[store]]` meets the crates that know them.

use std::error::Error;
use std::sync::Arc;

use solera::modules::{Host, Settings, Store};
use solera_mixt::store::Database;
use solera_node::{ClusterSpec, ConfigError, StoreSpec};
use solera_redis::{Redis, TIMEOUT, Target};

/// What runs the modules of a process, with the stores of its configuration.
///
/// # Errors
/// If the configuration cannot be meant so, which tells file and line, or threads cannot be started.
pub(crate) fn host(spec: &ClusterSpec) -> Result<Host, Box<dyn Error>> {
    let settings = Settings::configured(&spec.modules)?;
    let stores = spec.stores.iter().map(store).collect::<Result<_, _>>()?;
    Ok(Host::start(settings, stores)?)
}

/// Nothing is connected to yet.
fn store(spec: &StoreSpec) -> Result<Store, ConfigError> {
    let database = match spec.kind.value.as_str() {
        "redis" => redis(spec)?,
        other => {
            let reason =
                format!("store '{}': there is no kind '{other}'; there is redis", spec.name);
            return spec.kind.invalid(reason);
        }
    };
    let spaces = spec.spaces.iter().map(|space| space.name.value.as_str().into()).collect();
    Ok(Store { database, spaces })
}

fn redis(spec: &StoreSpec) -> Result<Arc<dyn Database>, ConfigError> {
    let target = Target::parse(&spec.url.value);
    let target =
        target.or_else(|error| spec.url.invalid(format!("store '{}': {error}", spec.name)))?;
    let target = match &spec.password {
        Some(password) => target.with_password(&password.read()?),
        None => target,
    };
    let mut spaces = Vec::new();
    for space in &spec.spaces {
        if let Some(level) = space.level.as_ref().filter(|level| level.value != "eventual") {
            let reason = format!("store '{}': what Redis keeps is eventual", spec.name);
            return level.invalid(reason);
        }
        let prefix = match &space.prefix {
            Some(prefix) => prefix.value.clone(),
            None => format!("{}:", space.name.value),
        };
        spaces.push((space, prefix));
    }
    let prefixed = |one: usize, other: usize| spaces[other].1.starts_with(&spaces[one].1);
    for one in 0..spaces.len() {
        if let Some(other) = (0..spaces.len()).find(|other| *other != one && prefixed(one, *other))
        {
            let (outer, inner) = (&spaces[one], &spaces[other]);
            let reason = format!(
                "store '{}': keys that begin with '{}' would be in space '{}', too",
                spec.name, inner.1, outer.0.name.value
            );
            return inner.0.name.invalid(reason);
        }
    }
    let spaces = spaces.iter().map(|(space, prefix)| (space.name.value.as_str(), prefix.as_str()));
    Ok(Arc::new(Redis::new(&spec.name, target, spaces, spec.timeout.unwrap_or(TIMEOUT))))
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

    fn read(text: &str) -> Result<Host, String> {
        let spec = ClusterSpec::parse("s.toml", text, Overrides::default());
        host(&spec.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert!(read(CACHE).is_ok());
        for (old, new, reason) in [
            (
                "'redis'",
                "'cassandra'",
                "s.toml, line 3: store 'cache': there is no kind 'cassandra'",
            ),
            ("redis://", "http://", "line 4: store 'cache': the URL of a Redis server looks like"),
            ("redis://", "rediss://", "line 4: store 'cache': TLS to Redis is not supported"),
            ("name = 'log'", "name = 'log'\nlevel = 'causal'", "line 7: store 'cache': what Redis"),
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
        ] {
            let error = read(&CACHE.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(reason), "{new}: {error}");
        }
    }
}
