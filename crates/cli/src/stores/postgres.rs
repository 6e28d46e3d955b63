//! `kind = "postgres"`.

use solera_config::{ConfigError, Placed, StoreSpec};
use solera_postgres::{ConfigError as StoreError, Postgres};

use super::{refuse, require_level};

/// Opens a PostgreSQL database as the configuration describes it.
///
/// # Errors
/// Fails if a setting is invalid.
pub(super) fn open(spec: &StoreSpec) -> Result<Postgres, ConfigError> {
    require_level(spec, "PostgreSQL", "linearizable")?;
    let mut builder = Postgres::builder(&spec.url.value).name(&spec.name);
    if let Some(password) = &spec.password {
        builder = builder.password(&password.read()?);
    }
    if let Some(tls) = &spec.tls {
        builder = builder.tls(tls.value.clone());
    }
    if let Some(schema) = &spec.schema {
        builder = builder.schema(&schema.value);
    }
    if let Some(timeout) = spec.timeout {
        builder = builder.reply_timeout(timeout);
    }
    for space in &spec.spaces {
        if let Some(prefix) = &space.prefix {
            return refuse(spec, prefix, "spaces of PostgreSQL have no prefix");
        }
        builder = builder.space(&space.name.value);
        for (name, sql) in &space.operations {
            builder = builder.operation(name, &sql.value);
        }
    }
    builder.build().or_else(|error| match (&error, &spec.tls) {
        (StoreError::Tls(why), Some(tls)) => refuse(spec, tls, why),
        _ => refuse(spec, setting(spec, &error), &error.to_string()),
    })
}

/// Returns the setting that the error is about.
fn setting<'a>(spec: &'a StoreSpec, error: &StoreError) -> &'a Placed<String> {
    let of = |name: &str| spec.spaces.iter().find(|space| space.name.value == name);
    let found = match error {
        StoreError::Schema(_) => spec.schema.as_ref(),
        StoreError::Space(space) | StoreError::SpaceTwice(space) => {
            of(space).map(|space| &space.name)
        }
        StoreError::Statement { space, operation, .. }
        | StoreError::OperationTwice { space, operation } => {
            of(space).and_then(|space| space.operations.get(operation))
        }
        StoreError::Url(_) | StoreError::Tls(_) | StoreError::OperationWithoutSpace(_) => None,
    };
    found.unwrap_or(&spec.url)
}
