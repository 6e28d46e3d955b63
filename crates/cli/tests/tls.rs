//! Tests TLS with clients and between nodes, with valid certificates and many kinds of invalid
//! ones.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{Folder, Process, SOLERA, free_ports, wait_until};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// A folder with certificates and configurations, and a range of ports.
struct Lab {
    folder: Folder,
    port: u16,
}

impl Lab {
    fn new() -> Lab {
        Lab { folder: Folder::new(), port: free_ports(&HOSTS) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.at(name)
    }

    /// Creates an authority, whose certificate is in `name.pem`.
    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.at(&format!("{name}.pem")), certificate.pem()).unwrap();
        Issuer::new(params, key)
    }

    /// Creates a certificate for a host, in `name.pem` and `name.key`.
    fn certificate(&self, name: &str, host: &str, issuer: &Issuer<'_, KeyPair>, until: i32) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        if name.starts_with("server-only") {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        std::fs::write(self.at(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.at(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn address(&self, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::new(HOSTS[site].parse().unwrap(), self.port + purpose)
    }

    /// Writes the configuration of two sites, as one of them uses it.
    fn configure(&self, site: usize, head: &str) -> PathBuf {
        let mut text = format!("{head}\n");
        for (site, name) in ["eu", "us"].iter().enumerate() {
            let [resp, tls, peer, admin] = [0, 1, 2, 3].map(|purpose| self.address(site, purpose));
            text += &format!("[[site]]\nname = '{name}'\n[[site.node]]\nresp = '{resp}'\n");
            text += &format!("peer = '{peer}'\nadmin = '{admin}'\n");
            if head.contains("[tls]") {
                text += &format!("resp_tls = '{tls}'\n");
            }
        }
        let file = self.at(&format!("site{site}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    }

    fn command(&self, site: usize, head: &str) -> Command {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", ["eu", "us"][site], "--config"]);
        command.arg(self.configure(site, head)).stderr(Stdio::piped());
        command
    }

    fn start(&self, site: usize, head: &str) -> Process {
        Process::start(&mut self.command(site, head))
    }

    /// Runs a node that must not start, and returns its error.
    fn refused(&self, head: &str) -> String {
        let Output { status, stderr, .. } = self.command(0, head).output().unwrap();
        assert!(!status.success());
        String::from_utf8(stderr).unwrap()
    }

    /// Sends a command over TLS, and returns the replies.
    fn ask(&self, own: Option<&str>, command: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.at("ca.pem"))).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_file(self.at(&format!("{own}.key"))).unwrap();
                let own = certificate(&self.at(&format!("{own}.pem")));
                builder.with_client_auth_cert(vec![own], key).unwrap()
            }
        };
        let host = ServerName::try_from(HOSTS[0]).unwrap();
        let tls = ClientConnection::new(Arc::new(config), host).unwrap();
        let stream = TcpStream::connect(self.address(0, 1))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = StreamOwned::new(tls, stream);
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn certificate(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}

fn peer_tls(own: &str, ca: &str) -> String {
    format!("[peer_tls]\ncert = '{own}.pem'\nkey = '{own}.key'\nca = '{ca}.pem'")
}

