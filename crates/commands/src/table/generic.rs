//! Commands on keys of any type.

use super::family;

family! { "generic":
    Del "del" "key …" -2 "write" (1, -1, 1 "RM delete") "1.0.0"
        "Removes keys.";
    Exists "exists" "key …" -2 "readonly fast" (1, -1, 1 "RO") "1.0.0"
        "Counts the keys that exist.";
    Type "type" "key" 2 "readonly fast" (1, 1, 1 "RO") "1.0.0"
        "Returns the type of a key.";
}
