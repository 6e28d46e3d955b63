//! Commands of Redis that access one key, and their kinds of access.

/// Kind of a command's access to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes, unless it fails.
    Write,
    /// It writes, unless its reply is 0 or nil.
    Conditional,
}

/// A command on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The key.
    pub key: Vec<u8>,
    /// Kind of its access to the key.
    pub access: Access,
    /// Whether its reply does not depend on the value that it overwrites.
    pub blind: bool,
    /// The command's name, and the arguments after the key.
    pub words: Vec<Vec<u8>>,
}

impl Call {
    /// Creates a call of a command. Returns `None` if no command of one key has this name.
    pub fn new(words: &[&[u8]]) -> Option<Call> {
        let (name, rest) = words.split_first()?;
        let (key, rest) = rest.split_first()?;
        let known = find(&String::from_utf8_lossy(name))?;
        // With GET, SET returns nil when it has written.
        let answers_old = known.name == "SET"
            && rest.iter().skip(1).any(|word| word.eq_ignore_ascii_case(b"GET"));
        let access = if answers_old { Access::Write } else { known.access };
        let all = std::iter::once(known.name.as_bytes()).chain(rest.iter().copied());
        Some(Call {
            key: key.to_vec(),
            access,
            blind: known.blind && rest.len() == 1,
            words: all.map(<[u8]>::to_vec).collect(),
        })
    }

    /// Returns whether the command removes its key, whatever the type of the value.
    pub(crate) fn removes(&self) -> bool {
        matches!(self.words[0].as_slice(), b"DEL" | b"UNLINK")
    }
}

/// A command of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) access: Access,
    /// Whether its reply does not depend on the value that it overwrites, if it has no options.
    pub(crate) blind: bool,
    /// Number of words, the name included; the least one if negative, as in Redis.
    pub(crate) arity: i8,
    pub(crate) shape: Shape,
}

/// Type of a reply in RESP3, where it differs from RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Same,
    Map,
    Set,
}

/// Returns the command with this name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    TABLE.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

const fn read(name: &'static str, arity: i8) -> Known {
    Known { name, access: Access::Read, blind: false, arity, shape: Shape::Same }
}

const fn shaped(name: &'static str, arity: i8, shape: Shape) -> Known {
    Known { name, access: Access::Read, blind: false, arity, shape }
}

const fn write(name: &'static str, arity: i8) -> Known {
    Known { name, access: Access::Write, blind: false, arity, shape: Shape::Same }
}

const fn conditional(name: &'static str, arity: i8) -> Known {
    Known { name, access: Access::Conditional, blind: false, arity, shape: Shape::Same }
}

pub(crate) const TABLE: &[Known] = &[
    // Strings.
    read("GET", 2),
    Known { blind: true, ..conditional("SET", -3) },
    conditional("SETNX", 3),
    write("SETEX", 4),
    write("PSETEX", 4),
    write("GETSET", 3),
    conditional("GETDEL", 2),
    write("GETEX", -2),
    write("APPEND", 3),
    read("STRLEN", 2),
    write("INCR", 2),
    write("DECR", 2),
    write("INCRBY", 3),
    write("DECRBY", 3),
    write("INCRBYFLOAT", 3),
    read("GETRANGE", 4),
    read("SUBSTR", 4),
    write("SETRANGE", 4),
    read("GETBIT", 3),
    write("SETBIT", 4),
    read("BITCOUNT", -2),
    read("BITPOS", -3),
    // Any type. DEL, UNLINK and EXISTS accept several keys; the server splits them.
    conditional("DEL", 2),
    conditional("UNLINK", 2),
    read("EXISTS", 2),
    read("TYPE", 2),
    read("TTL", 2),
    read("PTTL", 2),
    read("EXPIRETIME", 2),
    read("PEXPIRETIME", 2),
    conditional("EXPIRE", -3),
    conditional("PEXPIRE", -3),
    conditional("EXPIREAT", -3),
    conditional("PEXPIREAT", -3),
    conditional("PERSIST", 2),
    // Hashes.
    write("HSET", -4),
    write("HMSET", -4),
    conditional("HSETNX", 4),
    read("HGET", 3),
    read("HMGET", -3),
    shaped("HGETALL", 2, Shape::Map),
    conditional("HDEL", -3),
    read("HEXISTS", 3),
    read("HLEN", 2),
    read("HKEYS", 2),
    read("HVALS", 2),
    read("HSTRLEN", 3),
    write("HINCRBY", 4),
    write("HINCRBYFLOAT", 4),
    // Sets.
    conditional("SADD", -3),
    conditional("SREM", -3),
    shaped("SMEMBERS", 2, Shape::Set),
    read("SISMEMBER", 3),
    read("SMISMEMBER", -3),
    read("SCARD", 2),
    read("SRANDMEMBER", -2),
    write("SPOP", -2),
    // Lists.
    write("LPUSH", -3),
    write("RPUSH", -3),
    conditional("LPUSHX", -3),
    conditional("RPUSHX", -3),
    conditional("LPOP", -2),
    conditional("RPOP", -2),
    read("LLEN", 2),
    read("LRANGE", 4),
    read("LINDEX", 3),
    read("LPOS", -3),
    write("LSET", 4),
    write("LINSERT", 5),
    conditional("LREM", 4),
    write("LTRIM", 4),
    // Sorted sets. ZADD returns 0 when it changes a score.
    write("ZADD", -4),
    conditional("ZREM", -3),
    write("ZINCRBY", 4),
    read("ZSCORE", 3),
    read("ZMSCORE", -3),
    read("ZCARD", 2),
    read("ZCOUNT", 4),
    read("ZRANGE", -4),
    read("ZREVRANGE", -4),
    read("ZRANGEBYSCORE", -4),
    read("ZREVRANGEBYSCORE", -4),
    read("ZRANK", 3),
    read("ZREVRANK", 3),
    conditional("ZREMRANGEBYRANK", 4),
    conditional("ZREMRANGEBYSCORE", 4),
    write("ZPOPMIN", -2),
    write("ZPOPMAX", -2),
];
