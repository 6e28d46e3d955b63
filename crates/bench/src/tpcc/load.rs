//! Writes the tables and the module.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use solera::Error;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

use super::initial::Population;
use super::rows::Keys;
use super::{MODULE, Tpcc};
use crate::error::BenchError;
use crate::load::attach;
use crate::place::TargetCluster;

/// Number of concurrent writers per site.
const LANES: usize = 12;

/// Time between two reports of progress.
const REPORTS: Duration = Duration::from_secs(2);

/// Time for which a writer tries again while the space is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Loads the module, and waits until all sites have it.
pub(super) async fn install(
    place: &TargetCluster,
    space: &str,
    source: &str,
) -> Result<(), BenchError> {
    let installed = async {
        let mut client = place.connect(0).await?;
        let bind = format!("db={space}");
        let words = ["SOLERA.MODULE", "LOAD", MODULE, source, "REPLACE", "BIND", &bind];
        client.command(&words).await?;
        let token = client.token().await?;
        for site in 1..place.sites().len() {
            attach(&mut place.connect(site).await?, std::slice::from_ref(&token)).await?;
        }
        Ok(())
    };
    installed.await.map_err(BenchError::Load)
}

/// Returns whether the tables must be written, because there are none.
///
/// # Errors
/// Fails if there are other tables, or if they cannot be read.
pub(super) async fn is_needed(
    tpcc: &Tpcc,
    keys: &Keys,
    place: &TargetCluster,
) -> Result<bool, BenchError> {
    let wanted = tpcc.to_string();
    let found = async { place.connect(0).await?.get(&keys.loaded()).await };
    match found.await.map_err(BenchError::Load)? {
        None => Ok(true),
        Some(found) if found == wanted => Ok(false),
        Some(found) => Err(BenchError::OtherData { found, wanted }),
    }
}

/// Writes the tables, and reports the progress.
pub(super) async fn load(
    tpcc: &Tpcc,
    keys: &Keys,
    population: &Arc<Population>,
    place: &TargetCluster,
    report: &dyn Fn(&str),
) -> Result<(), BenchError> {
    let local = LocalSet::new();
    let loaded = local.run_until(async {
        let parts = Rc::new(population.parts());
        let (next, rows) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0_usize)));
        report("loading");
        let mut writers = JoinSet::new();
        for lane in 0..LANES * place.sites().len() {
            let (parts, next, rows) = (Rc::clone(&parts), Rc::clone(&next), Rc::clone(&rows));
            let (place, keys, population) = (place.clone(), keys.clone(), Arc::clone(population));
            writers.spawn_local(async move {
                let mut client = place.connect(lane).await?;
                while let Some(part) = parts.get(next.replace(next.get() + 1)) {
                    let written = population.rows(*part, &keys);
                    let pairs = written.iter().flat_map(|(key, value)| [key, value]);
                    // A strong command, so that no writer is faster than the agreement.
                    let words = ["SOLERA.CALL", "MSET"].into_iter();
                    let words: Vec<&str> = words.chain(pairs.map(String::as_str)).collect();
                    persist(async || client.command(&words).await.map(drop)).await?;
                    rows.set(rows.get() + written.len());
                }
                Ok::<_, Error>(())
            });
        }
        let mut due = Instant::now() + REPORTS;
        loop {
            tokio::select! {
                written = writers.join_next() => match written {
                    Some(written) => written.expect("the thread has reported the panic")?,
                    None => break,
                },
                () = tokio::time::sleep_until(due) => {
                    let done = next.get().min(parts.len()) * 100 / parts.len();
                    report(&format!("loading: {} rows, {done}%", rows.get()));
                    due += REPORTS;
                }
            }
        }
        report(&format!("loaded {} rows", rows.get()));
        let mut client = place.connect(0).await?;
        let (key, value) = (keys.loaded(), tpcc.to_string());
        client.command(&["SOLERA.CALL", "SET", &key, &value]).await?;
        let token = client.token().await?;
        for site in 1..place.sites().len() {
            attach(&mut place.connect(site).await?, std::slice::from_ref(&token)).await?;
        }
        Ok(())
    });
    loaded.await.map_err(BenchError::Load)
}

/// Repeats a write of the same values while the space is busy or the result is late.
async fn persist(mut write: impl AsyncFnMut() -> Result<(), Error>) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        match write().await {
            Err(error)
                if matches!(error.code(), Some("BUSY" | "UNKNOWN" | "TRYAGAIN"))
                    && Instant::now() < end =>
            {
                sleep(Duration::from_millis(100)).await;
            }
            other => return other,
        }
    }
}
