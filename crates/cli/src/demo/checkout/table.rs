//! The shop's table in PostgreSQL. It stands for a table of another program; the demo reads it
//! without Solera to check the results.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use solera_postgres::Postgres;
use tokio_postgres::Client;

use super::super::{CheckFailed, Checked};

const TABLE: &str = include_str!("../../../../../examples/checkout.sql");
const SETTINGS: &str = include_str!("../../../../../examples/checkout.toml");

/// Table in a schema of its own, which also holds Solera's own tables.
pub(super) struct Table {
    client: Client,
    url: String,
    schema: String,
}

impl Table {
    pub(super) async fn create(url: &str) -> Result<Table, CheckFailed> {
        let failed = |error: &dyn std::fmt::Display| CheckFailed(format!("PostgreSQL: {error}"));
        let server = Postgres::builder(url).build().map_err(|wrong| failed(&wrong))?;
        let client = server.client().await.map_err(|error| failed(&error))?;
        // The name is unique: only one process has this id at this time.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let schema = format!("solera_demo_{}_{}", std::process::id(), since.as_millis());
        let made = format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {TABLE}");
        client.batch_execute(&made).await.map_err(check_failed)?;
        Ok(Table { client, url: url.to_owned(), schema })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the `solera.toml` of a cluster whose modules use the table.
    pub(super) fn settings(&self) -> String {
        settings(&self.url, &self.schema)
    }

    /// Returns the count of each product.
    pub(super) async fn counts(&self) -> Result<BTreeMap<String, i64>, CheckFailed> {
        let rows = self.client.query("SELECT product, count::int8 FROM stock", &[]).await;
        let rows = rows.map_err(check_failed)?;
        let pairs = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        pairs.collect::<Result<_, _>>().map_err(check_failed)
    }

    /// Removes the schema with all its tables.
    pub(super) async fn remove(self) -> Checked {
        let sql = format!("DROP SCHEMA {} CASCADE", self.schema);
        self.client.batch_execute(&sql).await.map_err(|error| {
            CheckFailed(format!(
                "the schema {} is still there: {}",
                self.schema,
                check_failed(error).0
            ))
        })
    }
}

/// Converts an error, with its cause.
fn check_failed(error: tokio_postgres::Error) -> CheckFailed {
    let why = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    CheckFailed(format!("PostgreSQL: {error}{}", why.unwrap_or_default()))
}

/// Returns the settings of the example with this database, and the table in this schema.
fn settings(url: &str, schema: &str) -> String {
    // A JSON string is also a valid TOML string.
    let url = serde_json::Value::from(url).to_string();
    SETTINGS
        .replace("\"postgresql://shop:secret@127.0.0.1:5432/shop\"", &url)
        .replace("schema = \"solera\"", &format!("schema = \"{schema}\""))
        .replace("public.stock", &format!("{schema}.stock"))
}

#[cfg(test)]
mod tests {
    use solera_embedded::{ClusterSpec, Overrides};

    use super::*;

    /// The example contains each of the texts that the demo replaces.
    #[test]
    fn the_settings_of_the_example_are_those_of_the_demo() {
        let text = settings("postgresql://h/d?sslmode=\"x\"", "own");
        let spec = ClusterSpec::parse("s.toml", &text, Overrides::default()).unwrap();
        let store = &spec.stores[0];
        assert_eq!(store.url.value, "postgresql://h/d?sslmode=\"x\"");
        assert_eq!(store.schema.as_ref().map(|schema| &*schema.value), Some("own"));
        let operations = &store.spaces[0].operations;
        assert_eq!(operations["left"].value, "SELECT count FROM own.stock WHERE product = $1");
        assert!(operations["take"].value.starts_with("UPDATE own.stock SET"));
    }
}
