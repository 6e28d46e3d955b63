//! The nodes of each slot. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use solera_occult::{DEFAULT_SHARDS, ShardId};
use solera_resp::Value;

use crate::functions::text_of;

/// The nodes of a range of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    pub(crate) master: String,
    pub(crate) replicas: Vec<String>,
}

/// The nodes of all slots, as a node of the cluster reports them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    owners: Vec<Owners>,
    /// Index in `owners` of each slot.
    slots: Vec<Option<usize>>,
    /// For each master, its last slot, which contains its clock. Resharding moves the first slots
    /// of a master first.
    clocks: BTreeMap<String, ShardId>,
}

impl Routes {
    /// Reads the answer to CLUSTER SLOTS. The answering node may leave out its own address, which
    /// has this host.
    pub(crate) fn parse(value: &Value, host: &str) -> Option<Routes> {
        let Value::Array(ranges) = value else { return None };
        let mut routes =
            Routes { slots: vec![None; usize::from(DEFAULT_SHARDS)], ..Routes::default() };
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Integer(from), Value::Integer(to), nodes @ ..] = &parts[..] else {
                return None;
            };
            let mut nodes = nodes.iter().map(|node| address(node, host));
            let master = nodes.next()??;
            let (from, to) = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?);
            let last = routes.clocks.entry(master.clone()).or_insert(ShardId(to));
            *last = ShardId(to).max(*last);
            let owners = Owners { master, replicas: nodes.flatten().collect() };
            let (from, to) = (usize::from(from), usize::from(to));
            let number = routes.owners.len();
            routes.slots.get_mut(from..=to)?.fill(Some(number));
            routes.owners.push(owners);
        }
        Some(routes)
    }

    pub(crate) fn owners(&self, slot: ShardId) -> Option<&Owners> {
        let number = self.slots.get(usize::from(slot.0)).copied().flatten()?;
        self.owners.get(number)
    }

    /// Returns the slot that contains a master's clock, if it is known.
    pub(crate) fn clock_of(&self, master: &str) -> Option<ShardId> {
        self.clocks.get(master).copied()
    }

    /// Notes that a slot has moved to another master.
    pub(crate) fn moved(&mut self, slot: ShardId, to: &str) {
        self.clocks.retain(|_, clock| *clock != slot);
        let number = match self.owners.iter().position(|owners| owners.master == to) {
            Some(number) => number,
            None => {
                self.owners.push(Owners { master: to.to_owned(), replicas: Vec::new() });
                self.owners.len() - 1
            }
        };
        if let Some(entry) = self.slots.get_mut(usize::from(slot.0)) {
            *entry = Some(number);
        }
    }

    /// Returns the masters.
    pub(crate) fn masters(&self) -> BTreeSet<String> {
        self.owners.iter().map(|owners| owners.master.clone()).collect()
    }

    pub(crate) fn nodes(&self) -> BTreeSet<String> {
        let each = |owners: &Owners| {
            let replicas = owners.replicas.clone();
            std::iter::once(owners.master.clone()).chain(replicas)
        };
        self.owners.iter().flat_map(each).collect()
    }
}

/// Reads a node of CLUSTER SLOTS. A node that does not know its own address sends an empty one.
fn address(node: &Value, host: &str) -> Option<String> {
    let Value::Array(parts) = node else { return None };
    let [name, Value::Integer(port), ..] = &parts[..] else { return None };
    let name = text_of(name);
    let name = if name.is_empty() || name == "?" { host } else { &name };
    Some(join(name, *port))
}

/// Reads the addresses of the answer to CLUSTER NODES, which also lists nodes that have failed. A
/// node with a host name has two addresses.
pub(crate) fn listed(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for words in text.lines().filter_map(|line| line.split(' ').nth(1)) {
        let Some((address, rest)) = words.split_once('@') else { continue };
        let Some((ip, port)) = address.rsplit_once(':') else { continue };
        let name = rest.split(',').nth(1).unwrap_or_default();
        all.extend([ip, name].iter().filter(|host| !host.is_empty()).map(|host| join(host, port)));
    }
    all
}

