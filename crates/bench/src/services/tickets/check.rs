//! Conditions that must hold of the sales when all sites have all updates.

use std::collections::{BTreeMap, BTreeSet};

use solera::Error;

use super::{Event, Tickets};
use crate::invariant::Invariant;
use crate::services::IpaStoreSession;
use crate::services::spaces::SpacesSession;

/// Sales that clients know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Sales {
    /// Numbers of events, and tickets that clients have got.
    pub(super) sold: Vec<(usize, String)>,
    /// Events of purchases whose outcome is unknown.
    pub(super) unknown: Vec<usize>,
    /// Events that clients have added.
    pub(super) added: Vec<Event>,
}

impl Sales {
    pub(super) fn merge(&mut self, other: Sales) {
        self.sold.extend(other.sold);
        self.unknown.extend(other.unknown);
        self.added.extend(other.added);
    }
}

/// An event at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Number of tickets that it had at the beginning.
    pub(super) tickets: u32,
    /// Number of tickets that are left.
    pub(super) left: i64,
    /// Number of tickets that are left, by the counter for pages.
    pub(super) counted: i64,
    /// The same as pages show it: minimum and maximum.
    pub(super) shown: (i64, i64),
}

/// Number of elements of a list that is read whole.
const ALL: u32 = 1_000_000;

/// Checks the sales of the events that existed at the beginning.
pub(super) fn check(events: &[Found], sales: &Sales) -> Vec<Invariant> {
    let mut once = Invariant::new("no ticket is sold twice");
    let mut limit = Invariant::new("no event sells more tickets than it has");
    let mut left = Invariant::new("the tickets that are left and the acknowledged sales are all");
    let mut shown = Invariant::new("pages show the number of tickets that are left");
    let mut owners = BTreeMap::new();
    for (event, ticket) in &sales.sold {
        let first = owners.insert(ticket, event);
        let again = |first| format!("ticket {ticket} of event {event} was sold for event {first}");
        once.check(first.map(again));
    }
    for (number, event) in events.iter().enumerate() {
        let Found { tickets, left: remaining, counted, shown: (min, max) } = *event;
        let sold = sales.sold.iter().filter(|(event, _)| *event == number).count() as i64;
        let unknown = sales.unknown.iter().filter(|event| **event == number).count() as i64;
        let capacity = i64::from(tickets);
        let too_many = || format!("event {number} has sold {sold} of {capacity} tickets");
        limit.check((sold > capacity).then(too_many));
        // Each purchase with an unknown outcome may have taken a ticket.
        let (least, most) = (capacity - sold - unknown, capacity - sold);
        let wrong = || {
            format!(
                "event {number}: {sold} of {capacity} tickets were sold, {unknown} perhaps, and \
                 {remaining} are left"
            )
        };
        left.check((!(least..=most).contains(&remaining)).then(wrong));
        let is_shown = counted == remaining && (min..=max).contains(&remaining);
        let wrong = || {
            format!(
                "event {number}: {remaining} tickets are left, and pages show {counted} as {min} \
                 to {max}"
            )
        };
        shown.check((!is_shown).then(wrong));
    }
    vec![once, limit, left, shown]
}

/// Checks that events which clients have added are there, with their tickets.
pub(super) async fn added(
    service: &Tickets,
    session: &mut SpacesSession,
    added: &[Event],
) -> Result<Invariant, Error> {
    let mut rule = Invariant::new("each added event is listed with all its tickets");
    let mut listed = BTreeSet::new();
    let venues: BTreeSet<u64> = added.iter().map(|event| event.venue).collect();
    for venue in venues {
        listed.extend(session.newest(&service.venue(venue), ALL, service.policy).await?.0);
    }
    for event in added {
        let description = session.text(&event.name).await?;
        let left = session.units(&event.name, service.policy).await?;
        rule.check(wrong(event, listed.contains(&event.name), description.as_deref(), left));
    }
    Ok(rule)
}

/// Describes what is wrong with an event that a client has added.
fn wrong(event: &Event, listed: bool, description: Option<&str>, left: i64) -> Option<String> {
    let name = &event.name;
    if !listed {
        return Some(format!("venue {} does not list event {name}", event.venue));
    }
    if description != Some(&event.description) {
        return Some(format!("event {name} has another description"));
    }
    let tickets = event.tickets;
    (left != i64::from(tickets)).then(|| format!("event {name} has {left} of {tickets} tickets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two events, of which the first has sold 2 of 5 tickets, and perhaps another one.
    fn sales() -> ([Found; 2], Sales) {
        let events = [
            Found { tickets: 5, left: 2, counted: 2, shown: (2, 3) },
            Found { tickets: 4, left: 4, counted: 4, shown: (4, 4) },
        ];
        let sold = vec![(0, "a".to_owned()), (0, "b".to_owned())];
        (events, Sales { sold, unknown: vec![0], added: Vec::new() })
    }

    fn broken(events: &[Found], sales: &Sales) -> Vec<String> {
        check(events, sales).into_iter().flat_map(|rule| rule.examples).collect()
    }

    #[test]
    fn sales_that_keep_the_rules_break_none() {
        let (mut events, sales) = sales();
        assert_eq!(broken(&events, &sales), Vec::<String>::new());
        let checked: Vec<u64> = check(&events, &sales).iter().map(|rule| rule.checked).collect();
        assert_eq!(checked, [2, 2, 2, 2]);
        // The purchase with the unknown outcome has taken no ticket.
        (events[0].left, events[0].counted) = (3, 3);
        assert_eq!(broken(&events, &sales), Vec::<String>::new());
    }

    #[test]
    fn violations_of_each_rule_are_detected() {
        let (events, sales) = sales();
        let with =
            |left| [Found { left, counted: left, shown: (left, left), ..events[0] }, events[1]];
        for left in [1, 4] {
            let found = broken(&with(left), &sales);
            let reason = "event 0: 2 of 5 tickets were sold, 1 perhaps, and";
            assert!(found.len() == 1 && found[0].starts_with(reason), "{found:?}");
        }
        for (counted, shown, text) in [(2, (3, 3), "2 as 3 to 3"), (3, (2, 3), "3 as 2 to 3")] {
            let found = broken(&[Found { counted, shown, ..events[0] }, events[1]], &sales);
            assert_eq!(found, [format!("event 0: 2 tickets are left, and pages show {text}")]);
        }

        let mut twice = sales.clone();
        twice.sold[1].1 = "a".to_owned();
        assert_eq!(broken(&events, &twice), ["ticket a of event 0 was sold for event 0"]);

        let mut many = sales;
        many.sold.extend((0..4).map(|number| (0, number.to_string())));
        let found = broken(&with(-1), &many);
        assert_eq!(found, ["event 0 has sold 6 of 5 tickets"]);
    }

    #[test]
    fn an_added_event_must_be_there() {
        let (name, description) = ("e".to_owned(), "text".to_owned());
        let event = Event { name, venue: 3, description, tickets: 7 };
        assert_eq!(wrong(&event, true, Some("text"), 7), None);
        let unlisted = wrong(&event, false, Some("text"), 7);
        assert_eq!(unlisted.as_deref(), Some("venue 3 does not list event e"));
        for text in [None, Some("other")] {
            let other = wrong(&event, true, text, 7);
            assert_eq!(other.as_deref(), Some("event e has another description"));
        }
        let fewer = wrong(&event, true, Some("text"), 6);
        assert_eq!(fewer.as_deref(), Some("event e has 6 of 7 tickets"));
    }
}
