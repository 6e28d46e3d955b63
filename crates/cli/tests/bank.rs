//! A bank with three sites in separate processes, which are killed during transfers between
//! accounts.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Folder, Node, SOLERA, eventually, free_ports, named, number};
use solera::{Client, Error, Value};
use solera_random::Random;
use tokio::task::JoinHandle;

const SITES: [&str; 3] = ["eu", "us", "ap"];
/// Reads of the ledger are certified, so that a reader sees all acknowledged transfers.
const SPACE: &str = "[[space]]\nname = 'account'\nprefix = 'account:'\nlevel = 'por'\n\
    [[space]]\nname = 'ledger'\nprefix = 'ledger:'\nlevel = 'linearizable'\n";
const ACCOUNTS: usize = 6;
const AT_FIRST: i64 = 100;

/// Configuration of three sites with one process each, which keep data on disk.
struct Plan {
    port: u16,
    file: PathBuf,
    folder: Folder,
}

impl Plan {
    fn new() -> Plan {
        let hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
        let (port, folder) = (free_ports(&hosts), Folder::new());
        let mut config = format!("partitions = 4\nworkers = 2\n{SPACE}");
        for (site, name) in SITES.iter().enumerate() {
            let at = |purpose: u16| Plan::address(port, site, purpose);
            let (resp, peer, admin) = (at(0), at(1), at(2));
            config += &format!("[[site]]\nname = '{name}'\n[[site.node]]\n");
            config += &format!("resp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n");
        }
        let file = folder.file("solera.toml", &config);
        Plan { port, file, folder }
    }

    fn address(port: u16, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, site as u8 + 1], port + purpose))
    }

    fn start(&self, site: usize) -> Node {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", SITES[site], "--config"]).arg(&self.file);
        command.arg("--data").arg(self.folder.at(SITES[site]));
        let at = |purpose| Plan::address(self.port, site, purpose);
        Node::start(&mut command, at(0), at(2))
    }
}

/// Outcome of a transfer, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    NotDone,
    Unknown,
}

/// A transfer between two accounts.
#[derive(Clone, Debug)]
struct Transfer {
    /// Its entry in the ledger, if it committed.
    entry: String,
    fate: Fate,
}

/// State that all clients of the bank share.
struct Bank {
    stop: AtomicBool,
    /// Numbers of acknowledged transfers, by site.
    done: Vec<AtomicUsize>,
    audits: AtomicUsize,
}

struct Teller {
    name: usize,
    site: usize,
    address: SocketAddr,
    random: Random,
    transfers: Vec<Transfer>,
}

