//! INFO: what there is to say about the server.

use std::fmt::Write;

use solera_resp::Arguments;

use super::dbsize::count_keys;
use super::hello::VERSION;
use crate::context::Context;
use crate::session::Session;

pub(crate) async fn info<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let wanted: Vec<String> =
        arguments.from(1).map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
    let everything = wanted.is_empty()
        || wanted.iter().any(|name| ["all", "default", "everything"].contains(&name.as_str()));
    let (keys, _) = count_keys(session).await;
    let spec = session.worker.spec().clone();
    let site = &spec.sites[session.worker.address().site.index()];
    let connections = session.worker.client_count();
    let commands = session.worker.commands_run();
    let worker = &session.worker;
    let (used, limit) = (worker.memory_used(), worker.settings().max_memory.unwrap_or(0));
    let sections = [
        (
            "Server",
            format!(
                "redis_version:{VERSION}\r\nredis_mode:standalone\r\nsolera_version:{}\r\n\
                 process_id:{}\r\ntcp_port:{}\r\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id(),
                site.listen.map_or(0, |address| address.port())
            ),
        ),
        ("Clients", format!("connected_clients:{connections}\r\n")),
        (
            "Memory",
            format!("used_memory:{used}\r\nused_memory_rss:{used}\r\nmaxmemory:{limit}\r\n"),
        ),
        ("Stats", format!("total_commands_processed:{commands}\r\n")),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        (
            "Solera",
            format!(
                "cluster:{}\r\nprotocol:{}\r\nsite:{}\r\nsites:{}\r\nf:{}\r\npartitions:{}\r\n\
                 workers:{}\r\n",
                spec.name,
                spec.protocol.name(),
                site.name,
                spec.sites.len(),
                spec.f,
                spec.partitions,
                spec.workers_of(session.worker.address().site.index())
            ),
        ),
        ("Keyspace", format!("db0:keys={keys},expires=0,avg_ttl=0\r\n")),
    ];
    let mut text = String::new();
    for (name, lines) in sections {
        if everything || wanted.contains(&name.to_lowercase()) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}# {name}\r\n{lines}");
        }
    }
    session.out.verbatim(*b"txt", &text);
}
