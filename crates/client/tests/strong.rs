//! Tests of how the client handles a scripted server's answers to strong transactions.

use std::net::SocketAddr;

use solera::{Client, Error, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const CONFLICT: &str =
    "-ABORTED conflict on 'stock:1'; nothing was changed, run the transaction again";

/// Commands that begin a strong transaction, sent at once, and the replies.
const BEGIN: &str = "SOLERA.BEGIN STRONG SOLERA.TXID";
const BEGUN: &str = "+OK\r\n$7\r\n0.0.1.7";

/// Breaks the connection instead of a reply.
const BREAKS: &str = "";

/// Starts a server for one client. It answers each command from the next line of the script, and
/// fails the test at any other command. The client sends one command at a time, or several with one
/// `write`, so the server reads each in one piece.
async fn server(script: &'static [(&'static str, &'static str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut script = [("HELLO 3", "%0")].iter().chain(script);
        let mut buffer = [0; 4096];
        loop {
            let Ok(length @ 1..) = stream.read(&mut buffer).await else { return };
            let text = String::from_utf8_lossy(&buffer[..length]);
            let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
            let command = words.collect::<Vec<_>>().join(" ");
            let reply = match script.next() {
                Some((expected, reply)) if *expected == command => *reply,
                other => panic!("the client said {command:?} and not {other:?}"),
            };
            if reply == BREAKS {
                drop(stream);
                (stream, _) = listener.accept().await.unwrap();
                continue;
            }
            stream.write_all(format!("{reply}\r\n").as_bytes()).await.unwrap();
        }
    });
    address
}

const NOT_BEGUN: &str = "-ABORTED conflict on 'stock:1'; the key has changed since WATCH, no transaction was begun\r\n\
                         -ERR there is none";

async fn buy(client: &mut Client) -> Result<i64, Error> {
    client.strong(async |tx| tx.incr_by("stock:1", -1).await).await
}

#[tokio::test]
async fn a_change_of_a_watched_key_is_not_retried() {
    let script = &[
        ("WATCH stock:1", "+OK"),
        (BEGIN, NOT_BEGUN),
        (BEGIN, BEGUN),
        ("WATCH stock:1", "+OK"),
        ("SOLERA.COMMIT", "+OK"),
    ];
    let mut client = Client::connect(server(script).await).await.unwrap();
    client.watch("stock:1").await.unwrap();
    let failed = buy(&mut client).await.unwrap_err();
    assert!(matches!(&failed, Error::Aborted { key, .. } if key == "stock:1"), "{failed}");
    client.strong(async |tx| tx.watch("stock:1").await).await.unwrap();
}

#[tokio::test]
async fn a_transaction_is_retried_after_a_conflict() {
    let script = &[
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":4"),
        ("SOLERA.COMMIT", CONFLICT),
        (BEGIN, BEGUN),
        // An operation may report the conflict before the commit does.
        ("INCRBY stock:1 -1", CONFLICT),
        ("SOLERA.ABORT", "+OK"),
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":3"),
        ("SOLERA.COMMIT", "+OK"),
    ];
    let mut client = Client::connect(server(script).await).await.unwrap();
    assert_eq!(buy(&mut client).await.unwrap(), 3);
}

#[tokio::test]
async fn the_number_of_attempts_is_limited() {
    let script = &[(BEGIN, BEGUN), ("SOLERA.COMMIT", CONFLICT)];
    let rounds = Client::ATTEMPTS as usize;
    let script = Vec::leak(script.repeat(rounds));
    let mut client = Client::connect(server(script).await).await.unwrap();
    let mut runs = 0;
    let count = async |_: &mut Client| {
        runs += 1;
        Ok(())
    };
    let failed = client.strong(count).await.unwrap_err();
    let Error::Aborted { key, attempts } = &failed else { panic!("{failed}") };
    assert_eq!((key.as_str(), *attempts), ("stock:1", Client::ATTEMPTS));
    assert_eq!(runs, Client::ATTEMPTS);
    assert!(failed.to_string().contains("of 16 attempts"), "{failed}");
}

#[tokio::test]
async fn other_failures_end_it() {
    let script = &[
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", "-WRONGTYPE not a number"),
        ("SOLERA.ABORT", "+OK"),
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":4"),
        ("SOLERA.COMMIT", "-UNAVAILABLE no quorum in time; ask SOLERA.OUTCOME 1-7"),
        ("SOLERA.OUTCOME 1-7", "+committed"),
    ];
    let mut client = Client::connect(server(script).await).await.unwrap();
    assert_eq!(buy(&mut client).await.unwrap_err().code(), Some("WRONGTYPE"));
    let failed = buy(&mut client).await.unwrap_err();
    let Error::Unavailable { transaction: Some(name), .. } = failed else { panic!("{failed}") };
    assert_eq!(client.outcome(&name).await.unwrap(), Outcome::Committed);
}

#[tokio::test]
async fn a_transaction_that_was_dropped_is_aborted_first() {
    let script = &[
        (BEGIN, BEGUN),
        (BEGIN, "-ERR a transaction is open\r\n-ERR it was given up"),
        ("SOLERA.ABORT", "+OK"),
        (BEGIN, BEGUN),
        ("SOLERA.COMMIT", "+OK"),
        (BEGIN, "-EXECABORT the transaction was given up\r\n-ERR it was given up"),
        ("SOLERA.ABORT", "+OK"),
        (BEGIN, BEGUN),
        ("SOLERA.COMMIT", "+OK"),
        // If no transaction is open, the error has another cause.
        (BEGIN, "-ERR syntax error\r\n-ERR there is none"),
        ("SOLERA.ABORT", "-ERR no transaction is open"),
    ];
    let mut client = Client::connect(server(script).await).await.unwrap();
    let _dropped = client.begin_strong().await.unwrap();
    client.begin_strong().await.unwrap().commit().await.unwrap();
    client.begin_strong().await.unwrap().commit().await.unwrap();
    let failed = client.begin_strong().await.err().unwrap();
    assert_eq!(failed.to_string(), "ERR syntax error");
}

#[tokio::test]
async fn after_a_break_during_the_commit_the_client_reconnects_and_asks_for_the_outcome() {
    let script = &[
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":4"),
        ("SOLERA.COMMIT", BREAKS),
        ("HELLO 3", "%0"),
        ("SOLERA.OUTCOME 0.0.1.7", "+unknown"),
        ("SOLERA.OUTCOME 0.0.1.7", "+committed"),
        // An aborted transaction is retried.
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":3"),
        ("SOLERA.COMMIT", BREAKS),
        ("HELLO 3", "%0"),
        ("SOLERA.OUTCOME 0.0.1.7", "+aborted"),
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":2"),
        ("SOLERA.COMMIT", "+OK"),
    ];
    let mut client = Client::connect(server(script).await).await.unwrap();
    assert_eq!(buy(&mut client).await.unwrap(), 4);
    assert_eq!(buy(&mut client).await.unwrap(), 2);
}
