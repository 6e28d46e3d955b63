//! Transactions of queued commands.

use super::family;

family! { "transactions":
    Multi "multi" "" 1 "noscript loading stale fast allow_busy" (0, 0, 0) "1.2.0"
        "Begins to queue commands.";
    Exec "exec" "" 1 "noscript loading stale skip_slowlog" (0, 0, 0) "1.2.0"
        "Runs the queued commands as one transaction.";
    Discard "discard" "" 1 "noscript loading stale fast allow_busy" (0, 0, 0) "2.0.0"
        "Drops the queued commands.";
    Watch "watch" "key …" -2 "noscript loading stale fast allow_busy" (1, -1, 1 "RO") "2.2.0"
        "Aborts the next EXEC or strong transaction, or the open one, if one of the keys changes.";
    Unwatch "unwatch" "" 1 "noscript loading stale fast allow_busy" (0, 0, 0) "2.2.0"
        "Forgets the watched keys.";
}
