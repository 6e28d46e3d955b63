//! Three sites whose nodes are processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::{Folder, Inline, Node, SOLERA, eventually, free_ports, solera, text};

/// Names of the sites.
pub(crate) const SITES: [&str; 3] = ["eu", "us", "ap"];

/// Configuration of three sites of one node each.
pub(crate) struct Plan {
    port: u16,
    pub(crate) folder: Folder,
}

impl Plan {
    /// Starts the sites. `spaces` are `[[space]]` tables.
    pub(crate) async fn start(spaces: &str) -> (Plan, Vec<Node>) {
        let plan = Plan { port: free_ports(&["127.0.0.1"]), folder: Folder::new() };
        let mut file = format!("f = 1\n{spaces}");
        for (site, name) in SITES.iter().enumerate() {
            let [resp, peer, admin] = [0, 1, 2].map(|purpose| plan.at(site, purpose));
            file += &format!(
                "[[site]]\nname = '{name}'\n[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\n\
                 admin = '{admin}'\n"
            );
        }
        plan.folder.file("solera.toml", &file);
        let nodes: Vec<Node> = (0..3).map(|site| plan.run(site, &[])).collect();
        for node in &nodes {
            eventually(node, async || node.is_ready() && node.reaches_all()).await;
        }
        (plan, nodes)
    }

    /// Returns the address of a site for clients; of `purpose` 1 for its peers, and 2 for HTTP.
    pub(crate) fn at(&self, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + 3 * site as u16 + purpose))
    }

    /// Runs a site, with more arguments of `solera serve`.
    pub(crate) fn run(&self, site: usize, more: &[&str]) -> Node {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", SITES[site], "--config"]);
        command.arg(self.folder.join("solera.toml"));
        command.arg("--data").arg(self.folder.join(SITES[site])).args(more);
        Node::start(&mut command, self.at(site, 0), self.at(site, 2))
    }

    /// Returns a client of a site.
    pub(crate) fn client(&self, site: usize) -> Inline {
        Inline::at(self.at(site, 0))
    }

    /// Runs `solera site` at the first site.
    pub(crate) fn site(&self, arguments: &[&str]) {
        let at = self.at(0, 0).to_string();
        let done = solera(&[&["site"], arguments, &["--at", &at]].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
}

/// Sends a command to a node that may fail. Returns `None` if there is no reply.
pub(crate) fn try_ask(client: &mut Option<Inline>, at: SocketAddr, line: &str) -> Option<String> {
    if client.is_none() {
        let stream = TcpStream::connect(at).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        *client = Some(Inline(BufReader::new(stream)));
    }
    let Inline(stream) = client.as_mut()?;
    let sent = stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).is_ok();
    let is_open = sent && stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
    if !is_open {
        *client = None;
        return None;
    }
    client.as_mut().map(Inline::reply)
}
