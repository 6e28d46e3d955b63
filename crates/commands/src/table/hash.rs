//! Commands on hashes.

use super::family;

family! { "hash":
    Hset "hset" "key field value …" -4 "write denyoom fast" (1, 1, 1 "RW update") "2.0.0"
        "Assigns fields of a hash.";
    Hget "hget" "key field" 3 "readonly fast" (1, 1, 1 "RO access") "2.0.0"
        "Reads a field of a hash.";
    Hmget "hmget" "key field …" -3 "readonly fast" (1, 1, 1 "RO access") "2.0.0"
        "Reads several fields of a hash.";
    Hgetall "hgetall" "key" 2 "readonly" (1, 1, 1 "RO access") "2.0.0"
        "Reads a hash.";
    Hdel "hdel" "key field …" -3 "write fast" (1, 1, 1 "RW delete") "2.0.0"
        "Removes fields of a hash.";
    Hincrby "hincrby" "key field number" 4 "write denyoom fast" (1, 1, 1 "RW access update") "2.0.0"
        "Adds to a field of a hash.";
}
