//! Foreign, damaged and missing data in a real cluster, and rights that are missing.

mod world;

use std::time::Duration;

use solera_occult_redis::{
    Error, Gateway, Layout, Options, home_key, record_key, slot_of, timestamp_key,
};
use solera_redis::Target;
use solera_resp::Value;
use world::{Cluster, bulk, call};

fn name(key: Vec<u8>) -> String {
    String::from_utf8(key).unwrap()
}

fn record(key: &str) -> String {
    name(record_key(slot_of(key.as_bytes())))
}

fn home(key: &str) -> String {
    name(home_key(slot_of(key.as_bytes())))
}

fn stamp(key: &str) -> String {
    name(timestamp_key(key.as_bytes()))
}

/// Runs a command at the master of a key, as another program does, and waits for the replica.
fn foreign(cluster: &Cluster, key: &str, words: &[&str]) -> Value {
    let master = &cluster.nodes[cluster.master_of(key)];
    let reply = master.raw(words);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    cluster.wait_until_replicated(cluster.master_of(key));
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_and_damaged_data_lead_to_specific_errors() {
    let cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let mut session = gateway.session();
    let fails =
        async |session: &mut solera_occult_redis::GatewaySession, words: &str, parts: &[&str]| {
            let call = call(words);
            let done = if words.starts_with("GET") {
                session.read(&call).await
            } else {
                session.update(call).await
            };
            let text = done.expect_err(words).to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{words}: {text}");
        };

    // Values that other programs have written have no timestamp.
    foreign(&cluster, "plain", &["SET", "plain", "old"]);
    foreign(&cluster, "hash", &["HSET", "hash", "a", "1"]);
    assert_eq!(session.read(&call("GET plain")).await, Ok(bulk("old")));
    assert_eq!(session.read(&call("HGET hash a")).await, Ok(bulk("1")));
    let Ok(Value::Error(error)) = session.read(&call("GET hash")).await else { panic!() };
    assert!(error.starts_with("WRONGTYPE"), "{error}");
    assert_eq!(session.update(call("APPEND plain er")).await, Ok(Value::Integer(5)));

    // More than a script can pass to a command: the whole transaction has no effect.
    let many = call(&format!("RPUSH list{}", " x".repeat(9000)));
    let error = session.update_all(vec![call("SET {list}a 1"), many.clone()]).await.unwrap_err();
    assert!(error.to_string().starts_with("ERR a command has more than 7000 words"), "{error}");
    let error = session.update_all(vec![call("SET else 1"), many]).await.unwrap_err();
    assert!(error.to_string().starts_with("ERR a command has more than 7000 words"), "{error}");
    for words in ["GET {list}a", "GET else", "GET list"] {
        assert_eq!(session.read(&call(words)).await, Ok(Value::Null), "{words}");
    }

    // Damaged timestamps.
    for (number, bytes) in ["", "garbage", "\u{1}v\u{2}\u{8}"].iter().enumerate() {
        let key = format!("damaged{number}");
        session.update(call(&format!("SET {key} 1"))).await.unwrap();
        foreign(&cluster, &key, &["SET", &stamp(&key), bytes]);
        if !bytes.is_empty() {
            fails(&mut session, &format!("GET {key}"), &["DAMAGED", &key]).await;
        }
        fails(&mut session, &format!("SET {key} 2"), &["DAMAGED", &key]).await;
    }
    // Timestamps of other encodings.
    session.update(call("SET other 1")).await.unwrap();
    for encoding in ["0", "1", "3", "4", "9"] {
        // The rest is a temporal timestamp.
        let change = "return redis.call('SETRANGE', KEYS[1], 2, string.char(ARGV[1]))";
        foreign(&cluster, "other", &["EVAL", change, "1", &stamp("other"), encoding]);
        let says = format!("has encoding {encoding} instead of 2 (temporal)");
        for words in ["GET other", "SET other 2"] {
            fails(&mut session, words, &["DAMAGED", "other", &says]).await;
        }
    }

    // Damaged and missing records.
    session.update(call("SET record 1")).await.unwrap();
    let kept = foreign(&cluster, "record", &["GET", &record("record")]);
    foreign(&cluster, "record", &["SET", &record("record"), "S9 1"]);
    fails(&mut session, "GET record", &["DAMAGED", "record of slot"]).await;
    fails(&mut session, "SET record 2", &["DAMAGED", "record of the slot"]).await;
    foreign(&cluster, "record", &["DEL", &record("record")]);
    fails(&mut session, "GET record", &["EVICTED"]).await;
    fails(&mut session, "SET record 2", &["EVICTED"]).await;
    foreign(&cluster, "record", &["SET", &record("record"), &world::text(&kept)]);
    assert_eq!(session.update(call("SET record 3")).await, Ok(Value::Simple("OK".to_owned())));
    foreign(&cluster, "record", &["SET", &home("record"), "\u{7f}"]);
    fails(&mut session, "SET record 2", &["DAMAGED", "home state"]).await;
    foreign(&cluster, "record", &["DEL", &home("record"), &record("record")]);
    fails(&mut session, "SET record 2", &["LOST", "slot"]).await;
    fails(&mut gateway.session(), "SET record 2", &["EVICTED"]).await;

    // No master has failed.
    let mut other = gateway.session();
    other.update(call("SET all 1")).await.unwrap();
    foreign(&cluster, "all", &["FLUSHALL"]);
    fails(&mut other, "GET all", &["LOST", "or the data was removed (FLUSHALL)"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_in_envelopes_are_distinguished_from_foreign_and_damaged_ones() {
    let cluster = Cluster::start();
    let enveloped = Options { layout: Layout::Envelope, ..Options::default() };
    let gateway = cluster.gateway(enveloped).await;
    let mut session = gateway.session();
    session.update_all(vec![call("SET a 1"), call("SET b 2"), call("HSET h x 1")]).await.unwrap();
    let at = |key: &str| &cluster.nodes[cluster.master_of(key)];
    let sealed = world::text(&at("a").raw(&["GET", "a"]));
    assert!(sealed.starts_with("\0OCCULT\u{1}") && sealed.ends_with('1'), "{sealed:?}");
    assert_eq!(at("a").raw(&["EXISTS", &stamp("a")]), Value::Integer(0), "one key is enough");
    assert_eq!(at("h").raw(&["EXISTS", &stamp("h")]), Value::Integer(1));
    assert_eq!(at("h").raw(&["HGET", "h", "x"]), bulk("1"), "other types are plain");

    // A value and its timestamp end one after the other.
    session.update(call("SET brief 1 PX 60")).await.unwrap();
    assert_eq!(session.read(&call("GET brief")).await, Ok(bulk("1")));
    let gone = || at("brief").raw(&["GET", "brief"]) == Value::Null;
    world::wait("the value does not expire", gone);
    assert_eq!(session.read(&call("GET brief")).await, Ok(Value::Null));
    assert_eq!(at("brief").raw(&["EXISTS", &stamp("brief")]), Value::Integer(1));
    session.update(call("SET brief 2")).await.unwrap();
    assert_eq!(at("brief").raw(&["EXISTS", &stamp("brief")]), Value::Integer(0));

    // Another program writes, and removes.
    foreign(&cluster, "a", &["SET", "a", "foreign"]);
    for words in ["GET a", "STRLEN a", "SET a 2", "APPEND a 2", "DEL a"] {
        let all = vec![call("INCR b"), call(words)];
        let error = if words.starts_with("GET") || words.starts_with("STRLEN") {
            session.read(&call(words)).await.unwrap_err()
        } else {
            session.update_all(all).await.unwrap_err()
        };
        let text = error.to_string();
        assert!(text.starts_with("FOREIGN key") && text.contains('a'), "{words}: {text}");
    }
    assert_eq!(session.read(&call("GET b")).await, Ok(bulk("2")), "nothing was executed");
    foreign(&cluster, "a", &["DEL", "a"]);
    session.update(call("SET a 3")).await.unwrap();
    assert_eq!(session.read(&call("GET a")).await, Ok(bulk("3")));
    for damaged in ["\0OCCULT\u{1}", "\0OCCULT\u{1}\u{9}abc", "\0OCCULT\u{1}\u{3}abcd"] {
        foreign(&cluster, "a", &["SET", "a", damaged]);
        for words in ["GET a", "STRLEN a", "SET a 4"] {
            let done = if words.starts_with("SET") {
                session.update(call(words)).await
            } else {
                session.read(&call(words)).await
            };
            let text = done.expect_err(words).to_string();
            assert!(text.contains("DAMAGED"), "{damaged:?}: {words}: {text}");
        }
    }

    // This gateway has the other layout.
    let plain = cluster.gateway(Options::default()).await;
    let mut other = plain.session();
    for error in [
        other.read(&call("GET b")).await.unwrap_err(),
        other.read(&call("HGET h x")).await.unwrap_err(),
        other.update(call("SET b 3")).await.unwrap_err(),
        other.update_all(vec![call("SET b 3"), call("SET other 3")]).await.unwrap_err(),
    ] {
        let text = error.to_string();
        let both = text.contains("layout envelope") && text.contains("gateway plain");
        assert!(text.starts_with("LAYOUT") && both, "{text}");
    }
    other.update(call("SET new 1")).await.unwrap();
    for words in ["GET new", "STRLEN new"] {
        let text = session.read(&call(words)).await.unwrap_err().to_string();
        assert!(text.contains("layout plain") && text.contains("gateway envelope"), "{text}");
    }
    assert_eq!(other.read(&call("GET new")).await, Ok(bulk("1")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_and_tokens_that_are_ahead_drag_no_stamps_along() {
    let cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let mut session = gateway.session();
    session.update(call("SET fast 1")).await.unwrap();
    // Sets a stamp as if this master's clock and a gateway's had been hours ahead.
    let ahead = "local s = redis.call('GET', KEYS[1]) \
        local stamp = string.format('%.0f', s:match('S2 (%d+)') + 7.2e9) \
        redis.call('SET', KEYS[1], (s:gsub('S2 %d+', 'S2 ' .. stamp))) return stamp";
    let assigned = foreign(&cluster, "fast", &["EVAL", ahead, "1", &record("fast")]);
    let mut behind = gateway.session();
    behind.update(call("SET fast 2")).await.unwrap();
    assert_eq!(behind.read(&call("GET fast")).await, Ok(bulk("2")));
    let error = behind.update(call("SET other 1")).await.unwrap_err().to_string();
    let names = format!("AHEAD the session depends on a write of slot {}", slot_of(b"fast").0);
    assert!(error.starts_with(&names) && error.contains(" s ahead of the clocks"), "{error}");
    assert!(error.ends_with("by SOLERA.ATTACH with an older token or without one"), "{error}");
    // The same if not the session, but an overwritten value depends on such a write.
    session.update(call("SET both 1")).await.unwrap();
    let depends = "local out = {'\\1v\\2\\8\\0\\1'} \
        local function put(n) \
            while n > 127 do out[#out + 1] = string.char(128 + n % 128) n = math.floor(n / 128) end \
            out[#out + 1] = string.char(n) end \
        put(tonumber(ARGV[1])) put(tonumber(ARGV[2])) \
        return redis.call('SET', KEYS[1], table.concat(out) .. '\\0')";
    let slot = slot_of(b"fast").0.to_string();
    let words = ["EVAL", depends, "1", &stamp("both"), &world::text(&assigned), &slot];
    foreign(&cluster, "both", &words);
    let error = gateway.session().update(call("SET both 2")).await.unwrap_err().to_string();
    let names = format!("AHEAD the value of a key depends on a write of slot {slot}");
    assert!(error.starts_with(&names) && error.ends_with("or wait"), "{error}");

    let token = behind.token();
    let error = gateway.session().attach(&token).unwrap_err().to_string();
    assert!(error.contains("still to come"), "{error}");
    let mut other = gateway.session();
    other.update(call("SET other 2")).await.unwrap();
    assert_eq!(other.read(&call("GET other")).await, Ok(bulk("2")));

    let good = other.token();
    other.attach(&good).unwrap();
    // Tokens with a correct sum: of another encoding, of more shards, of too many masters.
    let (stamp, lives) = (b"\x01v\x02\x08\0", [[1, 2, 3, 4, 5, 6, 7, 8, 9]; 1001].concat());
    for (bytes, why) in [
        (b"\x01v\0\0\0".to_vec(), "it has encoding 0 instead of 2 (temporal)"),
        (b"\x01v\x03\x08\x01\x05".to_vec(), "it has encoding 3 instead of 2 (temporal)"),
        ([&stamp[..], &[1, 5, 0x80, 0x80, 1, 0]].concat(), "cannot be attached"),
        ([&stamp[..], &[0, 0xe9, 7], &many(&lives)].concat(), "more masters"),
        ([&stamp[..], &[0, 1, 1, 2, 3]].concat(), "replication offsets"),
    ] {
        let text = other.attach(&token_of(&bytes)).unwrap_err().to_string();
        assert!(text.contains(why), "{bytes:?}: {text}");
    }
    let bad =
        [good.replace("OR1:", "OR2:"), good[..good.len() - 1].to_owned(), "OR1:zz:0".to_owned()];
    for token in bad.iter().map(String::as_str).chain(["OR1::0", "x", "OR1:é:0"]) {
        assert!(matches!(other.attach(token), Err(Error::Token(_))), "{token}");
    }
}

/// Returns a token of these bytes with a correct sum.
fn token_of(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("OR1:{hex}:{sum:x}")
}

/// Numbers the lives of a list, so that all differ.
fn many(lives: &[u8]) -> Vec<u8> {
    let numbered = lives
        .chunks(9)
        .enumerate()
        .flat_map(|(number, life)| [&(number as u16).to_be_bytes()[..], &life[2..]].concat());
    numbered.collect()
}

fn shown(cluster: &Cluster, key: &str) -> u64 {
    let kept = world::text(&cluster.nodes[cluster.master_of(key)].raw(&["GET", &record(key)]));
    kept.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_goes_back_repeats_no_stamp_and_drags_others_along_once() {
    let cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let mut session = gateway.session();
    session.update(call("SET a 0")).await.unwrap();
    // Sets a stamp as if the clocks of this master and of a gateway had been 40 seconds ahead until
    // now.
    let ahead = "local s = redis.call('GET', KEYS[1]) \
        local stamp = string.format('%.0f', s:match('S2 (%d+)') + 4e7) \
        redis.call('SET', KEYS[1], (s:gsub('S2 %d+', 'S2 ' .. stamp))) return stamp";
    let reply = foreign(&cluster, "a", &["EVAL", ahead, "1", &record("a")]);
    let first: u64 = world::text(&reply).parse().unwrap();
    let mut last = first;
    for round in 0..20 {
        for key in ["a", "b", "c"] {
            session.update(call(&format!("SET {key} {round}"))).await.unwrap();
            let stamp = shown(&cluster, key);
            assert!(stamp > last, "{key}: {stamp} after {last}");
            last = stamp;
        }
    }
    assert!(last <= first + 100, "each write takes the next stamp: {}", last - first);
    // A session that does not depend on it has stamps of the present.
    gateway.session().update(call("SET d 1")).await.unwrap();
    assert!(shown(&cluster, "d") < first - 20_000_000);
    assert_eq!(gateway.session().read(&call("GET c")).await, Ok(bulk("19")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_cannot_serve_are_passed_over_and_masters_say_why_they_refuse() {
    let cluster = Cluster::start();
    let (master, replica) = (cluster.master_of("x"), cluster.replica_of(cluster.master_of("x")));
    let fill = "for n = 1, 150 do redis.call('SET', KEYS[1] .. n, string.rep('x', 2000)) end";
    foreign(&cluster, "{x}", &["EVAL", fill, "1", "{x}"]);
    cluster.wait_until_listed(replica);
    let near = vec![cluster.nodes[replica].address()];
    let gateway = cluster.gateway(Options { near, ..Options::default() }).await;
    let mut session = gateway.session();
    session.update(call("SET x 1")).await.unwrap();
    session.update(call("HSET h{x} a 1")).await.unwrap();
    let at = &cluster.nodes[replica];
    let reads = [(call("GET x"), bulk("1")), (call("HGET h{x} a"), bulk("1"))];
    // The replica answers LOADING, because each key takes 20 ms. It answers after each KiB.
    for (name, value) in [
        ("key-load-delay", "20000"),
        ("loading-process-events-interval-bytes", "1024"),
        ("rdbcompression", "no"),
    ] {
        at.raw(&["CONFIG", "SET", name, value]);
    }
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| at.try_raw(&["DEBUG", "RELOAD"]));
        world::wait(
            "it does not load",
            || matches!(at.try_raw(&["GET", "x"]), Ok(Value::Error(text)) if text.starts_with("LOADING")),
        );
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for (read, value) in &reads {
                    assert_eq!(session.read(read).await.as_ref(), Ok(value), "{read:?}");
                }
            });
        });
        assert_eq!(session.counters().home, 2);
        at.raw(&["CONFIG", "SET", "key-load-delay", "0"]);
        let _ = loading.join();
    });
    // The replica answers MASTERDOWN, because it serves nothing without its master.
    at.raw(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    cluster.nodes[master].raw(&["ACL", "SETUSER", "default", "-psync", "-sync"]);
    cluster.nodes[master].raw(&["CLIENT", "KILL", "TYPE", "replica"]);
    world::wait(
        "it serves without its master",
        || matches!(at.try_raw(&["GET", "x"]), Ok(Value::Error(text)) if text.starts_with("MASTERDOWN")),
    );
    session.update(call("SET x 2")).await.unwrap();
    assert_eq!(session.read(&reads[0].0).await, Ok(bulk("2")));
    assert_eq!(session.read(&reads[1].0).await, Ok(bulk("1")));
    // The master now needs a replica for its writes.
    cluster.nodes[master].raw(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let error = session.update(call("SET x 3")).await.unwrap_err().to_string();
    assert!(error.starts_with("NOREPLICAS"), "{error}");
    assert_eq!(cluster.nodes[master].raw(&["GET", "x"]), bulk("2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_do_what_functions_are_forbidden_to_do() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        let rights = ["ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all"];
        let without = ["-function", "-fcall", "-fcall_ro"];
        node.raw(&[&rights[..], &without[..]].concat());
    }
    let url = cluster.url().replace("://", "://plain:secret@");
    let target = Target::parse(&url).unwrap();
    let gateway = Gateway::connect(&target, Options::default()).await.unwrap();
    let mut session = gateway.session();
    let calls = (0..9).map(|key| call(&format!("INCR k{key}"))).collect();
    assert_eq!(session.update_all(calls).await, Ok(vec![Value::Integer(1); 9]));
    session.update(call("HSET h a 1")).await.unwrap();
    assert_eq!(session.read(&call("HGET h a")).await, Ok(bulk("1")));
    for node in &cluster.nodes {
        assert_eq!(node.raw(&["FUNCTION", "LIST"]), Value::Array(Vec::new()));
    }
    // Masters without free memory answer with the code of Redis, as functions do.
    for node in &cluster.nodes {
        node.raw(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    let calls = (0..9).map(|key| call(&format!("INCR k{key}"))).collect();
    let error = session.update_all(calls).await.unwrap_err().to_string();
    assert_eq!(error, "OOM command not allowed when used memory > 'maxmemory'.");
    for node in &cluster.nodes {
        node.raw(&["CONFIG", "SET", "maxmemory", "0"]);
    }
    assert_eq!(session.read(&call("GET k0")).await, Ok(bulk("1")));

    for node in &cluster.nodes {
        node.raw(&["ACL", "SETUSER", "plain", "-script"]);
    }
    let error = Gateway::connect(&target, Options::default()).await.unwrap_err().to_string();
    assert!(error.contains("permits neither functions nor scripts: NOPERM"), "{error}");
    let wrong = Target::parse(&cluster.url().replace("://", "://plain:other@")).unwrap();
    let error = Gateway::connect(&wrong, Options::default()).await.unwrap_err().to_string();
    assert!(error.contains("refuses the login"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_nodes_must_be_nodes_of_the_cluster() {
    let mut cluster = Cluster::start();
    let target = Target::parse(&cluster.url()).unwrap();
    let at = cluster.replica_of(0);
    let replica = cluster.nodes[at].address();
    let connect = async |near: &[&str]| {
        let near = near.iter().map(|near| (*near).to_owned()).collect();
        Gateway::connect(&target, Options { near, ..Options::default() }).await.map(drop)
    };
    assert_eq!(connect(&["127.0.0.1"]).await, Ok(()));
    for near in ["10.1.0.5", "127.0.0.1:1"] {
        let error = connect(&[near, &replica]).await.expect_err(near).to_string();
        assert!(error.contains(&format!("the near node '{near}' is not one of")), "{error}");
        assert!(error.contains(&replica), "{error}");
    }
    cluster.nodes[at].kill();
    world::wait("the replica does not fail", || {
        !format!("{:?}", cluster.nodes[0].raw(&["CLUSTER", "SLOTS"]))
            .contains(&cluster.nodes[at].port.to_string())
    });
    assert_eq!(connect(&[&replica]).await, Ok(()), "a failed node may come back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_and_long_moves_are_handled() {
    let cluster = Cluster::start();
    let options = Options { timeout: Duration::from_millis(1500), ..Options::default() };
    let gateway = cluster.gateway(options).await;
    let mut session = gateway.session();
    session.update(call("SET brief 1 PX 60")).await.unwrap();
    assert_eq!(session.read(&call("GET brief")).await, Ok(bulk("1")));
    let master = cluster.master_of("brief");
    world::wait("the value does not expire", || {
        cluster.nodes[master].raw(&["GET", "brief"]) == Value::Null
    });
    assert_eq!(session.read(&call("GET brief")).await, Ok(Value::Null));
    let Value::Integer(left) = cluster.nodes[master].raw(&["PTTL", &stamp("brief")]) else {
        panic!()
    };
    assert!((3_500_000..=3_600_060).contains(&left), "{left}");
    session.update(call("SET brief 2")).await.unwrap();
    assert_eq!(cluster.nodes[master].raw(&["PTTL", &stamp("brief")]), Value::Integer(-1));

    // The value has moved, and its timestamp and the records have not.
    let slot = slot_of(b"brief").0.to_string();
    let other = (0..6).find(|node| *node != master && cluster.nodes[*node].role() == "master");
    let (from, to) = (&cluster.nodes[master], &cluster.nodes[other.unwrap()]);
    let id = |node: &world::Server| world::text(&node.raw(&["CLUSTER", "MYID"]));
    to.raw(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
    from.raw(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    let port = to.port.to_string();
    from.raw(&["MIGRATE", "127.0.0.1", &port, "brief", "0", "5000"]);
    let text = session.update(call("SET brief 3")).await.unwrap_err().to_string();
    assert!(text.contains(&format!("slot {slot}")) && text.contains("being moved"), "{text}");
    let replica = &cluster.nodes[cluster.replica_of(master)];
    world::wait("the replica does not follow", || replica.raw(&["GET", "brief"]) == Value::Null);
    let text = session.read(&call("GET brief")).await.unwrap_err().to_string();
    assert!(text.contains("being moved"), "{text}");
    from.raw(&["MIGRATE", "127.0.0.1", &port, &stamp("brief"), "0", "5000"]);
    for key in [record("brief"), home("brief")] {
        from.raw(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    }
    for node in [to, from] {
        node.raw(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
    }
    assert_eq!(session.read(&call("GET brief")).await, Ok(bulk("2")));
    assert_eq!(session.update(call("APPEND brief !")).await, Ok(Value::Integer(2)));

    // No master has this slot.
    let gone = slot_of(b"gone").0.to_string();
    for node in &cluster.nodes {
        node.raw(&["CLUSTER", "DELSLOTS", &gone]);
    }
    let both = vec![call("SET gone 1"), call("SET brief 3")];
    let text = session.update_all(both).await.unwrap_err().to_string();
    let says_why = text.contains("CLUSTERDOWN") || text.contains("no master has it");
    assert!(text.starts_with("UNAVAILABLE slot") && says_why, "{text}");
}
