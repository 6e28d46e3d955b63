//! `kind = "redis"`.

use std::sync::Arc;

use solera_config::{ConfigError, StoreSpec};
use solera_mixt::outcome::IN_DOUBT_MS;
use solera_mixt::store::Database;
use solera_occult_redis::{Layout, Options, Store};
use solera_redis::{Redis, TIMEOUT, Target, TargetError};

use super::refuse;

/// Opens a Redis server or cluster as the configuration describes it.
///
/// # Errors
/// Fails if a setting is invalid.
pub(super) fn open(spec: &StoreSpec) -> Result<Arc<dyn Database>, ConfigError> {
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
    let is_pcpsi = is_pcpsi(spec, &target)?;
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
    let timeout = spec.timeout.unwrap_or(TIMEOUT);
    if is_pcpsi {
        // A request takes effect until twice its time limit has passed.
        if timeout.as_millis() * 2 > IN_DOUBT_MS.into() {
            let reason =
                format!("timeout_ms is at most {} for spaces of level pcpsi", IN_DOUBT_MS / 2);
            return refuse(spec, &spec.kind, &reason);
        }
        let options = Options { timeout, layout: layout(spec)?, ..Options::default() };
        return Ok(Arc::new(Store::new(&spec.name, target, spaces, options)));
    }
    if let Some(layout) = &spec.layout {
        return refuse(spec, layout, "a layout is for spaces of level pcpsi in a Redis Cluster");
    }
    Ok(Arc::new(Redis::new(&spec.name, target, spaces, timeout)))
}

fn layout(spec: &StoreSpec) -> Result<Layout, ConfigError> {
    let Some(layout) = &spec.layout else { return Ok(Layout::Plain) };
    layout.value.parse().or_else(|why: String| refuse(spec, layout, &why))
}

/// Returns whether the spaces are of level `pcpsi`. All spaces of a store have one level.
fn is_pcpsi(spec: &StoreSpec, target: &Target) -> Result<bool, ConfigError> {
    let mut is_pcpsi = None;
    for space in &spec.spaces {
        let level = space.level.as_ref();
        let found = match level.map_or("eventual", |level| &level.value) {
            "eventual" => false,
            "pcpsi" => true,
            _ => {
                let reason = "data in Redis is eventual, or pcpsi in a Redis Cluster";
                return refuse(spec, level.unwrap_or(&space.name), reason);
            }
        };
        if found && !target.is_cluster() {
            let reason = "spaces of level pcpsi need a Redis Cluster: the URL must begin with \
                          redis-cluster://";
            return refuse(spec, level.unwrap_or(&space.name), reason);
        }
        if is_pcpsi.is_some_and(|first| first != found) {
            let reason = "spaces of level pcpsi and eventual ones need a store each";
            return refuse(spec, level.unwrap_or(&space.name), reason);
        }
        is_pcpsi = Some(found);
    }
    Ok(is_pcpsi.unwrap_or_default())
}
