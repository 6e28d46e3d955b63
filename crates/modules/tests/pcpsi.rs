//! Tests of modules that use spaces of level `pcpsi`, on clusters in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use solera::mixed::{Spaces, System, digest};
use solera::{Client, Token, Value};
use solera_embedded::{ClusterSpec, Embedded, Overrides, Settings};
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections};
use solera_mixt::outcome::Limits;
use solera_mixt::store::Database;

const SPACES: &str = "
[[space]]
name = 'carts'
prefix = 'cart:'
level = 'pcpsi'
[[space]]
name = 'wishes'
prefix = 'wish:'
level = 'pcpsi'
[[space]]
name = 'accounts'
prefix = 'account:'
level = 'linearizable'
[[space]]
name = 'mail'
prefix = 'mail:'
level = 'causal'
";

const SHOP: &str = "
store accounts : linearizable;
store carts : pcpsi;
store wishes : causal;
store mail : causal;

transaction buy(account: handle<counter> in accounts, cart: handle<counter> in carts,
    wish: handle<counter> in wishes) -> int {
    account.add(1);
    cart.add(1);
    wish.add(1);
    return account.value();
}
transaction note(cart: handle<counter> in carts, wish: handle<counter> in wishes,
    inbox: handle<counter> in mail) {
    cart.add(1);
    wish.add(1);
    inbox.add(1);
}
transaction read(account: handle<counter> in accounts, cart: handle<counter> in carts,
    wish: handle<counter> in wishes) -> list<int> {
    return [account.value(), cart.value(), wish.value()];
}
";

/// Starts a cluster, and returns it with the token of the session that loaded the module.
async fn shop(limits: Limits) -> (Embedded, Token) {
    let spec = ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap();
    let settings = Settings { limits, upkeep: Duration::from_millis(50), ..Settings::default() };
    let cluster = Embedded::with_modules(spec, settings, Vec::new()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    client.command(&["SOLERA.MODULE", "LOAD", "shop", SHOP]).await.unwrap();
    let loaded = client.token().await.unwrap();
    (cluster, loaded)
}

async fn eventually<R>(mut what: impl AsyncFnMut() -> Option<R>) -> R {
    let began = Instant::now();
    loop {
        if let Some(found) = what().await {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never came about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of recovery records that a space of level `pcpsi` lists.
async fn listed(client: &mut Client, prefix: &str) -> usize {
    let mut count = 0;
    for number in 0..16 {
        let key = format!("{prefix}solera:mixt:records:{number}");
        count += client.smembers(&key).await.unwrap().len();
    }
    count
}

#[tokio::test]
async fn calls_at_all_sites_over_strong_and_pcpsi_spaces_lose_nothing() {
    const EACH: i64 = 5;
    // The garbage is removed soon.
    let limits = Limits { keep_ms: 2_000, ..Limits::default() };
    let (cluster, loaded) = shop(limits).await;
    let mut calling = Vec::new();
    for site in 0..3 {
        let mut client = cluster.client(site).await.unwrap();
        client.attach(&loaded).await.unwrap();
        calling.push(tokio::spawn(async move {
            let buy = ["SOLERA.CALL", "shop.buy", "a", "a", "a"];
            for _ in 0..EACH {
                // After these errors, nothing has taken effect.
                while let Err(error) = client.command(&buy).await {
                    assert!(matches!(error.code(), Some("ABORTED" | "UNAVAILABLE")), "{error}");
                }
            }
            // The session sees what its calls have written in every space.
            let cart = client.get("cart:a").await.unwrap().unwrap();
            assert!(cart.parse::<i64>().unwrap() >= EACH, "{cart}");
            client.token().await.unwrap()
        }));
    }
    let mut reader = cluster.client(1).await.unwrap();
    for called in calling {
        reader.attach(&called.await.unwrap()).await.unwrap();
    }
    let read = ["SOLERA.CALL", "shop.read", "a", "a", "a"];
    let read = reader.command(&read).await.unwrap();
    assert_eq!(read, Value::Array(vec![Value::Integer(3 * EACH); 3]));
    // Witnesses and marks are removed.
    let left =
        async || reader.hgetall("cart:solera:mixt:w:a").await.unwrap().is_empty().then_some(());
    eventually(left).await;
}

/// Runs `note` until its first commit, and then stops, as a process that dies.
async fn note_and_die(cluster: &Embedded, limits: Limits) {
    let embedded = cluster.clone();
    let spaces = Spaces::of(move || {
        let cluster = embedded.clone();
        Box::pin(async move { cluster.client(0).await })
    });
    let databases: [Arc<dyn Database>; 1] = [Arc::new(spaces.await.unwrap())];
    let program = Arc::new(solera_language::compile::compile(SHOP).program.unwrap());
    let module = Module::new(&digest(SHOP), program.clone()).unwrap();
    let binds = ["accounts", "carts", "wishes", "mail"].map(|name| (name, 0, name));
    let bindings = Bindings::new(&program, &databases, &binds).unwrap();
    let codec = solera_program::codec::Codec::new(&program);
    let index = module.transaction("note").unwrap();
    let params = &program.transactions[index].params;
    let args = params.iter().map(|(_, ty)| codec.argument(b"n", ty).unwrap()).collect();
    let known = (Arc::default(), limits);
    let id = TransactionId::new(77);
    let now_ms = System.now_ms();
    let made = Coordinator::new((module, index), args, bindings, id, known, now_ms);
    let mut dying = made.unwrap();
    // One transaction spans both spaces of level pcpsi, and none spans the causal one as well.
    assert_eq!(
        dying.plan().groups.iter().map(|group| group.stores.len()).collect::<Vec<_>>(),
        [2, 1]
    );
    let mut connections = Connections::new(databases);
    let mut answer = None;
    loop {
        answer = Some(match dying.next(System.now_ms(), answer) {
            Next::Ask(Ask::Store { database, request }) => {
                let reply = connections.ask(&database, &request).await;
                if matches!((&request, &reply), (Request::Commit(_), Ok(Reply::Committed))) {
                    return;
                }
                reply
            }
            Next::Ask(Ask::Wait { ms }) => {
                System.sleep(ms).await;
                Ok(Reply::Done)
            }
            Next::Finished(outcome) => panic!("nothing is in the way: {outcome:?}"),
        });
    }
}

#[tokio::test]
async fn a_transaction_recorded_in_a_pcpsi_space_is_completed_once() {
    let limits = Limits {
        finish_ms: 100,
        orphan_ms: 200,
        blocked_ms: 300,
        keep_ms: 400,
        ..Limits::default()
    };
    let (cluster, _) = shop(limits).await;
    note_and_die(&cluster, limits).await;
    let mut client = cluster.client(0).await.unwrap();
    eventually(async || (client.get("mail:n").await.unwrap()?.as_str() == "1").then_some(())).await;
    // Nothing is left behind, and the hosts of all sites have completed it once.
    eventually(async || (listed(&mut client, "cart:").await == 0).then_some(())).await;
    assert_eq!(client.get("mail:n").await.unwrap().as_deref(), Some("1"));
    let read = async || client.get("cart:n").await.unwrap();
    eventually(read).await;
    assert_eq!(client.get("cart:n").await.unwrap().as_deref(), Some("1"));
    assert_eq!(client.get("wish:n").await.unwrap().as_deref(), Some("1"));
}
