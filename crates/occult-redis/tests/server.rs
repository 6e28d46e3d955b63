//! The server of the Redis protocol before a real cluster.

mod world;

use std::sync::Arc;

use solera_occult_redis::{Gateway, Layout, Options, Server};
use solera_resp::{Limits, ReplyParser, Value, encode_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use world::{Cluster, bulk};

struct Client {
    stream: TcpStream,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl Client {
    async fn new(gateway: &Arc<Gateway>) -> Client {
        let server = Server::bind("127.0.0.1:0", Arc::clone(gateway), "here").await.unwrap();
        let address = server.address().unwrap();
        tokio::spawn(server.serve());
        let stream = TcpStream::connect(address).await.unwrap();
        Client { stream, parser: ReplyParser::new(Limits::default()), buffer: Vec::new() }
    }

    async fn send(&mut self, words: &str) {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words.split(' ').collect::<Vec<_>>());
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        loop {
            if let Some((value, length)) = self.parser.next(&self.buffer).unwrap() {
                self.buffer.drain(..length);
                return value;
            }
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "it hung up");
        }
    }

    async fn ask(&mut self, words: &str) -> Value {
        self.send(words).await;
        self.receive().await
    }

    async fn fails(&mut self, words: &str) -> String {
        match self.ask(words).await {
            Value::Error(text) => text,
            other => panic!("{words}: {other:?}"),
        }
    }
}

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

fn int(number: i64) -> Value {
    Value::Integer(number)
}

