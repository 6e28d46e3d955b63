//! The metrics: names, labels and meanings.

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Kind: `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Labels besides `site` and, of histograms, `le`.
    pub labels: &'static [&'static str],
    /// Meaning.
    pub help: &'static str,
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: "gauge", labels, help }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: "counter", labels, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: "histogram", labels: &[], help }
}

/// All metrics, in the order of the reference.
pub static METRICS: [Metric; 78] = [
    gauge("solera_build_info", &["version"], "Always 1; its label is the version."),
    gauge("solera_site_alive", &[], "Whether the site runs."),
    gauge("solera_keys", &[], "Keys of strong, causal and eventual spaces at the site."),
    gauge("solera_versions", &[], "Versions of keys stored at the site."),
    gauge("solera_data_bytes", &[], "Approximate bytes of keys and versions."),
    gauge("solera_space_keys", &["space"], "Keys stored at the site, by space."),
    gauge("solera_connections", &[], "Client connections."),
    counter(
        "solera_commands_total",
        &["command"],
        "Commands of clients. Commands that a call of a module executes at its own cluster are not counted in \
         addition to the call.",
    ),
    counter("solera_errors_total", &[], "Error replies to clients."),
    counter("solera_failed_logins_total", &[], "Attempts of clients to authenticate that failed."),
    counter(
        "solera_refused_connections_total",
        &[],
        "Connections that were rejected: failed TLS handshakes, or too many clients.",
    ),
    gauge(
        "solera_led_partitions",
        &["leader"],
        "Partitions, by the site that leads their strong transactions according to this site. Partitions without a \
         known leader are in none of the values.",
    ),
    counter(
        "solera_strong_transactions_total",
        &["outcome"],
        "Strong transactions of the site's clients, by outcome: committed, aborted (each attempt), unavailable.",
    ),
    counter(
        "solera_ignored_messages_total",
        &["protocol"],
        "Messages of other workers that were dropped: duplicates, too late, sent by no correct worker, or of a \
         protocol that the site does not run.",
    ),
    counter(
        "solera_certification_ignored_total",
        &[],
        "Certification messages that were duplicates, too late, or from the future.",
    ),
    counter(
        "solera_certification_reserved_total",
        &[],
        "Votes for which leaders of the site reserved keys, because the transaction had been aborted before.",
    ),
    counter(
        "solera_certification_waited_total",
        &[],
        "Transactions that leaders of the site delayed for one that had been aborted before.",
    ),
    gauge("solera_at_risk_transactions", &[], "Transactions that the loss of f sites could undo."),
    histogram(
        "solera_batch_seconds",
        "Time from reading a batch of commands to writing its replies.",
    ),
    gauge(
        "solera_lag_seconds",
        &["behind"],
        "Lag of the site's visible state behind another site.",
    ),
    gauge(
        "solera_uniformity_delay_seconds",
        &[],
        "Age of the newest own state that is durable elsewhere.",
    ),
    gauge("solera_open_transactions", &[], "Open transactions."),
    gauge("solera_prepared_transactions", &[], "Transactions between prepare and commit."),
    gauge("solera_unsettled_updates", &[], "Updates that some site may still need."),
    counter(
        "solera_reads_total",
        &["bound", "level"],
        "Answers to SOLERA.READ, by what bounds the read (at: a level, within: a time) and by the level of the answer.",
    ),
    counter(
        "solera_read_attempts_total",
        &["outcome"],
        "Strong reads that SOLERA.READ WITHIN has attempted, by outcome: answered (the answer is theirs), cancelled \
         (they were late), failed. After the last two, the answer has a weaker level.",
    ),
    counter("solera_intervals_total", &[], "Intervals that SOLERA.INTERVAL has returned."),
    counter(
        "solera_interval_failures_total",
        &["reason"],
        "Intervals that SOLERA.INTERVAL could not return, by reason: no_bound (the key's space has none), not_reader \
         (the site was cut off), no_lease (it is cut off), behind (updates have not arrived), too_wide, uncounted (not \
         all sites have answered), unreachable (the key's worker has not answered).",
    ),
    counter(
        "solera_bound_updates_total",
        &[],
        "Updates of keys with bounds that have got their tokens or rights. A transaction counts once for each such \
         key, also if it fails for another reason.",
    ),
    counter(
        "solera_bound_waits_total",
        &[],
        "Waits of such updates until they got tokens or rights; all others had them at once.",
    ),
    counter("solera_bound_wait_seconds_total", &[], "Sum of the durations of these waits."),
    counter(
        "solera_bound_refusals_total",
        &["reason"],
        "Updates of keys with bounds that were refused, by reason: no_tokens, too_many (the value does not permit so \
         many), at_floor (a floor was not lowered in time), no_right (the site is cut off), sold_out, uncounted (too \
         few rights, and another site may have some), lapsed (the site gave the tokens up before the commit).",
    ),
    counter(
        "solera_bound_changes_total",
        &["change"],
        "Changes of the record on which the sites agree by strong transactions, by kind: grant and reclaim (of \
         tokens); propose, raise and lower (of floors); renew, exclude and admit (of the right to answer intervals); \
         remove and return (of sites); close_or_found (no site may answer, or some may again). Each site counts the \
         changes of all sites.",
    ),
    counter(
        "solera_bound_ended_grants_total",
        &[],
        "Times that the site has given up its tokens of a key.",
    ),
    counter(
        "solera_bound_moved_rights_total",
        &["direction"],
        "Rights that the site has given to other sites and received from them.",
    ),
    gauge(
        "solera_bound_held",
        &["kind"],
        "What the site holds of all keys with bounds: increments and decrements (tokens), and rights.",
    ),
    gauge("solera_primary_keys", &[], "Keys of spaces that primary runs."),
    gauge(
        "solera_primary_pending_updates",
        &[],
        "Updates of clients that the site has not applied yet.",
    ),
    gauge(
        "solera_primary_unsettled_updates",
        &[],
        "Updates at the site that f + 1 sites are not known to store.",
    ),
    gauge("solera_primary_home_partitions", &[], "Partitions of which the site is the home."),
    counter(
        "solera_primary_dropped_replies_total",
        &[],
        "Replies that arrived after their request had ended.",
    ),
    gauge("solera_occult_keys", &[], "Keys of spaces of level pcpsi."),
    gauge("solera_occult_home_shards", &[], "Shards of which the site is the home."),
    gauge(
        "solera_occult_arriving_shards",
        &[],
        "Shards whose data is on its way to the site, their new home.",
    ),
    gauge(
        "solera_occult_open_transactions",
        &[],
        "Open transactions of level pcpsi of the site's clients.",
    ),
    gauge(
        "solera_occult_prepared_transactions",
        &[],
        "Transactions that the site's homes have prepared, and that are not decided.",
    ),
    gauge(
        "solera_occult_outcome_records",
        &[],
        "Outcomes that the site's homes keep for clients and other homes.",
    ),
    gauge(
        "solera_occult_hidden_writes",
        &[],
        "Committed writes that wait for the decision about an earlier one.",
    ),
    counter(
        "solera_speculative_committed_operations_total",
        &[],
        "Operations of the speculative space that are committed at the site, also those before its start.",
    ),
    counter(
        "solera_speculative_final_operations_total",
        &[],
        "Committed operations that the site has executed in their place, after all before them.",
    ),
    gauge(
        "solera_speculative_tentative_operations",
        &[],
        "Operations of the speculative space at the site whose place is not final yet.",
    ),
    counter(
        "solera_speculative_executions_total",
        &[],
        "Executions of operations of the speculative space at the site since the start.",
    ),
    counter(
        "solera_speculative_predicted_operations_total",
        &[],
        "Operations of the site's clients in the speculative space since the start that are final and had a result \
         before.",
    ),
    counter(
        "solera_speculative_accurate_operations_total",
        &[],
        "How many of these operations had the final result at first.",
    ),
    gauge(
        "solera_speculative_kept_operations",
        &[],
        "Operations of the speculative space that the site keeps for other sites, or because they are not final.",
    ),
    gauge(
        "solera_speculative_leads",
        &[],
        "1 if the site leads the broadcast that orders strong operations of the speculative space, otherwise 0.",
    ),
    gauge(
        "solera_speculative_differing_sites",
        &[],
        "Sites whose results of the same operations of the speculative space differ from this site's.",
    ),
    counter(
        "solera_journal_records_total",
        &[],
        "Records appended to the journals since the start.",
    ),
    counter("solera_journal_bytes_total", &[], "Bytes appended to the journals since the start."),
    histogram(
        "solera_journal_sync_seconds",
        "Time to make written records durable; the count is the number of syncs.",
    ),
    gauge(
        "solera_journal_waiting_bytes",
        &[],
        "Bytes that wait to be written to the disk. Above 32 MiB a worker reads no more commands.",
    ),
    gauge("solera_journal_segments", &[], "Segments on the disk."),
    gauge("solera_journal_disk_bytes", &[], "Bytes of all files of the journals."),
    counter("solera_checkpoints_total", &[], "Checkpoints made since the start."),
    gauge(
        "solera_checkpoint_timestamp_seconds",
        &[],
        "Time of the last checkpoint; of several workers, the earliest.",
    ),
    gauge(
        "solera_checkpoint_duration_seconds",
        &[],
        "Duration of the last checkpoint; of several workers, the longest.",
    ),
    gauge("solera_journal_records_since_checkpoint", &[], "Records that a recovery would replay."),
    gauge("solera_memory_bytes", &[], "Bytes of memory that the process uses."),
    gauge("solera_memory_limit_bytes", &[], "Limit of the bytes of memory, if there is one."),
    gauge(
        "solera_incomplete_transactions",
        &["state"],
        "Transactions of modules that have committed in part, in the whole cluster, at the process's last search \
         (every upkeep_ms), by state. open: not complete yet; denied: those of open whose users lack a right to the \
         rest; failed: can never be completed; unreadable: their record cannot be read.",
    ),
    gauge(
        "solera_incomplete_unasked_spaces",
        &[],
        "Spaces that could not be searched for incomplete transactions, because their stores did not answer.",
    ),
    counter(
        "solera_recovered_transactions_total",
        &[],
        "Transactions of modules that the process has completed since its start because their callers did not.",
    ),
    gauge(
        "solera_link_up",
        &["to_site", "to_node"],
        "Whether messages pass to another node and back.",
    ),
    gauge(
        "solera_link_queue_bytes",
        &["to_site", "to_node"],
        "Bytes that wait to be sent to another node.",
    ),
    counter(
        "solera_link_dropped_total",
        &["to_site", "to_node"],
        "Batches dropped because the queue to another node was full.",
    ),
    counter(
        "solera_link_reconnects_total",
        &["to_site", "to_node"],
        "Number of times that the connection to another node was restored.",
    ),
    counter(
        "solera_refused_handshakes_total",
        &["peer_site", "reason"],
        "Handshakes with other nodes in which one of the two refused the other, by the site that the other node claims \
         to belong to (empty if unknown) and by reason: no_greeting (not a Solera node), damaged, release (another \
         version), cluster, settings, node (wrong address), taken (another process is connected as that node), clock, \
         generation (its site was removed, or is not added), data (lost or older), tls, by_peer (the other node refused).",
    ),
    counter(
        "solera_refused_frames_total",
        &["peer_site", "reason"],
        "Frames of other nodes that were refused, which ends their connection, by the sender's site and by reason: \
         length, damaged, kind, content, protocol (a protocol or version that this node does not run), misplaced (not \
         between workers of the two nodes); clock, generation, data (as of handshakes).",
    ),
];

/// Returns a metric by its name.
///
/// # Panics
/// If there is none.
pub(super) fn metric(name: &str) -> &'static Metric {
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("the table has no metric {name}"))
}
