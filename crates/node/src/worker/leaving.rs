//! Commands whose clients leave before they are answered.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

/// How long a command may still run after its client has left, so that a client that is gone does
/// not keep its session. Whoever asks for the outcome of a commit whose answer was lost relies on
/// it: after `IN_DOUBT_MS` in `solera-mixt` the commit is over.
const AFTER_LEAVING: Duration = Duration::from_secs(10);

/// Runs something for a client to its end, or gives it up some time after the client has `left`. It
/// is pinned where it is made: what a command is would be copied for each of them.
pub(super) async fn unless_left<T>(
    mut running: Pin<&mut impl Future<Output = T>>,
    left: impl Future<Output = ()>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = &mut running => Some(done),
        () = left => timeout(AFTER_LEAVING, running).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_waits_for_runs_for_ten_seconds_more() {
        let (began, hour) = (Instant::now(), Duration::from_secs(3_600));
        assert_eq!(unless_left(pin!(sleep(hour)), pending()).await, Some(()));
        assert_eq!(began.elapsed(), hour);
        let began = Instant::now();
        assert_eq!(unless_left(pin!(sleep(AFTER_LEAVING)), ready(())).await, Some(()));
        assert_eq!(unless_left(pin!(pending::<()>()), ready(())).await, None);
        assert_eq!(began.elapsed().as_secs(), 20);
        // The time begins when the client leaves.
        let began = Instant::now();
        assert_eq!(unless_left(pin!(pending::<()>()), sleep(hour)).await, None);
        assert_eq!(began.elapsed(), hour + AFTER_LEAVING);
    }
}
