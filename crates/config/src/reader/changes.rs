//! Changes of a configuration while a process runs: the permitted ones, and advice for others.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::nodes::NodeSpec;
use crate::spaces::Spaces;
use crate::spec::{ClusterSpec, Overrides, SiteSpec};

/// Advice for settings on which nodes must agree.
const ALIKE: &str =
    "nodes that differ in it refuse one another: stop all, change all their files, and start them";

/// Advice for settings after whose change a restart would begin without the data.
const WITHOUT_DATA: &str =
    "a restart would begin without the data that is there: back up, and restore into a new cluster";

fn names(spec: &ClusterSpec) -> impl Iterator<Item = &str> {
    spec.sites.iter().map(|site| site.name.as_str())
}

impl ClusterSpec {
    /// Reads the configuration file of a running cluster again; `self` is the current
    /// configuration.
    ///
    /// # Errors
    /// As [`ClusterSpec::load`], or a setting has changed that cannot change without a restart.
    pub fn reload(&self, file: &Path, over: Overrides) -> Result<ClusterSpec, ConfigError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::Unreadable(name.clone(), error.to_string()))?;
        let reader = Reader { file: Some(name), text: &text };
        let mut new = reader.read(over)?;
        self.check_fixed(&new, &reader)?;
        // The file contains neither the addresses of this process nor its part of the data
        // directory.
        new.data.clone_from(&self.data);
        for (new, own) in new.sites.iter_mut().zip(&self.sites) {
            (new.listen, new.listen_tls) = (own.listen, own.listen_tls);
        }
        Ok(new)
    }

    /// Returns the settings that are fixed while the process runs, and whether each differs in
    /// `new`.
    pub(crate) fn fixed_settings(&self, new: &ClusterSpec) -> [(&'static str, bool); 19] {
        let kind = |durability| std::mem::discriminant::<Durability>(durability);
        let speaks = |spec: &ClusterSpec| spec.tls.as_ref().map(|tls| (tls.port, tls.admin));
        let workers = self.node_with_other_workers(new).is_some();
        [
            ("cluster", self.name != new.name),
            ("partitions", self.partitions != new.partitions),
            ("workers", self.workers != new.workers || workers),
            ("sites", self.sites.len() != new.sites.len()),
            ("site", self.other_site(new).is_some()),
            ("f", self.f != new.f),
            ("wan", self.wan != new.wan),
            ("data", self.data_setting() != new.data_setting()),
            ("durability", kind(&self.durability) != kind(&new.durability)),
            ("space", self.spaces != new.spaces),
            ("pcpsi_timestamps", self.timestamps.name() != new.timestamps.name()),
            ("pcpsi_stamps", self.timestamps != new.timestamps),
            ("modules", self.modules != new.modules),
            (
                "speculative",
                self.speculative_threads != new.speculative_threads
                    || self.max_tentative != new.max_tentative,
            ),
            ("store", self.stores != new.stores),
            ("protocol", self.protocol != new.protocol),
            ("leader", self.leader != new.leader),
            ("tls", speaks(self) != speaks(new)),
            ("peer_tls", self.peer_tls.is_some() != new.peer_tls.is_some()),
        ]
    }

    fn check_fixed(&self, new: &ClusterSpec, reader: &Reader<'_>) -> Result<(), ConfigError> {
        let node = self.node_with_other_workers(new);
        for (setting, changed) in self.fixed_settings(new) {
            if !changed {
                continue;
            }
            let reason = format!(
                "{setting} cannot change while the process runs; {}",
                self.way_to_change(setting, new)
            );
            let added = || names(new).position(|name| names(self).all(|listed| listed != name));
            let place = match setting {
                "workers" if self.workers == new.workers => {
                    node.and_then(|(site, node)| reader.place_of_workers(site, node))
                }
                "sites" => match added() {
                    Some(added) => reader.place_of("site", Some(added)),
                    None => reader.place_of(setting, None),
                },
                "site" => reader.place_of(setting, self.other_site(new)),
                "space" => {
                    let changed = reader.changed_space(&self.spaces, &new.spaces);
                    reader.place_of(setting, changed)
                }
                _ => reader.place_of(setting, None),
            };
            return match place {
                Some(place) => reader.invalid(Some(place), reason),
                None => Err(ConfigError::Invalid { at: reader.file.clone(), reason }),
            };
        }
        Ok(())
    }

    /// Returns the data directory as set: a node's own part of the shared directory counts as the
    /// same setting.
    fn data_setting(&self) -> Option<&Path> {
        self.shared_data.as_deref().or(self.data.as_deref())
    }

    /// Returns the first site whose name or nodes differ.
    fn other_site(&self, new: &ClusterSpec) -> Option<usize> {
        let differs = |(a, b): (&SiteSpec, &SiteSpec)| a.name != b.name || a.nodes != b.nodes;
        self.sites.iter().zip(&new.sites).position(differs)
    }

    /// Returns the first node with another number of workers, if sites and nodes are otherwise
    /// equal.
    fn node_with_other_workers(&self, new: &ClusterSpec) -> Option<(usize, usize)> {
        let pairs = || self.sites.iter().zip(&new.sites);
        let same =
            |(a, b): (&SiteSpec, &SiteSpec)| a.name == b.name && a.nodes.len() == b.nodes.len();
        if self.sites.len() != new.sites.len() || !pairs().all(same) {
            return None;
        }
        pairs().enumerate().find_map(|(site, (a, b))| {
            let differs = |(a, b): (&NodeSpec, &NodeSpec)| a.workers != b.workers;
            Some((site, a.nodes.iter().zip(&b.nodes).position(differs)?))
        })
    }

    /// Returns whether the data survives a restart.
    fn keeps_data(&self) -> bool {
        self.data.is_some() && self.durability != Durability::Memory
    }

    /// Returns advice about changing a setting that is fixed while the process runs.
    fn way_to_change(&self, setting: &str, new: &ClusterSpec) -> &'static str {
        let (kept, alone) = (self.keeps_data(), self.nodes().next().is_none());
        match setting {
            "partitions" | "workers" if kept => {
                "the data is divided by it: back up, and restore into a new cluster"
            }
            "cluster" if kept => {
                "the data was written under that name, and a restart would be refused: back up, and restore \
                 into a new cluster"
            }
            "sites" => self.way_to_list(new),
            "site" => self.way_to_change_site(new),
            "data" if kept && new.keeps_data() => "stop it, move the directory, and start it",
            "data" => WITHOUT_DATA,
            "durability" if kept != new.keeps_data() => WITHOUT_DATA,
            "leader" => {
                "it names the site that leads at first, and nodes that differ in it refuse one another; \
                 'solera leader move' lets another site lead while the cluster runs"
            }
            "peer_tls" => {
                "nodes with it and nodes without it cannot talk to one another: stop all, change all their \
                 files, and start them"
            }
            "cluster" | "partitions" | "workers" | "f" | "space" | "protocol"
            | "pcpsi_timestamps" | "pcpsi_stamps"
                if !alone =>
            {
                ALIKE
            }
            _ => "restart it",
        }
    }

    /// Returns the advice for more or fewer sites.
    fn way_to_list(&self, new: &ClusterSpec) -> &'static str {
        let (kept, alone) = (self.keeps_data(), self.nodes().next().is_none());
        if alone && !kept {
            "restart it"
        } else if new.sites.len() < self.sites.len() {
            "leave all of them listed: a configuration keeps every site; 'solera site remove' removes one from the cluster"
        } else if names(self).zip(names(new)).any(|(listed, name)| listed != name) {
            "leave the names and the order of the sites as they are, and list new ones after them"
        } else if alone {
            "one process cannot have more sites than its data: back up, and restore into a new cluster"
        } else if kept {
            "restart it; 'solera site add' then lets a new site join"
        } else {
            ALIKE
        }
    }

    /// Returns the advice for changed names of sites, nodes, and addresses of nodes.
    fn way_to_change_site(&self, new: &ClusterSpec) -> &'static str {
        let (kept, alone) = (self.keeps_data(), self.nodes().next().is_none());
        let renamed = !names(self).eq(names(new));
        let nodes = |spec: &ClusterSpec| -> Vec<usize> {
            spec.sites.iter().map(|site| site.nodes.len()).collect()
        };
        if !renamed && nodes(self) == nodes(new) {
            "restart it"
        } else if kept && renamed {
            "the data was written for sites of these names: back up, and restore into a new cluster"
        } else if kept {
            "the data of a site is divided among its nodes: back up, and restore into a new cluster"
        } else if alone {
            "restart it"
        } else {
            ALIKE
        }
    }

    /// Returns descriptions of the changes in other settings.
    pub fn changes_to(&self, new: &ClusterSpec) -> Vec<String> {
        let interval = |spec: &ClusterSpec| match spec.durability {
            Durability::Interval(interval) => interval.as_millis() as u64,
            Durability::Always | Durability::Memory => 0,
        };
        let numbers = |spec: &ClusterSpec| {
            [
                ("transaction_timeout_ms", spec.transaction_timeout.as_millis() as u64),
                ("transaction_max_age_ms", spec.transaction_max_age.as_millis() as u64),
                ("strong_max_bytes", spec.strong_limits.bytes as u64),
                ("strong_max_operations", spec.strong_limits.operations as u64),
                ("max_connections", spec.max_connections as u64),
                ("max_clock_skew_ms", spec.max_clock_skew.as_millis() as u64),
                ("sync_interval_ms", interval(spec)),
                ("drain_ms", spec.drain.as_millis() as u64),
            ]
        };
        let mut changes = Vec::new();
        for ((setting, old), (_, new)) in numbers(self).into_iter().zip(numbers(new)) {
            if old != new {
                changes.push(format!("{setting} is {new} (was {old})"));
            }
        }
        if self.max_memory != new.max_memory {
            let limit = |spec: &ClusterSpec| {
                spec.max_memory.map_or("unlimited".to_owned(), |limit| format!("{limit} bytes"))
            };
            changes.push(format!("max_memory is {} (was {})", limit(new), limit(self)));
        }
        changes.extend(self.log.changes_to(&new.log));
        if self.users != new.users {
            changes.push("users were changed".to_owned());
        }
        changes
    }
}

