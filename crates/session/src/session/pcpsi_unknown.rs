//! Updates with an unknown outcome, of keys that Occult holds, and how their session goes on.

use solera_occult::{Response, Unknown};

use super::occult::OccultSession;

impl OccultSession {
    /// Notes how the session goes on after a command whose outcome is unknown.
    pub(super) fn note_unknown(&mut self, unknown: Unknown) {
        match unknown {
            Unknown::Past(past) => self.past = past,
            Unknown::Pending(transaction) => self.pending = Some(transaction),
            Unknown::Lost => self.has_lost_outcome = true,
        }
    }

    /// Checks that the outcome of no earlier update is lost.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn check_outcome(&self) -> Result<(), String> {
        match self.has_lost_outcome {
            true => Err(lost_outcome()),
            false => Ok(()),
        }
    }

    /// Handles the answer to the question for the pending update's outcome.
    ///
    /// # Errors
    /// The error reply, if the outcome is still unknown, or cannot be learned any more.
    pub(super) fn take_outcome(&mut self, answer: Response) -> Result<(), String> {
        match answer {
            Response::Unknown(Unknown::Pending(_)) => {
                return Err("TRYAGAIN the outcome of an earlier command is still unknown, because a home does not \
                     answer; nothing was done. RESET makes the session forget that command"
                    .to_owned());
            }
            Response::Unknown(unknown) => self.note_unknown(unknown),
            Response::Committed { past, .. } => self.past = past,
            // The worker has forgotten the transaction. The update may be done, with unknown
            // dependencies.
            Response::NoSuchTransaction => self.has_lost_outcome = true,
            _ => {}
        }
        self.pending = None;
        self.check_outcome()
    }
}

fn lost_outcome() -> String {
    "LOST the outcome of an earlier command is not known any more, and the session may depend on it; nothing was done. \
     RESET, and go on without the session's past"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use solera_occult::{CausalTimestamp, ReadCounts, Scheme, ShardId, Stamp};
    use solera_time::SiteId;

    use super::*;

    fn waiting() -> OccultSession {
        let mut session = OccultSession::with(Scheme::PerSite(2));
        session.note_unknown(Unknown::Pending(7));
        session
    }

    #[test]
    fn a_session_goes_on_with_the_past_of_its_update() {
        let mut session = waiting();
        assert!(session.take_outcome(Response::Unknown(Unknown::Pending(7))).is_err());
        assert_eq!(session.pending, Some(7), "it asks again");
        let mut past = CausalTimestamp::new(Scheme::PerSite(2));
        past.raise(ShardId(3), SiteId(1), Stamp(9));
        let (outcomes, counts) = (Vec::new(), ReadCounts::default());
        let committed = Response::Committed { outcomes, past: past.clone(), counts };
        assert_eq!(session.take_outcome(committed), Ok(()));
        assert_eq!((session.pending, session.past), (None, past));
    }

    /// The outcome is lost with the home, whether it was pending or not.
    #[test]
    fn a_session_does_not_go_on_after_its_update_was_lost_with_a_home() {
        let mut session = OccultSession::with(Scheme::PerSite(2));
        session.note_unknown(Unknown::Lost);
        assert!(session.check_outcome().is_err_and(|error| error.starts_with("LOST")));
        let mut session = waiting();
        let answer = session.take_outcome(Response::Unknown(Unknown::Lost));
        assert!(answer.is_err_and(|error| error.starts_with("LOST")));
        assert_eq!(session.pending, None);
    }

    /// The worker forgets outcomes for which nobody has asked for a while. A session once went on
    /// in this case, and did not see its own update.
    #[test]
    fn a_session_does_not_go_on_without_an_update_that_may_be_done() {
        let mut session = waiting();
        let answer = session.take_outcome(Response::NoSuchTransaction);
        assert!(answer.is_err_and(|error| error.starts_with("LOST")));
        assert_eq!(session.pending, None);
        assert!(session.check_outcome().is_err(), "until RESET");
    }
}
