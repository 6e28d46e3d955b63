//! Tests the binary as a user runs it: `solera up`, clients at its ports, `solera fault`.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Folder, SOLERA, Up, eventually, ok};
use solera::{Client, Error, Value};
use solera_node::Token;

/// Sends bytes to the HTTP interface, and returns the connection.
fn http(up: &Up, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(up.admin()).unwrap();
    stream.write_all(request).unwrap();
    stream
}

#[tokio::test]
async fn writes_are_replicated_between_sites_and_survive_a_cut() {
    let up = Up::start(&["--wan", "lan"]);
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    one.set("k", "v").await.unwrap();
    eventually("the write travels", async || two.get("k").await.unwrap().as_deref() == Some("v"))
        .await;

    ok(&up.fault(&["cut", "virginia", "2"]));
    ok(&up.fault(&["cut", "2", "frankfurt"]));
    one.incr_by("n", 1).await.unwrap();
    two.incr_by("n", 2).await.unwrap();
    assert_eq!(two.get("n").await.unwrap().as_deref(), Some("2"));
    ok(&up.fault(&["heal"]));
    for client in [&mut one, &mut two] {
        eventually("the sum is right", async || {
            client.get("n").await.unwrap().as_deref() == Some("3")
        })
        .await;
    }
}

#[tokio::test]
async fn a_token_is_valid_after_its_site_has_failed() {
    let up = Up::start(&["--wan", "lan"]);
    let mut one = up.client(1).await;
    one.set("order", "paid").await.unwrap();
    one.barrier(Some(Duration::from_secs(10))).await.unwrap();
    let token = one.token().await.unwrap();
    ok(&up.fault(&["kill", "1"]));
    assert!(one.get("order").await.is_err());
    assert!(up.try_client(1).await.is_err(), "a killed site accepts connections");

    let mut two = up.client(2).await;
    two.attach(&token).await.unwrap();
    assert_eq!(two.get("order").await.unwrap().as_deref(), Some("paid"));

    ok(&up.fault(&["restart", "1"]));
    let mut one = up.client(1).await;
    assert_eq!(one.get("order").await.unwrap().as_deref(), Some("paid"));
}

#[tokio::test]
async fn lost_dependencies_of_a_token_are_reported() {
    let up = Up::start(&["--wan", "lan"]);
    let mut one = up.client(1).await;
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    one.set("draft", "x").await.unwrap();
    let token = one.token().await.unwrap();
    ok(&up.fault(&["kill", "1"]));
    let mut two = up.client(2).await;
    let error = two.attach(&token).await.unwrap_err();
    assert_eq!(error.code(), Some("LOST"), "{error}");
    assert!(error.to_string().contains("virginia"), "{error}");
}

#[tokio::test]
async fn a_barrier_covers_eventual_writes_at_this_site_and_others() {
    let space = "[[space]]\nname = 'log'\nprefix = 'log:'\nlevel = 'eventual'\n";
    let up = Up::configured("sites = 3\nworkers = 2\n", space);
    let (mut one, soon) = (up.client(1).await, Some(Duration::from_millis(20)));
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    one.command(&["MSET", "log:a", "x", "log:b", "x", "log:c", "x"]).await.unwrap();
    let error = one.barrier(soon).await.unwrap_err();
    assert_eq!(error.code(), Some("TIMEOUT"), "{error}");
    let token = one.token().await.unwrap();
    let mut two = up.client(2).await;
    two.attach(&token).await.unwrap();
    assert_eq!(two.get("other").await.unwrap(), None);
    let error = two.barrier(soon).await.unwrap_err();
    assert_eq!(error.code(), Some("TIMEOUT"), "{error}");
    ok(&up.fault(&["heal"]));
    two.barrier(Some(Duration::from_secs(10))).await.unwrap();
    assert_eq!(two.get("log:a").await.unwrap().as_deref(), Some("x"));
}