#[test]
fn clients_use_tls_and_certificates_if_required() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    lab.certificate("server", HOSTS[0], &ca, 2100);
    lab.certificate("client", "somebody", &ca, 2100);
    lab.certificate("stranger", "somebody", &lab.authority("other"), 2100);
    let head = "[tls]\ncert = 'server.pem'\nkey = 'server.key'";
    {
        let node = lab.start(0, head);
        node.says("(resp_tls)");
        let long = "x".repeat(300_000);
        assert_eq!(lab.ask(None, &format!("SET k {}", &long[..60_000])).unwrap(), "+OK\r\n+OK\r\n");
        let many = "GET k\r\n".repeat(20);
        assert_eq!(lab.ask(None, many.trim_end()).unwrap().len(), 20 * (60_000 + 10) + 5);
        // Clients without TLS get no reply.
        let mut plain = TcpStream::connect(lab.address(0, 1)).unwrap();
        plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        plain.write_all(b"PING\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"+PONG"));
        node.says("no TLS with the client 127.0.0.1: it speaks without TLS");
    }
    let node = lab.start(0, &format!("{head}\nclient_ca = 'ca.pem'"));
    node.says("(resp_tls)");
    assert_eq!(lab.ask(Some("client"), "PING").unwrap(), "+PONG\r\n+OK\r\n");
    assert!(lab.ask(None, "PING").is_err());
    node.says("it shows no certificate, which tls.client_ca asks for");
    assert!(lab.ask(Some("stranger"), "PING").is_err());
    lab.certificate("server-only", "somebody", &ca, 2100);
    // Not every attempt is logged, because there may be many.
    let reason = "its certificate is not made for this use; a client's needs clientAuth";
    wait_until(&node, || {
        assert!(lab.ask(Some("server-only"), "PING").is_err());
        node.log().contains(reason)
    });

    // The commands of this program use TLS like other clients.
    let backup = |options: &[&str]| {
        let from = lab.address(0, 1).to_string();
        let mut command = Command::new(SOLERA);
        command.arg("backup").args(options).current_dir(&*lab.folder);
        if !options.contains(&"--from") {
            command.args(["--from", &from]);
        }
        command.output().unwrap()
    };
    let own = ["--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key", "a.backup"];
    let with = backup(&own);
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    // A command whose TLS options do not match the port fails with a hint.
    let errors = |output: Output| String::from_utf8(output.stderr).unwrap();
    let error = errors(backup(&["b.backup"]));
    assert!(
        error.contains("name the authority that signed its certificate with --cacert"),
        "{error}"
    );
    let plain = lab.address(0, 0).to_string();
    let error = errors(backup(&["--from", &plain, "--cacert", "ca.pem", "b.backup"]));
    assert!(error.contains("it does not speak TLS there, which --cacert is for"), "{error}");
    assert!(!backup(&["--cacert", "ca.pem", "b.backup"]).status.success());
    assert!(!backup(&["--cacert", "other.pem", "b.backup"]).status.success());
    assert!(!lab.at("b.backup").exists());
}

#[test]
fn silent_connections_do_not_block_tls_clients() {
    let lab = Lab::new();
    lab.certificate("server", HOSTS[0], &lab.authority("ca"), 2100);
    let head = "max_connections = 3\n[tls]\ncert = 'server.pem'\nkey = 'server.key'";
    let node = lab.start(0, head);
    node.says("(resp_tls)");
    let _silent: Vec<_> = (0..6).map(|_| TcpStream::connect(lab.address(0, 1)).unwrap()).collect();
    assert_eq!(lab.ask(None, "PING").unwrap(), "+PONG\r\n+OK\r\n");
    node.says("no TLS with the client 127.0.0.1: too many clients were connecting");
}

#[test]
fn solera_up_serves_clients_over_tls() {
    let lab = Lab::new();
    lab.certificate("server", HOSTS[0], &lab.authority("ca"), 2100);
    let config = lab.at("up.toml");
    // The files for peer links are not read, because one process has no such links.
    let tls = format!(
        "[tls]\ncert = 'server.pem'\nkey = 'server.key'\nport = {}\nadmin = true",
        lab.port
    );
    std::fs::write(&config, format!("sites = 1\n{tls}\n{}", peer_tls("none", "none"))).unwrap();
    let mut command = Command::new(SOLERA);
    command.args(["up", "--port", &(lab.port + 4).to_string(), "--config"]).arg(&config);
    let mut up = Process::start(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(up.child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("over TLS on ports")));
    assert!(lines.any(|line| line.contains("HTTP  https://127.0.0.1:")));
    assert_eq!(lab.ask(None, "PING").unwrap(), "+PONG\r\n+OK\r\n");
    // The HTTP interface uses TLS as well, because `tls.admin` is set.
    lab.authority("other");
    for (ca, expected) in [
        (Some("ca.pem"), ""),
        (Some("other.pem"), "certificate"),
        (Some("none.pem"), "none.pem cannot be used"),
        (None, "name its certificate authority with --cacert"),
    ] {
        let mut command = Command::new(SOLERA);
        command.args(["fault", "status", "--port", &(lab.port + 4).to_string()]);
        command.args(ca.map(|ca| format!("--cacert={}", lab.at(ca).display())));
        let Output { status, stderr, .. } = command.output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.success(), expected.is_empty(), "{ca:?}: {stderr}");
        assert!(stderr.contains(expected), "{ca:?}: {stderr}");
    }
}