impl Teller {
    async fn run(mut self, bank: Arc<Bank>) -> Vec<Transfer> {
        while !bank.stop.load(Ordering::Relaxed) {
            let Ok(mut client) = Client::connect(self.address).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            while !bank.stop.load(Ordering::Relaxed) {
                let goes_on = match self.random.index(4) {
                    0 => audit(&mut client, &bank).await,
                    _ => self.transfer(&mut client, &bank).await,
                };
                if let Err(Error::Connection(_) | Error::Protocol(_)) = goes_on {
                    break;
                }
                if goes_on.is_err() {
                    // The transaction may still be open.
                    let _ = client.command(&["SOLERA.ABORT"]).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        self.transfers
    }

    /// Reads two balances and writes both; without certification, concurrent transfers could lose
    /// updates.
    async fn transfer(&mut self, client: &mut Client, bank: &Bank) -> Result<(), Error> {
        let from = self.random.index(ACCOUNTS);
        let to = (from + 1 + self.random.index(ACCOUNTS - 1)) % ACCOUNTS;
        let (ledger, entry) =
            (format!("ledger:{}", self.name), format!("{}:{from}:{to}", self.transfers.len()));
        client.command(&["SOLERA.BEGIN", "STRONG"]).await?;
        let mut balances = [0; 2];
        for (balance, account) in balances.iter_mut().zip([from, to]) {
            *balance = number(&client.command(&["GET", &format!("account:{account}")]).await?);
        }
        if balances[0] == 0 {
            return client.command(&["SOLERA.ABORT"]).await.map(drop);
        }
        for (account, balance) in [(from, balances[0] - 1), (to, balances[1] + 1)] {
            client.command(&["SET", &format!("account:{account}"), &balance.to_string()]).await?;
        }
        client.command(&["SADD", &ledger, &entry]).await?;
        let committed = client.command(&["SOLERA.COMMIT"]).await;
        let fate = match &committed {
            Ok(_) => Fate::Done,
            Err(error) => match error.code() {
                Some("UNAVAILABLE") if error.to_string().contains("nothing was changed") => {
                    Fate::NotDone
                }
                Some("UNAVAILABLE") => self.ask(client, &named(error), bank).await,
                Some("ABORTED" | "NOTX") => Fate::NotDone,
                _ => Fate::Unknown,
            },
        };
        self.transfers.push(Transfer { entry, fate });
        if fate == Fate::Done {
            bank.done[self.site].fetch_add(1, Ordering::Relaxed);
        }
        committed.map(drop)
    }

    /// Requests the outcome of a transaction, until it is known or the connection fails.
    async fn ask(&self, client: &mut Client, transaction: &str, bank: &Bank) -> Fate {
        while !bank.stop.load(Ordering::Relaxed) {
            match client.command(&["SOLERA.OUTCOME", transaction]).await {
                Ok(Value::Simple(outcome)) if outcome != "unknown" => {
                    return if outcome == "committed" { Fate::Done } else { Fate::NotDone };
                }
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(_) => break,
            }
        }
        Fate::Unknown
    }
}

/// Reads all accounts in one strong transaction, and requires that their sum is unchanged.
async fn audit(client: &mut Client, bank: &Bank) -> Result<(), Error> {
    client.command(&["SOLERA.BEGIN", "STRONG"]).await?;
    let balances = balances(client).await?;
    client.command(&["SOLERA.COMMIT"]).await?;
    assert_eq!(balances.iter().sum::<i64>(), ACCOUNTS as i64 * AT_FIRST, "{balances:?}");
    bank.audits.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn balances(client: &mut Client) -> Result<Vec<i64>, Error> {
    let mut balances = Vec::new();
    for account in 0..ACCOUNTS {
        balances.push(number(&client.command(&["GET", &format!("account:{account}")]).await?));
    }
    Ok(balances)
}

/// Returns the site that leads most partitions, according to another site.
async fn leader(node: &Node) -> usize {
    let Value::Map(leads) = node.client().await.command(&["SOLERA.LEADERS"]).await.unwrap() else {
        panic!("SOLERA.LEADERS answers no map");
    };
    (0..leads.len()).max_by_key(|site| number(&leads[*site].1)).unwrap()
}

#[tokio::test]
async fn the_sum_of_all_accounts_is_constant_while_sites_are_killed() {
    let plan = Plan::new();
    let mut nodes: Vec<Node> = (0..SITES.len()).map(|site| plan.start(site)).collect();
    for node in &nodes {
        eventually(node, async || node.reaches_all()).await;
    }
    let mut client = nodes[0].client().await;
    for account in 0..ACCOUNTS {
        client.set(&format!("account:{account}"), &AT_FIRST.to_string()).await.unwrap();
    }
    let token = client.token().await.unwrap();
    for node in &nodes {
        node.client().await.attach(&token).await.unwrap();
    }
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let bank = Arc::new(Bank {
        stop: AtomicBool::new(false),
        done: SITES.iter().map(|_| AtomicUsize::new(0)).collect(),
        audits: AtomicUsize::new(0),
    });
    let teller = |name: usize| {
        let site = name % SITES.len();
        let random = Random::new(seed * 31 + name as u64);
        let address = Plan::address(plan.port, site, 0);
        let teller = Teller { name, site, address, random, transfers: Vec::new() };
        tokio::spawn(teller.run(bank.clone()))
    };
    let tellers: Vec<JoinHandle<Vec<Transfer>>> = (0..2 * SITES.len()).map(teller).collect();
    let mut random = Random::new(seed);
    // Half of the kills hit the leading site; each pair of kills has one of either kind.
    let mut of_leader = random.index(2) == 0;
    for kill in 0..4 {
        goes_on(&bank, &nodes, &[0, 1, 2], &format!("before kill {kill}")).await;
        let leads = leader(&nodes[random.index(SITES.len())]).await;
        let victim = if of_leader { leads } else { (leads + 1 + random.index(2)) % SITES.len() };
        of_leader = if kill % 2 == 0 { !of_leader } else { random.index(2) == 0 };
        nodes[victim].kill();
        let others: Vec<usize> = (0..SITES.len()).filter(|site| *site != victim).collect();
        goes_on(&bank, &nodes, &others, &format!("{} is dead", SITES[victim])).await;
        nodes[victim] = plan.start(victim);
        for node in &nodes {
            eventually(node, async || node.reaches_all()).await;
        }
    }
    goes_on(&bank, &nodes, &[0, 1, 2], "after all").await;
    bank.stop.store(true, Ordering::Relaxed);
    let mut transfers = BTreeMap::new();
    for (name, teller) in tellers.into_iter().enumerate() {
        transfers.insert(name, teller.await.unwrap());
    }
    assert!(bank.audits.load(Ordering::Relaxed) > 20, "too few audits");
    settle_accounts(&nodes, &transfers).await;
}

/// Requires that transfers commit at these sites.
async fn goes_on(bank: &Bank, nodes: &[Node], sites: &[usize], when: &str) {
    for &site in sites {
        let before = bank.done[site].load(Ordering::Relaxed);
        let what = format_args!("{when}, {} goes on\n{}", SITES[site], nodes[site]);
        eventually(what, async || bank.done[site].load(Ordering::Relaxed) >= before + 5).await;
    }
}

/// Requires at every site that the ledger contains all acknowledged transfers and none that failed,
/// and that the balances match the ledger.
async fn settle_accounts(nodes: &[Node], transfers: &BTreeMap<usize, Vec<Transfer>>) {
    for node in nodes {
        let mut client = node.client().await;
        let mut found = (Vec::new(), BTreeMap::new());
        // The transaction is strong, so it sees all acknowledged transfers of all sites.
        eventually(node, async || match ledger(&mut client, transfers.len()).await {
            Ok(ledger) => {
                found = ledger;
                true
            }
            Err(_) => {
                let _ = client.command(&["SOLERA.ABORT"]).await;
                false
            }
        })
        .await;
        let (balances, ledger) = found;
        let mut expected = [AT_FIRST; ACCOUNTS];
        for (name, transfers) in transfers {
            let entries = &ledger[name];
            for Transfer { entry, fate } in transfers {
                let is_there = entries.contains(entry);
                match fate {
                    Fate::Done => assert!(is_there, "{entry} of {name} is lost\n{node}"),
                    Fate::NotDone => assert!(!is_there, "{entry} of {name} was done\n{node}"),
                    Fate::Unknown => {}
                }
            }
            for entry in entries {
                let mut parts = entry.split(':').skip(1).map(|part| part.parse::<usize>().unwrap());
                expected[parts.next().unwrap()] -= 1;
                expected[parts.next().unwrap()] += 1;
            }
        }
        assert_eq!(balances, expected, "{node}");
    }
}

/// Reads all balances, and the ledger of each teller, in one strong transaction.
async fn ledger(
    client: &mut Client,
    tellers: usize,
) -> Result<(Vec<i64>, BTreeMap<usize, BTreeSet<String>>), Error> {
    client.command(&["SOLERA.BEGIN", "STRONG"]).await?;
    let balances = balances(client).await?;
    let mut ledger = BTreeMap::new();
    for teller in 0..tellers {
        ledger.insert(teller, client.smembers(&format!("ledger:{teller}")).await?);
    }
    client.command(&["SOLERA.COMMIT"]).await?;
    let ledger = ledger.into_iter().map(|(name, all)| (name, all.into_iter().collect()));
    Ok((balances, ledger.collect()))
}
