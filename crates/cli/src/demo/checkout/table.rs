//! The shop's table: what another program would have made, and what the demo looks at beside
//! Solera.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use solera_postgres::Postgres;
use tokio_postgres::Client;

use super::super::{Told, Untrue};

const TABLE: &str = include_str!("../../../../../examples/checkout.sql");

/// A table in a schema of its own, which Solera's own tables are in, too.
pub(super) struct Table {
    client: Client,
    url: String,
    schema: String,
}

impl Table {
    pub(super) async fn create(url: &str) -> Result<Table, Untrue> {
        let told = |error: &dyn std::fmt::Display| Untrue(format!("PostgreSQL: {error}"));
        let server = Postgres::builder(url).build().map_err(|wrong| told(&wrong))?;
        let client = server.client().await.map_err(|error| told(&error))?;
        // No other run has the name: there is one process of this number at a time.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let schema = format!("solera_demo_{}_{}", std::process::id(), since.as_millis());
        let made = format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {TABLE}");
        client.batch_execute(&made).await.map_err(untrue)?;
        Ok(Table { client, url: url.to_owned(), schema })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// The `solera.toml` of a cluster whose modules use it.
    pub(super) fn settings(&self) -> String {
        let Table { schema, .. } = self;
        // A string of JSON is one of TOML.
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

    /// How many there are of each product.
    pub(super) async fn counts(&self) -> Result<BTreeMap<String, i64>, Untrue> {
        let rows = self.client.query("SELECT product, count::int8 FROM stock", &[]).await;
        let rows = rows.map_err(untrue)?;
        let pairs = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        pairs.collect::<Result<_, _>>().map_err(untrue)
    }

    /// Removes the schema with all that is in it.
    pub(super) async fn remove(self) -> Told {
        let sql = format!("DROP SCHEMA {} CASCADE", self.schema);
        self.client.batch_execute(&sql).await.map_err(|error| {
            Untrue(format!("the schema {} is still there: {}", self.schema, untrue(error).0))
        })
    }
}

/// An error with its cause.
fn untrue(error: tokio_postgres::Error) -> Untrue {
    let why = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    Untrue(format!("PostgreSQL: {error}{}", why.unwrap_or_default()))
}
