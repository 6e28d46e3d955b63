//! `kind = "redis"`.

use solera_config::{ConfigError, StoreSpec};
use solera_redis::{Redis, TIMEOUT, Target, TargetError};

use super::{refuse, require_level};

/// Opens a Redis server or cluster as the configuration describes it.
///
/// # Errors
/// Fails if a setting is invalid.
pub(super) fn open(spec: &StoreSpec) -> Result<Redis, ConfigError> {
    let files = spec.tls.as_ref().map(|tls| &tls.value);
    let target =
        Target::parse_with(&spec.url.value, files).or_else(|error| match (&error, &spec.tls) {
            (TargetError::Tls(why), Some(tls)) => refuse(spec, tls, why),
            _ => refuse(spec, &spec.url, &error.to_string()),
        })?;
    let target = match &spec.password {
        Some(password) => target.with_password(&password.read()?),
        None => target,
    };
    if let Some(schema) = &spec.schema {
        return refuse(spec, schema, "Redis has no schemas");
    }
    if let Some(most) = &spec.connections {
        return refuse(spec, most, "all calls share one connection to Redis");
    }
    require_level(spec, "Redis", "eventual")?;
    let mut spaces = Vec::new();
    for space in &spec.spaces {
        if let Some(operation) = space.operations.values().next() {
            return refuse(spec, operation, "spaces of Redis have no operations of their own");
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
                "keys that begin with '{}' would be in space '{}', too",
                inner.1, outer.0.name.value
            );
            return refuse(spec, &inner.0.name, &reason);
        }
    }
    let spaces = spaces.iter().map(|(space, prefix)| (space.name.value.as_str(), prefix.as_str()));
    Ok(Redis::new(&spec.name, target, spaces, spec.timeout.unwrap_or(TIMEOUT)))
}
