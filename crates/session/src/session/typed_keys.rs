//! Operations that the type and the error bound of a key's space permit.

use solera_commands::{COMMANDS, CommandId};
use solera_config::SpaceType;
use solera_data::{Measure, Op, is_stamp};

use super::ClientSession;
use super::queue::{Queue, Work};
use crate::context::Context;
use crate::plan::{self, KeyOp, Plan};

/// Returns whether a key of a type may be used by an operation.
pub(crate) fn permits(of_type: SpaceType, op: &Op) -> bool {
    if !op.is_update() {
        return true;
    }
    match of_type {
        SpaceType::Counter | SpaceType::BoundedCounter | SpaceType::Pool => {
            Measure::Value.of_op(op).is_some()
        }
        SpaceType::Set => Measure::Size.of_op(op).is_some(),
        SpaceType::List => match op {
            Op::HashSet(fields) => fields.iter().all(|(field, _)| is_stamp(field)),
            op => matches!(op, Op::HashDelete(_)),
        },
    }
}

impl<W: Context> ClientSession<W> {
    /// Checks that the type of a key's space permits an operation of a command.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn fits_type(&self, command: CommandId, op: &KeyOp<'_>) -> Result<(), String> {
        let of_pools = plan::is_of_pools(command);
        let found = self.worker.spec().spaces.type_of(&op.key);
        if of_pools && !found.is_some_and(|(of_type, _)| of_type == SpaceType::Pool) {
            let space = self.worker.spec().spaces.space_of(&op.key);
            let (key, name) = (String::from_utf8_lossy(&op.key), &space.name);
            return Err(match found {
                Some((SpaceType::BoundedCounter, _)) => format!(
                    "ERR '{key}' is no pool: its space '{name}' has the type 'bounded-counter', whose units have no \
                     identifiers; use {}",
                    if command == CommandId::SoleraGrow { "INCRBY" } else { "DECRBY" }
                ),
                _ => format!(
                    "ERR '{key}' is no pool: in solera.toml, its space '{name}' does not have the type 'pool'"
                ),
            });
        }
        let Some((of_type, space)) = found else { return Ok(()) };
        if permits(of_type, &op.op) {
            return Ok(());
        }
        let (key, name) = (String::from_utf8_lossy(&op.key), &space.name);
        let command = COMMANDS[command as usize].name.to_uppercase();
        Err(match of_type {
            SpaceType::Pool => format!(
                "ERR {command} cannot change '{key}': the keys of space '{name}' are pools, which only SOLERA.TAKE, \
                 SOLERA.GROW, INCR, INCRBY, DECR and DECRBY change"
            ),
            SpaceType::Set => format!(
                "ERR {command} cannot change '{key}': the keys of space '{name}' are sets, which only SADD and SREM \
                 change; to empty a set, remove its elements"
            ),
            SpaceType::List => format!(
                "ERR {command} cannot change '{key}': the keys of space '{name}' are lists, which only SOLERA.PUSH, \
                 HDEL, and HSET of fields that are named as by SOLERA.PUSH change; to empty a list, HDEL the fields that \
                 HGETALL returns"
            ),
            SpaceType::Counter | SpaceType::BoundedCounter => format!(
                "ERR {command} cannot change '{key}': the keys of space '{name}' are counters, which only INCR, \
                 INCRBY, DECR and DECRBY change; to set a counter, add the difference"
            ),
        })
    }

    /// Returns an operation for a command that deletes a key, if the key may hold a value of
    /// another type than its space: one from before the space had the type. The operation fails on
    /// such a value, and on no other. Keys with a bound have no such values.
    pub(super) fn misfit<'a>(&self, plan: &'a Plan<'_>) -> Option<Plan<'a>> {
        let [KeyOp { key, op: Op::Delete }] = plan.ops.as_slice() else { return None };
        let spaces = &self.worker.spec().spaces;
        let (of_type, _) = spaces.type_of(key)?;
        let probe = match of_type {
            SpaceType::Counter | SpaceType::BoundedCounter | SpaceType::Pool => Op::IncrBy(0),
            SpaceType::Set => Op::SetLen,
            SpaceType::List => Op::HashNewest(1),
        };
        spaces.bound_of(key).is_none().then(|| Plan::single(plan.command, key, probe))
    }

    /// Checks that the types of the keys' spaces permit a command.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn fit_types(&self, plan: &Plan<'_>) -> Result<(), String> {
        let of_pools = plan::is_of_pools(plan.command);
        if !self.worker.spec().spaces.have_types() && !of_pools {
            return Ok(());
        }
        plan.ops.iter().try_for_each(|op| self.fits_type(plan.command, op))
    }

    /// Checks that an operation may be part of a strong transaction, as far as the error bound of
    /// its key is concerned.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn may_be_strong(&self, op: &KeyOp<'_>) -> Result<(), String> {
        let spaces = &self.worker.spec().spaces;
        if !op.op.is_update() || spaces.bound_of(&op.key).is_none() {
            return Ok(());
        }
        let (key, space) = (String::from_utf8_lossy(&op.key), spaces.space_of(&op.key));
        Err(format!(
            "ERR '{key}' cannot be changed in a strong transaction: its space '{}' has a bound, and an update \
             of a key with a bound cannot be part of a strong transaction yet; change it in a transaction of \
             its own, or in a causal one",
            space.name
        ))
    }

    /// Checks that the commands of a queue may be one strong transaction, as far as error bounds
    /// are concerned.
    ///
    /// # Errors
    /// The error reply to one of them.
    pub(super) fn may_all_be_strong(&self, queue: &Queue<W>) -> Result<(), String> {
        if !self.worker.spec().spaces.have_bounds() {
            return Ok(());
        }
        let plans = queue.commands.iter().filter_map(|queued| match &queued.work {
            Work::Keys(plan) => Some(plan),
            Work::Other(_) | Work::Wrong(_) => None,
        });
        plans.flat_map(|plan| &plan.ops).try_for_each(|op| self.may_be_strong(op))
    }
}
