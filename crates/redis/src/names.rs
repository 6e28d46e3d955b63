//! Named objects as keys.
//!
//! Each named object is a hash, whose fields are the numbers in decimal digits. A sorted set, the
//! index, contains the names that exist, so that they can be listed in order without a scan of all
//! keys of the server. The tag in their keys puts the index and the hashes of a space into one slot
//! of a cluster, and a script changes them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, cmd};
use solera_mixt::store::{List, NameWrite};

/// Changes hashes and the index at once. KEYS: the index, then a hash for each change. ARGV, for
/// each change: the action, the field, the value, the name. Returns 0, and changes nothing, if a
/// field exists that must be new.
const WRITE: &str = "\
for i = 2, #KEYS do
  local at = (i - 2) * 4
  if ARGV[at + 1] == 'new' and redis.call('HEXISTS', KEYS[i], ARGV[at + 2]) == 1 then return 0 end
end
for i = 2, #KEYS do
  local at = (i - 2) * 4
  if ARGV[at + 1] == 'remove' then
    redis.call('HDEL', KEYS[i], ARGV[at + 2])
    if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('ZREM', KEYS[1], ARGV[at + 4]) end
  else
    redis.call('HSET', KEYS[i], ARGV[at + 2], ARGV[at + 3])
    redis.call('ZADD', KEYS[1], 0, ARGV[at + 4])
  end
end
return 1";

/// Returns the prefix of the reserved keys in a space, which hold no objects.
pub(crate) fn reserved(space: &str) -> String {
    format!("{{solera:{space}}}")
}

fn key(prefix: &str, space: &str, name: &str) -> String {
    format!("{prefix}{}:{name}", reserved(space))
}

fn index(prefix: &str, space: &str) -> String {
    format!("{prefix}{}", reserved(space))
}

/// Returns the command that reads a named object.
pub(crate) fn read(prefix: &str, space: &str, name: &str) -> Cmd {
    let mut command = cmd("HGETALL");
    command.arg(key(prefix, space, name));
    command
}

/// Returns the command that changes named objects of one space.
pub(crate) fn write(prefix: &str, space: &str, writes: &[&NameWrite]) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(WRITE).arg(writes.len() + 1).arg(index(prefix, space));
    for write in writes {
        command.arg(key(prefix, space, &name_of(write).key));
    }
    for write in writes {
        let name = &*name_of(write).key;
        match write {
            NameWrite::Set { field, value, new, .. } => {
                command.arg(if *new { "new" } else { "set" }).arg(field).arg(&**value).arg(name)
            }
            NameWrite::Remove { field, .. } => command.arg("remove").arg(field).arg("").arg(name),
        };
    }
    command
}

/// Returns the command that lists names.
pub(crate) fn list(prefix: &str, list: &List) -> Cmd {
    let from = if list.after >= list.prefix {
        [b"(", list.after.as_bytes()].concat()
    } else {
        [b"[", list.prefix.as_bytes()].concat()
    };
    // No name contains this byte, which does not occur in UTF-8.
    let to = [b"[", list.prefix.as_bytes(), b"\xff"].concat();
    let mut command = cmd("ZRANGEBYLEX");
    command.arg(index(prefix, &list.space)).arg(from).arg(to);
    command.arg("LIMIT").arg(0).arg(list.limit);
    command
}

/// Groups writes by their space.
pub(crate) fn by_space(writes: &[NameWrite]) -> BTreeMap<Arc<str>, Vec<&NameWrite>> {
    let mut spaces: BTreeMap<Arc<str>, Vec<&NameWrite>> = BTreeMap::new();
    for write in writes {
        spaces.entry(Arc::clone(&name_of(write).space)).or_default().push(write);
    }
    spaces
}

fn name_of(write: &NameWrite) -> &solera_mixt::store::Name {
    match write {
        NameWrite::Set { name, .. } | NameWrite::Remove { name, .. } => name,
    }
}
