//! Message Groups (§8.4): Figure 17, and the mix of transactions, compared with the linearizable
//! store alone.

use std::sync::Arc;

use solera_program::value::Value;

use super::load::{Bound, Call, Script};
use crate::error::BenchError;
use crate::random::Random;

pub(super) const SOURCE: &str = include_str!("groups.mixt");

pub(super) const INBOX: &str = "check inbox";
pub(super) const JOIN: &str = "join group";
pub(super) const POST: &str = "deliver message";
pub(super) const CREATE: &str = "create user";

/// Percentage of each transaction (§8.4).
pub(super) const MIX: [(&str, u32); 4] = [(INBOX, 56), (POST, 20), (JOIN, 18), (CREATE, 6)];

/// Users, each with a message in the inbox, and groups, each with its own user.
#[derive(Clone)]
pub(super) struct Groups {
    users: Arc<[Value]>,
    groups: Arc<[Value]>,
}

impl Groups {
    /// Creates the users and groups.
    ///
    /// # Errors
    /// Fails if a transaction fails.
    pub(super) fn create(bound: &Bound, count: usize) -> Result<Groups, BenchError> {
        let call = |transaction, args| Call { kind: transaction, transaction, args };
        let text = |what: &str, number: usize| Value::String(format!("{what} {number}").into());
        let create = |transaction, what| {
            (0..count).map(|number| call(transaction, vec![text(what, number)])).collect()
        };
        let users = bound.all(create("create_user", "user"))?;
        let groups = bound.all(create("create_group", "group"))?;
        let pairs = || groups.iter().cloned().zip(users.iter().cloned());
        let joins = pairs().map(|(group, user)| call("join", vec![group, user]));
        bound.all(joins.collect())?;
        let posts = groups.iter().map(|group| call("post", vec![group.clone(), text("hello", 0)]));
        bound.all(posts.collect())?;
        Ok(Groups { users: users.into(), groups: groups.into() })
    }

    /// Creates clients that call only one transaction, or all with these weights. Each client has
    /// its own users and groups.
    pub(super) fn clients(
        &self,
        count: usize,
        weights: [(&'static str, u32); 4],
    ) -> impl Iterator<Item = Client> {
        let share = self.users.len() / count.max(1);
        let all = self.clone();
        (0..count).map(move |number| {
            let from = if share == 0 { number % all.users.len() } else { number * share };
            let (all, share, messages) = (all.clone(), share.max(1) as u64, 0);
            Client { all, from: from as u64, share, weights, messages }
        })
    }
}

/// A client, with the users and groups that it chooses from.
pub(super) struct Client {
    all: Groups,
    from: u64,
    share: u64,
    weights: [(&'static str, u32); 4],
    messages: u64,
}

impl Script for Client {
    fn next(&mut self, random: &mut Random) -> Call {
        let mut one = |of: &[Value]| of[(self.from + random.below(self.share)) as usize].clone();
        let (user, group) = (one(&self.all.users), one(&self.all.groups));
        self.messages += 1;
        let text = Value::String(format!("{}/{}", self.from, self.messages).into());
        let kind = self.weights[random.weighted(&self.weights.map(|(_, weight)| weight))].0;
        let (transaction, args) = match kind {
            INBOX => ("inbox", vec![user]),
            JOIN => ("join", vec![group, user]),
            POST => ("post", vec![group, text]),
            _ => ("create_user", vec![text]),
        };
        Call { kind, transaction, args }
    }
}
