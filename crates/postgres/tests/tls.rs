//! TLS connections, and servers that are not trusted.

mod server;

use std::path::PathBuf;

use server::{Url, with_database};
use solera_mixt::store::{Database, StoreError};
use solera_postgres::{Builder, TlsFiles};

/// Returns files that trust this authority. `ca` has signed the server's certificate, `other` has
/// not.
fn trusting(authority: &str) -> TlsFiles {
    let folder: PathBuf = std::env::var_os("SOLERA_TEST_TLS")
        .expect("this test needs SOLERA_TEST_TLS: run it as `scripts/with-stores cargo test -p solera-postgres`")
        .into();
    TlsFiles { authorities: folder.join(format!("{authority}.pem")), own: None }
}

/// Returns the URL of the same server by a name that its certificate does not contain.
fn by_name(url: &Url) -> Url {
    Url(url.0.replace("@127.0.0.1:", "@localhost:"))
}

fn with(url: &Url, query: &str) -> Builder {
    Url(format!("{}?application_name=tls_test{query}", url.0)).builder().space("all")
}

/// Connects, and returns whether the connection is encrypted.
async fn encrypted(url: &Url, builder: Builder) -> Result<bool, StoreError> {
    let connection = builder.build().unwrap().connect().await?;
    let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
               WHERE application_name = 'tls_test' AND datname = current_database()";
    let rows = url.client().await.query(sql, &[]).await.unwrap();
    drop(connection);
    // The next call must count only its own connection.
    let gone = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                WHERE application_name = 'tls_test' AND datname = current_database()";
    url.client().await.execute(gone, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    Ok(rows[0].get(0))
}

#[test]
fn connections_are_encrypted_as_the_mode_and_the_files_say() {
    with_database(|url| async move {
        let name = by_name(&url);
        for (at, query, files, expected) in [
            (&url, "", None, false),
            (&url, "&sslmode=disable", None, false),
            (&name, "&sslmode=prefer", None, true),
            (&name, "&sslmode=require", None, true),
            (&name, "&sslmode=require", Some("ca"), true),
            (&name, "&sslmode=verify-ca", Some("ca"), true),
            (&url, "&sslmode=verify-full", Some("ca"), true),
            (&url, "", Some("ca"), true),
        ] {
            let mut builder = with(at, query);
            if let Some(authority) = files {
                builder = builder.tls(trusting(authority));
            }
            let found = encrypted(&url, builder).await;
            assert_eq!(found, Ok(expected), "{at:?} {query} {files:?}");
        }
    });
}

#[test]
fn an_untrusted_server_gets_no_password_and_the_reason_is_reported() {
    with_database(|url| async move {
        let (_, address) = url.0.split_once('@').unwrap();
        let (address, _) = address.split_once('/').unwrap();
        let port = address.rsplit_once(':').unwrap().1;
        let (_, secret) = url.0.split_once("://solera:").unwrap();
        let (secret, _) = secret.split_once('@').unwrap();
        let unsigned = "its certificate is not signed by an authority in ";
        for (at, query, authority, host, reason) in [
            (url.clone(), "", "other", "127.0.0.1", unsigned),
            (url.clone(), "&sslmode=require", "other", "127.0.0.1", unsigned),
            (url.clone(), "&sslmode=verify-ca", "other", "127.0.0.1", unsigned),
            (
                by_name(&url),
                "&sslmode=verify-full",
                "ca",
                "localhost",
                "its certificate is not for localhost, but for 127.0.0.1",
            ),
        ] {
            let postgres = with(&at, query).tls(trusting(authority)).build().unwrap();
            let Err(error) = postgres.connect().await else { panic!("{query} {authority}") };
            let StoreError::Unavailable(message) = &error else { panic!("{error}") };
            let expected = format!("{host}:{port}: error performing TLS handshake: {reason}");
            assert!(message.starts_with(&expected), "{message}");
            assert!(!message.contains(secret), "{message}");
        }
    });
}
