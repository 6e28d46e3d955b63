//! `kind = "postgres"`.

use solera_config::{ConfigError, Placed, StoreSpec};
use solera_postgres::{ConfigError as Wrong, Postgres};

use super::{refuse, require_level};

/// A PostgreSQL database as it is configured.
///
/// # Errors
/// If it cannot be so.
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
    builder.build().or_else(|wrong| match (&wrong, &spec.tls) {
        (Wrong::Tls(why), Some(tls)) => refuse(spec, tls, why),
        _ => refuse(spec, setting(spec, &wrong), &wrong.to_string()),
    })
}

/// What is to be mended.
fn setting<'a>(spec: &'a StoreSpec, wrong: &Wrong) -> &'a Placed<String> {
    let of = |name: &str| spec.spaces.iter().find(|space| space.name.value == name);
    let found = match wrong {
        Wrong::Schema(_) => spec.schema.as_ref(),
        Wrong::Space(space) | Wrong::SpaceTwice(space) => of(space).map(|space| &space.name),
        Wrong::Statement { space, operation, .. } | Wrong::OperationTwice { space, operation } => {
            of(space).and_then(|space| space.operations.get(operation))
        }
        Wrong::Url(_) | Wrong::Tls(_) | Wrong::OperationWithoutSpace(_) => None,
    };
    found.unwrap_or(&spec.url)
}
