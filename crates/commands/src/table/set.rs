//! Commands on sets.

use super::family;

family! { "set":
    Sadd "sadd" "key element …" -3 "write denyoom fast" (1, 1, 1 "RW insert") "1.0.0"
        "Adds elements to a set.";
    Srem "srem" "key element …" -3 "write fast" (1, 1, 1 "RW delete") "1.0.0"
        "Removes elements from a set.";
    Smembers "smembers" "key" 2 "readonly" (1, 1, 1 "RO access") "1.0.0"
        "Reads a set.";
    Sismember "sismember" "key element" 3 "readonly fast" (1, 1, 1 "RO") "1.0.0"
        "Checks whether a set has an element.";
    Scard "scard" "key" 2 "readonly fast" (1, 1, 1 "RO") "1.0.0"
        "Counts the elements of a set.";
}
