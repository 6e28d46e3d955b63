//! Commands on strings and counters.

use super::family;

family! { "string":
    Get "get" "key" 2 "readonly fast" (1, 1, 1 "RO access") "1.0.0"
        "Reads a string.";
    Set "set" "key value [NX]" -3 "write denyoom" (1, 1, 1 "OW update") "1.0.0"
        "Sets a key to a string.";
    Mget "mget" "key …" -2 "readonly fast" (1, -1, 1 "RO access") "1.0.0"
        "Reads several strings from one snapshot.";
    Mset "mset" "key value …" -3 "write denyoom" (1, -1, 2 "OW update") "1.0.1"
        "Sets several keys at once.";
    Incr "incr" "key" 2 "write denyoom fast" (1, 1, 1 "RW access update") "1.0.0"
        "Adds one to a number.";
    Decr "decr" "key" 2 "write denyoom fast" (1, 1, 1 "RW access update") "1.0.0"
        "Subtracts one from a number.";
    Incrby "incrby" "key number" 3 "write denyoom fast" (1, 1, 1 "RW access update") "1.0.0"
        "Adds to a number.";
    Decrby "decrby" "key number" 3 "write denyoom fast" (1, 1, 1 "RW access update") "1.0.0"
        "Subtracts from a number.";
    Setnx "setnx" "key value" 3 "write denyoom fast" (1, 1, 1 "OW insert") "1.0.0"
        "Sets a key to a string, unless it exists.";
}
