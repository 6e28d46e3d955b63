//! A server with TLS, which `scripts/with-stores` starts.

mod world;

use std::path::PathBuf;

use solera_mixt::store::{Begin, Database, Name, StoreError};
use solera_redis::{Redis, TIMEOUT, Target, TlsFiles};
use world::prefix;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("this test needs {name}: run it as `scripts/with-stores cargo test -p solera-redis`")
    })
}

/// Returns the server at this URL, trusted if `authority` has signed its certificate.
fn redis(url: &str, authority: &str) -> Redis {
    let folder = PathBuf::from(variable("SOLERA_TEST_TLS"));
    let files = TlsFiles { authorities: folder.join(format!("{authority}.pem")), own: None };
    let target = Target::parse_with(url, Some(&files)).unwrap();
    Redis::new("cache", target, [("all", prefix().as_str())], TIMEOUT)
}

/// Reads a name that does not exist.
async fn ask(redis: &Redis) -> Result<(), StoreError> {
    let names = vec![Name { space: "all".into(), key: "x".into() }];
    let begin = Begin { read_only: true, names, ..Begin::default() };
    let found = redis.connect().await?.begin(&begin).await?;
    assert!(found.len() == 1 && found[0].is_empty(), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_trusted_answers_over_tls() {
    let url = variable("SOLERA_TEST_REDIS_TLS");
    ask(&redis(&url, "ca")).await.unwrap();
    // Requests without TLS fail there.
    let plain = Target::parse(&url.replace("rediss://", "redis://")).unwrap();
    let plain = Redis::new("cache", plain, [("all", "x")], TIMEOUT);
    ask(&plain).await.unwrap_err();
}

#[tokio::test]
async fn an_untrusted_server_is_reported_with_address_and_reason() {
    let url = variable("SOLERA_TEST_REDIS_TLS").replace("rediss://", "rediss://ann:secret@");
    let name = url.replace("127.0.0.1", "localhost");
    for (url, authority, reason) in [
        (&url, "other", "its certificate is not signed by an authority in "),
        (&name, "ca", "its certificate is not for localhost, but for "),
    ] {
        let message = ask(&redis(url, authority)).await.unwrap_err();
        let StoreError::Unavailable(message) = message else { panic!("{message}") };
        let host = url.trim_end_matches('/').rsplit(['@', '/']).next().unwrap();
        assert!(message.starts_with(&format!("{host}: ")) && message.contains(reason), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
}