pub(crate) fn join(host: &str, port: impl std::fmt::Display) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// An error reply that a gateway handles instead of passing it on to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// The slot is at another master.
    Moved(String),
    /// This key is at another master, while the slot moves.
    Ask(String),
    /// The keys of the request are at two masters, while the slot moves.
    TryAgain,
    /// The node is not the slot's master, or not ready. The request has had no effect.
    NotNow(String),
    /// The node does not have the functions.
    NoFunctions,
}

impl Redirection {
    /// Reads an error reply of the node with this host.
    pub(crate) fn read(text: &str, host: &str) -> Option<Redirection> {
        let mut words = text.split(' ');
        let target = |mut words: std::str::Split<'_, char>| {
            let (name, port) = words.nth(1)?.rsplit_once(':')?;
            Some(join(if name.is_empty() { host } else { name }, port))
        };
        match words.next()? {
            "MOVED" => target(words).map(Redirection::Moved),
            "ASK" => target(words).map(Redirection::Ask),
            "TRYAGAIN" => Some(Redirection::TryAgain),
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY" => {
                Some(Redirection::NotNow(text.to_owned()))
            }
            "NOSCRIPT" => Some(Redirection::NoFunctions),
            "ERR" if text.starts_with("ERR Function not found") => Some(Redirection::NoFunctions),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::Bulk(host.into()), Value::Integer(port), Value::Bulk("id".into())])
    }

    #[test]
    fn slots_have_owners() {
        let range = |from, to, nodes: Vec<Value>| {
            Value::Array([vec![Value::Integer(from), Value::Integer(to)], nodes].concat())
        };
        let reply = Value::Array(vec![
            range(0, 5, vec![node("", 1), node("b", 2)]),
            range(7, 16383, vec![node("::1", 3)]),
        ]);
        let mut routes = Routes::parse(&reply, "me").unwrap();
        let first = routes.owners(ShardId(5)).unwrap();
        assert_eq!(
            (first.master.as_str(), first.replicas.as_slice()),
            ("me:1", &["b:2".to_owned()][..])
        );
        assert_eq!(routes.owners(ShardId(6)), None);
        assert_eq!(routes.clock_of("me:1"), Some(ShardId(5)));
        assert_eq!(routes.clock_of("[::1]:3"), Some(ShardId(16383)));
        assert_eq!(routes.owners(ShardId(16383)).unwrap().master, "[::1]:3");
        routes.moved(ShardId(6), "[::1]:3");
        routes.moved(ShardId(5), "c:9");
        assert_eq!(routes.owners(ShardId(6)).unwrap().master, "[::1]:3");
        assert_eq!(routes.owners(ShardId(5)).unwrap().master, "c:9");
        assert_eq!(routes.masters().len(), 3);
        routes.moved(ShardId(16383), "c:9");
        assert_eq!(routes.clock_of("[::1]:3"), None);
        assert!(
            Routes::parse(&Value::Array(vec![range(0, 20000, vec![node("a", 1)])]), "a").is_none()
        );
    }

    #[test]
    fn lists_contain_all_nodes() {
        let text = "id 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-16383\n\
                    id ::1:7001@17001,eu-1 slave,fail id 0 0 1 connected\n\
                    id :0@0 master,noaddr - 0 0 1 disconnected\nodd\n";
        let wanted = ["10.0.0.1:7000", "[::1]:7001", "eu-1:7001"].map(str::to_owned);
        assert_eq!(listed(text), BTreeSet::from(wanted));
    }

    #[test]
    fn redirections_are_read() {
        let read = |text| Redirection::read(text, "me");
        assert_eq!(read("MOVED 1 :7000"), Some(Redirection::Moved("me:7000".to_owned())));
        assert_eq!(read("ASK 1 ::1:7000"), Some(Redirection::Ask("[::1]:7000".to_owned())));
        assert_eq!(read("TRYAGAIN Multiple keys"), Some(Redirection::TryAgain));
        assert!(matches!(read("CLUSTERDOWN The cluster is down"), Some(Redirection::NotNow(_))));
        assert_eq!(read("ERR Function not found"), Some(Redirection::NoFunctions));
        assert_eq!(read("ERR other"), None);
        assert_eq!(read("MOVED"), None);
    }
}
