//! Loading the data of a service.

use std::time::Duration;

use solera::{Error, Token};
use tokio::task::{JoinSet, LocalSet};

use super::store::IpaStoreSession;
use crate::error::BenchError;

/// Number of sessions that load data.
const LOADERS: usize = 20;

/// Runs a task for each number below `count`, in several sessions, and waits until a majority of
/// the replicas has what these sessions have written. Returns the tokens of the sessions. A task
/// begins with its requests that sites may refuse with TRYAGAIN, and is then repeated.
///
/// # Errors
/// Fails if a session cannot connect, or if a task fails.
pub(crate) fn load<S: IpaStoreSession>(
    connect: impl AsyncFn(usize) -> Result<S, BenchError>,
    count: usize,
    task: impl AsyncFn(&mut S, usize) -> Result<(), Error> + Clone + 'static,
) -> Result<Vec<Token>, BenchError> {
    let tasks = LocalSet::new();
    let running = async {
        let mut loaders = JoinSet::new();
        for loader in 0..LOADERS {
            let (mut session, task) = (connect(loader).await?, task.clone());
            loaders.spawn_local(async move {
                for number in (loader..count).step_by(LOADERS) {
                    while_unsure(async || task(&mut session, number).await).await?;
                }
                session.settle().await
            });
        }
        let mut tokens = Vec::new();
        while let Some(loaded) = loaders.join_next().await {
            let token = loaded.expect("the thread has reported the panic");
            tokens.extend(token.map_err(BenchError::Load)?);
        }
        Ok(tokens)
    };
    crate::runtime()?.block_on(tasks.run_until(running))
}

/// Pause between attempts of [`while_unsure`], and their number.
const PAUSE: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 200;

/// Repeats requests while a site refuses them with TRYAGAIN, because other sites hold tokens. The
/// refusal must not leave changes.
pub(crate) async fn while_unsure<R>(
    mut request: impl AsyncFnMut() -> Result<R, Error>,
) -> Result<R, Error> {
    let mut attempts = 1;
    loop {
        match request().await {
            Err(error) if error.code() == Some("TRYAGAIN") && attempts < ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}
