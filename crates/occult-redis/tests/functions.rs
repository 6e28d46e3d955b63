//! The functions at a slot's master: repeated, late and overtaken requests, as a gateway sends them
//! after a broken connection.

mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use solera_occult_redis::{Options, home_key, record_key, slot_of, timestamp_key};
use solera_resp::Value;
use world::{Cluster, Server, text};

/// The timestamp of a session that depends on nothing, with 8 entries.
const NOTHING: &str = "\u{1}v\u{2}\u{8}\0\0\0";

struct Master<'a> {
    node: &'a Server,
    library: String,
    slot: String,
    records: [String; 2],
    keys: [String; 2],
    /// Tag of the slot with the master's clock; empty for none.
    clock: String,
}

fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

impl<'a> Master<'a> {
    fn new(cluster: &'a Cluster, key: &str) -> Master<'a> {
        let node = &cluster.nodes[cluster.master_of(key)];
        let Value::Array(libraries) = node.raw(&["FUNCTION", "LIST"]) else { panic!() };
        let Value::Array(fields) = &libraries[0] else { panic!() };
        let name = |key: Vec<u8>| String::from_utf8(key).unwrap();
        let slot = slot_of(key.as_bytes());
        Master {
            node,
            library: text(&fields[1]),
            slot: slot.0.to_string(),
            records: [name(record_key(slot)), name(home_key(slot))],
            keys: [key.to_owned(), name(timestamp_key(key.as_bytes()))],
            clock: String::new(),
        }
    }

    /// Calls a function, and returns the first word of its answer and the rest after the record.
    fn call(&self, keys: &[String], args: &[&str]) -> (String, Vec<Value>) {
        let all: Vec<&str> = self.records.iter().chain(keys).map(String::as_str).collect();
        let count = all.len().to_string();
        let name = format!("S{}:{}", self.clock, args[0]);
        let words = [&["FCALL", &self.library, &count], &all[..], &[&name], &args[1..]].concat();
        let Value::Array(answer) = self.node.raw(&words) else { panic!("{words:?}") };
        (text(&answer[0]), answer.get(2..).unwrap_or_default().to_vec())
    }

    fn request(&self, name: &str, tid: &str, deadline: u64, again: bool) -> (String, Vec<Value>) {
        self.request_at(micros(), name, tid, deadline, again)
    }

    /// Sends a request as a gateway does whose clock shows `now`.
    fn request_at(
        &self,
        now: u64,
        name: &str,
        tid: &str,
        deadline: u64,
        again: bool,
    ) -> (String, Vec<Value>) {
        let (now, deadline) = (now.to_string(), deadline.to_string());
        let again = if again { "1" } else { "0" };
        let head = [name, tid, &now, &self.slot, &deadline, again, "60000000", "3600000", NOTHING];
        let rest = ["0", "0", "0", "0", "1", "3", "w", "1", "INCR"];
        let prepared = [&self.slot[..], "1,2", "60000000"];
        let prepared = if name == "prepare" { &prepared[..] } else { &[] };
        self.call(&self.keys, &[&head[..], &rest, prepared].concat())
    }

    fn about(&self, name: &str, tid: &str, deadline: u64, rest: &[&str]) -> (String, Vec<Value>) {
        let (now, deadline) = (micros().to_string(), deadline.to_string());
        let keys = if name == "resolve" { &[] } else { &self.keys[..] };
        self.call(keys, &[&[name, tid, &now, &self.slot, &deadline], rest].concat())
    }

    fn value(&self) -> Value {
        self.node.raw(&["GET", &self.keys[0]])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_takes_effect_twice_or_late() {
    let cluster = Cluster::start();
    let _gateway = cluster.gateway(Options::default()).await;
    let later = micros() + 60_000_000;
    executed(&Master::new(&cluster, "a"), later);
    overtaken(&Master::new(&cluster, "b"), later);
    prepared(&Master::new(&cluster, "c"), later);
    late(&Master::new(&cluster, "d"));
}

fn executed(at: &Master<'_>, later: u64) {
    let first = at.request("execute", "t1", later, false);
    assert_eq!(first.0, "OK");
    assert_eq!(at.request("execute", "t1", later, true), first, "the same answer");
    assert_eq!(at.value(), world::bulk("1"));
    let outcome = at.about("resolve", "t1", later, &[]);
    assert_eq!((outcome.0.as_str(), &outcome.1), ("COMMITTED", &first.1));
    for number in 2..10 {
        assert_eq!(at.request("execute", &format!("t{number}"), later, false).0, "OK");
    }
    assert_eq!(at.request("execute", "t1", later, true).0, "FORGOTTEN");
    assert_eq!(at.about("resolve", "t1", later, &[]).0, "NONE");
    assert_eq!(at.request("execute", "new", later + 1, true).0, "OK", "it was not sent before");
    assert_eq!(at.value(), world::bulk("10"));
    let earlier = micros() - 1;
    assert_eq!(at.request("execute", "late", earlier, false).0, "LATE");
    assert_eq!(at.value(), world::bulk("10"));
    assert_eq!(at.about("resolve", "t1", later, &["1"]).0, "NONE", "it has been executed");
}

/// After the deadline, the lack of a record is certain only for transactions of one slot.
fn late(at: &Master<'_>) {
    let earlier = micros() - 1;
    assert_eq!(at.about("resolve", "t1", earlier, &["0"]).0, "NONE");
    assert_eq!(at.about("resolve", "t1", earlier, &["1"]).0, "ABORTED");
    assert_eq!(at.request("execute", "t1", earlier + 60_000_000, false).0, "REFUSED");
}

fn overtaken(at: &Master<'_>, later: u64) {
    assert_eq!(at.about("resolve", "t1", later, &[]).0, "ABORTED");
    assert_eq!(at.request("execute", "t1", later, true).0, "REFUSED");
    assert_eq!(at.about("decide", "t2", later, &[""]).0, "APPLIED");
    assert_eq!(at.request("prepare", "t2", later, false).0, "REFUSED");
    assert_eq!(at.value(), Value::Null);
}

fn prepared(at: &Master<'_>, later: u64) {
    let first = at.request("prepare", "t1", later, false);
    assert_eq!(first.0, "PREPARED");
    assert_eq!(at.request("prepare", "t1", later, false), first);
    let met = at.request("execute", "t2", later, false);
    assert_eq!((met.0.as_str(), text(&met.1[0])), ("LOCKED", "t1".to_owned()));
    assert_eq!(at.about("commit", "other", later, &[NOTHING, "2"]).0, "REFUSED");
    let done = at.about("commit", "t1", later, &[NOTHING, "2"]);
    assert_eq!(done.0, "COMMITTED");
    assert_eq!(at.about("commit", "t1", later, &[NOTHING, "2"]).0, "COMMITTED");
    assert_eq!(at.about("resolve", "t1", later, &[]).0, "COMMITTED");
    assert_eq!(at.about("decide", "t1", later, &[NOTHING]).0, "APPLIED");
    assert_eq!(at.request("prepare", "t1", later, false).0, "REFUSED");
    assert_eq!(at.value(), world::bulk("1"));
    assert_eq!(at.request("prepare", "t3", later, false).0, "PREPARED");
    assert_eq!(at.about("resolve", "t3", later, &[]).0, "ABORTED");
    assert_eq!(at.about("commit", "t3", later, &[NOTHING, "2"]).0, "REFUSED", "it is late");
    assert_eq!(at.request("execute", "t4", later, false).0, "OK");
    assert_eq!(at.value(), world::bulk("2"));
}

/// Words of the slot's record: its stamp, and the end of the lease if it names a clock.
fn record_of(at: &Master<'_>) -> (u64, Option<u64>) {
    let record = text(&at.node.raw(&["GET", &at.records[0]]));
    let words: Vec<&str> = record.split(' ').collect();
    let lease = words.get(4).and_then(|word| word.strip_prefix('@')?.rsplit_once(':'));
    (words[1].parse().unwrap(), lease.map(|(_, end)| end.parse().unwrap()))
}

impl Master<'_> {
    fn clock_key(&self) -> String {
        format!("solera:{{{}}}:c", self.clock)
    }

    /// Advances the clock to a gateway's time, and returns it.
    fn advance(&self, now: u64) -> u64 {
        let (key, name) = (self.clock_key(), format!("S{}:clock", self.clock));
        self.node.raw(&["FCALL", &self.library, "1", &key, &name, &now.to_string(), "5000"]);
        let clock = text(&self.node.raw(&["GET", &key]));
        clock.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stamp_is_below_the_clock_that_its_record_names() {
    let cluster = Cluster::start();
    let _gateway = cluster.gateway(Options::default()).await;
    let mut at = Master::new(&cluster, "a");
    let later = micros() + 60_000_000;
    // Any slot of this master does; that of another key, because the clock lies elsewhere.
    let other = (0..).map(|number| format!("o{number}"));
    let mut other =
        other.filter(|key| std::ptr::eq(at.node, &cluster.nodes[cluster.master_of(key)]));
    let slot = slot_of(other.next().unwrap().as_bytes());
    let key = String::from_utf8(record_key(slot)).unwrap();
    at.clock = key.split(['{', '}']).nth(1).unwrap().to_owned();

    assert_eq!(at.request("execute", "t0", later, false).0, "OK");
    assert_eq!(record_of(&at).1, None, "nobody has advanced the clock yet");
    let first = at.advance(micros());
    assert_eq!(at.advance(first + 1), first, "small steps write nothing");
    assert_eq!(at.advance(first - 9_000_000), first, "it does not go back");
    assert_eq!(at.request("execute", "t1", later, false).0, "OK");
    let (_, lease) = record_of(&at);
    assert!(lease.unwrap() > first);
    let clock = at.advance(micros());
    // This gateway's clock is an hour behind.
    assert_eq!(at.request_at(1, "execute", "t2", later, false).0, "OK");
    assert!(record_of(&at).0 > clock, "{:?} {clock}", record_of(&at));
    // While a transaction is undecided, its stamp bounds what the slot shows.
    let prepared = at.request("prepare", "t3", later, false);
    let stamp: u64 = text(&prepared.1[0]).parse().unwrap();
    assert_eq!(record_of(&at), (stamp - 1, None));
    at.advance(micros() + 1_000_000);
    assert_eq!(record_of(&at), (stamp - 1, None));
    assert_eq!(at.about("decide", "t3", later, &[""]).0, "APPLIED");
    let (shown, lease) = record_of(&at);
    assert!(shown >= clock && lease.is_some());
    // The clock is lost, and begun again: readers may still believe everything up to the end of the
    // lease.
    at.node.raw(&["DEL", &at.clock_key()]);
    at.advance(clock - 9_000_000);
    assert_eq!(at.request_at(1, "execute", "t4", later, false).0, "OK");
    assert!(record_of(&at).0 > lease.unwrap());
    // A damaged clock names no slot.
    at.node.raw(&["SET", &at.clock_key(), "C1 9007199254740991 0000000000000000 1"]);
    let info = text(&at.node.raw(&["INFO", "replication"]));
    let life = info.lines().find_map(|line| line.strip_prefix("master_replid:")).unwrap();
    let far = format!("C1 9007199254740991 {} 1", &life[..16]);
    at.node.raw(&["SET", &at.clock_key(), &far]);
    assert_eq!(at.request("execute", "t5", later, false).0, "OK");
    assert_eq!(record_of(&at).1, None);
    // A slot without a record gets none from a renewal: it may have lost its record.
    at.node.raw(&["DEL", &at.records[0], &at.records[1]]);
    assert_eq!(at.call(&[], &["renew", &micros().to_string()]).0, "OK");
    assert_eq!(at.node.raw(&["EXISTS", &at.records[0]]), Value::Integer(0));
}