impl Reader<'_> {
    /// Returns the index of the first `[[space]]` that is new or changed; `None` if a space was
    /// only removed.
    fn changed_space(&self, old: &Spaces, new: &Spaces) -> Option<usize> {
        let changed = new.iter().find(|space| old.iter().all(|before| before != *space))?;
        let table = DeTable::parse(self.text).ok()?;
        let spaces = table.get_ref().get("space")?.get_ref().as_array()?;
        let named = |space: &Spanned<DeValue<'_>>| {
            let name = space.get_ref().get("name").and_then(|name| name.get_ref().as_str());
            name == Some(changed.name.as_str())
        };
        spaces.iter().position(named)
    }

    /// Returns the position of a node's `workers`, or of the node if it has none of its own.
    fn place_of_workers(&self, site: usize, node: usize) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        let site = table.get_ref().get("site")?.get_ref().as_array()?.get(site)?;
        let node = site.get_ref().get("node")?.get_ref().as_array()?.get(node)?;
        Some(node.get_ref().get("workers").unwrap_or(node).span().start)
    }

    /// Returns the position of a setting; for a list of tables, that of entry `entry`, or the
    /// first.
    fn place_of(&self, setting: &str, entry: Option<usize>) -> Option<usize> {
        let table = DeTable::parse(self.text).ok()?;
        let (name, value) = table.get_ref().iter().find(|(name, _)| name.get_ref() == setting)?;
        match value.get_ref() {
            DeValue::Array(list) => Some(list.get(entry.unwrap_or(0))?.span().start),
            _ => Some(name.span().start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{TWO_SITES, parse};

    const HEAD: &str = "\
partitions = 32
data = 'd'
durability = 'interval'
max_connections = 10
";

    /// Returns the error when a process with `file` reloads it with `from` replaced by `to`.
    fn refusal(file: &str, from: &str, to: &str) -> String {
        let text = file.replacen(from, to, 1);
        assert_ne!(text, file);
        let reader = Reader { file: Some("s.toml".to_owned()), text: &text };
        parse(file).check_fixed(&parse(&text), &reader).unwrap_err().to_string()
    }

    const NEW_SITE: &str = "\
[[site]]
name = 'new'
[[site.node]]
resp = 'c:1'
peer = 'c:2'
admin = 'c:3'
";

    #[test]
    fn fixed_settings_are_reported_with_their_line() {
        let file = format!("{HEAD}{TWO_SITES}");
        for (from, to, reason) in [
            ("partitions = 32", "partitions = 16", "s.toml, line 1: partitions cannot change"),
            ("partitions = 32", "", "s.toml: partitions cannot change"),
            ("data = 'd'", "data = 'e'", "line 2: data cannot"),
            ("'interval'", "'always'", "line 3: durability cannot"),
            ("[[site]]", "cluster = 'x'\n[[site]]", "line 5: cluster cannot"),
            ("[[site]]", "f = 1\n[[site]]", "line 5: f cannot"),
            ("[[site]]", "leader = 'us'\n[[site]]", "line 5: leader cannot"),
            ("'eu'", "'asia'", "line 5: site cannot"),
            ("'b:1'", "'b:7'", "line 11: site cannot"),
            ("'b:3'", "'b:3'\nworkers = 2", "line 17: workers cannot"),
            ("[[site]]", "workers = 2\n[[site]]", "line 5: workers cannot"),
            ("[[site]]", &format!("{NEW_SITE}[[site]]"), "line 5: sites cannot"),
            ("[[site]]", "[peer_tls]\ncert='a'\nkey='b'\nca='c'\n[[site]]", "line 5: peer_tls can"),
            (
                "[[site]]",
                "[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'eventual'\n[[site]]",
                "line 5: space cannot",
            ),
            ("[[site]]", "[modules]\nthreads = 3\n[[site]]", "line 5: modules cannot"),
            (
                "[[site]]",
                "[[store]]\nname='x'\nkind='y'\nurl='z'\nspace=[{name='a'}]\n[[site]]",
                "line 5: store cannot",
            ),
        ] {
            let error = refusal(&file, from, to);
            assert!(error.contains(reason), "{error}, not {reason}");
        }
        let workers = file.replace("'b:3'", "'b:3'\nworkers = 2");
        let error = refusal(&workers, "\nworkers = 2", "");
        assert!(error.contains("line 13: workers cannot"), "{error}");
    }

    #[test]
    fn advice_for_fixed_settings_matches_the_effect_of_a_restart() {
        let kept = format!("{HEAD}{TWO_SITES}");
        let in_memory = TWO_SITES.to_owned();
        let (one, one_kept) = ("sites = 2\n".to_owned(), "sites = 2\ndata = 'd'\n".to_owned());
        let (_, second) = TWO_SITES.split_at(TWO_SITES.rfind("[[site]]").unwrap());
        let node = "[[site.node]]\nresp = 'd:1'\npeer = 'd:2'\nadmin = 'd:3'\n";
        let (another, appended) = (format!("{second}{node}"), format!("{second}{NEW_SITE}"));
        let before = format!("{NEW_SITE}[[site]]");
        let peer_tls = "[peer_tls]\ncert='a'\nkey='b'\nca='c'\n[[site]]";
        let restored = "back up, and restore into a new cluster";
        let alike = "stop all, change all their files, and start them";
        for (file, from, to, way) in [
            (&kept, "= 32", "= 16", restored),
            (&kept, "'b:3'", "'b:3'\nworkers = 2", restored),
            (&in_memory, "'b:3'", "'b:3'\nworkers = 2", alike),
            (&kept, second, &another, restored),
            (&in_memory, second, &another, alike),
            (&kept, "'b:1'", "'b:7'", "runs; restart it"),
            (
                &kept,
                second,
                "",
                "leave all of them listed: a configuration keeps every site; 'solera site remove' removes one from the cluster",
            ),
            (
                &in_memory,
                second,
                "",
                "leave all of them listed: a configuration keeps every site; 'solera site remove' removes one from the cluster",
            ),
            (&kept, second, &appended, "restart it; 'solera site add' then lets a new site join"),
            (&in_memory, second, &appended, alike),
            (&one_kept, "= 2", "= 3", restored),
            (&one, "= 2", "= 3", "runs; restart it"),
            (&one, "= 2", "= 1", "runs; restart it"),
            (&kept, "[[site]]", &before, "list new ones after them"),
            (&kept, "'eu'", "'asia'", restored),
            (&in_memory, "'eu'", "'asia'", alike),
            (
                &kept,
                "[[site]]",
                "cluster = 'x'\n[[site]]",
                "under that name, and a restart would be refused",
            ),
            (&kept, "[[site]]", "cluster = 'x'\n[[site]]", restored),
            (&in_memory, "[[site]]", "cluster = 'x'\n[[site]]", alike),
            (
                &kept,
                "[[site]]",
                "leader = 'us'\n[[site]]",
                "refuse one another; 'solera leader move'",
            ),
            (&in_memory, "[[site]]", "protocol = 'causal'\n[[site]]", alike),
            (&one, "= 2", "= 2\nprotocol = 'causal'", "runs; restart it"),
            (&kept, "[[site]]", peer_tls, "cannot talk to one another: stop all"),
            (&kept, "data = 'd'", "data = 'e'", "stop it, move the directory, and start it"),
            (&one, "= 2", "= 2\ndata = 'd'", "begin without the data that is there: back up"),
            (&kept, "'interval'", "'memory'", "begin without the data that is there: back up"),
            (&kept, "'interval'", "'always'", "runs; restart it"),
        ] {
            let error = refusal(file, from, to);
            assert!(error.contains(way), "{to}: {error}, not {way}");
        }
    }

    /// A node that shares `data` with others keeps its own data in a part of it.
    #[test]
    fn a_part_of_the_data_is_no_change() {
        let file = format!("{HEAD}{TWO_SITES}");
        let mut old = parse(&file);
        old.data = Some("d/eu/node-1".into());
        let reader = Reader { file: None, text: &file };
        assert_eq!(old.check_fixed(&parse(&file), &reader), Ok(()));
        let moved = file.replace("data = 'd'", "data = 'e'");
        let error = old.check_fixed(&parse(&moved), &reader).unwrap_err().to_string();
        assert!(error.contains("data cannot change"), "{error}");
    }

    #[test]
    fn relations_cannot_change() {
        let strong = "[[space]]\nname = 'a'\nprefix = 'a'\nlevel = 'por'\n\
                      [[space]]\nname = 'b'\nprefix = 'bb'\nlevel = 'por'\nstrong = ['DECRBY', 'SET']\n";
        let old = parse(strong);
        let check = |from, to| {
            let text = strong.replace(from, to);
            let reader = Reader { file: Some("s.toml".to_owned()), text: &text };
            old.check_fixed(&parse(&text), &reader)
        };
        let error = check("'DECRBY'", "'INCRBY'").unwrap_err().to_string();
        assert!(error.starts_with("s.toml, line 5: space cannot change"), "{error}");
        assert_eq!(check("'DECRBY', 'SET'", "'SET', 'decr'"), Ok(()), "it is the same");
    }

    #[test]
    fn strong_commands_of_a_speculative_space_cannot_change() {
        let file =
            "[[space]]\nname = 'a'\nprefix = 'a'\nlevel = 'speculative'\nstrong = ['INCR']\n";
        let old = parse(file);
        let check = |from, to| {
            let text = file.replace(from, to);
            let reader = Reader { file: Some("s.toml".to_owned()), text: &text };
            old.check_fixed(&parse(&text), &reader)
        };
        for (from, to) in [
            ("strong = ['INCR']", ""),
            ("'INCR'", "'INCR', 'SET'"),
            ("prefix = 'a'", "prefix = 'b'"),
            ("level = 'speculative'\nstrong = ['INCR']", "level = 'causal'"),
        ] {
            let error = check(from, to).unwrap_err().to_string();
            assert!(error.starts_with("s.toml, line 1: space cannot change"), "{to}: {error}");
        }
        assert_eq!(check("'INCR'", "'INCRBY'"), Ok(()), "it is the same");
    }

    #[test]
    fn types_and_error_bounds_cannot_change() {
        let counter = "[[space]]\nname = 'v'\nprefix = 'v'\nlevel = 'causal'\n\
                       type = 'counter'\nerror = '5%'\nlease_ms = 5000\n";
        let old = parse(counter);
        let check = |from, to| {
            let text = counter.replace(from, to);
            let reader = Reader { file: Some("s.toml".to_owned()), text: &text };
            old.check_fixed(&parse(&text), &reader)
        };
        for (from, to) in [
            ("error = '5%'\nlease_ms = 5000\n", ""),
            ("5%", "6%"),
            ("5000", "5001"),
            ("type = 'counter'\nerror = '5%'\nlease_ms = 5000\n", ""),
        ] {
            let error = check(from, to).unwrap_err().to_string();
            assert!(error.starts_with("s.toml, line 1: space cannot change"), "{to}: {error}");
        }
        assert_eq!(check("5%'\nlease_ms = 5000", "5.0%'"), Ok(()), "it is the same");
    }

    #[test]
    fn permitted_changes_are_described() {
        let file = format!("{HEAD}{TWO_SITES}");
        let text = file.replace("max_connections = 10", "max_connections = 20\nlog_level = 'warn'")
            + "[log]\nformat = 'json'\nareas = { links = 'debug' }\n\
               [[user]]\nname = 'default'\nnopass = true";
        let text = text.replace("'interval'", "'interval'\nsync_interval_ms = 5");
        let (old, new) = (parse(&file), parse(&text));
        let reader = Reader { file: None, text: &text };
        assert_eq!(old.check_fixed(&new, &reader), Ok(()));
        assert_eq!(
            old.changes_to(&new),
            [
                "max_connections is 20 (was 10)",
                "sync_interval_ms is 5 (was 100)",
                "log_level is warn (was the default)",
                "log.areas.links is debug (was the default)",
                "log.format is json (was text)",
                "users were changed",
            ]
        );
        assert!(old.changes_to(&old).is_empty());
    }
}
