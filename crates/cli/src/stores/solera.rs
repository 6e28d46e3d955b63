//! `kind = "solera"`.

use std::time::Duration;

use solera::mixed::Cluster;
use solera::{Client, Endpoint, Error};
use solera_config::{ConfigError, PasswordSource, StoreSpec};
use solera_levels::Level;
use solera_mixt::store::BoxFuture;

use super::refuse;

/// What an answer may take if nothing is said: strong phases that meet others are tried for some
/// time.
const TIMEOUT: Duration = Duration::from_secs(30);

const URL: &str = "the URL of a cluster looks like solera://[USER[:PASSWORD]@]HOST:PORT";

/// Another cluster as it is configured.
///
/// # Errors
/// If it cannot be so.
pub(super) fn open(spec: &StoreSpec) -> Result<Cluster, ConfigError> {
    let (endpoint, user) = endpoint(spec)?;
    let mut endpoint = endpoint.timeout(spec.timeout.unwrap_or(TIMEOUT));
    if let Some(files) = &spec.tls {
        let tls = files.value.tls().or_else(|error| refuse(spec, files, &error.to_string()))?;
        endpoint = endpoint.tls(tls);
    }
    if let Some(schema) = &spec.schema {
        return refuse(spec, schema, "clusters have no schemas");
    }
    let mut spaces = Vec::new();
    for space in &spec.spaces {
        if let Some(prefix) = &space.prefix {
            return refuse(spec, prefix, "the cluster itself says which prefixes its spaces have");
        }
        if let Some(operation) = space.operations.values().next() {
            return refuse(spec, operation, "spaces of a cluster have no operations of their own");
        }
        let Some(level) = &space.level else {
            return refuse(
                spec,
                &space.name,
                "a space of a cluster needs its level, as it is there",
            );
        };
        let parsed = level.value.parse::<Level>();
        let parsed = parsed.or_else(|unknown| refuse(spec, level, &unknown.to_string()))?;
        spaces.push((&*space.name.value, parsed));
    }
    let connect = move || -> BoxFuture<'static, _> {
        let endpoint = endpoint.clone();
        Box::pin(async move {
            let connected = Client::connect_to(&endpoint).await;
            // Whoever is told this did not say where.
            connected.map_err(|error| match error {
                Error::Connection(error) => {
                    let told = format!("{endpoint}: {error}");
                    Error::Connection(std::io::Error::new(error.kind(), told))
                }
                other => other,
            })
        })
    };
    let cluster = Cluster::new(&spec.name, spaces, connect);
    Ok(match user {
        Some(user) => cluster.used_by(&user),
        None => cluster,
    })
}

/// Where it is, and as whom it is used.
fn endpoint(spec: &StoreSpec) -> Result<(Endpoint, Option<String>), ConfigError> {
    let Some(rest) = spec.url.value.strip_prefix("solera://") else {
        return refuse(spec, &spec.url, URL);
    };
    let (login, address) = match rest.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, rest),
    };
    let Ok(endpoint) = address.parse::<Endpoint>() else {
        return refuse(spec, &spec.url, URL);
    };
    let given = spec.password.as_ref().map(PasswordSource::read).transpose()?;
    let (user, in_url) = match login {
        None if given.is_some() => {
            return refuse(spec, &spec.url, "a password needs a user in the URL");
        }
        None => return Ok((endpoint, None)),
        Some(login) => match login.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (login, None),
        },
    };
    match given.or(in_url) {
        Some(password) if !user.is_empty() => {
            Ok((endpoint.user(user, &password), Some(user.to_owned())))
        }
        _ => refuse(spec, &spec.url, "a user needs a name and a password"),
    }
}
