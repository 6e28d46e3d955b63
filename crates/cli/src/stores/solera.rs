//! `kind = "solera"`.

use std::time::Duration;

use solera::mixed::Cluster;
use solera::{Client, Endpoint, Error};
use solera_config::{ConfigError, PasswordSource, StoreSpec};
use solera_levels::Level;
use solera_mixt::store::BoxFuture;

use super::refuse;

/// Default timeout of a reply. It is long because strong phases are retried after conflicts.
const TIMEOUT: Duration = Duration::from_secs(30);

const URL: &str = "the URL of a cluster looks like solera://[USER[:PASSWORD]@]HOST:PORT";

/// Opens another cluster as the configuration describes it.
///
/// # Errors
/// Fails if a setting is invalid.
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
            return refuse(spec, prefix, "the other cluster configures the prefixes of its spaces");
        }
        if let Some(operation) = space.operations.values().next() {
            return refuse(spec, operation, "spaces of a cluster have no operations of their own");
        }
        let Some(level) = &space.level else {
            return refuse(
                spec,
                &space.name,
                "a space of another cluster needs a level, the same as in that cluster",
            );
        };
        let parsed = level.value.parse::<Level>();
        let parsed = parsed.or_else(|unknown| refuse(spec, level, &unknown.to_string()))?;
        if parsed == Level::Speculative {
            return refuse(
                spec,
                level,
                "a space of level 'speculative' takes part in no transaction with other stores",
            );
        }
        spaces.push((&*space.name.value, parsed));
    }
    let connect = move || -> BoxFuture<'static, _> {
        let endpoint = endpoint.clone();
        Box::pin(async move {
            let connected = Client::connect_to(&endpoint).await;
            // The caller did not choose the address, so the error names it.
            connected.map_err(|error| match error {
                Error::Connection(error) => {
                    let text = format!("{endpoint}: {error}");
                    Error::Connection(std::io::Error::new(error.kind(), text))
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

/// Returns the cluster's address with its login, and the name of the user.
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
