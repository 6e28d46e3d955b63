//! The PostgreSQL server that `scripts/with-stores` has started, and its databases.

// Not every test uses all of this.
#![allow(dead_code)]

pub(crate) mod bench;
pub(crate) mod proxy;

use std::sync::atomic::{AtomicU32, Ordering};

use solera_postgres::{Builder, Postgres};
use tokio_postgres::{Client, NoTls};

/// Runs a test with an empty database, given by its URL, and drops the database when the test has
/// passed.
pub(crate) fn with_database<F: Future<Output = ()>>(test: impl FnOnce(Url) -> F) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let server = Url(server());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("solera_test_{}_{number}", std::process::id());
        let admin = server.client().await;
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server.0.rsplit_once('/').expect("the URL names a database");
        test(Url(format!("{base}/{name}"))).await;
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    });
}

fn server() -> String {
    std::env::var("SOLERA_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "this test needs a PostgreSQL server: run it as `scripts/with-stores cargo test -p solera-postgres`"
        )
    })
}

/// Address of a database.
#[derive(Clone, Debug)]
pub(crate) struct Url(pub(crate) String);

impl Url {
    /// Opens a connection that Solera does not use.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.0, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Configures one space, `all`, without operations.
    pub(crate) fn postgres(&self) -> Postgres {
        self.builder().space("all").build().unwrap()
    }

    pub(crate) fn builder(&self) -> Builder {
        Postgres::builder(&self.0).name("pg")
    }

    /// Returns the same database at another address.
    pub(crate) fn at(&self, address: std::net::SocketAddr) -> Url {
        let (credentials, rest) = self.0.split_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        Url(format!("{credentials}@{address}/{database}"))
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let client = self.client().await;
        client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }
}
