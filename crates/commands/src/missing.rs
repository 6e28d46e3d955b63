//! Commands and subcommands of Redis that Solera does not support yet.

/// Names of the commands of Redis, up to version 8, that Solera lacks, in order. Commands with a
/// prefix of [`PREFIXES`] are not repeated here.
const NAMES: &[&str] = &[
    "append",
    "asking",
    "bgrewriteaof",
    "bgsave",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "cluster",
    "copy",
    "debug",
    "delex",
    "digest",
    "dump",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "expire",
    "expireat",
    "expiretime",
    "failover",
    "fcall",
    "fcall_ro",
    "flushall",
    "flushdb",
    "function",
    "geoadd",
    "geodist",
    "geohash",
    "geopos",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "geosearch",
    "geosearchstore",
    "getbit",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "hexists",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hincrbyfloat",
    "hkeys",
    "hlen",
    "hmset",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hrandfield",
    "hscan",
    "hsetex",
    "hsetnx",
    "hstrlen",
    "httl",
    "hvals",
    "incrbyfloat",
    "keys",
    "lastsave",
    "latency",
    "lcs",
    "lindex",
    "linsert",
    "llen",
    "lmove",
    "lmpop",
    "lolwut",
    "lpop",
    "lpos",
    "lpush",
    "lpushx",
    "lrange",
    "lrem",
    "lset",
    "ltrim",
    "memory",
    "migrate",
    "module",
    "monitor",
    "move",
    "msetex",
    "msetnx",
    "object",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pfadd",
    "pfcount",
    "pfdebug",
    "pfmerge",
    "pfselftest",
    "psetex",
    "psubscribe",
    "psync",
    "pttl",
    "publish",
    "pubsub",
    "punsubscribe",
    "randomkey",
    "readonly",
    "readwrite",
    "rename",
    "renamenx",
    "replconf",
    "replicaof",
    "restore",
    "restore-asking",
    "role",
    "rpop",
    "rpoplpush",
    "rpush",
    "rpushx",
    "save",
    "scan",
    "script",
    "sdiff",
    "sdiffstore",
    "setbit",
    "setex",
    "setrange",
    "shutdown",
    "sinter",
    "sintercard",
    "sinterstore",
    "slaveof",
    "slowlog",
    "smismember",
    "smove",
    "sort",
    "sort_ro",
    "spop",
    "spublish",
    "srandmember",
    "sscan",
    "ssubscribe",
    "strlen",
    "subscribe",
    "substr",
    "sunion",
    "sunionstore",
    "sunsubscribe",
    "swapdb",
    "sync",
    "touch",
    "ttl",
    "unlink",
    "unsubscribe",
    "vadd",
    "vcard",
    "vdim",
    "vemb",
    "vgetattr",
    "vinfo",
    "vismember",
    "vlinks",
    "vrandmember",
    "vrange",
    "vrem",
    "vsetattr",
    "vsim",
    "waitaof",
    "xack",
    "xackdel",
    "xadd",
    "xautoclaim",
    "xclaim",
    "xdel",
    "xdelex",
    "xgroup",
    "xinfo",
    "xlen",
    "xpending",
    "xrange",
    "xread",
    "xreadgroup",
    "xrevrange",
    "xsetid",
    "xtrim",
    "zadd",
    "zcard",
    "zcount",
    "zdiff",
    "zdiffstore",
    "zincrby",
    "zinter",
    "zintercard",
    "zinterstore",
    "zlexcount",
    "zmpop",
    "zmscore",
    "zpopmax",
    "zpopmin",
    "zrandmember",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrangestore",
    "zrank",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscan",
    "zscore",
    "zunion",
    "zunionstore",
];

/// Prefixes of commands of Redis' modules, which are parts of Redis 8: JSON, search, time series
/// and probabilistic types.
const PREFIXES: [&str; 8] = ["bf.", "cf.", "cms.", "ft.", "json.", "tdigest.", "topk.", "ts."];

/// Missing subcommands of the supported commands, by command. CONFIG and ACL reject further ones
/// themselves, because `solera.toml` replaces them.
const SUBCOMMANDS: [(&str, &[&str]); 2] = [
    ("acl", &["dryrun", "log"]),
    ("client", &["caching", "getredir", "pause", "tracking", "trackinginfo", "unblock", "unpause"]),
];

/// Returns whether Redis has a command of this name, in any case, and Solera does not.
pub fn is_missing(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    NAMES.binary_search_by(|known| known.as_bytes().cmp(&lower)).is_ok()
        || PREFIXES.iter().any(|prefix| {
            lower.strip_prefix(prefix.as_bytes()).is_some_and(|rest| !rest.is_empty())
        })
}

/// Returns whether Redis has this subcommand of this command, both in any case, and Solera does
/// not.
pub(crate) fn is_missing_subcommand(command: &str, subcommand: &str) -> bool {
    SUBCOMMANDS.iter().any(|(name, missing)| {
        name.eq_ignore_ascii_case(command)
            && missing.iter().any(|name| name.eq_ignore_ascii_case(subcommand))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn names_are_in_order_and_of_no_command_that_is_served() {
        assert!(NAMES.is_sorted());
        let served: Vec<_> =
            NAMES.iter().filter(|name| lookup(name.as_bytes()).is_some()).collect();
        assert!(served.is_empty(), "{served:?}");
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert!(is_missing(b"lpush") && is_missing(b"ZAdd"));
        assert!(is_missing(b"HEXPIRE") && is_missing(b"vadd") && is_missing(b"waitaof"));
        assert!(is_missing(b"JSON.SET") && is_missing(b"ft.search"));
        assert!(!is_missing(b"get") && !is_missing(b"foo") && !is_missing(b""));
        assert!(!is_missing(b"ts.") && !is_missing(b"ts") && !is_missing(b"solera.foo"));
    }

    #[test]
    fn subcommands_belong_to_commands_that_are_served() {
        assert!(SUBCOMMANDS.iter().all(|(command, _)| lookup(command.as_bytes()).is_some()));
        assert!(is_missing_subcommand("CLIENT", "Pause"));
        assert!(!is_missing_subcommand("CLIENT", "id") && !is_missing_subcommand("ACL", "pause"));
    }
}
