//! Compares the committed lists of replicas with the final order and with one another.

use std::collections::BTreeMap;

use super::history::Report;
use super::index::{Found, Index};
use super::violation::{HistoryOrder, Replica, Violation};

pub(super) fn check(index: &Index<'_>, found: &mut Found) {
    let history = index.history;
    let mut digests: BTreeMap<usize, (u64, &Report)> = BTreeMap::new();
    let mut last: BTreeMap<(u32, u32), &Report> = BTreeMap::new();
    for report in &history.reports {
        check_prefix(index, report, found);
        if let Some(before) = last.insert((report.site, report.run), report)
            && before.length() > report.length()
        {
            let (from, to) = (before.length(), report.length());
            found.push(Violation::Shrank { replica: report.into(), from, to });
        }
        let Some(digest) = report.digest else { continue };
        let (expected, first) = *digests.entry(report.length()).or_insert((digest, report));
        if expected != digest {
            found.push(Violation::DigestsDiffer {
                length: report.length(),
                first: first.into(),
                second: report.into(),
            });
        }
    }
    if history.unsettled {
        return;
    }
    // The last run of each site.
    let ends: BTreeMap<u32, &Report> = last.into_iter().map(|((site, _), it)| (site, it)).collect();
    let expected = history.order.len();
    for report in ends.into_values() {
        if report.length() < expected && !history.destroyed.contains(&report.site) {
            let length = report.length();
            found.push(Violation::Behind { replica: report.into(), length, expected });
        }
    }
}

fn check_prefix(index: &Index<'_>, report: &Report, found: &mut Found) {
    let replica = Replica::from(report);
    let order = &index.history.order;
    let expected = order.get(report.from..).unwrap_or_default();
    let mut expected = expected.iter().copied().map(Some).chain(std::iter::repeat(None));
    let mut pairs = report.operations.iter().zip(expected.by_ref());
    if let Some(at) = pairs.position(|(found, expected)| Some(*found) != expected) {
        let position = report.from.saturating_add(at);
        let (id, expected) = (report.operations[at], order.get(position).copied());
        found.push(Violation::NotAPrefix { replica, position, found: id, expected });
        if index.find(id).is_none() {
            found.push(Violation::NeverInvoked { id, order: HistoryOrder::Committed(replica) });
        }
    } else if report.length() > order.len() {
        let (length, expected) = (report.length(), order.len());
        found.push(Violation::Ahead { replica, length, expected });
    }
}
