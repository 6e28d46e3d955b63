//! Data identities of the other nodes when they were last accepted, stored as long as this node's
//! own data.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use solera_links::{Admission, Origin};
use solera_machine::NodeId;
use solera_time::SiteId;

/// File beside `solera-data.toml`.
pub(crate) const PEERS: &str = "solera-peers.toml";
/// Temporary file, which replaces the file in one step.
const NEXT: &str = "solera-peers.toml.next";
const FORMAT: u32 = 2;

/// The file, and its contents.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: BTreeMap<NodeId, Origin>,
    /// Number of [`Admission::changes`] that the file contains.
    written: u64,
    /// Directory of the file, and the sites' names, which replace their numbers in it; `None` in
    /// memory.
    kept: Option<(PathBuf, Vec<String>)>,
}

/// New contents of the file, to be written without holding [`Peers`].
#[derive(Debug)]
pub(crate) struct Unwritten {
    root: PathBuf,
    file: File,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The first versions wrote no format.
    #[serde(default = "format")]
    format: u32,
    #[serde(default)]
    peer: Vec<Entry>,
}

/// Part of a file that is readable in any format.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "format")]
    format: u32,
}

fn format() -> u32 {
    FORMAT
}

/// An entry of the file. Numbers of 64 bits are strings, because TOML's integers are signed.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    site: String,
    /// Number of the node within its site, from 1.
    node: u8,
    generation: u32,
    data: String,
    starts: u64,
    incarnation: String,
}

impl Peers {
    /// Reads the file of a data directory, and keeps later changes there.
    ///
    /// # Errors
    /// The file exists and cannot be read.
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
        let unread = |error: toml::de::Error| damaged(error.to_string());
        let Head { format } = toml::from_str(&text).map_err(unread)?;
        if format != FORMAT {
            return Err(format!(
                "{PEERS} has format {format}; this version of Solera reads {FORMAT}"
            ));
        }
        let file: File = toml::from_str(&text).map_err(unread)?;
        let known = file.peer.iter().map(|entry| {
            let read = entry.read(sites);
            read.ok_or_else(|| damaged(format!("node {} of site {}", entry.node, entry.site)))
        });
        let known = known.collect::<Result<_, _>>()?;
        let kept = Some((root.to_owned(), sites.to_vec()));
        Ok(Peers { known, kept, ..Peers::default() })
    }

    /// Takes the entries that the file had when it was opened.
    pub(crate) fn take_known(&mut self) -> BTreeMap<NodeId, Origin> {
        std::mem::take(&mut self.known)
    }

    /// Returns the new contents of the file; `None` if it is up to date or not kept. Only one write
    /// may run at a time.
    pub(crate) fn unwritten(&self, admission: &Admission) -> Option<Unwritten> {
        let (root, sites) = self.kept.as_ref().filter(|_| self.written < admission.changes())?;
        let entry = |(node, origin): (&NodeId, &Origin)| Entry {
            site: sites[node.site.index()].clone(),
            node: node.node + 1,
            generation: origin.generation,
            data: format!("{:016x}", origin.data),
            starts: origin.starts,
            incarnation: format!("{:016x}", origin.incarnation),
        };
        let file = File { format: FORMAT, peer: admission.entered().iter().map(entry).collect() };
        Some(Unwritten { root: root.clone(), file })
    }

    /// Notes that the file contains this number of [`Admission::changes`].
    pub(crate) fn note_written(&mut self, changes: u64) {
        self.written = changes;
    }
}

impl Unwritten {
    /// Writes the contents to the file, durably.
    ///
    /// # Errors
    /// The file cannot be written. The contents remain unwritten.
    pub(crate) fn write(&self) -> Result<(), String> {
        let text = toml::to_string(&self.file).map_err(|error| error.to_string())?;
        write(&self.root, &text).map_err(|error| {
            format!("{} cannot be written: {error}", self.root.join(PEERS).display())
        })
    }
}

impl Entry {
    fn read(&self, sites: &[String]) -> Option<(NodeId, Origin)> {
        let site = sites.iter().position(|site| *site == self.site)?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let node = NodeId { site: SiteId(site as u8), node: self.node.checked_sub(1)? };
        let origin = Origin {
            generation: self.generation,
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
    use solera_links::NodeRole;
    use solera_membership::Members;

    use super::*;

    fn save(peers: &mut Peers, admission: &Admission) -> Result<bool, String> {
        let Some(unwritten) = peers.unwritten(admission) else { return Ok(false) };
        unwritten.write()?;
        peers.note_written(admission.changes());
        Ok(true)
    }

    #[test]
    fn peers_are_stored_and_damage_is_reported() {
        let root = std::env::temp_dir().join(format!("solera-peers-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let sites = ["eu".to_owned(), "us".to_owned()];
        let node = NodeId { site: SiteId(1), node: 1 };
        let origin = Origin { generation: 1, data: u64::MAX, starts: 3, incarnation: 1 };
        let role = NodeRole { site: Some(SiteId(0)), durable: true, generation: 0 };
        let mut admission = Admission::new(role, Members::new(2), BTreeMap::new());
        let known = || Peers::open(&root, &sites).unwrap().take_known();
        let mut peers = Peers::open(&root, &sites).unwrap();
        assert_eq!(save(&mut peers, &admission), Ok(false));
        admission.note_entry(node, origin, 2);
        assert_eq!(save(&mut peers, &admission), Ok(true));
        admission.note_entry(node, origin, 2);
        assert_eq!(save(&mut peers, &admission), Ok(false), "nothing new");
        assert_eq!(known().get(&node), Some(&origin));
        let text = fs::read_to_string(root.join(PEERS)).unwrap();
        assert!(text.contains("format = 2\n"), "{text}");
        fs::write(root.join(PEERS), text.replace("format = 2\n", "")).unwrap();
        assert_eq!(known().get(&node), Some(&origin));
        fs::write(root.join(PEERS), "format = 1\nlife = 1").unwrap();
        let error = Peers::open(&root, &sites).unwrap_err();
        assert_eq!(error, "solera-peers.toml has format 1; this version of Solera reads 2");
        for damage in [
            "[[peer]]\nsite = 'eu'",
            "peer",
            "[[peer]]\nsite = 'x'\nnode = 1\ngeneration = 0\ndata = '0'\nstarts = 0\nincarnation = '0'",
        ] {
            fs::write(root.join(PEERS), damage).unwrap();
            let error = Peers::open(&root, &sites).unwrap_err();
            assert!(error.contains("solera-peers.toml is damaged"), "{error}");
        }
        fs::remove_dir_all(&root).unwrap();
        let later = Origin { starts: 4, ..origin };
        admission.note_entry(node, later, 2);
        assert!(save(&mut peers, &admission).is_err());
        // The entries are written once the file can be written, even without further entries.
        fs::create_dir_all(&root).unwrap();
        admission.note_entry(node, later, 2);
        assert_eq!(save(&mut peers, &admission), Ok(true));
        assert_eq!(known().get(&node), Some(&later));
        fs::remove_dir_all(&root).unwrap();
    }
}
