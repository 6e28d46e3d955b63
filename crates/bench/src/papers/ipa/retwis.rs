//! Figure 11: the Twitter clone.

use std::rc::Rc;
use std::time::Duration;

use solera::Error;

use super::conditions::Condition;
use super::load::{Measured, Pace, Step, Workload, run};
use super::store::Store;
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::random::Random;
use crate::services::retwis::{FOLLOW, KINDS, Policies, RETWEET, Retwis, TIMELINE, TWEET};
use crate::services::{IpaStoreSession, Observed, Policy, load};

const USERS: usize = 200;

const SOON: Policy = Policy::Within(Duration::from_millis(20));

const POLICIES: [(&str, Policies); 5] = [
    ("weak", Policies { users: Policy::Weak, retweets: Policy::Weak }),
    ("strong", Policies { users: Policy::Strong, retweets: Policy::Strong }),
    ("20 ms bound", Policies { users: SOON, retweets: SOON }),
    ("5% error", Policies { users: Policy::Weak, retweets: Policy::Tolerance(5) }),
    ("both bounds", Policies { users: SOON, retweets: Policy::Tolerance(5) }),
];

impl<S: IpaStoreSession> Workload<S> for Rc<Retwis> {
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Error> {
        let action = self.draw(random);
        let (mut step, mut observed) = (Step::of(KINDS[action.kind()]), Observed::default());
        self.perform(session, &action, &mut observed).await?;
        step.observe(&observed);
        Ok(step)
    }
}

/// Adds users, followers and tweets, half of them at each of two replicas, and measures policies.
fn measure<S: Store + 'static>(
    laboratory: &Laboratory<'_>,
    store: &S,
    policies: Policies,
    pace: Pace,
) -> Result<Measured, BenchError> {
    let retwis = Rc::new(Retwis::new(laboratory.next_run().to_string(), policies, USERS));
    let connect = async |loader| store.connect_beside(loader).await;
    let loaded = Rc::clone(&retwis);
    load(connect, retwis.items(), async move |session: &mut S::Session, number| {
        loaded.load(session, number).await
    })?;
    run(store, &retwis, pace)
}

/// Figure 11: latencies.
pub(super) fn latency(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let pace = laboratory.pace(50, 100);
    let (mut rows, mut weak) = (Vec::new(), f64::NAN);
    for (name, policies) in POLICIES {
        let what = format!("{}: retwis, {name}", condition.name);
        (laboratory.report)(&what);
        let measured = measure(laboratory, store, policies, pace)?;
        let mean = measured.mean_ms(&KINDS);
        let mut row = |what: String, ours, unit| {
            rows.push(Row::new("Fig. 11", what, None, ours, unit));
        };
        row(format!("{what}, mean"), mean, "ms");
        for kind in [TIMELINE, TWEET, RETWEET, FOLLOW] {
            row(format!("{what}, {kind}, mean"), measured.mean_ms(&[kind]), "ms");
        }
        if policies.users == SOON {
            row(format!("{what}, strong"), measured.strong_percent(), "%");
        }
        if policies.retweets == Policy::Tolerance(5) {
            row(format!("{what}, width, mean"), measured.mean("width"), "%");
        }
        rows.push(measured.failed(laboratory, "Fig. 11", &what));
        let over = Row::new("Fig. 11", format!("{what} over weak"), None, mean / weak, "ratio");
        match name {
            "weak" => weak = mean,
            "both bounds" => {
                let geo = condition.name == "geo-distributed";
                rows.push(over.at_most(if geo { 1.3 } else { 1.1 }));
            }
            _ => rows.push(over),
        }
    }
    Ok(Findings { rows, ..Findings::default() })
}
