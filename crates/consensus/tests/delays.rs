//! Message delays of the broadcast, with links that all take the same time.
//!
//! A body that has arrived at the leader is delivered two message delays later (Creek §6.2: three
//! communication phases with that of the body).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use solera_consensus::{CastId, Config, Member, Message, Output, Predicate, Run};
use solera_time::{Monotonic, Queue, SiteId};

const DELAY: u64 = 10_000_000;

/// The casts whose bodies a site has.
#[derive(Default)]
struct Bodies(RefCell<BTreeSet<CastId>>);

impl Predicate<CastId> for Bodies {
    fn holds(&self, id: CastId) -> bool {
        self.0.borrow().contains(&id)
    }

    fn bodies(&self, ids: &[CastId]) -> Vec<CastId> {
        ids.to_vec()
    }

    fn bytes(&self, _: &CastId) -> usize {
        1
    }
}

enum Event {
    Body(CastId),
    Message(SiteId, Message<CastId>),
}

struct Sites {
    members: Vec<(Member<CastId>, Bodies)>,
    queue: Queue<(usize, Event)>,
    now: u64,
    /// Number of message delays after which each site has delivered each cast.
    delivered: BTreeMap<(CastId, usize), u64>,
    messages: BTreeMap<&'static str, usize>,
}

impl Sites {
    fn new(sites: usize) -> Sites {
        let member = |site: usize| {
            let config = Config::new(SiteId(site as u8), sites, SiteId(0));
            (Member::new(config, Monotonic(0)), Bodies::default())
        };
        let mut world = Sites {
            members: (0..sites).map(member).collect(),
            queue: Queue::new(),
            now: 0,
            delivered: BTreeMap::new(),
            messages: BTreeMap::new(),
        };
        for site in 0..sites {
            let (member, bodies) = &mut world.members[site];
            member.begin(Monotonic(0), bodies, true);
            world.carry_out(site);
        }
        world.run();
        world.messages.clear();
        world
    }

    fn carry_out(&mut self, site: usize) {
        let (member, _) = &mut self.members[site];
        while let Some(output) = member.poll_output() {
            match output {
                Output::Send { to, message } => {
                    *self.messages.entry(message.name()).or_default() += 1;
                    let event = Event::Message(SiteId(site as u8), message);
                    self.queue.push(self.now + DELAY, (to.index(), event));
                }
                Output::Deliver { ids, .. } => {
                    for id in ids {
                        let before = self.delivered.insert((id, site), self.now / DELAY);
                        assert_eq!(before, None);
                    }
                }
                _ => {}
            }
        }
    }

    fn run(&mut self) {
        while let Some((at, (site, event))) = self.queue.pop(u64::MAX) {
            self.now = at;
            let (member, bodies) = &mut self.members[site];
            let now = Monotonic(at);
            match event {
                Event::Body(id) => {
                    bodies.0.borrow_mut().insert(id);
                    member.learn(now, bodies, id);
                }
                Event::Message(from, message) => member.on_message(now, bodies, from, message),
            }
            self.carry_out(site);
        }
    }

    /// Returns after how many delays each site delivers a cast whose body arrives at the sites
    /// after these numbers of delays.
    fn cast(sites: usize, bodies: &[u64]) -> Vec<u64> {
        let mut world = Sites::new(sites);
        let start = world.now / DELAY;
        let id = Run { site: SiteId(0), number: 0 }.cast(1);
        for (site, delays) in bodies.iter().enumerate() {
            world.queue.push(world.now + delays * DELAY, (site, Event::Body(id)));
        }
        world.run();
        let proposals = world.messages.get("Consensus Accept").copied().unwrap_or(0);
        assert_eq!(proposals, sites - 1);
        let times = (0..sites).map(|site| world.delivered[&(id, site)] - start);
        times.collect()
    }
}

/// The proposal takes one delay and the acceptances another one. With two or three members, the
/// leader's proposal and a member's own acceptance are a quorum, so that the member does not wait
/// for others.
#[test]
fn a_cast_known_everywhere_is_delivered_after_two_delays() {
    assert_eq!(Sites::cast(2, &[0; 2]), [2, 1]);
    assert_eq!(Sites::cast(3, &[0; 3]), [2, 1, 1]);
    assert_eq!(Sites::cast(4, &[0; 4]), [2; 4]);
    assert_eq!(Sites::cast(5, &[0; 5]), [2; 5]);
    assert_eq!(Sites::cast(7, &[0; 7]), [2; 7]);
}

/// The body takes one delay to the leader, at site 0.
#[test]
fn a_cast_of_another_site_is_delivered_after_three_delays() {
    assert_eq!(Sites::cast(5, &[1, 1, 0, 1, 1]), [3; 5]);
    assert_eq!(Sites::cast(3, &[1, 0, 1]), [3, 2, 2]);
    // The leader makes the cast: the body and the proposal arrive together.
    assert_eq!(Sites::cast(5, &[0, 1, 1, 1, 1]), [2; 5]);
}

/// A member whose body is late delays nobody else, and delivers as soon as it has the body.
#[test]
fn a_late_body_delays_its_member_only() {
    assert_eq!(Sites::cast(5, &[0, 1, 9, 1, 1]), [2, 2, 9, 2, 2]);
    assert_eq!(Sites::cast(5, &[0, 1, 9, 8, 1]), [2, 2, 9, 8, 2]);
    // Three of five are a quorum. With three late members, the first of them completes it: it
    // delivers at once, and the others when they have its acceptance and the body.
    assert_eq!(Sites::cast(5, &[0, 1, 9, 8, 7]), [8, 8, 9, 8, 7]);
}

/// A single member decides by itself.
#[test]
fn a_single_member_delivers_at_once() {
    assert_eq!(Sites::cast(1, &[0]), [0]);
}
