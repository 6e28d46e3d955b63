//! The shop's table in PostgreSQL. It stands for a table of another program; the demo reads it
//! without Solera to check the results.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use solera_postgres::Postgres;
use tokio_postgres::Client;

use super::super::{CheckFailed, Checked};

const TABLE: &str = include_str!("../../../../../examples/checkout.sql");

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
        let Table { schema, .. } = self;
        // A JSON string is also a valid TOML string.
        let url = serde_json::Value::from(&*self.url);
        format!(
            "[[space]]
name = 'carts'
prefix = 'shop:'
level = 'causal'
[[store]]
name = 'shop'
kind = 'postgres'
url = {url}
schema = '{schema}'
[[store.space]]
name = 'stock'
[store.space.operations]
take = 'UPDATE {schema}.stock SET count = count - $2 WHERE product = $1 AND count >= $2'
left = 'SELECT count FROM {schema}.stock WHERE product = $1'
"
        )
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
