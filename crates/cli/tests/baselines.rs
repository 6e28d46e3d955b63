//! The protocols with which UniStore is compared, in separate processes. Those with strong
//! transactions keep the guarantees of spaces, and continue when a process is killed.

mod common;

use std::net::SocketAddr;
use std::process::Command;

use common::{Folder, Node, SOLERA, STRONG_SPACES, Up, eventually, free_ports, http, solera, text};
use solera::{Client, Error, Value};

const SITES: [&str; 3] = ["eu", "us", "ap"];

/// Protocols that certify transactions.
const STRONG: [&str; 2] = ["strong", "redblue"];

/// Withdraws the whole balance of an account if it is 100. Returns whether it was.
async fn withdraw(client: &mut Client, account: &str) -> Result<bool, Error> {
    client.command(&["SOLERA.BEGIN", "STRONG"]).await?;
    let covered = client.get(account).await?.as_deref() == Some("100");
    if covered {
        client.command(&["DECRBY", account, "100"]).await?;
    }
    client.command(&["SOLERA.COMMIT"]).await?;
    Ok(covered)
}

/// Retries the withdrawal after conflicts; returns whether it succeeded.
async fn withdraw_once(address: SocketAddr, account: String) -> bool {
    let mut client = Client::connect(address).await.unwrap();
    loop {
        match withdraw(&mut client, &account).await {
            Ok(paid) => return paid,
            Err(error) if error.code() == Some("ABORTED") => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Requires that strong and causal commands keep their guarantees at all of these sites.
async fn keep_their_promises(sites: &[SocketAddr], name: &str) {
    let (account, plain, lock) =
        (format!("account:{name}"), format!("plain:{name}"), format!("lock:{name}"));
    let mut first = Client::connect(sites[0]).await.unwrap();
    // After a site has failed, a new leader may be needed first.
    eventually("it is paid in", async || first.set(&account, "100").await.is_ok()).await;
    for (number, address) in sites.iter().enumerate() {
        let mut client = Client::connect(*address).await.unwrap();
        client.sadd(&plain, &number.to_string()).await.unwrap();
        let visible = async || client.get(&account).await.unwrap().as_deref() == Some("100");
        eventually("the account is filled everywhere", visible).await;
    }
    let withdrawals: Vec<_> = sites
        .iter()
        .map(|address| tokio::spawn(withdraw_once(*address, account.clone())))
        .collect();
    let mut paid = 0;
    for withdrawal in withdrawals {
        paid += usize::from(withdrawal.await.unwrap());
    }
    assert_eq!(paid, 1);
    let mut holders = 0;
    for address in sites {
        let mut client = Client::connect(*address).await.unwrap();
        let taken = client.command(&["SET", &lock, "me", "NX"]).await.unwrap();
        holders += usize::from(taken != Value::Null);
        eventually("all is seen everywhere", async || {
            client.get(&account).await.unwrap().as_deref() == Some("0")
                && client.smembers(&plain).await.unwrap().len() == sites.len()
        })
        .await;
    }
    assert_eq!(holders, 1);
}

#[tokio::test]
async fn baseline_protocols_keep_the_guarantees_of_spaces() {
    for protocol in STRONG {
        let folder = Folder::new();
        let config = folder.file("s.toml", &format!("protocol = '{protocol}'\n{STRONG_SPACES}"));
        let up = Up::start(&["--wan", "lan", "--config", config.to_str().unwrap()]);
        // The status shows that the cluster does not run the usual protocol.
        up.says(&format!("the protocol is '{protocol}', which is for comparisons"));
        let (_, status) = http(up.admin(), "/status", "").unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["protocol"], protocol);
        let mut client = up.client(1).await;
        let info = format!("{:?}", client.command(&["INFO", "solera"]).await.unwrap());
        assert!(info.contains(&format!("protocol:{protocol}")), "{info}");

        let sites = [1, 2, 3].map(|site| up.address(site));
        keep_their_promises(&sites, "all").await;
        for site in ["frankfurt", "virginia"] {
            // A killed site loses the messages on their way to it, and it may be a leader.
            assert!(up.fault(&["kill", site]).status.success());
            let others: Vec<SocketAddr> = sites
                .into_iter()
                .filter(|address| std::net::TcpStream::connect(address).is_ok())
                .collect();
            assert_eq!(others.len(), 2);
            keep_their_promises(&others, &format!("without-{site}")).await;
            assert!(up.fault(&["restart", site]).status.success());
            keep_their_promises(&sites, &format!("with-{site}")).await;
        }
    }
}

/// Configuration of three sites with one process each, without data on disk.
struct Plan {
    port: u16,
    folder: Folder,
}

impl Plan {
    fn new(protocol: &str) -> Plan {
        let (port, folder) = (free_ports(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]), Folder::new());
        let plan = Plan { port, folder };
        let mut config =
            format!("protocol = '{protocol}'\npartitions = 4\nworkers = 2\n{STRONG_SPACES}");
        for (site, name) in SITES.iter().enumerate() {
            let (resp, peer, admin) = (plan.at(site, 0), plan.at(site, 1), plan.at(site, 2));
            config += &format!("[[site]]\nname = '{name}'\n[[site.node]]\n");
            config += &format!("resp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n");
        }
        plan.folder.file("solera.toml", &config);
        plan
    }

    fn at(&self, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, site as u8 + 1], self.port + purpose))
    }

    fn start(&self, site: usize, more: &[&str]) -> Node {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", SITES[site], "--config"]);
        command.arg(self.folder.at("solera.toml")).args(more);
        Node::start(&mut command, self.at(site, 0), self.at(site, 2))
    }
}

#[tokio::test]
async fn a_killed_process_without_data_is_rejected_and_can_join_again() {
    for protocol in STRONG {
        let plan = Plan::new(protocol);
        let mut nodes: Vec<Node> = (0..3).map(|site| plan.start(site, &[])).collect();
        for node in &nodes {
            eventually(node, async || node.is_ready() && node.reaches_all()).await;
            node.says(&format!("the protocol is '{protocol}', which is for comparisons"));
            assert_eq!(node.status()["protocol"], protocol);
        }
        let sites: Vec<SocketAddr> = nodes.iter().map(|node| node.resp).collect();
        keep_their_promises(&sites, "all").await;
        // The first site leads.
        nodes[0].kill();
        keep_their_promises(&sites[1..], "without").await;
        // The process has no data on disk, so that its peers reject it.
        let mut forgetful = plan.start(0, &[]);
        assert_eq!(forgetful.wait().code(), Some(3), "{forgetful}");
        let at = plan.at(1, 0).to_string();
        for action in ["remove", "add"] {
            let done = solera(&["site", action, "eu", "--at", &at]);
            assert!(done.status.success(), "{}", text(&done.stderr));
        }
        nodes[0] = plan.start(0, &["--join", "1"]);
        eventually(&nodes[0], async || nodes[0].is_ready() && nodes[0].reaches_all()).await;
        let mut back = nodes[0].client().await;
        for name in ["all", "without"] {
            let account = format!("account:{name}");
            eventually(&nodes[0], async || {
                back.get(&account).await.ok().flatten().as_deref() == Some("0")
            })
            .await;
        }
        keep_their_promises(&sites, "again").await;
    }
}
