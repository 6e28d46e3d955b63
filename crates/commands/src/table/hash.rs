//! Commands on hashes.

use super::family;

family! { "hash":
    Hset "hset" -4 "write denyoom fast" (1, 1, 1 "RW update") "2.0.0"
        "Assigns fields of a hash.";
    Hget "hget" 3 "readonly fast" (1, 1, 1 "RO access") "2.0.0"
        "Reads a field of a hash.";
    Hmget "hmget" -3 "readonly fast" (1, 1, 1 "RO access") "2.0.0"
        "Reads several fields of a hash.";
    Hgetall "hgetall" 2 "readonly" (1, 1, 1 "RO access") "2.0.0"
        "Reads a hash.";
    Hdel "hdel" -3 "write fast" (1, 1, 1 "RW delete") "2.0.0"
        "Removes fields of a hash.";
    Hincrby "hincrby" 4 "write denyoom fast" (1, 1, 1 "RW access update") "2.0.0"
        "Adds to a field of a hash.";
}
