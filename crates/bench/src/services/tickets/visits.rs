//! Clients of the ticket service.

use solera::Error;

use super::check::{self, Found, Sales};
use super::{Action, EVENTS, KINDS, Tickets};
use crate::closed_loop::Workload;
use crate::invariant::Invariant;
use crate::random::Random;
use crate::services::observations::{CANNOT_TELL, SOLD, SOLD_OUT};
use crate::services::spaces::{SpacesSession, SpacesSites};
use crate::services::store::{Bought, Observed, Read};
use crate::services::{IpaStoreSession, Run, Visited, is_unknown, while_unsure};
use crate::tally::{Done, Kind};

/// A run of the ticket service.
pub(crate) struct Visits {
    tickets: Tickets,
    run: Run,
}

/// A client.
pub(crate) struct Visitor {
    random: Random,
    next: Option<Action>,
    sales: Sales,
}

impl Visits {
    pub(crate) fn new(run: Run, mean: u32) -> Visits {
        Visits { tickets: Tickets::new(run.name.clone(), run.variant.of_tickets(), mean), run }
    }

    /// Reads an event that exists at the beginning.
    async fn find(&self, session: &mut SpacesSession, number: usize) -> Result<Found, Error> {
        let (event, policy) = (self.tickets.event(number), self.tickets.policy);
        let left = session.units(&event, policy).await?;
        let (counted, shown) = match session.left(&event, policy).await? {
            Read::Value(left, _) => (left, (left, left)),
            Read::Interval(min, max) => (session.value(&event, policy).await?, (min, max)),
        };
        Ok(Found { tickets: self.tickets.initial(number).tickets, left, counted, shown })
    }
}

impl Workload for Visits {
    type Sessions = SpacesSites;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        self.run.kinds(&KINDS, 2)
    }

    fn visitor(&self, client: usize) -> Visitor {
        let random = Random::new(self.run.seed ^ ((client as u64) << 32));
        Visitor { random, next: None, sales: Sales::default() }
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        let action = self.tickets.draw(&mut visitor.random);
        visitor.next.insert(action).kind()
    }

    async fn run(
        &self,
        _kind: usize,
        visitor: &mut Visitor,
        session: &mut SpacesSession,
    ) -> Result<Done, Error> {
        let action = visitor.next.take().expect("an operation was drawn for each run");
        let (sales, mut observed) = (&mut visitor.sales, Observed::default());
        // The purchase may be cancelled when the run ends.
        let event = if let Action::Purchase { event } = action { Some(event) } else { None };
        sales.unknown.extend(event);
        let result = self.tickets.perform(session, &action, &mut observed).await;
        session.observe(&observed);
        if event.is_some() && !result.as_ref().is_err_and(is_unknown) {
            sales.unknown.pop();
        }
        let (counted, done) = match (result?, event) {
            (Some(Bought::One(ticket)), Some(event)) => {
                sales.sold.push((event, ticket));
                (SOLD, Done::Well)
            }
            (Some(Bought::SoldOut), _) => (SOLD_OUT, Done::Refused),
            (Some(Bought::CannotTell), _) => (CANNOT_TELL, Done::Refused),
            _ => {
                if let Action::Add(event) = action {
                    sales.added.push(event);
                }
                return Ok(Done::Well);
            }
        };
        session.count(counted, 1);
        Ok(done)
    }
}

impl Visited for Visits {
    fn items(&self) -> usize {
        EVENTS
    }

    async fn load(&self, session: &mut SpacesSession, number: usize) -> Result<(), Error> {
        self.tickets.load(session, number).await
    }

    async fn check(
        &self,
        session: &mut SpacesSession,
        visitors: Vec<Visitor>,
    ) -> Result<Vec<Invariant>, Error> {
        let mut sales = Sales::default();
        visitors.into_iter().for_each(|visitor| sales.merge(visitor.sales));
        let mut events = Vec::new();
        for number in 0..EVENTS {
            let found = while_unsure(async || self.find(session, number).await);
            events.push(found.await?);
        }
        let mut rules = check::check(&events, &sales);
        rules.push(check::added(&self.tickets, session, &sales.added).await?);
        Ok(rules)
    }
}
