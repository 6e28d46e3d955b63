//! The cluster as a store of mixed transactions: objects, transactions, records and their end.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{self, Clock, Connections};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome, Why};
use solera_mixt::store::{Begin, BoxFuture, Database, Location, Name, NameWrite, StoreError};
use solera_mixt::{conformance, recovery};
use solera_occult_redis::{Layout, Options, Store};
use solera_program::codec::Codec;
use solera_program::value::Value;
use solera_redis::Target;
use solera_resp::Value as Raw;
use world::{Cluster, bulk};

const SPACES: [(&str, &str); 3] = [("carts", "cart:"), ("wishes", "wish:"), ("odd", "solera:")];

fn store(cluster: &Cluster) -> Store {
    store_with(cluster, Layout::Plain)
}

fn store_with(cluster: &Cluster, layout: Layout) -> Store {
    let options = Options { timeout: Duration::from_secs(5), layout, ..Options::default() };
    Store::new("redis", Target::parse(&cluster.url()).unwrap(), SPACES, options)
}

struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// A module over databases.
struct Bench {
    module: Module,
    databases: Vec<Arc<dyn Database>>,
    bindings: Bindings,
    limits: Limits,
}

impl Bench {
    fn new(source: &str, databases: Vec<Arc<dyn Database>>, bind: &[(&str, usize, &str)]) -> Bench {
        let compiled = solera_language::compile::compile(source);
        let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        let module = Module::new("tested", Arc::new(program)).unwrap();
        let bindings = Bindings::new(module.program(), &databases, bind).unwrap();
        Bench { module, databases, bindings, limits: Limits::default() }
    }

    fn coordinator(&self, name: &str, args: &[&str]) -> Coordinator {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let transaction = self.module.transaction(name).unwrap();
        let program = self.module.program();
        let codec = Codec::new(program);
        let params = program.transactions[transaction].params.iter().zip(args);
        let args = params.map(|((_, ty), text)| codec.argument(text.as_bytes(), ty).unwrap());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Coordinator::new(
            (self.module.clone(), transaction),
            args.collect(),
            self.bindings.clone(),
            TransactionId::new(number << 1),
            (Arc::new(BTreeMap::new()), self.limits),
            SystemClock.now_ms(),
        )
        .unwrap()
    }

    fn connections(&self) -> Connections {
        Connections::new(self.databases.iter().cloned())
    }

    async fn run(&self, name: &str, args: &[&str]) -> Outcome {
        executor::run(&mut self.coordinator(name, args), &mut self.connections(), &SystemClock)
            .await
    }

