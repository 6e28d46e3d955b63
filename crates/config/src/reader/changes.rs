//! What of a configuration can change while a process runs, and what cannot.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::spaces::Spaces;
use crate::spec::{ClusterSpec, Overrides};

impl ClusterSpec {
    /// Reads the configuration of a running cluster again, whose settings are `self`.
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
        // Where this process listens is not from the file.
        for (new, own) in new.sites.iter_mut().zip(&self.sites) {
            (new.listen, new.listen_tls) = (own.listen, own.listen_tls);
        }
        Ok(new)
    }

    fn check_fixed(&self, new: &ClusterSpec, reader: &Reader<'_>) -> Result<(), ConfigError> {
        let names = |spec: &ClusterSpec| -> Vec<String> {
            spec.sites.iter().map(|site| site.name.clone()).collect()
        };
        let kind = |durability| std::mem::discriminant::<Durability>(durability);
        let speaks = |spec: &ClusterSpec| spec.tls.as_ref().map(|tls| (tls.port, tls.admin));
        let site = |spec: &ClusterSpec| match names(spec) == names(self) {
            true => self.sites.iter().zip(&spec.sites).position(|(a, b)| a.nodes != b.nodes),
            false => names(self).iter().zip(names(spec)).position(|(a, b)| *a != b),
        };
        for (setting, changed) in [
            ("cluster", self.name != new.name),
            ("partitions", self.partitions != new.partitions),
            ("workers", self.workers != new.workers),
            ("sites", self.sites.len() != new.sites.len()),
            ("site", site(new).is_some()),
            ("f", self.f != new.f),
            ("wan", self.wan != new.wan),
            ("data", self.data != new.data),
            ("durability", kind(&self.durability) != kind(&new.durability)),
            ("space", self.spaces != new.spaces),
            ("modules", self.modules != new.modules),
            ("store", self.stores != new.stores),
            ("protocol", self.protocol != new.protocol),
            ("leader", self.leader != new.leader),
            ("tls", speaks(self) != speaks(new)),
            ("peer_tls", self.peer_tls.is_some() != new.peer_tls.is_some()),
        ] {
            if changed {
                let reason = format!(
                    "{setting} cannot change while the process runs; {}",
                    self.way_to_change(setting)
                );
                let added = || names(new).iter().position(|name| !names(self).contains(name));
                let place = match setting {
                    "sites" => match added() {
                        Some(added) => reader.place_of("site", Some(added)),
                        None => reader.place_of(setting, None),
                    },
                    "site" => reader.place_of(setting, site(new)),
                    "space" => {
                        let changed = reader.changed_space(&self.spaces, &new.spaces);
                        reader.place_of(setting, changed)
                    }
                    _ => reader.place_of(setting, None),
                };
                return match place {
                    Some(place) => reader.invalid(Some(place), reason),
                    None => {
                        let at = reader.file.clone();
                        Err(ConfigError::Invalid { at, reason })
                    }
                };
            }
        }
        Ok(())
    }

    /// What to do to change a setting that is fixed while the process runs.
    fn way_to_change(&self, setting: &str) -> &'static str {
        match setting {
            "partitions" | "workers" if self.data.is_some() => {
                "the data is divided by it: back up, and restore into a new cluster"
            }
            "cluster" | "partitions" | "workers" | "f" | "space" => {
                "nodes that differ in it refuse one another: stop all, change all their files, and start them"
            }
            "sites" => "restart it; 'solera site add' then lets a new site join",
            _ => "restart it",
        }
    }

    /// What differs in other settings, in words.
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
        if self.log_level != new.log_level {
            let name = |spec: &ClusterSpec| {
                spec.log_level.map_or("the default".to_owned(), |level| level.to_string())
            };
            changes.push(format!("log_level is {} (was {})", name(new), name(self)));
        }
        if self.users != new.users {
            changes.push("users are as it says".to_owned());
        }
        changes
    }
}

impl Reader<'_> {
    /// Which `[[space]]` is another than before; none if the change is that one is gone.
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

    /// Where a setting stands: of a list of tables, the one that is asked for, or the first.
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

    #[test]
    fn what_cannot_change_is_named_with_its_line() {
        let file = format!("{HEAD}{TWO_SITES}");
        let old = parse(&file);
        for (from, to, reason) in [
            ("partitions = 32", "partitions = 16", "s.toml, line 1: partitions cannot change"),
            ("partitions = 32", "", "s.toml: partitions cannot change"),
            ("data = 'd'", "data = 'e'", "line 2: data cannot"),
            ("'interval'", "'always'", "line 3: durability cannot"),
            ("[[site]]", "cluster = 'x'\n[[site]]", "line 5: cluster cannot"),
            ("[[site]]", "f = 1\n[[site]]", "line 5: f cannot"),
            ("'eu'", "'asia'", "line 5: site cannot"),
            ("'b:1'", "'b:7'", "line 11: site cannot"),
            ("'b:3'", "'b:3'\nworkers = 2", "line 11: site cannot"),
            ("[[site]]", "workers = 2\n[[site]]", "line 5: workers cannot"),
            (
                "[[site]]",
                "[[site]]\nname = 'new'\n[[site.node]]\nresp='c:1'\npeer='c:2'\nadmin='c:3'\n[[site]]",
                "line 5: sites cannot change while the process runs; restart it; 'solera site add'",
            ),
            ("= 32", "= 16", "restore into a new cluster"),
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
            let text = file.replacen(from, to, 1);
            let reader = Reader { file: Some("s.toml".to_owned()), text: &text };
            let error = old.check_fixed(&parse(&text), &reader).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}, not {reason}");
        }
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
    fn what_can_change_is_told() {
        let file = format!("{HEAD}{TWO_SITES}");
        let text = file.replace("max_connections = 10", "max_connections = 20\nlog_level = 'warn'")
            + "[[user]]\nname = 'default'\nnopass = true";
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
                "users are as it says",
            ]
        );
        assert!(old.changes_to(&old).is_empty());
    }
}