fn all(values: &[Value]) -> Value {
    Value::Array(values.to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_redis_uses_a_cluster_with_causal_consistency() {
    a_client_uses_a_cluster(Layout::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_redis_uses_a_cluster_with_strings_in_envelopes() {
    a_client_uses_a_cluster(Layout::Envelope).await;
}

async fn a_client_uses_a_cluster(layout: Layout) {
    let cluster = Cluster::start();
    let options = Options { layout, ..Options::default() };
    let gateways = [cluster.gateway(options.clone()).await, cluster.gateway(options).await];
    let (mut one, mut two) = (Client::new(&gateways[0]).await, Client::new(&gateways[1]).await);
    data(&mut one).await;
    parts_of_strings(&mut one).await;
    transactions(&mut one, &mut two).await;
    sessions(&mut one, &mut two).await;
    protocol(&mut one).await;
}

async fn data(one: &mut Client) {
    assert_eq!(one.ask("MSET a 1 b 2 c 3").await, ok());
    let values = all(&[bulk("1"), bulk("2"), Value::Null, bulk("3")]);
    assert_eq!(one.ask("MGET a b none c").await, values);
    assert_eq!(one.ask("EXISTS a b none a").await, int(3));
    assert_eq!(one.ask("DEL a b none").await, int(2));
    assert_eq!(one.ask("SET c 4 NX").await, Value::Null);
    assert_eq!(one.ask("SET c 4 XX GET").await, bulk("3"));
    assert_eq!(one.ask("SETNX c 5").await, int(0));
    assert_eq!(one.ask("INCRBY c 5").await, int(9));
    assert_eq!(one.ask("DECR c").await, int(8));
    assert_eq!(one.ask("GETSET c x").await, bulk("8"));
    assert!(one.fails("INCR c").await.starts_with("ERR value is not an integer"));
    assert_eq!(one.ask("APPEND c yz").await, int(3));
    assert_eq!(one.ask("STRLEN c").await, int(3));
    assert_eq!(one.ask("GETDEL c").await, bulk("xyz"));
    assert_eq!(one.ask("GET c").await, Value::Null);
    assert_eq!(one.ask("SADD s x y").await, int(2));
    assert_eq!(one.ask("SCARD s").await, int(2));
    assert_eq!(one.ask("RPUSH l 1 2 3").await, int(3));
    assert_eq!(one.ask("LRANGE l 0 -1").await, all(&[bulk("1"), bulk("2"), bulk("3")]));
    assert_eq!(one.ask("ZADD z 1.5 m").await, int(1));
    assert_eq!(one.ask("ZSCORE z m").await, bulk("1.5"));
    assert_eq!(one.ask("SETEX e 100 v").await, ok());
    assert_eq!(one.ask("TTL e").await, int(100));
    assert!(one.fails("GET s").await.starts_with("WRONGTYPE"));
    for words in ["SUBSCRIBE x", "SCAN 0", "rename a b", "OBJECT FREQ a", "SINTER s s", "acl LIST"]
    {
        let name = words.split(' ').next().unwrap().to_uppercase();
        let error = one.fails(words).await;
        assert_eq!(error, format!("ERR {name} is not supported by solera occult"));
    }
    assert!(one.fails("SELECT").await.contains("wrong number of arguments for 'select'"));
    assert!(one.fails("NONSENSE").await.contains("unknown command 'NONSENSE'"));
    assert!(one.fails("GET").await.contains("wrong number of arguments for 'get'"));
    assert!(one.fails("SET solera:{0}:s 1").await.contains("reserved"));
}

/// All commands of strings, with lifetimes and errors in between.
async fn parts_of_strings(one: &mut Client) {
    assert_eq!(one.ask("SET text abcdef").await, ok());
    for (range, part) in
        [("0 -1", "abcdef"), ("1 2", "bc"), ("-3 -2", "de"), ("4 100", "ef"), ("-100 0", "a")]
    {
        assert_eq!(one.ask(&format!("GETRANGE text {range}")).await, bulk(part), "{range}");
    }
    for range in ["4 2", "-1 -2", "6 7"] {
        assert_eq!(one.ask(&format!("GETRANGE text {range}")).await, bulk(""), "{range}");
    }
    assert_eq!(one.ask("SUBSTR text 1 1").await, bulk("b"));
    assert_eq!(one.ask("GETRANGE none 0 -1").await, bulk(""));
    assert!(one.fails("GETRANGE text x 1").await.starts_with("ERR value is not an integer"));
    assert!(one.fails("GETRANGE s 0 1").await.starts_with("WRONGTYPE"));
    assert_eq!(one.ask("SETRANGE text 4 XY").await, int(6));
    assert_eq!(one.ask("GETBIT text 1").await, int(1));
    assert_eq!(one.ask("BITCOUNT text 0 0").await, int(3));
    assert_eq!(one.ask("BITPOS text 0").await, int(0));
    assert_eq!(one.ask("GET text").await, bulk("abcdXY"));
    assert_eq!(one.ask("SETBIT text 7 0").await, int(1));
    assert!(one.fails("INCR text").await.starts_with("ERR value is not an integer"));
    assert!(one.fails("SADD text x").await.starts_with("WRONGTYPE"));
    assert!(one.fails("APPEND s x").await.starts_with("WRONGTYPE"));
    assert_eq!(one.ask("SETNX text x").await, int(0));
    assert_eq!(one.ask("GET text").await, bulk("`bcdXY"));
    assert_eq!(one.ask("TYPE text").await, Value::Simple("string".to_owned()));

    assert_eq!(one.ask("EXPIRE text 100").await, int(1));
    assert_eq!(one.ask("APPEND text !").await, int(7));
    assert_eq!(one.ask("TTL text").await, int(100));
    assert_eq!(one.ask("SET text 1 KEEPTTL").await, ok());
    assert_eq!(one.ask("GETEX text PERSIST").await, bulk("1"));
    assert_eq!(one.ask("TTL text").await, int(-1));
    assert_eq!(one.ask("PSETEX text 100000 2").await, ok());
    assert_eq!(one.ask("INCRBYFLOAT text 1.5").await, bulk("3.5"));
    assert_eq!(one.ask("PERSIST text").await, int(1));
    // Types change, within transactions as well.
    one.ask("MULTI").await;
    for words in ["SET text a", "STRLEN text", "APPEND text b", "GET text", "DEL text", "GET text"]
    {
        one.ask(words).await;
    }
    for words in ["RPUSH text x", "GET text", "SET text last", "EXISTS text", "GETRANGE text 0 1"] {
        one.ask(words).await;
    }
    let Value::Array(replies) = one.ask("EXEC").await else { panic!() };
    assert_eq!(replies[..6], [ok(), int(1), int(2), bulk("ab"), int(1), Value::Null]);
    assert_eq!(replies[6], int(1));
    assert!(matches!(&replies[7], Value::Error(text) if text.starts_with("WRONGTYPE")));
    assert_eq!(replies[8..], [ok(), int(1), bulk("la")]);
    assert_eq!(one.ask("GET text").await, bulk("last"));
    assert_eq!(one.ask("DEL text").await, int(1));
    assert_eq!(one.ask("HSET text a 1").await, int(1));
    assert_eq!(one.ask("HGET text a").await, bulk("1"));
}

async fn transactions(one: &mut Client, two: &mut Client) {
    one.ask("MSET x 1 y 1 z 1").await;
    assert_eq!(one.ask("MULTI").await, ok());
    for words in ["INCR x", "DECR y", "GET x", "MGET y z"] {
        assert_eq!(one.ask(words).await, Value::Simple("QUEUED".to_owned()));
    }
    let wanted = [int(2), int(0), bulk("2"), all(&[bulk("0"), bulk("1")])];
    assert_eq!(one.ask("EXEC").await, all(&wanted));
    one.ask("MULTI").await;
    one.fails("NONSENSE").await;
    assert!(one.fails("EXEC").await.starts_with("EXECABORT"));
    assert!(one.fails("EXEC").await.contains("EXEC without MULTI"));
    one.ask("MULTI").await;
    one.ask("SET x 100").await;
    assert_eq!(one.ask("DISCARD").await, ok());

    // A watched key changes: one that the transaction writes, and one that it does not.
    for watched in ["x", "z"] {
        assert_eq!(one.ask(&format!("WATCH {watched}")).await, ok());
        two.ask(&format!("INCR {watched}")).await;
        one.ask("MULTI").await;
        one.ask("SET x 100").await;
        assert_eq!(one.ask("EXEC").await, Value::Null, "{watched}");
    }
    one.ask("WATCH z").await;
    one.ask("MULTI").await;
    one.ask("INCR y").await;
    assert_eq!(one.ask("EXEC").await, all(&[int(1)]));

    // An open transaction aborts after a concurrent update of a key that it has read and writes.
    assert_eq!(one.ask("SOLERA.BEGIN PCPSI").await, ok());
    let read = one.ask("GET x").await;
    two.ask("INCR x").await;
    assert_eq!(one.ask("INCR x").await, {
        let Value::Bulk(text) = read else { panic!() };
        int(String::from_utf8(text).unwrap().parse::<i64>().unwrap() + 1)
    });
    one.ask("SET y changed").await;
    assert_eq!(one.ask("GET y").await, bulk("changed"));
    assert!(one.fails("SOLERA.COMMIT").await.starts_with("ABORTED"));
    assert_eq!(one.ask("GET y").await, bulk("1"));
    one.ask("HSET hash a 1").await;
    one.ask("RPUSH list a").await;
    let before = one.ask("GET z").await;
    one.ask("SOLERA.BEGIN").await;
    for words in ["HSET h a 1", "HSET hash a 1", "LPUSH list a", "SET list 1 EX 5"] {
        let error = one.fails(words).await;
        assert!(error.contains("cannot be used after SOLERA.BEGIN"), "{words}: {error}");
    }
    assert!(one.fails("APPEND list a").await.starts_with("WRONGTYPE"));
    assert_eq!(one.ask("SET z written").await, ok());
    let error = one.fails("SOLERA.COMMIT").await;
    assert!(error.starts_with("EXECABORT ") && error.contains("first: ERR HSET"), "{error}");
    assert_eq!(one.ask("GET z").await, before);
    one.ask("SOLERA.BEGIN").await;
    assert_eq!(one.ask("APPEND y !").await, int(2));
    assert_eq!(one.ask("DEL z none").await, int(1));
    assert_eq!(one.ask("DEL hash list").await, int(2));
    assert_eq!(one.ask("EXISTS hash").await, int(0));
    assert_eq!(one.ask("SOLERA.COMMIT").await, ok());
    assert_eq!(one.ask("EXISTS hash list").await, int(0));
    assert_eq!(one.ask("MGET y z").await, all(&[bulk("1!"), Value::Null]));
    assert!(one.fails("SOLERA.BEGIN STRONG").await.contains("no STRONG transactions"));
    assert!(one.fails("SOLERA.COMMIT").await.contains("without SOLERA.BEGIN"));
}

async fn sessions(one: &mut Client, two: &mut Client) {
    for number in 0..50 {
        one.ask(&format!("SET t{number} {number}")).await;
        let Value::Bulk(token) = one.ask("SOLERA.TOKEN").await else { panic!() };
        let token = String::from_utf8(token).unwrap();
        assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")).await, ok());
        let wanted = bulk(&number.to_string());
        assert_eq!(two.ask(&format!("GET t{number}")).await, wanted);
    }
    assert!(two.fails("SOLERA.ATTACH nonsense").await.starts_with("BADTOKEN the token cannot"));
    let Value::Array(counters) = two.ask("SOLERA.STALE FAIL").await else { panic!() };
    assert_eq!(counters[..2], [bulk("policy"), bulk("FAIL")]);
    assert!(two.fails("SOLERA.STALE NO").await.contains("HOME, ACCEPT and FAIL"));
    assert_eq!(two.ask("RESET").await, Value::Simple("RESET".to_owned()));
}

async fn protocol(one: &mut Client) {
    assert_eq!(one.ask("PING").await, Value::Simple("PONG".to_owned()));
    one.ask("HSET h a 1").await;
    assert_eq!(one.ask("HGETALL h").await, all(&[bulk("a"), bulk("1")]));
    let Value::Map(_) = one.ask("HELLO 3").await else { panic!() };
    assert_eq!(one.ask("HGETALL h").await, Value::Map(vec![(bulk("a"), bulk("1"))]));
    let Value::Set(members) = one.ask("SMEMBERS s").await else { panic!() };
    assert_eq!(members.len(), 2);
    for words in ["CLIENT SETNAME n", "CLIENT SETINFO LIB-NAME x", "SELECT 0"] {
        assert_eq!(one.ask(words).await, ok());
    }
    assert_eq!(one.ask("CLIENT GETNAME").await, bulk("n"));
    assert!(world::text(&one.ask("INFO").await).contains("site:here"));
    // A pipeline is answered in order.
    for number in 0..100 {
        one.send(&format!("INCRBY pipe {number}")).await;
    }
    for number in 0..100 {
        assert_eq!(one.receive().await, int((0..=number).sum()));
    }
}
