//! The protocol that runs a space.

use std::fmt;

use solera_time::SiteId;

/// The protocol that executes a space's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// UniStore, which gives the guarantee of the space's level.
    #[default]
    UniStore,
    /// The example `primary`, which has no levels.
    Primary(Answer),
    /// Occult, which gives the level `pcpsi`.
    Occult(SpaceHome),
    /// Creek, which gives the level `speculative`.
    Speculative,
}

/// The home of the keys of a space that Occult runs: the site that orders their updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpaceHome {
    /// The hash of a key determines its home.
    #[default]
    Hash,
    /// One site, unless its shards have moved.
    Site(SiteId),
}

/// Event at which an update in a space of `primary` is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// The client's own site has applied the update.
    #[default]
    Applied,
    /// The home of the key has ordered and stored the update.
    Accepted,
}

impl Answer {
    const ALL: [Answer; 2] = [Answer::Applied, Answer::Accepted];

    /// Returns the name in `solera.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Applied => "applied",
            Answer::Accepted => "accepted",
        }
    }

    /// Returns the event with this name.
    pub(crate) fn named(name: &str) -> Option<Answer> {
        Answer::ALL.into_iter().find(|answer| answer.name() == name)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
