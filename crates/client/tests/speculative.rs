//! Tests of operations of a speculative space, on a cluster in this process and with a scripted
//! server.

use std::time::Duration;

use solera::speculative::Ticket;
use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const SPACES: &str = "
[[space]]
name = 'stock'
prefix = 's:'
level = 'speculative'
";

const SHOP: &str = "store shop : speculative;
    transaction sell(n: handle<counter> in shop, count: int) -> int {
        if n.value() < count { abort \"sold out\"; }
        n.add(-count);
        return n.value();
    }";

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(50));

fn cluster() -> Embedded {
    Embedded::with(ClusterSpec::parse("config", SPACES, Overrides::default()).unwrap()).unwrap()
}

/// Cuts the first site off from all others.
async fn cut(cluster: &Embedded) {
    for other in ["2", "3"] {
        cluster.inject(Fault::Cut { a: "1".into(), b: other.into() }).await.unwrap();
    }
}

async fn heal(cluster: &Embedded) {
    cluster.inject(Fault::Heal {}).await.unwrap();
}

fn number(number: i64) -> Value {
    Value::Integer(number)
}

#[tokio::test]
async fn strong_operations_have_tentative_and_final_results() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    assert_eq!(client.call_weak(&["INCRBY", "s:n", "5"]).await.unwrap(), number(5));
    let mut first = client.call_strong(&["INCRBY", "s:n", "1"]).await.unwrap();
    let mut second = client.call_strong(&["INCRBY", "s:n", "1"]).await.unwrap();
    assert_eq!(first.tentative().unwrap(), number(6));
    // Results are kept for the handle that wants them, whoever reads the connection first.
    assert_eq!(second.stable(&mut client, LONG).await.unwrap(), number(7));
    client.get("s:n").await.unwrap();
    for _ in 0..2 {
        assert_eq!(first.stable(&mut client, LONG).await.unwrap(), number(6));
    }
    // Other sites and other handles need the ticket alone.
    let ticket = Ticket::from(first.ticket().unwrap().to_string().as_str());
    let mut elsewhere = cluster.client(2).await.unwrap();
    assert_eq!(elsewhere.stable(&ticket, LONG).await.unwrap(), number(6));
    assert_eq!(first.next_revision(&mut client).await.unwrap(), None);
    let wrong = client.call_weak(&["SADD", "s:n", "x"]).await.unwrap_err();
    assert_eq!(wrong.code(), Some("WRONGTYPE"));
    let mut wrong = client.call_strong(&["SADD", "s:n", "x"]).await.unwrap();
    assert_eq!(wrong.tentative().unwrap_err().code(), Some("WRONGTYPE"));
    let stable = wrong.stable(&mut client, LONG).await;
    assert_eq!(stable.unwrap_err().code(), Some("WRONGTYPE"));
}

#[tokio::test]
async fn a_read_that_is_weak_has_no_ticket() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let mut read = client.track_weak(&["GET", "s:n"]).await.unwrap();
    assert_eq!((read.tentative().unwrap(), read.ticket()), (Value::Null, None));
    assert!(matches!(read.stable(&mut client, LONG).await, Err(Error::Unordered)));
    assert_eq!(read.next_revision(&mut client).await.unwrap(), None);
}

#[tokio::test]
async fn results_are_revised_when_sites_meet_again() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let mut other = cluster.client(1).await.unwrap();
    cut(&cluster).await;
    let mut set = other.call_strong(&["SET", "s:n", "100"]).await.unwrap();
    set.stable(&mut other, LONG).await.unwrap();
    let mut strong = client.track_strong(&["INCRBY", "s:n", "1"]).await.unwrap();
    let mut weak = client.track_weak(&["INCRBY", "s:n", "1"]).await.unwrap();
    assert_eq!(strong.tentative().unwrap(), number(1));
    let late = strong.stable(&mut client, SHORT).await.unwrap_err();
    assert_eq!(late.code(), Some("TIMEOUT"), "{late}");
    let late = client.stable(strong.ticket().unwrap(), SHORT).await.unwrap_err();
    assert_eq!(late.code(), Some("TIMEOUT"), "{late}");
    heal(&cluster).await;
    // The weak operation reads what the strong one has written; that one reads the other site's.
    let causes = [strong.ticket().cloned(), set.ticket().cloned()];
    for ((operation, result), cause) in
        [(&mut weak, 102), (&mut strong, 101)].into_iter().zip(causes)
    {
        let mut last = None;
        while let Some(revision) = operation.next_revision(&mut client).await.unwrap() {
            last = Some(revision);
        }
        assert_eq!(operation.stable(&mut client, LONG).await.unwrap(), number(result));
        let last = last.expect("it was revised");
        assert_eq!((last.result().unwrap(), last.cause()), (number(result), cause.as_ref()));
    }
}

