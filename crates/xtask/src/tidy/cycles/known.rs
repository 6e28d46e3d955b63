//! Cycles that were there when the rule came. The list only becomes shorter.

/// A crate's folder, the parent of the modules (empty at the top), and the modules.
pub(super) const KNOWN: &[(&str, &str, &[&str])] = &[
    (
        "unistore",
        "",
        &[
            "barriers",
            "checkpoint",
            "coordinator",
            "demand",
            "heard",
            "joining",
            "keys",
            "op_log",
            "participant",
            "partition",
            "record",
            "recovery",
            "replica",
            "replication",
            "status",
            "strong",
            "transfer",
            "worker",
        ],
    ),
];
