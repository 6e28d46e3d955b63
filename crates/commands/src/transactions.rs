//! Use of commands in transactions.

use crate::command::{Command, CommandId};

/// Effect of a command between MULTI and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InMulti {
    /// EXEC runs the command.
    Queued,
    /// The command runs immediately and ends the queue.
    AtOnce,
    /// The command fails, and EXEC then runs nothing.
    Refused,
    /// The command fails, and the queue is not affected.
    RefusedAlone,
}

/// Interactive transactions that accept a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTransaction {
    /// Causal and strong ones.
    Any,
    /// Strong ones only.
    Strong,
    /// None.
    None,
}

impl Command {
    /// Returns the effect of the command between MULTI and EXEC.
    pub fn in_multi(&self) -> InMulti {
        match self.id {
            CommandId::Exec | CommandId::Discard | CommandId::Quit | CommandId::Reset => {
                InMulti::AtOnce
            }
            CommandId::Multi | CommandId::Watch => InMulti::RefusedAlone,
            // Their reads are transactions of their own, or no transactions.
            CommandId::SoleraRead | CommandId::SoleraInterval | CommandId::SoleraRights => {
                InMulti::Refused
            }
            CommandId::Ping
            | CommandId::Echo
            | CommandId::Time
            | CommandId::Unwatch
            | CommandId::Info
            | CommandId::Dbsize
            | CommandId::SoleraSite
            | CommandId::SoleraSpaces => InMulti::Queued,
            _ if self.is_data() => InMulti::Queued,
            _ => InMulti::Refused,
        }
    }

    /// Returns the transactions that accept the command between SOLERA.BEGIN and SOLERA.COMMIT. The
    /// spaces of its keys may permit less.
    pub fn in_transaction(&self) -> InTransaction {
        match self.id {
            CommandId::Multi
            | CommandId::Exec
            | CommandId::Discard
            | CommandId::Wait
            | CommandId::SoleraBegin
            | CommandId::SoleraRead
            | CommandId::SoleraInterval
            | CommandId::SoleraRights
            | CommandId::SoleraToken
            | CommandId::SoleraAttach
            | CommandId::SoleraBarrier
            | CommandId::SoleraModule
            | CommandId::SoleraStable
            | CommandId::SoleraState
            | CommandId::SoleraLog
            | CommandId::SoleraCall
            | CommandId::SoleraPhase => InTransaction::None,
            CommandId::Setnx | CommandId::Watch | CommandId::SoleraTxid => InTransaction::Strong,
            _ => InTransaction::Any,
        }
    }
}
