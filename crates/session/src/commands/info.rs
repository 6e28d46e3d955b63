//! INFO: reports the state of the server.

use std::fmt::Write;

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::dbsize::count_keys;
use super::hello::VERSION;
use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// INFO [section …].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Sections, in lower case; empty for all.
    sections: Vec<String>,
}

impl Info {
    fn shows(&self, section: &str) -> bool {
        let everything = |name: &String| ["all", "default", "everything"].contains(&name.as_str());
        self.sections.is_empty()
            || self.sections.iter().any(everything)
            || self.sections.contains(&section.to_lowercase())
    }
}

impl Request for Info {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Info, String> {
        let sections = arguments.from(1).map(String::from_utf8_lossy);
        Ok(Info { sections: sections.map(|section| section.to_lowercase()).collect() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
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
            if self.shows(name) {
                let separator = if text.is_empty() { "" } else { "\r\n" };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}# {name}\r\n{lines}");
            }
        }
        session.out.verbatim(*b"txt", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::parse;
    use super::*;

    #[test]
    fn sections_may_be_named() {
        let info: Info = parse("INFO Server foo").unwrap();
        assert!(info.shows("Server") && !info.shows("Clients"));
        for all in ["INFO", "INFO EVERYTHING", "INFO server all"] {
            assert!(parse::<Info>(all).unwrap().shows("Clients"), "{all}");
        }
    }
}