    async fn done(&self, name: &str, args: &[&str]) -> Value {
        match self.run(name, args).await {
            Outcome::Done { result, .. } => result,
            other => panic!("{name}: {other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_the_contract_of_a_store_of_level_pcpsi() {
    let cluster = Cluster::start();
    let database = store(&cluster);
    assert_eq!(database.level("carts"), Some(Level::PcPsi));
    assert_eq!(database.level("no such space"), None);
    assert!(database.spans("carts", "wishes") && !database.spans("carts", "other"));
    conformance::of_redis_types(&database, "carts").await;

    // A cluster has one layout.
    let envelopes = Cluster::start();
    conformance::of_redis_types(&store_with(&envelopes, Layout::Envelope), "carts").await;

    // Other programs can read the objects.
    let raw = |words: &[&str]| cluster.nodes[cluster.master_of(words[1])].raw(words);
    assert_eq!(raw(&["TYPE", "cart:objects-list-true"]), Raw::Simple("list".to_owned()));
    assert_eq!(raw(&["GET", "cart:objects-counter-true"]), bulk("9223372036854775807"));
    let size = raw(&["SCARD", "cart:objects-set-true"]);
    assert_eq!(size, Raw::Integer(0), "its last step removes it");
}

const SHOP: &str = "
store accounts : linearizable;
store carts : causal;
store wishes : causal;
transaction move(from: handle<counter> in carts, to: handle<counter> in wishes, by: int) -> int {
    from.add(-by);
    to.add(by);
    return from.value();
}
transaction sum(one: handle<counter> in carts, other: handle<counter> in wishes) -> int {
    return one.value() + other.value();
}
transaction buy(account: handle<counter> in accounts, cart: handle<list<int>> in carts) -> int {
    account.add(1);
    var bought = account.value();
    cart.append(bought);
    return bought;
}
transaction replace(cart: handle<list<int>> in carts) -> list<int> {
    cart.delete();
    cart.append(7);
    return cart.values();
}
transaction values(cart: handle<list<int>> in carts) -> list<int> { return cart.values(); }
";

const BIND: [(&str, usize, &str); 3] =
    [("accounts", 0, "accounts"), ("carts", 1, "carts"), ("wishes", 1, "wishes")];

fn shop(cluster: &Cluster) -> Bench {
    let strong = Memory::new("strong", &[("accounts", Level::Linearizable)]);
    Bench::new(SHOP, vec![Arc::new(strong), Arc::new(store(cluster))], &BIND)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transaction_spans_two_spaces_and_loses_no_update() {
    let cluster = Cluster::start();
    // Each has gateways of its own, as two nodes have.
    let benches = [Arc::new(shop(&cluster)), Arc::new(shop(&cluster))];
    let plan = benches[0].coordinator("move", &["a", "b", "1"]);
    assert_eq!(plan.plan().groups.len(), 1, "one transaction spans both spaces");
    let mut moving = tokio::task::JoinSet::new();
    for number in 0..6 {
        let bench = Arc::clone(&benches[number % 2]);
        moving.spawn(async move {
            for _ in 0..5 {
                // After a conflict that lasts too long, nothing has taken effect.
                while !matches!(bench.run("move", &["a", "b", "3"]).await, Outcome::Done { .. }) {}
                let sum = bench.done("sum", &["a", "b"]).await;
                assert_eq!(sum, Value::Int(0), "a transaction is seen as a whole");
            }
        });
    }
    while moving.join_next().await.transpose().unwrap().is_some() {}
    let raw = |key: &str| cluster.nodes[cluster.master_of(key)].raw(&["GET", key]);
    assert_eq!((raw("cart:a"), raw("wish:b")), (bulk("-90"), bulk("90")));
    // Calls of one process see what earlier ones have written.
    for number in 1..=20 {
        benches[0].done("replace", &[&format!("l{number}")]).await;
        let key = format!("l{number}");
        assert_eq!(benches[0].done("values", &[&key]).await, Value::list([Value::Int(7)]));
    }
}

/// Runs a transaction until its first commit in a database, and then stops, as a process that dies.
async fn begin_and_die(bench: &Bench, name: &str, args: &[&str]) {
    let mut dying = bench.coordinator(name, args);
    let mut connections = bench.connections();
    let mut answer = None;
    loop {
        answer = Some(match dying.next(SystemClock.now_ms(), answer) {
            Next::Ask(Ask::Store { database, request }) => {
                let reply = connections.ask(&database, &request).await;
                if matches!((&request, &reply), (Request::Commit(_), Ok(Reply::Committed))) {
                    return;
                }
                reply
            }
            Next::Ask(Ask::Wait { ms }) => {
                SystemClock.sleep(ms).await;
                Ok(Reply::Done)
            }
            Next::Finished(outcome) => panic!("nothing is in the way: {outcome}"),
        });
    }
}

/// A module whose first group is in the cluster, so that its record is there.
const NOTES: &str = "
store carts : causal;
store notes : eventual;
transaction note(cart: handle<counter> in carts, note: handle<counter> in notes) {
    cart.add(1);
    note.add(1);
}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_recorded_in_the_cluster_is_completed_once_and_leaves_nothing() {
    let cluster = Cluster::start();
    let notes = Memory::new("notes", &[("notes", Level::Eventual)]);
    let databases: Vec<Arc<dyn Database>> = vec![Arc::new(store(&cluster)), Arc::new(notes)];
    let mut bench = Bench::new(NOTES, databases, &[("carts", 0, "carts"), ("notes", 1, "notes")]);
    bench.limits = Limits {
        finish_ms: 100,
        orphan_ms: 200,
        blocked_ms: 300,
        keep_ms: 400,
        ..Limits::default()
    };
    begin_and_die(&bench, "note", &["n", "n"]).await;
    let names = |cluster: &Cluster| -> Vec<String> {
        let masters = cluster.nodes.iter().filter(|node| node.role() == "master");
        let keys = masters.map(|node| node.raw(&["KEYS", "cart:solera:*"]));
        let each = |keys| if let Raw::Array(keys) = keys { keys } else { panic!("{keys:?}") };
        keys.flat_map(each).map(|key| world::text(&key)).collect()
    };
    assert!(names(&cluster).len() >= 2, "a record and its list: {:?}", names(&cluster));

    let place = Location { database: "redis".into(), space: "carts".into() };
    let modules: Modules = [("tested".into(), bench.module.clone())].into();
    let modules = Arc::new(modules);
    // Two hosts find it, with sessions of their own.
    let mut hosts = [bench.connections(), bench.connections()];
    let mut collectors = [Collector::new(bench.limits), Collector::new(bench.limits)];
    let began = tokio::time::Instant::now();
    loop {
        for (host, collector) in hosts.iter_mut().zip(&mut collectors) {
            let settings = (&modules, bench.limits);
            let found = recovery::recover(&place, host, settings, collector, &SystemClock).await;
            let mut found = found.unwrap();
            assert!(found.unreadable.is_empty() && found.failed.is_empty(), "{found:?}");
            collector.take(&mut found, SystemClock.now_ms());
            // A conflict with the other host is retried.
            let _ = collector.collect(host, SystemClock.now_ms()).await;
        }
        if names(&cluster).is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?} stay", names(&cluster));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let raw = cluster.nodes[cluster.master_of("cart:n")].raw(&["GET", "cart:n"]);
    assert_eq!(raw, bulk("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_programs_keep_is_left_alone() {
    let cluster = Cluster::start();
    let bench = shop(&cluster);
    let strong = Memory::new("strong", &[("accounts", Level::Linearizable)]);
    let bind = [("accounts", 0, "accounts"), ("carts", 1, "odd"), ("wishes", 1, "wishes")];
    let odd = Bench::new(SHOP, vec![Arc::new(strong), Arc::new(store(&cluster))], &bind);
    match odd.run("values", &["{0}:s"]).await {
        Outcome::Failed(why) => assert!(why.to_string().contains("reserved"), "{why}"),
        other => panic!("{other}"),
    }
    let raw = |words: &[&str]| cluster.nodes[cluster.master_of(words[1])].raw(words);
    raw(&["SET", "cart:text", "many"]);
    raw(&["RPUSH", "wish:list", "x"]);
    let far = i64::MAX.to_string();
    raw(&["SET", "wish:most", &far]);
    for (name, args, reason) in [
        ("replace", &["text"][..], "`text` holds a string, not a list"),
        ("values", &["text"], "`text` holds a string, not a list"),
        ("move", &["text", "b", "1"], "`text` holds a string that is not a number, not a counter"),
        ("move", &["a", "list", "1"], "`list` holds a list, not a counter (string)"),
        ("move", &["a", "most", "1"], "the counter `most` would not fit 64 bits"),
        ("values", &["solera:mixt::a"], "`cart:solera:mixt::a` is a reserved key"),
    ] {
        match bench.run(name, args).await {
            Outcome::Failed(why) => assert!(why.to_string().contains(reason), "{name}: {why}"),
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(raw(&["GET", "cart:text"]), bulk("many"));
    assert_eq!(raw(&["GET", "cart:a"]), Raw::Null, "no transaction had an effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_created_once_and_a_lost_commit_is_certain_when_the_next_one_begins() {
    let cluster = Cluster::start();
    let database = store(&cluster);
    let name = Name { space: "carts".into(), key: "d:0000000000000001:2".into() };
    let create = |value: &[u8]| {
        [NameWrite::Set { name: name.clone(), field: 0, value: value.into(), new: true }]
    };
    let begin = Begin { names: vec![name.clone()], ..Begin::default() };
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let mut session = database.connect().await.unwrap();
        assert!(session.begin(&begin).await.unwrap()[0].is_empty());
        sessions.push(session);
    }
    let mut created = 0;
    for (session, number) in sessions.iter_mut().zip(b'0'..) {
        match session.commit(&create(&[number])).await {
            Ok(()) => created += 1,
            Err(error) => assert_eq!(error, StoreError::Conflict),
        }
    }
    assert_eq!(created, 1);

    // The master does not answer, and then does.
    let other = Name { space: "carts".into(), key: "d:0000000000000002:1".into() };
    let begin = Begin { names: vec![other.clone()], ..Begin::default() };
    let write = [NameWrite::Set { name: other, field: 7, value: b"x"[..].into(), new: false }];
    let short = Options { timeout: Duration::from_millis(300), ..Options::default() };
    let target = Target::parse(&cluster.url()).unwrap();
    let database = Store::new("redis", target, SPACES, short);
    let mut session = database.connect().await.unwrap();
    session.begin(&begin).await.unwrap();
    let master = cluster.master_of("cart:solera:mixt:{0000000000000002}d:1");
    cluster.nodes[master].freeze();
    let lost = session.commit(&write).await;
    cluster.nodes[master].thaw();
    match lost {
        Err(StoreError::OutcomeUnknown(_)) => {
            let mut tries = 0;
            let found = loop {
                match session.begin(&begin).await {
                    Err(StoreError::Unavailable(_)) if tries < 200 => tries += 1,
                    other => break other.unwrap(),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let raw =
                cluster.nodes[master].raw(&["HGET", "cart:solera:mixt:{0000000000000002}d:1", "7"]);
            assert_eq!(found[0].contains_key(&7), raw == bulk("x"), "{found:?} {raw:?}");
        }
        // The connection was found broken before the request was sent.
        other => assert!(matches!(other, Err(StoreError::Unavailable(_))), "{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_depends_on_a_lost_write_is_denied_and_later_ones_are_not() {
    let mut cluster = Cluster::start();
    let bench = shop(&cluster);
    bench.done("replace", &["l"]).await;
    let master = cluster.master_of("cart:l");
    let replica = cluster.replica_of(master);
    cluster.wait_until_replicated(master);
    cluster.nodes[replica].freeze();
    cluster.nodes[master].raw(&["CLIENT", "KILL", "TYPE", "replica"]);
    assert_eq!(bench.done("buy", &["a", "l"]).await, Value::Int(1));
    cluster.nodes[master].kill();
    cluster.nodes[replica].thaw();
    tokio::task::block_in_place(|| {
        world::wait("the replica is not promoted", || cluster.nodes[replica].role() == "master");
    });
    let denied = loop {
        match bench.run("values", &["l"]).await {
            // The gateway may not have found the new master yet.
            Outcome::Failed(Why::Unavailable { .. }) => {}
            other => break other,
        }
    };
    match denied {
        Outcome::Failed(Why::Denied { reason, .. }) => {
            assert!(reason.starts_with("LOST slot"), "{reason}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(bench.done("values", &["l"]).await, Value::list([Value::Int(7)]));
}