#[test]
fn nodes_connect_to_each_other_over_tls() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    for (site, host) in HOSTS.iter().enumerate() {
        lab.certificate(&format!("site{site}"), host, &ca, 2100);
    }
    let eu = lab.start(0, &peer_tls("site0", "ca"));
    let us = lab.start(1, &peer_tls("site1", "ca"));
    for (node, other) in [(&eu, "us"), (&us, "eu")] {
        node.says(&format!("link to node 1 of site {other} is up"));
        node.says(&format!("link from node 1 of site {other} is up"));
    }
    let ask = |site, command: &str| {
        let mut stream = TcpStream::connect(lab.address(site, 0)).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    ask(0, "SET k v");
    wait_until("it travels", || ask(1, "GET k") == "$1\r\nv\r\n+OK\r\n");
    drop(us);
    eu.says("link from node 1 of site us is down: ");
    eu.says("link to node 1 of site us is down: ");
    let log = eu.log();
    assert!(!log.contains("close_notify"), "{log}");
}

#[test]
fn both_nodes_report_why_a_tls_link_fails() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    lab.certificate("site0", HOSTS[0], &ca, 2100);
    lab.certificate("site1", HOSTS[1], &lab.authority("other"), 2100);
    let file = |name: &str| lab.at(name).display().to_string();
    let eu = lab.start(0, &peer_tls("site0", "ca"));
    {
        // The other node does not use TLS.
        let us = lab.start(1, "");
        eu.says("node 1 of site us speaks without TLS, and this node only with it");
        eu.says("refused a call from 127.0.0.1: the caller speaks without TLS");
        us.says("the caller speaks without TLS, and the called node only with it");
        us.says(
            "refused a call from 127.0.0.1: the caller speaks TLS, and the called node does not",
        );
    }
    // The other node's certificate is of another authority.
    let us = lab.start(1, &peer_tls("site1", "other"));
    for (node, other, own, ca) in
        [(&eu, "us", "site0.pem", "ca.pem"), (&us, "eu", "site1.pem", "other.pem")]
    {
        node.says(&format!(
            "link to node 1 of site {other} is refused: the certificate of node 1 of site {other} \
             is not signed by an authority in {}",
            file(ca)
        ));
        node.says(&format!(
            "does not know the authority that signed the certificate of this node ({})",
            file(own)
        ));
    }
}

#[test]
fn another_program_that_calls_a_node_is_named() {
    let lab = Lab::new();
    let eu = lab.start(0, "");
    eu.says("(peer)");
    // It sends less than a greeting, and waits for an answer.
    let mut stream = TcpStream::connect(lab.address(0, 2)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    eu.says("refused a call from 127.0.0.1: the other side is not a Solera node");
}

#[test]
fn a_node_with_another_nodes_certificate_is_rejected() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    lab.certificate("site0", HOSTS[0], &ca, 2100);
    lab.certificate("site1", HOSTS[1], &ca, 2100);
    let eu = lab.start(0, &peer_tls("site0", "ca"));
    eu.says("(peer)");
    // The other node's configuration gives its address as 127.0.0.1, which matches its certificate.
    lab.certificate("thief", HOSTS[0], &ca, 2100);
    let config = lab.configure(1, &peer_tls("thief", "ca"));
    let text = std::fs::read_to_string(&config).unwrap();
    let (eus, uss) = (format!("'{}'", lab.address(1, 2)), format!("'127.0.0.1:{}'", lab.port + 5));
    std::fs::write(&config, text.replace(&eus, &uss)).unwrap();
    let mut command = Command::new(SOLERA);
    let _us = Process::start(command.args(["serve", "--site", "us", "--config"]).arg(&config));
    eu.says(
        "refused a call from 127.0.0.1 (node 1 of site us): the certificate of node 1 of site us is \
         for 127.0.0.1",
    );
}