#[tokio::test]
async fn the_status_lists_keys_at_risk() {
    let up = Up::configured("sites = 2\nworkers = 2\nf = 1\n", "");
    ok(&up.fault(&["cut", "1", "2"]));
    let mut one = up.client(1).await;
    let long = "k".repeat(500);
    one.set(&long, "v").await.unwrap();
    let at_risk = || {
        let (_, status) = common::http(up.admin(), "/status", "").unwrap();
        let mut status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let site = status["sites"][0].take();
        let keys = site["at_risk_keys"].as_array().unwrap().clone();
        (site["at_risk"].as_u64().unwrap(), keys)
    };
    assert_eq!(at_risk(), (1, vec![format!("{}…", &long[..200]).into()]));
    for i in 0..40 {
        one.set(&format!("k{i}"), "v").await.unwrap();
    }
    let (transactions, keys) = at_risk();
    assert_eq!((transactions, keys.len()), (41, 10), "{keys:?}");
    ok(&up.fault(&["heal"]));
    eventually("nothing is at risk", async || at_risk() == (0, Vec::new())).await;
}

#[tokio::test]
async fn transactions_are_atomic_over_workers() {
    let up = Up::start(&["--workers", "3", "--sites", "2"]);
    let mut one = up.client(1).await;
    let keys: Vec<String> = (0..12).map(|i| format!("k{i}")).collect();
    one.transaction(async |tx| {
        for key in &keys {
            tx.set(key, "x").await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let mut mget = vec!["MGET".to_owned()];
    mget.extend(keys.iter().cloned());
    let reply = one.command(&mget).await.unwrap();
    assert_eq!(reply, Value::Array(vec![Value::Bulk(b"x".to_vec()); 12]));
    assert_eq!(one.command(&["DBSIZE"]).await.unwrap(), Value::Integer(12));

    // The other site sees none or all of the writes, and finally all.
    let mut two = up.client(2).await;
    eventually("it is given up", async || {
        let Value::Array(values) = two.command(&mget).await.unwrap() else { panic!("no array") };
        let there = values.iter().filter(|value| **value != Value::Null).count();
        assert!(there == 0 || there == 12, "{there} of 12 writes are visible");
        there == 12
    })
    .await;

    let aborted = one
        .transaction(async |tx| {
            tx.set("k0", "y").await?;
            Err::<(), _>(Error::UnexpectedReply("changed my mind".into()))
        })
        .await;
    assert!(aborted.is_err());
    assert_eq!(one.get("k0").await.unwrap().as_deref(), Some("x"));
}

#[tokio::test]
async fn commands_of_a_transaction_that_timed_out_are_rejected() {
    let up = Up::configured("sites = 1\n", "transaction_timeout_ms = 50\n");
    let mut client = up.client(1).await;
    client.command(&["SOLERA.BEGIN"]).await.unwrap();
    let mut other = up.client(1).await;
    eventually("all is visible", async || {
        let status = up.fault(&["status", "--json"]).stdout;
        String::from_utf8_lossy(&status).contains("\"open_transactions\": 0")
    })
    .await;
    for command in ["SET", "SET", "GET"] {
        let arguments: &[&str] = if command == "SET" { &["SET", "k", "v"] } else { &["GET", "k"] };
        let error = client.command(arguments).await.unwrap_err();
        assert_eq!(error.code(), Some("NOTX"), "{error}");
    }
    assert_eq!(client.command(&["SOLERA.COMMIT"]).await.unwrap_err().code(), Some("NOTX"));
    assert_eq!(other.get("k").await.unwrap(), None);
    client.set("k", "v").await.unwrap();
}

#[tokio::test]
async fn tokens_of_other_clusters_and_runs_are_rejected() {
    let up = Up::start(&["--sites", "1"]);
    let mut client = up.client(1).await;
    let other = Up::start(&["--sites", "2"]);
    let token = other.client(1).await.token().await.unwrap();
    let error = client.attach(&token).await.unwrap_err();
    assert!(error.to_string().starts_with("BADTOKEN the token belongs to another"), "{error}");
    // Tokens of an earlier run without data are rejected as well.
    let again = Up::start(&["--sites", "2"]);
    let error = again.client(1).await.attach(&token).await.unwrap_err();
    assert_eq!(error.code(), Some("BADTOKEN"), "{error}");
}

#[tokio::test]
async fn tokens_with_times_far_in_the_future_are_rejected_at_once() {
    let up = Up::start(&["--sites", "1"]);
    let mut client = up.client(1).await;
    client.set("k", "v").await.unwrap();
    let text = client.token().await.unwrap().to_string();
    let cluster = u64::from_str_radix(&text["solera-3-".len()..][..16], 16).unwrap();
    let later = |hours: u64| {
        let mut token = Token::decode(text.as_bytes(), cluster, (1, 16)).unwrap();
        let micros = token.pasts.causal.max_entry().micros() + hours * 3_600_000_000;
        token.pasts.causal.strong.0 = micros << 12;
        token.encode().unwrap()
    };
    let error = client.command(&["SOLERA.ATTACH", &later(25)]).await.unwrap_err();
    assert!(error.to_string().starts_with("BADTOKEN the token has times"), "{error}");
    // A time within the bound is waited for.
    let error = client.command(&["SOLERA.ATTACH", &later(23)]).await.unwrap_err();
    assert_ne!(error.code(), Some("BADTOKEN"), "{error}");
}

#[test]
fn a_port_in_use_is_reported_with_its_purpose() {
    let up = Up::start(&["--sites", "1"]);
    // The port is in use as an HTTP port, and then as the port of a site.
    for (base, what) in [(up.port, "HTTP"), (up.port - 1, "site virginia")] {
        let output = Command::new(SOLERA)
            .args(["up", "--sites", "1", "--port", &base.to_string()])
            .output()
            .unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{what} cannot listen on 127.0.0.1:{}: the port is in use", up.port);
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn an_unknown_setting_is_rejected_with_its_line() {
    let folder = Folder::new();
    let file = folder.file("s.toml", "sites = 3\ncolour = 'red'\n");
    let output = Command::new(SOLERA).args(["up", "--config"]).arg(&file).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(error.contains("colour") && error.contains("line 2"), "{error}");
}

#[test]
fn invalid_values_and_combinations_of_options_are_rejected() {
    for arguments in [
        &["sim", "--seeds", "3", "--from", "18446744073709551615"][..],
        &["sim", "--seeds", "3", "--trace", "trace.txt"],
        &["sim", "--seed", "3", "--trace", "/not/there/trace.txt"],
        &["sim", "--seeds", "0"],
        &["up", "--port", "0"],
        &["up", "--port", "65534"],
        &["up", "--workers", "0"],
        &["up", "--workers", "1000"],
        &["papers", "unistore", "--check"],
        &["papers", "unistore", "--postgres", "postgresql://a:b@c/d"],
        &["papers", "calibrate", "--figure", "3"],
        &["papers", "occult", "--figure", "5"],
        &["papers", "occult", "--postgres", "postgresql://a:b@c/d"],
    ] {
        let output = Command::new(SOLERA).args(arguments).output().unwrap();
        assert!(!output.status.success() && !output.stderr.is_empty(), "{arguments:?}");
    }
    for (arguments, option) in [
        (&["sim", "--seeds", "3", "--from", "-1"][..], "'-1' for '--from <FROM>'"),
        (&["up", "--port", "-7"], "'-7' for '--port <PORT>'"),
        (&["wan", "--to", "a:1", "--rtt-ms", "-1.5"], "'-1.5' for '--rtt-ms <MS>'"),
        (&["fault", "delay", "1", "2", "-3"], "'-3' for '<MS>'"),
    ] {
        let output = Command::new(SOLERA).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(&format!("{option}: it must not be negative")), "{error}");
    }
    let last = ["sim", "--seeds", "1", "--from", "18446744073709551615"];
    ok(&Command::new(SOLERA).args(last).output().unwrap());
}

#[test]
fn http_requests_to_the_port_of_a_site_are_rejected() {
    let up = Up::start(&["--sites", "1"]);
    let mut stream = TcpStream::connect(("127.0.0.1", up.port + 1)).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET k v\r\n").unwrap();
    let mut answer = String::new();
    // The server may reset the connection while it receives the rest.
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(answer, "");
    let output = Command::new(SOLERA)
        .args(["fault", "status", "--port", &(up.port + 1).to_string()])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("not the HTTP interface"), "{error}");
}

#[test]
fn a_missing_login_at_another_server_is_not_taken_for_that_of_a_cluster() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
        while request.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\
                       WWW-Authenticate: Basic realm=\"router\"\r\n\r\n{}";
        stream.write_all(answer).unwrap();
    });
    let output = Command::new(SOLERA).args(["fault", "status", "--port", &port]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("not the HTTP interface"), "{error}");
    server.join().unwrap();
}

