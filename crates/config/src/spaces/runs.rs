//! Which protocol runs a space.

use std::fmt;

/// The protocol that a space's commands are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// UniStore, which keeps the promise of the space's level.
    #[default]
    UniStore,
    /// The example `primary`, which knows no levels.
    Primary(Answer),
}

/// When the client of an update in a space of `primary` is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// When the client's own site has applied the update.
    #[default]
    Applied,
    /// When the home of the key has ordered the update and keeps it.
    Accepted,
}

impl Answer {
    const ALL: [Answer; 2] = [Answer::Applied, Answer::Accepted];

    /// The name in `solera.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Applied => "applied",
            Answer::Accepted => "accepted",
        }
    }

    /// Returns what has this name.
    pub(crate) fn named(name: &str) -> Option<Answer> {
        Answer::ALL.into_iter().find(|answer| answer.name() == name)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
