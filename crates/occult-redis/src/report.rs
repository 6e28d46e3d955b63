//! The report of a node in INFO. No I/O.

use std::collections::BTreeMap;

use crate::lives::Report;
use crate::risk::Life;

/// The lines of INFO.
pub(crate) struct Info<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    pub(crate) fn parse(text: &'a str) -> Info<'a> {
        Info(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    /// Returns the time of the node, in µs.
    pub(crate) fn time(&self) -> Option<u64> {
        self.number("server_time_usec")
    }

    /// Returns the replication offset.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.number("master_repl_offset")
    }

    pub(crate) fn is_master(&self) -> bool {
        self.0.get("role") == Some(&"master")
    }

    /// Returns the time for which a replica has received nothing, in seconds.
    pub(crate) fn silence(&self) -> Option<u64> {
        if self.0.get("master_link_status") == Some(&"up") {
            return self.number("master_last_io_seconds_ago");
        }
        self.number("master_link_down_since_seconds")
    }

    /// Returns the report of a master that has this number of replicas in the cluster's list.
    pub(crate) fn report(&self, replicas: usize) -> Option<Report> {
        let life = |name: &str| self.0.get(name)?.get(..16)?.parse::<Life>().ok();
        let end = self.number("second_repl_offset").filter(|end| *end > 0);
        let before = life("master_replid2").zip(end);
        let offsets = (0..self.number("connected_slaves")?).map(|number| {
            let fields = self.0.get(format!("slave{number}").as_str())?.split(',');
            let fields: BTreeMap<_, _> = fields.filter_map(|field| field.split_once('=')).collect();
            let offset: u64 = fields.get("offset")?.parse().ok()?;
            (fields.get("state") == Some(&"online")).then_some(offset)
        });
        let offsets: Option<Vec<u64>> = offsets.collect();
        let offsets = offsets.filter(|offsets| offsets.len() >= replicas.max(1));
        Some(Report {
            life: life("master_replid")?,
            before,
            run: (*self.0.get("run_id")?).to_owned(),
            replicated: offsets.and_then(|offsets| offsets.into_iter().min()),
        })
    }
}

/// Returns the number of replicas that the answering node has, from its answer to CLUSTER NODES.
/// Failed replicas count: they may come back and be promoted.
pub(crate) fn replicas_of_self(nodes: &str) -> Option<usize> {
    let lines = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let lines: Vec<Vec<&str>> = lines.filter(|words| words.len() >= 4).collect();
    let own = lines.iter().find(|words| words[2].contains("myself"))?[0];
    Some(lines.iter().filter(|words| words[3] == own).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_replicas_count() {
        let nodes = "a1 127.0.0.1:1@2 master - 0 1 2 connected 0-5\n\
            b2 127.0.0.1:3@4 myself,master - 0 1 3 connected 6-9\n\
            c3 127.0.0.1:5@6 slave b2 0 1 3 connected\n\
            d4 127.0.0.1:7@8 slave,fail b2 0 1 3 disconnected\n\
            e5 127.0.0.1:9@10 slave a1 0 1 3 connected\n";
        assert_eq!(replicas_of_self(nodes), Some(2));
        assert_eq!(replicas_of_self("nonsense"), None);
    }

    const MASTER: &str = "# Server\r\nrun_id:abc\r\nserver_time_usec:17\r\n# Replication\r\n\
        role:master\r\nconnected_slaves:2\r\n\
        slave0:ip=127.0.0.1,port=1,state=online,offset=70,lag=0\r\n\
        slave1:ip=127.0.0.1,port=2,state=online,offset=60,lag=1\r\n\
        master_replid:00000000000000ff0000000000000000000000aa\r\n\
        master_replid2:00000000000000ee0000000000000000000000bb\r\nsecond_repl_offset:55\r\n";

    #[test]
    fn a_master_reports_its_lives_and_what_is_replicated() {
        let info = Info::parse(MASTER);
        let report = info.report(2).unwrap();
        assert_eq!(report.life.to_string(), "00000000000000ff");
        assert_eq!(report.before, Some(("00000000000000ee".parse().unwrap(), 55)));
        assert_eq!((report.run.as_str(), report.replicated), ("abc", Some(60)));
        assert_eq!(info.report(3).unwrap().replicated, None, "a replica is missing");
        let syncing = MASTER.replace("state=online,offset=60", "state=wait_bgsave,offset=60");
        assert_eq!(Info::parse(&syncing).report(2).unwrap().replicated, None);
        let first = MASTER.replace("offset:55", "offset:-1");
        assert_eq!(Info::parse(&first).report(2).unwrap().before, None);
        assert!(Info::parse("role:master").report(0).is_none());
    }
}
