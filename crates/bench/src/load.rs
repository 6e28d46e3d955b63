//! Filling a cluster before a run, and waiting until all sites have everything.

use std::cell::Cell;
use std::rc::Rc;

use solera::{Client, Error, Token};
use tokio::task::{JoinSet, LocalSet};

use crate::batch::Batch;
use crate::place::Place;
use crate::session::{Session, Strong};

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Command by command, causally.
    Causal,
    /// In strong transactions of many commands, because the commands are strong where they are
    /// written.
    Strong,
}

/// Adds the commands that write a thing, by its number.
type Write = dyn Fn(u64, &mut Batch);

/// One part of the data: what commands write each of so many things.
pub(crate) struct Part {
    pub(crate) count: u64,
    pub(crate) writing: Writing,
    pub(crate) write: Rc<Write>,
}

/// Clients that write at the same time, at each site.
const LANES: usize = 4;
/// How many things a client takes at once, and writes in one transaction if they are strong.
const STRETCH: u64 = 250;
/// A site that does not have everything is asked again so often, and waits 10 seconds each time.
const WAITS: u32 = 30;

/// Writes the parts, one after the other, and returns when every site has all of them.
pub(crate) async fn fill(place: &Place, strong: Strong, parts: Vec<Part>) -> Result<(), Error> {
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
                    let mut session = Session::new(place.connect(lane).await?, strong);
                    while next.get() < part.count {
                        let from = next.replace(next.get() + STRETCH);
                        let stretch = from..part.count.min(from + STRETCH);
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
                tokens.push(token.expect("a panic is told by its thread")?);
            }
            Ok::<_, Error>(tokens)
        });
        let tokens = tokens.await?;
        // The next part may depend on this one, and so does the run.
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

/// Waits until a client's site has all that the tokens stand for.
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
