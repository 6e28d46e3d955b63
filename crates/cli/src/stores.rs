//! External databases that modules use: opens each `[[store]]` of the configuration.

mod postgres;
mod redis;
mod solera;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ::solera::mixed::Pool;
use solera_config::{ClusterSpec, ConfigError, Placed, StoreSpec};
use solera_levels::Level;
use solera_mixt::store::Database;
use solera_modules::{Host, Settings, Store};

/// Starts the module host of a process, with the stores of its configuration.
///
/// # Errors
/// Fails if the configuration is invalid, with file and line, or if threads cannot be started.
pub(crate) fn host(spec: &ClusterSpec) -> Result<Host, Box<dyn Error>> {
    let settings = Settings::configured(&spec.modules)?;
    Ok(Host::start(settings, all(spec)?)?)
}

/// Opens the stores of a configuration. Does not connect to them.
///
/// # Errors
/// Fails if a store's settings are invalid, with file and line.
pub(crate) fn all(spec: &ClusterSpec) -> Result<Vec<Store>, ConfigError> {
    spec.stores.iter().map(store).collect()
}

/// Returns the given URL of a PostgreSQL server, or that of the server which `scripts/with-stores`
/// has started.
pub(crate) fn test_postgres(given: Option<&str>) -> Option<String> {
    given.map(str::to_owned).or_else(|| std::env::var("SOLERA_TEST_POSTGRES").ok())
}

/// Opens one store. Does not connect to it.
fn store(spec: &StoreSpec) -> Result<Store, ConfigError> {
    if let Some(layout) = spec.layout.as_ref().filter(|_| spec.kind.value != "redis") {
        return refuse(spec, layout, "a layout is for spaces of level pcpsi in a Redis Cluster");
    }
    require_offered_levels(spec)?;
    let database: Arc<dyn Database> = match spec.kind.value.as_str() {
        "postgres" => pooled(spec, postgres::open(spec)?),
        "redis" => redis::open(spec)?,
        "solera" => pooled(spec, solera::open(spec)?),
        other => {
            let reason =
                format!("there is no kind '{other}'; there are postgres, redis and solera");
            return refuse(spec, &spec.kind, &reason);
        }
    };
    let spaces = spec.spaces.iter().map(|space| space.name.value.as_str().into()).collect();
    Ok(Store { database, spaces })
}

/// Default maximum of a process's connections to one database.
const CONNECTIONS: u64 = 16;

/// Default time that a call waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Wraps a database in a pool that reuses its connections.
fn pooled(spec: &StoreSpec, database: impl Database + 'static) -> Arc<dyn Database> {
    let most = spec.connections.as_ref().map_or(CONNECTIONS, |most| most.value);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Arc::new(Pool::new(Arc::new(database), most, spec.timeout.unwrap_or(PATIENCE)))
}

/// Returns an error about a setting of a store.
fn refuse<T, R>(spec: &StoreSpec, setting: &Placed<T>, reason: &str) -> Result<R, ConfigError> {
    setting.invalid(format!("store '{}': {reason}", spec.name))
}

/// Rejects a space with a level that only a future kind of store will offer.
fn require_offered_levels(spec: &StoreSpec) -> Result<(), ConfigError> {
    for level in spec.spaces.iter().filter_map(|space| space.level.as_ref()) {
        if let Some(why) = level.value.parse().ok().and_then(Level::why_not_offered) {
            return refuse(spec, level, &why);
        }
    }
    Ok(())
}

