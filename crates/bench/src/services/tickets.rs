//! The ticket service (IPA §5.3.1).
//!
//! Clients look at events (70%), browse the events of a venue (19%), buy a ticket (10%) and add
//! events (1%). There are 50 venues, and 200 events with 2000 ± 500 tickets. Popular events are
//! chosen more often, by Zipf's law with exponent 0.6.
//!
//! | module | subject |
//! |---|---|
//! | `visits` | clients of a run, and the sales that they know of |
//! | `check` | conditions that must hold at the end |

mod check;
mod visits;

use solera::Error;

use super::store::{Bought, IpaStoreSession, Observed, Policy};
use crate::random::{Random, Zipf};
pub(crate) use visits::Visits;

/// Number of events at the beginning of a run.
pub(crate) const EVENTS: usize = 200;
/// Mean number of tickets of an event.
pub(crate) const TICKETS: u32 = 2000;
const VENUES: u64 = 50;
/// Standard deviation of the number of tickets, as a part of the mean.
const DEVIATION: f64 = 0.25;
const POPULARITY: f64 = 0.6;
/// Number of events that a venue's page shows.
const SHOWN: u32 = 20;

/// Names of the kinds of operations, in the order of [`Action::kind`].
pub(crate) const KINDS: [&str; 4] = ["view", "browse", PURCHASE, "add event"];
pub(crate) const PURCHASE: &str = "purchase";
/// Weights of the kinds.
const MIX: [u32; 4] = [70, 19, 10, 1];

/// The service as one run uses it.
pub(crate) struct Tickets {
    /// Name of the run, which is part of the names of events and venues.
    run: String,
    policy: Policy,
    /// Mean number of tickets of an event.
    mean: u32,
    popular: Zipf,
}

/// An operation of a client.
pub(crate) enum Action {
    /// Reads the description of an event, and how many tickets are left.
    View { event: usize },
    /// Reads the newest events of a venue.
    Browse { venue: u64 },
    /// Buys a ticket.
    Purchase { event: usize },
    /// Adds an event.
    Add(Event),
}

/// An event that a client adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    name: String,
    venue: u64,
    description: String,
    tickets: u32,
}

impl Action {
    /// Returns the index of its kind in [`KINDS`].
    pub(crate) fn kind(&self) -> usize {
        match self {
            Action::View { .. } => 0,
            Action::Browse { .. } => 1,
            Action::Purchase { .. } => 2,
            Action::Add(_) => 3,
        }
    }
}

impl Tickets {
    pub(crate) fn new(run: String, policy: Policy, mean: u32) -> Tickets {
        Tickets { run, policy, mean, popular: Zipf::with_exponent(EVENTS, POPULARITY) }
    }

    fn event(&self, number: usize) -> String {
        format!("{}:event{number}", self.run)
    }

    fn venue(&self, number: u64) -> String {
        format!("{}:venue{number}", self.run)
    }

    /// Returns an event that exists at the beginning.
    fn initial(&self, number: usize) -> Event {
        self.draw_event(self.event(number), &mut Random::new(number as u64))
    }

    fn draw_event(&self, name: String, random: &mut Random) -> Event {
        let (description, tickets) = (random.text(200), tickets(random, self.mean));
        Event { name, venue: random.below(VENUES), description, tickets }
    }

    /// Adds an event that exists at the beginning.
    pub(crate) async fn load(
        &self,
        session: &mut impl IpaStoreSession,
        number: usize,
    ) -> Result<(), Error> {
        self.add(session, &self.initial(number)).await
    }

    /// Draws an operation.
    pub(crate) fn draw(&self, random: &mut Random) -> Action {
        match random.weighted(&MIX) {
            0 => Action::View { event: self.popular.draw(random) },
            1 => Action::Browse { venue: random.below(VENUES) },
            2 => Action::Purchase { event: self.popular.draw(random) },
            _ => {
                let name = format!("{}:new{}", self.run, random.next());
                Action::Add(self.draw_event(name, random))
            }
        }
    }

    /// Runs an operation. Returns the result of a purchase.
    pub(crate) async fn perform(
        &self,
        session: &mut impl IpaStoreSession,
        action: &Action,
        observed: &mut Observed,
    ) -> Result<Option<Bought>, Error> {
        match action {
            Action::View { event } => {
                let event = self.event(*event);
                session.text(&event).await?;
                observed.note(session.left(&event, self.policy).await?);
            }
            Action::Browse { venue } => {
                let venue = self.venue(*venue);
                let (_, level) = session.newest(&venue, SHOWN, self.policy).await?;
                observed.levels.push(level);
            }
            Action::Purchase { event } => {
                return session.take(&self.event(*event), self.policy).await.map(Some);
            }
            Action::Add(event) => self.add(session, event).await?,
        }
        Ok(None)
    }

    async fn add(&self, session: &mut impl IpaStoreSession, event: &Event) -> Result<(), Error> {
        session.grow(&event.name, event.tickets, self.policy).await?;
        session.write(&event.name, &event.description).await?;
        session.push(&[self.venue(event.venue)], &event.name, self.policy).await
    }
}

/// Returns a normally distributed number of tickets, by the sum of uniform numbers.
fn tickets(random: &mut Random, mean: u32) -> u32 {
    let uniform = |random: &mut Random| random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
    (f64::from(mean) * (1.0 + DEVIATION * normal)).max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_papers_number_of_tickets() {
        let mut random = Random::new(4);
        let drawn: Vec<f64> =
            (0..10_000).map(|_| f64::from(tickets(&mut random, TICKETS))).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 2000.0).abs() < 20.0, "{mean}");
        assert!((variance.sqrt() - 500.0).abs() < 20.0, "{variance}");
    }

    #[test]
    fn operations_have_the_papers_shares_and_popular_events_more_of_them() {
        let tickets = Tickets::new("run".to_owned(), Policy::Weak, TICKETS);
        let mut random = Random::new(5);
        let (mut kinds, mut events) = ([0_u32; 4], vec![0_u32; EVENTS]);
        for _ in 0..50_000 {
            let action = tickets.draw(&mut random);
            kinds[action.kind()] += 1;
            match action {
                Action::View { event } | Action::Purchase { event } => events[event] += 1,
                Action::Browse { venue } => assert!(venue < VENUES),
                Action::Add(event) => assert!(event.name.starts_with("run:new")),
            }
        }
        for (drawn, expected) in kinds.iter().zip([35_000_u32, 9500, 5000, 500]) {
            assert!(drawn.abs_diff(expected) <= expected / 8, "{drawn} for {expected}");
        }
        // Zipf's law with exponent 0.6 gives the first of 200 events 5.3% of all, and 10 to the
        // power of 0.6, or 4, times as many as the tenth.
        assert!((1900..2300).contains(&events[0]), "{}", events[0]);
        let ratio = f64::from(events[0]) / f64::from(events[9]);
        assert!((3.2..4.8).contains(&ratio), "{ratio}");
    }
}