#[tokio::test]
async fn transactions_of_modules_are_operations() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    client.command(&["SOLERA.MODULE", "LOAD", "shop", SHOP, "BIND", "shop=stock"]).await.unwrap();
    client.set("s:n", "5").await.unwrap();
    client.barrier(LONG).await.unwrap();
    let sold = client.call_weak(&["shop.sell", "n", "1"]).await.unwrap();
    assert_eq!(sold, number(4));
    let failed = client.call_weak(&["shop.sell", "n", "9"]).await.unwrap_err();
    assert_eq!(failed.code(), Some("FAILED"));
    client.barrier(LONG).await.unwrap();
    cut(&cluster).await;
    let mut other = cluster.client(1).await.unwrap();
    let mut sold = other.call_strong(&["shop.sell", "n", "3"]).await.unwrap();
    assert_eq!(sold.stable(&mut other, LONG).await.unwrap(), number(1));
    let mut oversold = client.track_strong(&["shop.sell", "n", "2"]).await.unwrap();
    assert_eq!(oversold.tentative().unwrap(), number(2));
    heal(&cluster).await;
    let failed = oversold.stable(&mut client, LONG).await.unwrap_err();
    assert_eq!(failed.code(), Some("FAILED"), "{failed}");
    // Revisions are kept while the client waits for the final result.
    let revision = oversold.next_revision(&mut client).await.unwrap().unwrap();
    assert_eq!(revision.result().unwrap_err().code(), Some("FAILED"));
    assert_eq!(revision.cause(), sold.ticket());
}

/// The site does not push results to clients that speak RESP2, so the handle asks with its ticket.
#[tokio::test]
async fn without_pushes_the_handle_asks_with_its_ticket() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    let mut before = client.track_strong(&["INCR", "s:n"]).await.unwrap();
    client.command(&["HELLO", "2"]).await.unwrap();
    let mut after = client.track_strong(&["INCR", "s:n"]).await.unwrap();
    assert_eq!(after.next_revision(&mut client).await.unwrap(), None);
    assert_eq!(after.stable(&mut client, None).await.unwrap(), number(2));
    assert_eq!(before.stable(&mut client, None).await.unwrap(), number(1));
}

#[tokio::test]
async fn a_lost_connection_leaves_the_ticket_valid() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    cut(&cluster).await;
    let mut strong = client.track_strong(&["INCR", "s:n"]).await.unwrap();
    cluster.inject(Fault::Kill { site: "1".into() }).await.unwrap();
    let lost = strong.stable(&mut client, LONG).await.unwrap_err();
    let Error::Interrupted { ticket, .. } = &lost else { panic!("{lost:?}") };
    assert_eq!(Some(ticket), strong.ticket());
    assert!(lost.to_string().contains(ticket.as_str()), "{lost}");
    let lost = strong.next_revision(&mut client).await.unwrap_err();
    assert!(matches!(lost, Error::Interrupted { .. }), "{lost:?}");
    cluster.inject(Fault::Restart { site: "1".into() }).await.unwrap();
    heal(&cluster).await;
    client.reconnect().await.unwrap();
    assert_eq!(strong.next_revision(&mut client).await.unwrap(), None);
    assert_eq!(strong.stable(&mut client, LONG).await.unwrap(), number(1));
    let mut elsewhere = cluster.client(1).await.unwrap();
    assert_eq!(strong.stable(&mut elsewhere, LONG).await.unwrap(), number(1));
}

#[tokio::test]
async fn handles_that_are_dropped_do_not_disturb_the_connection() {
    let cluster = cluster();
    let mut client = cluster.client(0).await.unwrap();
    for round in 1..=200 {
        drop(client.track_strong(&["INCR", "s:n"]).await.unwrap());
        let mut waits = client.track_strong(&["INCR", "s:n"]).await.unwrap();
        // A future that waits for a push may be dropped, too.
        let late = tokio::time::timeout(Duration::ZERO, waits.next_revision(&mut client)).await;
        assert!(matches!(late, Err(_) | Ok(Ok(_))), "{late:?}");
        assert_eq!(waits.stable(&mut client, LONG).await.unwrap(), number(2 * round));
    }
}

