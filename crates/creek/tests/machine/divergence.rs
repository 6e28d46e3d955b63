//! Sites whose results differ.

use solera_creek::{Command, Creek, Level, Part, Response};
use solera_machine::Machine;

use super::cluster::{Cluster, Letters, Text, text};

type TextPart = Part<Letters, String, String>;

impl Cluster {
    /// Restarts a site with another text than it had.
    fn damage(&mut self, at: usize) {
        self.write_checkpoint(at, 10);
        for bytes in &mut self.parts[at] {
            let mut part = TextPart::decode(bytes).unwrap();
            if let Part::Registers(registers) = &mut part {
                registers.iter_mut().for_each(|(_, text)| text.push('!'));
                bytes.clear();
                Creek::<Text>::encode_part(&part, bytes);
            }
        }
        self.restart(at);
    }

    fn reads(&mut self, at: usize) -> String {
        let request = self.invoke(at, Letters::Read, Level::Weak, false);
        text(self.replies_to(request)[0]).to_owned()
    }

    /// Lets time pass while a site is cut off.
    fn rest_without(&mut self, cut: usize) {
        for _ in 0..60 {
            self.millis += 20;
            (0..self.machines.len()).filter(|at| *at != cut).for_each(|at| self.tick(at));
            let sites = 0..self.machines.len();
            sites.for_each(|at| {
                self.sent[at][cut].clear();
                self.sent[cut][at].clear();
            });
            self.delay();
        }
    }
}

/// Three sites of which the last one has lost its way after three operations.
fn damaged() -> Cluster {
    let mut cluster = Cluster::new(|_| {});
    for letter in ['a', 'b', 'c'] {
        cluster.append(0, letter, Level::Strong);
    }
    cluster.rest();
    cluster.damage(2);
    cluster
}

#[test]
fn a_site_that_differs_from_a_majority_stops_and_the_others_go_on() {
    let mut cluster = damaged();
    cluster.rest();
    // Nothing was executed since, so nothing differs.
    assert_eq!(cluster.machines[2].divergence(), None);
    for letter in ['d', 'x', 'y', 'z'] {
        cluster.append(0, letter, Level::Weak);
    }
    cluster.rest();
    let found = cluster.machines[2].divergence().unwrap();
    assert_eq!((found.after, found.position, found.is_stopped), (3, 4, true));
    assert_eq!(found.sites.iter().map(|site| site.index()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(cluster.reads(2), "diverged");
    for at in [0, 1] {
        let found = cluster.machines[at].divergence().unwrap();
        assert_eq!((found.sites[0].index(), found.is_stopped), (2, false));
        assert_eq!(cluster.reads(at), "abcdxyz");
    }
    // Operations of a site that has stopped have no effect, and it still votes.
    let before = cluster.machines[2].status();
    let refused = cluster.append(2, 'x', Level::Weak);
    assert_eq!(text(cluster.replies_to(refused)[0]), "diverged");
    let last = cluster.append(1, 'e', Level::Strong);
    cluster.rest_without(0);
    assert_eq!(text(cluster.replies_to(last).last().unwrap()), "abcdxyze");
    assert_eq!(cluster.machines[2].status().finals, before.finals + 1);
}

#[test]
fn a_request_that_waits_is_answered_when_its_site_stops() {
    let mut cluster = damaged();
    let strong = cluster.append(2, 'd', Level::Strong);
    let id = cluster.machines[2].unstable().next().unwrap().id;
    cluster.append(0, 'e', Level::Strong);
    cluster.rest();
    // Nobody could know yet that the first result after the damage was wrong.
    assert!(matches!(cluster.replies_to(strong).last(), Some(Response::Stable { .. })));
    let waits = cluster.command(2, Command::Await { id });
    assert!(matches!(cluster.replies_to(waits)[..], [Response::Diverged(_)]));
}

#[test]
fn a_site_that_has_stopped_stops_again_after_a_restart() {
    let mut cluster = damaged();
    cluster.append(0, 'd', Level::Strong);
    cluster.rest();
    cluster.write_checkpoint(2, 10);
    cluster.restart(2);
    assert_eq!(cluster.machines[2].divergence(), None);
    cluster.rest();
    assert_eq!(cluster.reads(2), "diverged");
    assert_eq!(cluster.reads(0), "abcd");
}

#[test]
fn two_of_three_sites_go_on_until_the_third_one_tells_who_is_right() {
    let mut cluster = damaged();
    cluster.append(0, 'd', Level::Strong);
    cluster.rest_without(1);
    for (at, other) in [(0, 2), (2, 0)] {
        let found = cluster.machines[at].divergence().unwrap();
        assert_eq!((found.sites[0].index(), found.is_stopped), (other, false));
    }
    cluster.rest();
    assert_eq!(cluster.reads(2), "diverged");
    assert_eq!(cluster.reads(0), "abcd");
}

#[test]
fn a_site_that_is_far_behind_compares_what_it_reaches() {
    let mut cluster = damaged();
    for letter in ['d', 'e', 'f', 'g'] {
        cluster.append(0, letter, Level::Strong);
        cluster.rest_without(2);
    }
    assert_eq!(cluster.machines[0].divergence(), None);
    cluster.rest();
    let found = cluster.machines[2].divergence().unwrap();
    assert_eq!((found.after, found.position, found.is_stopped), (3, 4, true));
}
