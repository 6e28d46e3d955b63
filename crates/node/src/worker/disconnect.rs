//! Commands whose clients disconnect before the answer.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

/// Time that a command may still run after its client has disconnected, so that the session does
/// not remain for ever. Recovery of a commit whose answer was lost relies on this limit: it treats
/// the commit as ended after `IN_DOUBT_MS` of `solera-mixt`.
const AFTER_DISCONNECT: Duration = Duration::from_secs(10);

/// Runs a command to its end, or drops it some time after `disconnected` completes. The caller pins
/// the future, so that a large future is not copied for each command.
pub(super) async fn unless_disconnected<T>(
    mut running: Pin<&mut impl Future<Output = T>>,
    disconnected: impl Future<Output = ()>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = &mut running => Some(done),
        () = disconnected => timeout(AFTER_DISCONNECT, running).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn abandoned_commands_run_for_ten_more_seconds() {
        let (began, hour) = (Instant::now(), Duration::from_secs(3_600));
        assert_eq!(unless_disconnected(pin!(sleep(hour)), pending()).await, Some(()));
        assert_eq!(began.elapsed(), hour);
        let began = Instant::now();
        assert_eq!(unless_disconnected(pin!(sleep(AFTER_DISCONNECT)), ready(())).await, Some(()));
        assert_eq!(unless_disconnected(pin!(pending::<()>()), ready(())).await, None);
        assert_eq!(began.elapsed().as_secs(), 20);
        // The time begins when the client disconnects.
        let began = Instant::now();
        assert_eq!(unless_disconnected(pin!(pending::<()>()), sleep(hour)).await, None);
        assert_eq!(began.elapsed(), hour + AFTER_DISCONNECT);
    }
}
