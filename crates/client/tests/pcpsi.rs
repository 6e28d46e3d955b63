//! Tests of transactions of level `pcpsi` on a cluster in this process.

use solera::{Client, Error};
use solera_embedded::{ClusterSpec, Embedded, Overrides};

const SPACES: &str = "
[[space]]
name = 'cart'
prefix = 'cart:'
level = 'pcpsi'
";

fn cluster() -> Embedded {
    Embedded::with(ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap()).unwrap()
}

/// Adds one to a number by a read and a write.
async fn add_one(client: &mut Client) -> Result<(), Error> {
    client
        .pcpsi(async |tx| {
            let before = tx.get("cart:n").await?;
            let before: u32 = before.map_or(0, |text| text.parse().expect("it is a number"));
            tx.set("cart:n", &(before + 1).to_string()).await
        })
        .await
}

#[tokio::test]
async fn no_update_of_two_sites_is_lost() {
    const EACH: u32 = 10;
    let cluster = cluster();
    let mut counting = Vec::new();
    for site in [0, 1] {
        let mut client = cluster.client(site).await.unwrap();
        counting.push(tokio::spawn(async move {
            for _ in 0..EACH {
                // The attempts of one transaction may all meet a conflict.
                while let Err(error) = add_one(&mut client).await {
                    assert_eq!(error.code(), Some("ABORTED"), "{error}");
                }
            }
            client.token().await.unwrap()
        }));
    }
    let mut reader = cluster.client(2).await.unwrap();
    for counted in counting {
        reader.attach(&counted.await.unwrap()).await.unwrap();
    }
    assert_eq!(reader.get("cart:n").await.unwrap(), Some((2 * EACH).to_string()));
}

#[tokio::test]
async fn a_closure_runs_again_after_a_conflict_and_never_after_its_own_error() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let mut other = cluster.client(0).await.unwrap();
    let mut attempts = 0;
    client
        .pcpsi(async |tx| {
            attempts += 1;
            tx.incr_by("cart:a", 1).await?;
            if attempts == 1 {
                other.incr_by("cart:a", 10).await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    // The client's site may show the other write only after a while.
    assert!(attempts >= 2, "the first attempt conflicts");
    assert_eq!(client.get("cart:a").await.unwrap().as_deref(), Some("11"));

    let refused = client.pcpsi(async |tx| tx.set("elsewhere", "1").await).await.unwrap_err();
    let named = refused.to_string().contains("'elsewhere' (space 'default')");
    assert!(refused.code() == Some("ERR") && named, "{refused}");
    // The failed transaction is over, and nothing of it took effect.
    client.pcpsi(async |tx| tx.set("cart:a", "1").await).await.unwrap();
    assert_eq!(client.get("elsewhere").await.unwrap(), None);
}

#[tokio::test]
async fn a_key_that_is_only_read_can_be_watched() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let mut other = cluster.client(0).await.unwrap();
    let mut tx = client.begin_pcpsi().await.unwrap();
    tx.watch("cart:stock").await.unwrap();
    assert_eq!(tx.get("cart:stock").await.unwrap(), None);
    tx.set("cart:order", "1").await.unwrap();
    other.pcpsi(async |tx| tx.set("cart:stock", "0").await).await.unwrap();
    assert_eq!(tx.commit().await.unwrap_err().code(), Some("ABORTED"));

    // Watching counts as a change: it conflicts with a transaction that has read the key before,
    // and writes it.
    let mut tx = client.begin_pcpsi().await.unwrap();
    tx.incr_by("cart:stock", 1).await.unwrap();
    let mut watching = other.begin_pcpsi().await.unwrap();
    watching.watch("cart:stock").await.unwrap();
    watching.commit().await.unwrap();
    assert_eq!(tx.commit().await.unwrap_err().code(), Some("ABORTED"));
}
