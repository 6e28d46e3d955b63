//! Figure 17: throughput of Message Groups for each transaction and for the mix, compared with the
//! linearizable store alone.

use super::groups::{CREATE, Groups, INBOX, JOIN, MIX, POST, SOURCE};
use super::load::Pace;
use super::place::{Binding, Deployment, MIXED, Setting};
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;

const FIGURE: &str = "Fig. 17";
const STORES: [&str; 2] = ["directory", "mail"];

/// Transactions per second in the paper.
const PAPER: [(&str, f64); 4] =
    [(INBOX, 10_626.0), (JOIN, 5_430.0), (POST, 3_313.0), (CREATE, 972.0)];

pub(super) fn run(laboratory: &Laboratory<'_>, place: &Deployment) -> Result<Findings, BenchError> {
    let count = laboratory.effort.pick(960, 40_000);
    let title = place.title;
    let pace = laboratory.pace(place);
    let mut rows = Vec::new();
    let (mut mixes, mut shipped) = (Vec::new(), Vec::new());
    for binding in [Binding::Mixed, Binding::AllStrong] {
        let bound = |away| place.bind(SOURCE, STORES, Setting { away, binding, ..MIXED });
        (laboratory.report)(&format!("{title}: {count} groups are created"));
        let groups = Groups::create(&bound(false)?, count)?;
        let away = bound(true)?;
        if binding == Binding::Mixed {
            for (kind, paper) in PAPER {
                (laboratory.report)(&format!("{title}: {kind}"));
                let weights = MIX.map(|(name, _)| (name, u32::from(name == kind)));
                let ran = away.load(groups.clients(pace.clients, weights), pace, 17)?;
                let what = format!("{title}: {kind}");
                rows.push(Row::new(FIGURE, what, paper, ran.per_second(), "tps"));
            }
        }
        (laboratory.report)(&format!("{title}: the mix, {binding:?}"));
        let pace = Pace { window: pace.window * 3, ..pace };
        mixes.push(away.load(groups.clients(pace.clients, MIX), pace, 18)?);
        if place.ships() {
            (laboratory.report)(&format!("{title}: the same, phases next to their stores"));
            let shipping = Setting { binding, shipping: true, ..MIXED };
            let away = place.bind(SOURCE, STORES, shipping)?;
            shipped.push(away.load(groups.clients(pace.clients, MIX), pace, 19)?);
        }
    }
    let [mixed, strong] = &mixes[..] else { unreachable!("there are two bindings") };
    let part = "§8.4";
    rows.extend([
        Row::new(part, format!("{title}: the mix"), 4237.0, mixed.per_second(), "tps"),
        Row::new(
            part,
            format!("{title}: the same, all linearizable"),
            1228.0,
            strong.per_second(),
            "tps",
        ),
        Row::new(
            part,
            format!("{title}: mixed over all linearizable"),
            3.5,
            mixed.per_second() / strong.per_second(),
            "ratio",
        )
        .at_least(3.5),
        Row::new(part, format!("{title}: aborts"), 0.0187, mixed.aborts(), "%"),
    ]);
    if let [mixed_shipped, strong_shipped] = &shipped[..] {
        for (what, one, other) in
            [("the mix", mixed_shipped, mixed), ("all linearizable", strong_shipped, strong)]
        {
            let what = format!("{title}: {what}, phases next to their stores over not");
            let ratio = one.per_second() / other.per_second();
            rows.push(Row::new(part, what, None, ratio, "ratio"));
        }
    }
    let notes = vec![format!(
        "Message Groups, {title}: {} clients, {count} groups with a user each, without the log, as in the paper (which \
         has 40,000). Each client has groups and users of its own. Aborts: phases that were run again and \
         transactions that gave up, in 100 transactions; {} and {} of {} and {} gave up.",
        pace.clients,
        mixed.failed,
        strong.failed,
        mixed.count(),
        strong.count()
    )];
    Ok(Findings { rows, plots: Vec::new(), notes })
}