/// Rejects a space whose configured level differs from the only level of its kind of store.
fn require_level(spec: &StoreSpec, kind: &str, only: &str) -> Result<(), ConfigError> {
    let mut levels = spec.spaces.iter().filter_map(|space| space.level.as_ref());
    match levels.find(|level| level.value != only) {
        Some(level) => refuse(spec, level, &format!("data in {kind} is {only}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use solera_config::{Overrides, sample};

    use super::*;

    const SHOP: &str = "\
[[store]]
name = 'shop'
kind = 'postgres'
url = 'postgresql://127.0.0.1:1/shop'
schema = 'own'
[[store.space]]
name = 'stock'
[store.space.operations]
take = 'UPDATE stock SET count = count - $1'
left = 'SELECT count FROM stock'
";

    const FAR: &str = "\
[[store]]
name = 'far'
kind = 'solera'
url = 'solera://near:secret@127.0.0.1:1'
[[store.space]]
name = 'directory'
level = 'linearizable'
";

    /// Returns the configuration of a Redis store with two spaces.
    fn cache() -> String {
        format!("{}[[store.space]]\nname = 'hits'\nprefix = 'h:'\n", sample::CACHE)
    }

    fn read(text: &str) -> Result<Host, String> {
        let spec = ClusterSpec::parse("s.toml", text, Overrides::default());
        host(&spec.unwrap()).map_err(|error| error.to_string())
    }

    fn assert_refused<const N: usize>(good: &str, cases: [(&str, &str, &str); N]) {
        assert!(read(good).is_ok());
        for (old, new, reason) in cases {
            let error = read(&good.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(reason), "{new}: {error}");
        }
    }

    #[test]
    fn errors_about_urls_of_redis_name_their_line() {
        assert_refused(
            &cache(),
            [
                (
                    "'redis'",
                    "'cassandra'",
                    "s.toml, line 3: store 'cache': there is no kind 'cassandra'; there are postgres, redis and solera",
                ),
                (
                    "redis://",
                    "http://",
                    "line 4: store 'cache': the URL of a Redis server looks like",
                ),
                (
                    "'redis://h'",
                    "'redis://h:99999'",
                    "line 4: store 'cache': the URL cannot be read: a port is a number from 1 to 65535",
                ),
                (
                    "redis://",
                    "rediss://",
                    "line 4: store 'cache': rediss:// needs a file with the authority",
                ),
                (
                    "[[store.space]]",
                    "ca = 'none.pem'\n[[store.space]]",
                    "line 5: store 'cache': a file with an authority (`ca`) is for URLs",
                ),
                (
                    "redis://h'",
                    "rediss://h'\nca = 'none.pem'",
                    "line 5: store 'cache': none.pem cannot be used: ",
                ),
            ],
        );
    }

    #[test]
    fn errors_about_spaces_in_redis_name_their_line() {
        assert_refused(
            &cache(),
            [
                (
                    "name = 'log'",
                    "name = 'log'\nlevel = 'causal'",
                    "line 7: store 'cache': data in Redis is eventual, or pcpsi in a Redis Cluster",
                ),
                (
                    "[[store.space]]",
                    "layout = 'plain'\n[[store.space]]",
                    "line 5: store 'cache': a layout is for spaces of level pcpsi in a Redis Cluster",
                ),
                (
                    "name = 'log'",
                    "name = 'log'\nlevel = 'pcpsi'",
                    "line 7: store 'cache': spaces of level pcpsi need a Redis Cluster",
                ),
                (
                    "'h:'",
                    "'log:h:'",
                    "line 8: store 'cache': keys that begin with 'log:h:' would be in",
                ),
                (
                    "'h:'",
                    "''",
                    "line 6: store 'cache': keys that begin with 'log:' would be in space 'hits'",
                ),
                (
                    "[[store.space]]",
                    "password_env = 'NONE_SUCH'\n[[store.space]]",
                    "line 5: NONE_SUCH:",
                ),
                (
                    "[[store.space]]",
                    "schema = 's'\n[[store.space]]",
                    "line 5: store 'cache': Redis has",
                ),
                (
                    "[[store.space]]",
                    "max_connections = 2\n[[store.space]]",
                    "line 5: store 'cache': all calls share one connection",
                ),
                (
                    "prefix =",
                    "operations = { a = 'GET' }\nprefix =",
                    "line 9: store 'cache': spaces of Redis have no operations",
                ),
            ],
        );
    }

    #[test]
    fn a_cluster_of_redis_has_spaces_of_level_pcpsi() {
        let cluster = cache().replace("redis://h", "redis-cluster://h,i");
        let all = cluster.replace("[[store.space]]", "[[store.space]]\nlevel = 'pcpsi'");
        let space = "name = 'log'\n";
        assert_refused(
            &all,
            [
                (space, "name = 'log'\noperations = { a = 'GET' }\n", "no operations"),
                ("'h:'", "'log:h:'", "keys that begin with 'log:h:' would be in"),
                (
                    "[[store.space]]",
                    "timeout_ms = 6001\n[[store.space]]",
                    "store 'cache': timeout_ms is at most 6000 for spaces of level pcpsi",
                ),
                (
                    "[[store.space]]",
                    "layout = 'flat'\n[[store.space]]",
                    "line 5: store 'cache': there is no layout 'flat'; there are plain and envelope",
                ),
                (
                    "level = 'pcpsi'",
                    "level = 'eventual'",
                    "line 9: store 'cache': spaces of level pcpsi and eventual ones need a store",
                ),
            ],
        );
        let all = all.replacen("[[store.space]]", "layout = 'envelope'\n[[store.space]]", 1);
        let spec = ClusterSpec::parse("s.toml", &all, Overrides::default()).unwrap();
        let database = &super::all(&spec).unwrap()[0].database;
        assert_eq!(database.level("log"), Some(Level::PcPsi));
        assert!(database.spans("log", "hits"));
        let spec = ClusterSpec::parse("s.toml", &cluster, Overrides::default()).unwrap();
        let database = &super::all(&spec).unwrap()[0].database;
        assert_eq!(database.level("log"), Some(Level::Eventual));
        assert!(!database.spans("log", "hits"));
    }

    #[test]
    fn errors_about_postgres_name_their_line() {
        assert_refused(
            SHOP,
            [
                ("postgresql://", "http://", "s.toml, line 4: store 'shop': the URL of PostgreSQL"),
                ("'own'", "''", "line 5: store 'shop': `` cannot be a schema"),
                (
                    "/shop'",
                    "/shop?sslmode=verify-full'",
                    "line 4: store 'shop': sslmode=verify-full needs a file with the authority",
                ),
                (
                    "/shop'",
                    "/shop?sslmode=allow'",
                    "line 4: store 'shop': the URL of PostgreSQL cannot be read: sslmode is disable, ",
                ),
                (
                    "/shop'",
                    "/shop?sslmode=prefer'\nca = 'none.pem'",
                    "line 5: store 'shop': sslmode=prefer verifies nothing, so that a file",
                ),
                ("'own'", "'own'\nca = 'none.pem'", "line 6: store 'shop': none.pem cannot be"),
                ("'own'", "'own'\npassword_env = 'NONE_SUCH'", "line 6: NONE_SUCH:"),
                (
                    "'stock'",
                    "'stock'\nlevel = 'causal'",
                    "line 8: store 'shop': data in PostgreSQL is linearizable",
                ),
                (
                    "'stock'",
                    "'stock'\nprefix = ''",
                    "line 8: store 'shop': spaces of PostgreSQL have",
                ),
                ("'stock'", "\"a\\u0000\"", "line 7: store 'shop': `a\\0` cannot be a space"),
                (
                    "'SELECT",
                    "'COMMIT",
                    "line 10: store 'shop': the operation `left` of the space `stock`",
                ),
            ],
        );
    }

    #[test]
    fn levels_of_future_stores_are_refused_with_their_line() {
        let reason = "a level of Apache Cassandra, which this version cannot use as a store yet";
        let quorum = format!("line 8: store 'shop': 'quorum' is {reason}");
        let stock = "'stock'\nlevel = 'quorum'";
        assert_refused(SHOP, [("'stock'", stock, &quorum)]);
        let local = format!("line 7: store 'cache': 'local_quorum' is {reason}");
        let log = "name = 'log'\nlevel = 'local_quorum'";
        assert_refused(&cache(), [("name = 'log'", log, &local)]);
        let far = format!("line 7: store 'far': 'quorum' is {reason}");
        assert_refused(FAR, [("'linearizable'", "'quorum'", &far)]);
    }

    #[test]
    fn errors_about_clusters_name_their_line() {
        let url = "line 4: store 'far': the URL of a cluster looks like solera://";
        let login = "line 4: store 'far': a user needs a name and a password";
        assert_refused(
            FAR,
            [
                ("solera://", "redis://", url),
                ("127.0.0.1:1", "127.0.0.1", url),
                ("near:secret@", "near@", login),
                ("near:secret@", ":secret@", login),
                (
                    "[[store.space]]",
                    "ca = 'none.pem'\n[[store.space]]",
                    "line 5: store 'far': none.pem cannot be used: ",
                ),
                (
                    "near:secret@127.0.0.1:1'",
                    "127.0.0.1:1'\npassword_file = '/dev/null'",
                    "line 4: store 'far': a password needs a user in the URL",
                ),
                (
                    "'linearizable'",
                    "'speculative'",
                    "line 7: store 'far': a space of level 'speculative' takes part in no transaction with other stores",
                ),
                (
                    "level = 'linearizable'",
                    "",
                    "line 6: store 'far': a space of another cluster needs a level, the same as in that cluster",
                ),
                ("'linearizable'", "'strict'", "line 7: store 'far': "),
                (
                    "level",
                    "prefix = 'd:'\nlevel",
                    "line 7: store 'far': the other cluster configures the prefixes",
                ),
                (
                    "level",
                    "operations = { a = 'GET' }\nlevel",
                    "line 7: store 'far': spaces of a cluster have no operations",
                ),
                (
                    "[[store.space]]",
                    "schema = 's'\n[[store.space]]",
                    "line 5: store 'far': clusters",
                ),
            ],
        );
    }
}
