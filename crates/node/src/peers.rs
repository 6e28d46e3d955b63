//! Which data the other nodes had when they were last let in, kept for as long as this node's own data.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::config::NodeId;

/// The file beside `solera-data.toml`.
pub(crate) const PEERS: &str = "solera-peers.toml";
/// What takes its place in one step.
const NEXT: &str = "solera-peers.toml.next";

/// What a node says of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Which life of its site it belongs to.
    pub(crate) life: u32,
    /// Drawn when the data was begun.
    pub(crate) data: u64,
    /// How often a process was started with it; 0 of a node that keeps none.
    pub(crate) starts: u64,
    /// Drawn anew by each process.
    pub(crate) incarnation: u64,
}

/// What was last known of each node.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: BTreeMap<NodeId, Origin>,
    /// Where it is kept, and the sites' names, which stand for their numbers there.
    kept: Option<(PathBuf, Vec<String>)>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    peer: Vec<Entry>,
}

/// Numbers of 64 bits are texts, because those of TOML have a sign.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    site: String,
    /// From 1, as people count.
    node: u8,
    life: u32,
    data: String,
    starts: u64,
    incarnation: String,
}

impl Peers {
    /// What is known in a data directory, and will be kept there.
    ///
    /// # Errors
    /// The file is there, and cannot be read.
    pub(crate) fn open(root: &Path, sites: &[String]) -> Result<Peers, String> {
        let text = match fs::read_to_string(root.join(PEERS)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{PEERS} cannot be read: {error}")),
        };
        let damaged = |reason: String| {
            format!(
                "{PEERS} is damaged: {reason}; without it this node does not notice when another one \
                 has lost its data; if all others are well, remove it"
            )
        };
        let file: File = toml::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let known = file.peer.iter().map(|entry| {
            let read = entry.read(sites);
            read.ok_or_else(|| damaged(format!("node {} of site {}", entry.node, entry.site)))
        });
        let known = known.collect::<Result<_, _>>()?;
        Ok(Peers { known, kept: Some((root.to_owned(), sites.to_vec())) })
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Origin> {
        self.known.get(&node)
    }

    /// This is known from now on, also after a restart.
    ///
    /// # Errors
    /// It is forgotten with this process: it cannot be written.
    pub(crate) fn note(&mut self, node: NodeId, origin: Origin) -> Result<(), String> {
        if self.known.insert(node, origin) == Some(origin) {
            return Ok(());
        }
        let Some((root, sites)) = &self.kept else { return Ok(()) };
        let entry = |(node, origin): (&NodeId, &Origin)| Entry {
            site: sites[node.site.index()].clone(),
            node: node.node + 1,
            life: origin.life,
            data: format!("{:016x}", origin.data),
            starts: origin.starts,
            incarnation: format!("{:016x}", origin.incarnation),
        };
        let file = File { peer: self.known.iter().map(entry).collect() };
        let text = toml::to_string(&file).map_err(|error| error.to_string())?;
        write(root, &text)
            .map_err(|error| format!("{} cannot be written: {error}", root.join(PEERS).display()))
    }
}

impl Entry {
    fn read(&self, sites: &[String]) -> Option<(NodeId, Origin)> {
        let site = sites.iter().position(|site| *site == self.site)?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let node = NodeId { site: SiteId(site as u8), node: self.node.checked_sub(1)? };
        let origin = Origin {
            life: self.life,
            data: number(&self.data)?,
            starts: self.starts,
            incarnation: number(&self.incarnation)?,
        };
        Some((node, origin))
    }
}

fn write(root: &Path, text: &str) -> io::Result<()> {
    let next = root.join(NEXT);
    let mut file = fs::File::create(&next)?;
    file.write_all(b"# Which data the other nodes had. Only Solera writes this.\n")?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, root.join(PEERS))?;
    fs::File::open(root)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_peers_survives_and_is_not_guessed() {
        let root = std::env::temp_dir().join(format!("solera-peers-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let sites = ["eu".to_owned(), "us".to_owned()];
        let node = NodeId { site: SiteId(1), node: 1 };
        let origin = Origin { life: 1, data: u64::MAX, starts: 3, incarnation: 1 };
        let mut peers = Peers::open(&root, &sites).unwrap();
        peers.note(node, origin).unwrap();
        assert_eq!(Peers::open(&root, &sites).unwrap().get(node), Some(&origin));
        for damage in [
            "[[peer]]\nsite = 'eu'",
            "peer",
            "[[peer]]\nsite = 'x'\nnode = 1\nlife = 0\ndata = '0'\nstarts = 0\nincarnation = '0'",
        ] {
            fs::write(root.join(PEERS), damage).unwrap();
            let error = Peers::open(&root, &sites).unwrap_err();
            assert!(error.contains("solera-peers.toml is damaged"), "{error}");
        }
        fs::remove_dir_all(&root).unwrap();
        assert!(peers.note(node, Origin { starts: 4, ..origin }).is_err());
        assert_eq!(peers.get(node).unwrap().starts, 4);
    }
}
