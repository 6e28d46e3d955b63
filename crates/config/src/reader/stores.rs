//! `[[store]]`: external databases that modules use, besides the cluster's own spaces.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use solera_tls::Files;
use toml::Spanned;

use super::{Reader, is_name};
use crate::error::ConfigError;
use crate::placed::Placed;
use crate::stores::{PasswordSource, StoreSpace, StoreSpec};
use crate::tls::NamedFile;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreTable {
    name: Spanned<String>,
    kind: Spanned<String>,
    url: Spanned<String>,
    password_file: Option<Spanned<String>>,
    password_env: Option<Spanned<String>>,
    ca: Option<Spanned<String>>,
    cert: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    schema: Option<Spanned<String>>,
    layout: Option<Spanned<String>>,
    timeout_ms: Option<Spanned<u64>>,
    max_connections: Option<Spanned<u64>>,
    #[serde(default)]
    space: Vec<SpaceTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceTable {
    name: Spanned<String>,
    prefix: Option<Spanned<String>>,
    level: Option<Spanned<String>>,
    #[serde(default)]
    operations: BTreeMap<String, Spanned<String>>,
}

impl Reader<'_> {
    /// Returns the stores of a cluster. The cluster itself is a store with its own name.
    pub(super) fn stores(
        &self,
        tables: Vec<StoreTable>,
        own: &str,
    ) -> Result<Vec<StoreSpec>, ConfigError> {
        let mut stores: Vec<StoreSpec> = Vec::new();
        for table in tables {
            let (name, place) = (table.name.get_ref().clone(), Some(table.name.span().start));
            if !is_name(&name) || name == own {
                let reason = format!(
                    "{name:?} is no name for a store: letters, digits, '_', '-' and '.' are, \
                     except '{own}', which is the cluster itself"
                );
                return self.invalid(place, reason);
            }
            if stores.iter().any(|other| other.name == name) {
                return self.invalid(place, format!("there are two stores called '{name}'"));
            }
            stores.push(self.store(name, table)?);
        }
        Ok(stores)
    }

    fn store(&self, name: String, table: StoreTable) -> Result<StoreSpec, ConfigError> {
        let place = Some(table.name.span().start);
        if table.space.is_empty() {
            let reason = format!("store '{name}' has no spaces: it needs [[store.space]]");
            return self.invalid(place, reason);
        }
        let mut spaces: Vec<StoreSpace> = Vec::new();
        for space in table.space {
            let own = self.placed(space.name);
            if own.value.is_empty() || spaces.iter().any(|other| other.name == own) {
                let reason = format!("store '{name}' needs another name for this space");
                return own.invalid(reason);
            }
            let [prefix, level] =
                [space.prefix, space.level].map(|text| text.map(|text| self.placed(text)));
            let operations = space.operations.into_iter();
            let operations = operations.map(|(name, text)| (name, self.placed(text))).collect();
            spaces.push(StoreSpace { name: own, prefix, level, operations });
        }
        let password = match (table.password_file, table.password_env) {
            (Some(_), Some(variable)) => {
                let reason = "password_file and password_env contradict each other".to_owned();
                return self.invalid(Some(variable.span().start), reason);
            }
            (Some(file), None) => {
                let NamedFile { path, at, .. } = self.named("password_file", &file)?;
                Some(PasswordSource::File(Placed { value: path, at }))
            }
            (None, variable) => {
                variable.map(|variable| PasswordSource::Variable(self.placed(variable)))
            }
        };
        let tls = self.store_tls(table.ca.as_ref(), table.cert.as_ref(), table.key.as_ref())?;
        if let Some(timeout) =
            table.timeout_ms.as_ref().filter(|ms| !(1..=600_000).contains(ms.get_ref()))
        {
            let reason = "timeout_ms is 1 to 600000".to_owned();
            return self.invalid(Some(timeout.span().start), reason);
        }
        if let Some(most) =
            table.max_connections.as_ref().filter(|most| !(1..=10_000).contains(most.get_ref()))
        {
            let reason = "max_connections is 1 to 10000".to_owned();
            return self.invalid(Some(most.span().start), reason);
        }
        Ok(StoreSpec {
            name,
            kind: self.placed(table.kind),
            url: self.placed(table.url),
            password,
            tls,
            schema: table.schema.map(|schema| self.placed(schema)),
            layout: table.layout.map(|layout| self.placed(layout)),
            timeout: table.timeout_ms.map(|ms| Duration::from_millis(ms.into_inner())),
            connections: table.max_connections.map(|most| self.placed(most)),
            spaces,
        })
    }

    fn store_tls(
        &self,
        ca: Option<&Spanned<String>>,
        cert: Option<&Spanned<String>>,
        key: Option<&Spanned<String>>,
    ) -> Result<Option<Placed<Files>>, ConfigError> {
        let path = |setting, text| self.named(setting, text).map(|file| file.path);
        let own = match (cert, key) {
            (Some(cert), Some(key)) => Some((path("cert", cert)?, path("key", key)?)),
            (None, None) => None,
            (Some(lone), None) | (None, Some(lone)) => {
                let reason = "cert and key need one another".to_owned();
                return self.invalid(Some(lone.span().start), reason);
            }
        };
        match (ca, cert) {
            (Some(ca), _) => {
                let authorities = path("ca", ca)?;
                let at = self.at(Some(ca.span().start));
                Ok(Some(Placed { value: Files { authorities, own }, at }))
            }
            (None, Some(cert)) => {
                let reason =
                    "cert needs ca, the authority that signs the server's certificate".to_owned();
                self.invalid(Some(cert.span().start), reason)
            }
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sample::CACHE;
    use crate::spec::{ClusterSpec, Overrides};

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        ClusterSpec::parse("s.toml", text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn stores_are_read_and_their_passwords_are_elsewhere() {
        let text = format!("{CACHE}prefix = 'l:'\n{CACHE}").replacen("'cache'", "'first'", 1);
        let text = text.replacen(
            "'redis://h'",
            "'redis://h'\npassword_env = 'NONE_SUCH'\ntimeout_ms = 7",
            1,
        );
        let stores = parse(&text).unwrap().stores;
        assert_eq!((&*stores[0].name, &*stores[1].name), ("first", "cache"));
        assert_eq!(stores[0].timeout, Some(Duration::from_millis(7)));
        let prefixes = stores.iter().map(|store| store.spaces[0].prefix.as_ref());
        let prefixes: Vec<_> = prefixes.map(|prefix| prefix.map(|prefix| &*prefix.value)).collect();
        assert_eq!(prefixes, [Some("l:"), None]);
        assert_eq!((&stores[0].schema, stores[0].spaces[0].operations.len()), (&None, 0));
        let missing = stores[0].password.as_ref().unwrap().read().unwrap_err().to_string();
        assert_eq!(missing, "s.toml, line 5: NONE_SUCH: environment variable not found");
        let text = text.replace("password_env = 'NONE_SUCH'", "password_file = '/none/such'");
        let password = parse(&text).unwrap().stores[0].password.clone();
        let missing = password.unwrap().read().unwrap_err().to_string();
        assert!(missing.starts_with("s.toml, line 5: cannot read /none/such: "), "{missing}");
    }

    #[test]
    fn passwords_begin_at_the_folder_of_the_configuration() {
        for (file, path) in [("p", "conf/p"), ("/run/p", "/run/p")] {
            let file = format!("'redis://h'\npassword_file = '{file}'");
            let text = CACHE.replacen("'redis://h'", &file, 1);
            let spec = ClusterSpec::parse("conf/s.toml", &text, Overrides::default()).unwrap();
            let Some(PasswordSource::File(file)) = &spec.stores[0].password else {
                panic!("{:?}", spec.stores[0].password)
            };
            assert_eq!(file.value, Path::new(path));
        }
    }

    #[test]
    fn files_for_tls_begin_at_the_folder_of_the_configuration() {
        let files = "'redis://h'\nkey = '/k.pem'\ncert = 'c.pem'\nca = 'ca.pem'";
        let text = CACHE.replacen("'redis://h'", files, 1);
        let spec = ClusterSpec::parse("conf/s.toml", &text, Overrides::default()).unwrap();
        let tls = spec.stores[0].tls.as_ref().unwrap();
        let own = Some(("conf/c.pem".into(), "/k.pem".into()));
        assert_eq!(tls.value, Files { authorities: "conf/ca.pem".into(), own });
        assert_eq!(tls.at.as_deref(), Some("conf/s.toml, line 7"));
    }

    #[test]
    fn operations_are_read_with_their_places() {
        let text = "schema = 's'\n[[store.space]]\nname = 'stock'\n[store.space.operations]\n\
                    take = 'UPDATE'\nleft = \"\"\"\nSELECT\"\"\"\n";
        let stores =
            parse(&CACHE.replacen("[[store.space]]\nname = 'log'\n", text, 1)).unwrap().stores;
        assert_eq!(stores[0].schema.as_ref().map(|schema| &*schema.value), Some("s"));
        let operations = &stores[0].spaces[0].operations;
        let found = operations.iter().map(|(name, text)| {
            let error = text.invalid::<()>("no".to_owned()).unwrap_err().to_string();
            (&**name, &*text.value, error)
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found[0], ("left", "SELECT", "s.toml, line 10: no".to_owned()));
        assert_eq!(found[1], ("take", "UPDATE", "s.toml, line 9: no".to_owned()));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (old, new, reason) in [
            ("'cache'", "'a/b'", "s.toml, line 2: \"a/b\" is no name for a store"),
            ("'cache'", "'solera'", "line 2: \"solera\" is no name for a store"),
            (
                "[[store]]\nname = 'cache'",
                "cluster = 'eu'\n[[store]]\nname = 'eu'",
                "line 3: \"eu\" is no name for a store: letters, digits, '_', '-' and '.' are, except 'eu'",
            ),
            ("[[store.space]]\nname = 'log'", "", "line 2: store 'cache' has no spaces"),
            ("'log'", "''", "line 6: store 'cache' needs another name"),
            (
                "'log'",
                "'log'\n[[store.space]]\nname = 'log'",
                "line 8: store 'cache' needs another",
            ),
            (
                "'redis://h'",
                "'u'\npassword_file = 'a'\npassword_env = 'b'",
                "line 6: password_file",
            ),
            ("'redis://h'", "'u'\nca = ''", "line 5: ca names no file"),
            ("'redis://h'", "'u'\ncert = 'c'", "line 5: cert and key need one another"),
            ("'redis://h'", "'u'\ncert = 'c'\nkey = 'k'", "line 5: cert needs ca"),
            ("'redis://h'", "'u'\ntimeout_ms = 0", "line 5: timeout_ms is 1 to 600000"),
            ("'redis://h'", "'u'\nmax_connections = 0", "line 5: max_connections is 1 to 10000"),
            ("'redis://h'", "'u'\ncolour = 0", "colour"),
            ("kind = 'redis'\n", "", "kind"),
            ("'log'", "'log'\noperations = 7", "line 7"),
            ("'log'", "'log'\noperations = { a = 'x', a = 'y' }", "line 7"),
        ] {
            let error = parse(&CACHE.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(reason), "{new}: {error}");
        }
        let error = parse(&CACHE.repeat(2)).unwrap_err();
        assert!(error.contains("line 8: there are two stores called 'cache'"), "{error}");
    }
}
