//! Tests `solera wan` in front of a server.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use common::{Process, SOLERA, solera, text};

/// Starts a server that answers each connection with a letter and the received bytes, after the
/// client has closed its side. Returns its address.
fn server(letter: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut said = vec![letter];
            stream.read_to_end(&mut said).unwrap();
            stream.write_all(&said).unwrap();
        }
    });
    address
}

#[test]
fn wan_forwards_connections_to_servers_until_it_is_stopped() {
    let (a, b) = (server(b'a'), server(b'b'));
    let mut command = Command::new(SOLERA);
    command.args(["wan", "--rtt-ms", "3.5", "--jitter-ms", "1", "--to", &a, "--route"]);
    command.arg(format!("127.0.0.2:0={b}")).stdout(Stdio::piped());
    let mut wan = Process::start(&mut command);
    let mut lines = BufReader::new(wan.child.stdout.take().unwrap()).lines();
    for (letter, at, to) in [("b", "127.0.0.2", &b), ("a", "127.0.0.1", &a)] {
        let line = lines.next().unwrap().unwrap();
        let (listens, leads) = line.split_once(" -> ").unwrap();
        assert_eq!((listens.split(':').next(), leads), (Some(at), to.as_str()));
        let mut client = TcpStream::connect(listens).unwrap();
        client.write_all(b"!").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, format!("{letter}!"));
    }
    wan.signal("-TERM");
    assert!(wan.wait().success(), "{wan}");
}

#[test]
fn invalid_options_are_rejected() {
    for (arguments, reason) in [
        (&["--rtt-ms", "5"][..], "--to"),
        (&["--rtt-ms", "soon", "--to", "h:1"], "must be a number of milliseconds"),
        (&["--rtt-ms", "-1", "--to", "h:1"], "--rtt-ms"),
        (&["--rtt-ms=-1", "--to", "h:1"], "negative"),
        (&["--rtt-ms", "70000", "--to", "h:1"], "at most 60000 ms"),
        (&["--rtt-ms", "5", "--route", "h:1"], "a route looks like"),
        (&["--rtt-ms", "5", "--to", "h:1", "--listen", "nowhere"], "cannot listen on nowhere"),
    ] {
        let output = solera(&[&["wan"], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(reason), "{arguments:?}: {errors}");
    }
}
