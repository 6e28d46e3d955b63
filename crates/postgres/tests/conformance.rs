//! PostgreSQL fulfils the contract of databases.

mod server;

use server::with_database;
use solera_mixt::conformance;
use solera_mixt::store::Database;

#[test]
fn it_conforms() {
    with_database(|url| async move {
        let postgres = url.builder().space("all").space("other").build().unwrap();
        conformance::all(&postgres, "all").await;
        // Spaces are separate.
        conformance::all(&postgres, "other").await;
    });
}

#[test]
fn it_conforms_in_a_schema_of_any_name() {
    with_database(|url| async move {
        let builder = url.builder().schema("it's a \"schema\"; x").space("it's a \"space\"");
        conformance::all(&builder.build().unwrap(), "it's a \"space\"").await;
        assert_eq!(url.count("\"it's a \"\"schema\"\"; x\".format").await, 1);
    });
}

#[test]
fn hosts_may_create_the_tables_side_by_side() {
    with_database(|url| async move {
        let hosts: Vec<_> = (0..8).map(|_| url.postgres()).collect();
        let connecting = hosts.iter().map(|host| host.connect());
        for connection in futures_util::future::join_all(connecting).await {
            connection.unwrap();
        }
        assert_eq!(url.count("solera.format").await, 1);
    });
}