/// The beginning of a request for a fault, which all of them share.
const FAULTS: &str =
    "POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

/// Returns the status code of an answer and its `error`.
fn error_in(mut stream: TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    // An answer may precede the end of the request; then the server may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body["error"].as_str().unwrap().to_owned())
}

#[test]
fn http_errors_are_json_with_the_reason() {
    let up = Up::start(&["--sites", "1"]);
    let post = |length: usize, body: &[u8]| {
        let head = format!("{FAULTS}Connection: close\r\nContent-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let get = |line: &str| format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let chunked = format!("{FAULTS}Transfer-Encoding: chunked\r\n\r\n11000\r\n");
    let page = b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
        Connection: close\r\n\r\n";
    let chunks = [chunked.as_bytes(), &[b'x'; 0x11000]].concat();
    let cases = [
        (get("GET /nothing").into_bytes(), 404, "there is no /nothing"),
        (page.to_vec(), 415, "content-type: application/json"),
        (get("GET /faults").into_bytes(), 405, "/faults does not support GET"),
        (get("DELETE /status").into_bytes(), 405, "/status does not support DELETE"),
        (get("GET /status?detailed=perhaps").into_bytes(), 400, "detailed is true or false"),
        (post(3, b"\xff\xfe\xfd"), 400, "not UTF-8"),
        (post(2, b"{}"), 400, "this is not a valid fault"),
        (post(1 << 20, b""), 413, "longer than 65536 bytes"),
        (chunks, 413, "longer than 65536 bytes"),
        // These two requests time out; they wait at the same time.
        (b"GET /st".to_vec(), 408, "did not arrive within 5 s"),
        (post(100, b"{\"fault\": "), 408, "the body did not arrive within 5 s"),
    ];
    let streams: Vec<TcpStream> = cases.iter().map(|(request, ..)| http(&up, request)).collect();
    for ((request, code, reason), stream) in cases.iter().zip(streams) {
        let (got, error) = error_in(stream);
        let request = String::from_utf8_lossy(&request[..request.len().min(100)]).into_owned();
        assert!(got == *code && error.contains(reason), "{request}: {got} {error}");
    }
}

#[test]
fn incomplete_http_requests_do_not_delay_a_shutdown() {
    let mut up = Up::start(&["--sites", "1"]);
    let head = http(&up, b"GET /st");
    let body = http(&up, format!("{FAULTS}Content-Length: 100\r\n\r\n{{").as_bytes());
    // The server has received the earlier requests when it answers this one.
    assert_eq!(error_in(http(&up, b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n")).0, 404);
    Command::new("kill").arg(up.child.id().to_string()).status().unwrap();
    assert!(up.child.wait().unwrap().success());
    // They were closed without an answer: the server did not wait for their timeout.
    for mut stream in [head, body] {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(answer, "");
    }
}

#[test]
fn a_server_that_does_not_answer_is_distinguished_from_no_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = Command::new(SOLERA).args(["fault", "status", "--port", &port]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("did not respond within"), "{error}");
}

/// Returns the fields of each line of CLIENT LIST or CLIENT INFO.
async fn listed(client: &mut Client, command: &[&str]) -> Vec<BTreeMap<String, String>> {
    let Value::Verbatim { text, .. } = client.command(command).await.unwrap() else { panic!() };
    let field = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(|line| line.split(' ').map(field).collect()).collect()
}

#[tokio::test]
async fn clients_of_all_workers_are_listed_and_killed() {
    let up = Up::start(&["--sites", "2", "--workers", "3"]);
    let mut me = up.client(1).await;
    let _elsewhere = up.client(2).await;
    let mut others = Vec::new();
    for i in 0..12 {
        let mut other = up.client(1).await;
        other.command(&["CLIENT", "SETNAME", &format!("other{i}")]).await.unwrap();
        others.push(other);
    }
    others[3].command(&["MULTI"]).await.unwrap();
    others[3].command(&["SET", "k", "v"]).await.unwrap();
    let all = listed(&mut me, &["CLIENT", "LIST"]).await;
    assert_eq!(all.len(), 13, "the other site's clients are its own");
    let named = |name: &str| all.iter().find(|line| line["name"] == name).unwrap();
    assert_eq!((&*named("other3")["multi"], &*named("other3")["flags"]), ("1", "x"));
    assert_eq!((&*named("other4")["cmd"], &*named("other4")["resp"]), ("client|setname", "3"));
    let mine = listed(&mut me, &["CLIENT", "INFO"]).await.remove(0);
    let id = me.command(&["CLIENT", "ID"]).await.unwrap();
    assert_eq!(id, Value::Integer(mine["id"].parse().unwrap()));
    assert_eq!(mine["laddr"], format!("127.0.0.1:{}", up.port + 1));
    for field in "addr fd age idle db sub psub multi qbuf omem cmd user".split(' ') {
        assert!(mine.contains_key(field), "{field}");
    }
    let killed = me.command(&["CLIENT", "KILL", "ID", &mine["id"]]).await.unwrap();
    assert_eq!(killed, Value::Integer(0), "nobody kills itself by mistake");
    for (i, other) in others.iter_mut().enumerate() {
        let id = &named(&format!("other{i}"))["id"];
        let killed = me.command(&["CLIENT", "KILL", "ID", id]).await.unwrap();
        assert_eq!(killed, Value::Integer(1));
        assert!(matches!(other.command(&["PING"]).await, Err(Error::Connection(_))));
    }
    eventually("one is left", async || listed(&mut me, &["CLIENT", "LIST"]).await.len() == 1).await;
    let one = me.command(&["CLIENT", "KILL", "ID", &mine["id"], "SKIPME", "no"]).await.unwrap();
    assert_eq!(one, Value::Integer(1));
    assert!(me.command(&["PING"]).await.is_err());
}

#[tokio::test]
async fn a_first_command_is_listed_while_it_waits() {
    let up = Up::start(&["--sites", "1"]);
    let mut me = up.client(1).await;
    let mut waiting = TcpStream::connect(("127.0.0.1", up.port + 1)).unwrap();
    let address = waiting.local_addr().unwrap().to_string();
    // The time is in the year 3000.
    waiting.write_all(b"SOLERA.ATTACH UNTIL 32503680000000 600000\r\n").unwrap();
    eventually("the waiting command is listed", async || {
        let all = listed(&mut me, &["CLIENT", "LIST"]).await;
        all.iter().any(|line| line["addr"] == address && line["cmd"] == "solera.attach")
    })
    .await;
}

#[test]
fn client_reply_skip_and_off_suppress_replies() {
    let up = Up::start(&["--sites", "1", "--workers", "2"]);
    let mut stream = TcpStream::connect(("127.0.0.1", up.port + 1)).unwrap();
    let commands = "CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\nCLIENT REPLY OFF\r\nSET b 1\r\nFOO\r\n\
                    CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nGET b\r\nQUIT\r\n";
    stream.write_all(commands.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "$1\r\n1\r\n+OK\r\n$1\r\n1\r\n+OK\r\n");
}

#[tokio::test]
async fn the_limit_of_connections_applies_to_each_site() {
    let up = Up::configured("sites = 2\nworkers = 3\n", "max_connections = 4\n");
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(up.client(1).await);
    }
    let error = up.try_client(1).await.unwrap_err();
    assert!(error.to_string().contains("max number of clients"), "{error}");
    up.client(2).await;
    clients.pop();
    eventually("there is room", async || up.try_client(1).await.is_ok()).await;
}

#[tokio::test]
async fn a_client_that_closes_its_sending_side_receives_all_replies() {
    let up = Up::start(&["--workers", "2", "--sites", "2"]);
    let mut stream = TcpStream::connect(("127.0.0.1", up.port + 1)).unwrap();
    let sets: String = (0..20).map(|i| format!("SET k{i} v\r\n")).collect();
    stream.write_all(format!("{sets}SOLERA.BARRIER\r\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "+OK\r\n".repeat(21));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let source = folder.file("s.mixt", "store s : causal {} transaction t() -> int { return 1; }");
    let source = source.to_str().unwrap();
    for arguments in [&["sim", "--seeds", "1"][..], &["run", source, "t"], &["--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(SOLERA).args(arguments).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains("cannot write to standard output: No space left"), "{error}");
        // A reader may close the pipe early.
        let mut command = Command::new(SOLERA);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        // A command that takes longer than two seconds prints its progress.
        let said = String::from_utf8_lossy(&output.stderr);
        let complains = said.contains("solera:") || said.contains("panicked");
        assert!(output.status.success() && !complains, "{arguments:?}: {output:?}");
    }
}

#[test]
fn wrong_usage_is_rejected_with_what_to_do() {
    for (arguments, reason) in [
        (&["restore", "x"][..], "<--to <HOST:PORT>|--data <DIR>>"),
        (&["restore", "x", "--to", "h:1", "--data", "d"], "'--to <HOST:PORT>' cannot be used with"),
        (&["restore", "x", "--to", "h:1", "--sites", "3"], "cannot be used with '--sites <SITES>'"),
        (
            &["restore", "x", "--data", "d", "--force"],
            "'--data <DIR>' cannot be used with '--force'",
        ),
    ] {
        let output = Command::new(SOLERA).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{error}");
    }
}

/// Tests run a build whose requests cost more than those of documents.
#[test]
fn counted_costs_are_compared_only_with_the_same_profile() {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
    let output = Command::new(SOLERA).args(["costs", "--check", table]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("`cargo build --profile dist` builds target/dist/solera"), "{error}");
}

#[tokio::test]
async fn a_shifted_clock_is_read_by_the_workers_of_its_site_only() {
    let up = Up::start(&["--sites", "2"]);
    let status = || {
        let status = up.fault(&["status", "--json"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&status).unwrap()
    };
    let shown = |line: &str| {
        let status = up.fault(&["status"]).stdout;
        String::from_utf8_lossy(&status).contains(line)
    };
    assert!(!shown("clocks of"));
    ok(&up.fault(&["skew", "2", "3600000"]));
    assert!(shown("clocks of california: 3600000 ms ahead"));
    eventually("the time of california is far ahead of virginia's", async || {
        let times = status()["sites"][0]["stable_vec"].clone();
        // Times are hybrid: microseconds, and a counter of 12 bits.
        let micros = |site: &str| times[site].as_u64().unwrap_or_default() >> 12;
        micros("california") > micros("virginia") + 3_000_000_000
    })
    .await;
    ok(&up.fault(&["skew", "virginia", "-22"]));
    assert!(shown("clocks of virginia: 22 ms behind"));
    for end in ["off", "0"] {
        ok(&up.fault(&["skew", "virginia", "5"]));
        ok(&up.fault(&["skew", "virginia", end]));
        assert_eq!(status()["sites"][0]["injected_skew_ms"], 0);
    }
    for (arguments, reason) in [
        (["skew", "2", "86400001"], "is more than a day"),
        (["skew", "2", "-86400001"], "is more than a day"),
        (["skew", "2", "soon"], "give a number of milliseconds, or off"),
        (["skew", "atlantis", "1"], "no site 'atlantis'"),
    ] {
        let output = up.fault(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{error}");
    }
    assert!(shown("clocks of california: 3600000 ms ahead"), "a refused fault changes nothing");
}

#[test]
fn faults_require_a_cluster_and_known_sites() {
    let output = Command::new(SOLERA).args(["fault", "heal", "--port", "1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no cluster answers on 127.0.0.1:1 "));
    let up = Up::start(&[]);
    let output = up.fault(&["kill", "atlantis"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no site 'atlantis'") && error.contains("frankfurt"), "{error}");
    ok(&up.fault(&["cut", "VIRGINIA", "2"]));
    let output = up.fault(&["status"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("virginia"));
}