/// Starts a server that answers each command from the script, and then closes the connection.
fn server(script: &'static [(&'static str, &'static str)]) -> DuplexStream {
    let (client, mut stream) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        for (expected, reply) in [("HELLO 3", "%0\r\n")].iter().chain(script) {
            let length = stream.read(&mut buffer).await.unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]);
            let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
            assert_eq!(words.collect::<Vec<_>>().join(" "), *expected);
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    client
}

const CALL: &str = "SOLERA.CALL STRONG INCR a";
const CALLED: &str = "%2\r\n$6\r\nticket\r\n$5\r\n0-1-7\r\n$9\r\ntentative\r\n:4\r\n";

#[tokio::test]
async fn another_site_answers_for_one_that_has_diverged() {
    const DIVERGED: &str = "%2\r\n$6\r\nticket\r\n$5\r\n0-1-7\r\n$9\r\ntentative\r\n:4\r\n\
                            >3\r\n$13\r\nsolera.stable\r\n$5\r\n0-1-7\r\n-DIVERGED site a gives no results\r\n";
    let mut client = Client::over(server(&[(CALL, DIVERGED)])).await.unwrap();
    let mut operation = client.call_strong(&["INCR", "a"]).await.unwrap();
    let diverged = operation.stable(&mut client, LONG).await.unwrap_err();
    assert_eq!(diverged.code(), Some("DIVERGED"));
    let script = &[("SOLERA.STABLE 0-1-7 10000", ":5\r\n")];
    let mut elsewhere = Client::over(server(script)).await.unwrap();
    assert_eq!(operation.stable(&mut elsewhere, LONG).await.unwrap(), number(5));
    // The connection of neither client is used any more.
    assert_eq!(operation.stable(&mut client, LONG).await.unwrap(), number(5));
}

#[tokio::test]
async fn a_long_wait_has_rounds_and_a_connection_may_break_in_each() {
    const LATE: &str = "-TIMEOUT not final here yet\r\n";
    let ask = ("SOLERA.STABLE 0-1-7 10000", LATE);
    let script = vec![(CALL, CALLED), ask, ask].leak();
    let mut client = Client::over(server(script)).await.unwrap();
    let operation = client.call_strong(&["INCR", "a"]).await.unwrap();
    assert_eq!(operation.tentative().unwrap(), number(4));
    let lost = client.stable(operation.ticket().unwrap(), None).await.unwrap_err();
    assert!(matches!(lost, Error::Interrupted { .. }), "{lost:?}");
}

#[tokio::test]
async fn revisions_arrive_in_order_with_their_causes() {
    const PUSHES: &str = ":1\r\n>3\r\n$14\r\nsolera.revised\r\n$5\r\n0-1-7\r\n:5\r\n\
                          >4\r\n$14\r\nsolera.revised\r\n$5\r\n0-1-7\r\n:6\r\n$5\r\n2-1-9\r\n\
                          >4\r\n$14\r\nsolera.revised\r\n$5\r\n0-1-7\r\n-FAILED x\r\n_\r\n\
                          >3\r\n$13\r\nsolera.stable\r\n$5\r\n0-1-7\r\n:8\r\n:1\r\n";
    let script: &[_] =
        &[("SOLERA.CALL TRACK STRONG INCR a", CALLED), ("EXISTS a", PUSHES), ("EXISTS a", "")];
    let mut client = Client::over(server(script)).await.unwrap();
    let mut operation = client.track_strong(&["INCR", "a"]).await.unwrap();
    for _ in 0..2 {
        assert!(client.exists("a").await.unwrap());
    }
    let mut revisions = Vec::new();
    while let Some(revision) = operation.next_revision(&mut client).await.unwrap() {
        let result = revision.result().map_err(|error| error.to_string());
        revisions.push((result, revision.cause().map(|cause| cause.as_str().to_owned())));
    }
    let failed = Err("FAILED x".to_owned());
    let cause = Some("2-1-9".to_owned());
    assert_eq!(revisions, [(Ok(number(5)), None), (Ok(number(6)), cause), (failed, None)]);
    assert_eq!(operation.stable(&mut client, LONG).await.unwrap(), number(8));
}

#[tokio::test]
async fn a_reply_without_a_ticket_is_an_error() {
    for reply in [":4\r\n", "%0\r\n", "%2\r\n+ticket\r\n:1\r\n+tentative\r\n:1\r\n"] {
        let script: &'static [_] = vec![(CALL, reply)].leak();
        let mut client = Client::over(server(script)).await.unwrap();
        let wrong = client.call_strong(&["INCR", "a"]).await.unwrap_err();
        assert!(matches!(wrong, Error::UnexpectedReply(_)), "{reply}: {wrong:?}");
    }
}
