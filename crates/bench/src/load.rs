//! Loads data into a cluster before a run, and waits until all sites have it.

use std::cell::Cell;
use std::rc::Rc;

use solera::{Client, Error, Token};
use tokio::task::{JoinSet, LocalSet};

use crate::batch::Batch;
use crate::place::TargetCluster;
use crate::session::{BenchSession, Strong};

/// How the data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Command by command, causally.
    Causal,
    /// In strong transactions of many commands, because the spaces declare the commands as strong.
    Strong,
}

/// Function that adds the commands which write an item, by its number.
type Write = dyn Fn(u64, &mut Batch);

/// One part of the data: the number of items, and the function that writes them.
pub(crate) struct Part {
    pub(crate) count: u64,
    pub(crate) writing: Writing,
    pub(crate) write: Rc<Write>,
}

/// Number of concurrent writing clients per site.
const LANES: usize = 4;
/// Number of items that a client writes as one unit, in one transaction if they are strong.
const BATCH: u64 = 250;
/// Maximum number of waits of 10 seconds for a site to have all data.
const WAITS: u32 = 30;

/// Writes the parts, one after another, and returns when every site has all of them.
pub(crate) async fn fill(
    place: &TargetCluster,
    strong: Strong,
    parts: Vec<Part>,
) -> Result<(), Error> {
    let lanes = LANES * place.sites().len();
    for part in parts {
        let part = Rc::new(part);
        let next = Rc::new(Cell::new(0));
        let local = LocalSet::new();
        let tokens = local.run_until(async {
            let mut writers = JoinSet::new();
            for lane in 0..lanes {
                let (part, next) = (part.clone(), next.clone());
                let place = place.clone();
                writers.spawn_local(async move {
                    let mut session = BenchSession::new(place.connect(lane).await?, strong);
                    while next.get() < part.count {
                        let from = next.replace(next.get() + BATCH);
                        let stretch = from..part.count.min(from + BATCH);
                        match part.writing {
                            Writing::Causal => {
                                write(&part, stretch, &mut session.client).await?;
                            }
                            Writing::Strong => {
                                let body =
                                    async |tx: &mut Client| write(&part, stretch.clone(), tx).await;
                                session.strong(body).await?;
                            }
                        }
                    }
                    session.client.token().await
                });
            }
            let mut tokens = Vec::new();
            while let Some(token) = writers.join_next().await {
                tokens.push(token.expect("the thread has reported the panic")?);
            }
            Ok::<_, Error>(tokens)
        });
        let tokens = tokens.await?;
        // The next part, and the run, may depend on this one.
        for site in 0..place.sites().len() {
            attach(&mut place.connect(site).await?, &tokens).await?;
        }
    }
    Ok(())
}

async fn write(
    part: &Part,
    things: std::ops::Range<u64>,
    client: &mut Client,
) -> Result<(), Error> {
    let mut batch = Batch::default();
    for thing in things {
        (part.write)(thing, &mut batch);
        if batch.is_full() {
            std::mem::take(&mut batch).send(client).await?;
        }
    }
    if !batch.is_empty() {
        batch.send(client).await?;
    }
    Ok(())
}

/// Waits until a client's site has the pasts of all tokens.
pub(crate) async fn attach(client: &mut Client, tokens: &[Token]) -> Result<(), Error> {
    for token in tokens {
        let mut waits = 0;
        loop {
            match client.attach(token).await {
                Err(error) if error.code() == Some("TIMEOUT") && waits < WAITS => waits += 1,
                other => break other?,
            }
        }
    }
    Ok(())
}
