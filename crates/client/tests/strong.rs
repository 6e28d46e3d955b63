//! What the client makes of a server's answers to strong transactions, which a script gives here.

use std::net::SocketAddr;

use solera::{Client, Error, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const CONFLICT: &str =
    "-ABORTED conflict on 'stock:1'; nothing was changed, run the transaction again";

/// How a strong transaction is begun, in one go, and what a server says to that.
const BEGIN: &str = "SOLERA.BEGIN STRONG SOLERA.TXID";
const BEGUN: &str = "+OK\r\n$7\r\n0.0.1.7";

/// A connection that breaks instead of a reply.
const BREAKS: &str = "";

/// A server for one client. It answers each command that begins with the next line of the script by
/// that line's reply, and fails the test at any other. The client sends one command at a time, or
/// all that it sends together with one `write`, so each is read in one piece.
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

const NOT_BEGUN: &str = "-ABORTED conflict on 'stock:1'; it has changed since WATCH, nothing was begun\r\n\
                         -ERR there is none";

async fn buy(client: &mut Client) -> Result<i64, Error> {
    client.strong(async |tx| tx.incr_by("stock:1", -1).await).await
}

#[tokio::test]
async fn what_was_watched_and_has_changed_is_not_tried_again() {
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
async fn a_transaction_that_met_a_conflict_is_run_again() {
    let script = &[
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":4"),
        ("SOLERA.COMMIT", CONFLICT),
        (BEGIN, BEGUN),
        // An operation may tell of the conflict before the commit does.
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
async fn it_is_run_again_for_a_bounded_number_of_times() {
    let script = &[(BEGIN, BEGUN), ("SOLERA.COMMIT", CONFLICT)];
    let rounds = Client::STRONG_ATTEMPTS as usize;
    let script = Vec::leak(script.repeat(rounds));
    let mut client = Client::connect(server(script).await).await.unwrap();
    let mut runs = 0;
    let count = async |_: &mut Client| {
        runs += 1;
        Ok(())
    };
    let failed = client.strong(count).await.unwrap_err();
    let Error::Aborted { key, attempts } = &failed else { panic!("{failed}") };
    assert_eq!((key.as_str(), *attempts), ("stock:1", Client::STRONG_ATTEMPTS));
    assert_eq!(runs, Client::STRONG_ATTEMPTS);
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
        // Where none is open, what is wrong is something else.
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
async fn a_connection_that_breaks_at_the_commit_is_made_again_and_the_outcome_asked_for() {
    let script = &[
        (BEGIN, BEGUN),
        ("INCRBY stock:1 -1", ":4"),
        ("SOLERA.COMMIT", BREAKS),
        ("HELLO 3", "%0"),
        ("SOLERA.OUTCOME 0.0.1.7", "+unknown"),
        ("SOLERA.OUTCOME 0.0.1.7", "+committed"),
        // What did not commit is run again.
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