#[test]
fn certificates_are_read_again_on_sighup() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    lab.certificate("site0", HOSTS[0], &ca, 2100);
    // The second site has another authority, and the first site shows clients a certificate of that
    // authority.
    let other = lab.authority("us");
    lab.certificate("site1", HOSTS[1], &other, 2100);
    lab.certificate("server", HOSTS[0], &other, 2100);
    let tls = "[tls]\ncert = 'server.pem'\nkey = 'server.key'\n";
    let eu = lab.start(0, &format!("{tls}{}", peer_tls("site0", "ca")));
    let us = lab.start(1, &peer_tls("site1", "us"));
    us.says("link to node 1 of site eu is refused");
    assert!(lab.ask(None, "PING").is_err());

    lab.certificate("server", HOSTS[0], &ca, 2100);
    eu.signal("-HUP");
    eu.says("certificates for clients were read; certificates for nodes were read");
    assert_eq!(lab.ask(None, "PING").unwrap(), "+PONG\r\n+OK\r\n");

    lab.certificate("site1", HOSTS[1], &ca, 2100);
    std::fs::copy(lab.at("ca.pem"), lab.at("us.pem")).unwrap();
    us.signal("-HUP");
    us.says("link to node 1 of site eu is up");
    us.says("link from node 1 of site eu is up");

    // If one of two certificates is invalid, neither is replaced.
    lab.certificate("server", HOSTS[0], &other, 2100);
    lab.certificate("site0", HOSTS[0], &ca, 2020);
    eu.signal("-HUP");
    eu.says("the settings stay as they were:");
    eu.says("site0.pem (peer_tls.cert) has expired");
    assert_eq!(lab.ask(None, "PING").unwrap(), "+PONG\r\n+OK\r\n");
}

#[test]
fn invalid_certificates_are_rejected_at_the_start() {
    let lab = Lab::new();
    let ca = lab.authority("ca");
    lab.authority("other");
    lab.certificate("good", HOSTS[0], &ca, 2100);
    lab.certificate("old", HOSTS[0], &ca, 2020);
    lab.certificate("elsewhere", "example.com", &ca, 2100);
    std::fs::write(lab.at("empty.pem"), "nothing\n").unwrap();
    std::fs::write(lab.at("damaged.pem"), "-----BEGIN CERTIFICATE-----\n!!!\n").unwrap();
    let tls = |cert: &str, key: &str| format!("[tls]\ncert = '{cert}'\nkey = '{key}'");
    let named = |name: &str, rest: &str| format!("{} ({rest}", lab.at(name).display());
    for (head, line, expected) in [
        (tls("none.pem", "good.key"), 2, named("none.pem", "tls.cert) does not exist")),
        (tls("empty.pem", "good.key"), 2, named("empty.pem", "tls.cert) holds no certificate")),
        (tls("damaged.pem", "good.key"), 2, named("damaged.pem", "tls.cert) is damaged")),
        (tls("good.pem", "good.pem"), 3, named("good.pem", "tls.key) holds no private key")),
        (tls("good.pem", "old.key"), 3, named("old.key", "tls.key) is not the key of the cert")),
        (tls("old.pem", "old.key"), 2, named("old.pem", "tls.cert) has expired on 2020-01-01T")),
        (
            tls("good.pem", "good.key") + "\nclient_ca = 'empty.pem'",
            4,
            named("empty.pem", "tls.client_ca) holds no certificate"),
        ),
        (peer_tls("old", "ca"), 2, named("old.pem", "peer_tls.cert) has expired on 2020-01-01T")),
        (
            peer_tls("good", "other"),
            2,
            named("good.pem", "peer_tls.cert) is not signed by an authority in"),
        ),
        (
            peer_tls("elsewhere", "ca"),
            2,
            named("elsewhere.pem", "peer_tls.cert) is for example.com, not for 127.0.0.1"),
        ),
        (peer_tls("good", "none"), 4, named("none.pem", "peer_tls.ca) does not exist")),
    ] {
        let error = lab.refused(&head);
        let at = format!("site0.toml, line {line}: {expected}");
        assert!(error.contains(&at), "{at}\n{error}");
    }
}
