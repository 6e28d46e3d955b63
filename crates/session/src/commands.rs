//! Implementation of each command, one file each: the arguments as a type, the parser, the rights
//! beyond those in the table of commands, and the execution. [`request`] defines the trait that
//! they implement. [`crate::plan`] implements the commands on keys.

mod abort;
mod acl;
mod at_risk;
mod attach;
mod auth;
mod barrier;
mod begin;
mod call;
mod client;
mod command;
mod commit;
mod config;
mod dbsize;
mod discard;
mod echo;
mod exec;
mod export;
mod hello;
mod help;
mod home;
mod info;
mod interval;
mod leaders;
mod level;
mod log;
mod modules;
mod multi;
mod on_key;
mod outcome;
mod ping;
mod quit;
mod read;
mod request;
mod reset;
mod rights;
mod select;
mod site;
mod sites;
mod spaces;
mod speculate;
mod stable;
mod stale;
mod state;
mod time;
mod token;
mod txid;
mod unwatch;
mod wait;
mod watch;

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

pub use self::abort::Abort;
use self::acl::Acl;
use self::at_risk::AtRisk;
use self::attach::AttachRequest;
pub use self::attach::{Attach, AttachHorizon, AttachUntil, Horizon};
use self::auth::Auth;
use self::barrier::Barrier;
pub use self::begin::Begin;
use self::command::Command;
pub use self::command::describe;
pub use self::commit::Commit;
use self::config::Config;
use self::dbsize::Dbsize;
use self::discard::Discard;
use self::echo::Echo;
use self::exec::Exec;
use self::export::Export;
use self::hello::Hello;
use self::home::Home;
use self::info::Info;
use self::interval::Interval;
use self::leaders::Leaders;
use self::level::Level;
use self::log::Log;
use self::modules::Modules;
use self::multi::Multi;
pub use self::on_key::OnKey;
pub use self::outcome::Outcome;
use self::outcome::Query;
use self::ping::Ping;
use self::read::Read;
use self::request::{for_later, serve};
use self::reset::Reset;
use self::rights::Rights;
use self::select::Select;
use self::site::Site;
use self::sites::Sites;
use self::spaces::Spaces;
pub use self::speculate::Speculate;
use self::stable::Stable;
use self::stale::Stale;
use self::state::State;
use self::time::Time;
pub use self::token::TakeToken;
pub use self::txid::Txid;
use self::unwatch::Unwatch;
use self::wait::Wait;
pub use self::watch::Watch;
use crate::context::Context;
use crate::session::{ClientSession, Later, Next};

/// Runs a command that does not read or change keys, and appends its reply.
pub(crate) async fn run_other<W: Context>(
    session: &mut ClientSession<W>,
    command: CommandId,
    arguments: &Arguments<'_>,
) -> Next {
    match command {
        CommandId::Ping => serve::<Ping, W>(session, arguments).await,
        CommandId::Echo => serve::<Echo, W>(session, arguments).await,
        CommandId::Hello => serve::<Hello, W>(session, arguments).await,
        CommandId::Select => serve::<Select, W>(session, arguments).await,
        CommandId::Quit => return quit::quit(session),
        CommandId::Reset => serve::<Reset, W>(session, arguments).await,
        CommandId::Auth => serve::<Auth, W>(session, arguments).await,
        CommandId::Client => return client::serve(session, arguments),
        CommandId::Command => serve::<Command, W>(session, arguments).await,
        CommandId::Info => serve::<Info, W>(session, arguments).await,
        CommandId::Time => serve::<Time, W>(session, arguments).await,
        CommandId::Config => serve::<Config, W>(session, arguments).await,
        CommandId::Dbsize => serve::<Dbsize, W>(session, arguments).await,
        CommandId::Acl => serve::<Acl, W>(session, arguments).await,
        CommandId::Wait => serve::<Wait, W>(session, arguments).await,
        CommandId::Multi => serve::<Multi, W>(session, arguments).await,
        CommandId::Exec => serve::<Exec, W>(session, arguments).await,
        CommandId::Discard => serve::<Discard, W>(session, arguments).await,
        CommandId::Watch => serve::<Watch, W>(session, arguments).await,
        CommandId::Unwatch => serve::<Unwatch, W>(session, arguments).await,
        CommandId::SoleraBegin => serve::<Begin, W>(session, arguments).await,
        CommandId::SoleraCommit => serve::<Commit, W>(session, arguments).await,
        CommandId::SoleraAbort => serve::<Abort, W>(session, arguments).await,
        CommandId::SoleraToken => serve::<TakeToken, W>(session, arguments).await,
        CommandId::SoleraAttach => serve::<AttachRequest, W>(session, arguments).await,
        CommandId::SoleraBarrier => serve::<Barrier, W>(session, arguments).await,
        CommandId::SoleraSite => serve::<Site, W>(session, arguments).await,
        CommandId::SoleraSites => serve::<Sites, W>(session, arguments).await,
        CommandId::SoleraSpaces => serve::<Spaces, W>(session, arguments).await,
        CommandId::SoleraLevel => serve::<Level, W>(session, arguments).await,
        CommandId::SoleraRead => serve::<Read, W>(session, arguments).await,
        CommandId::SoleraInterval => serve::<Interval, W>(session, arguments).await,
        CommandId::SoleraRights => serve::<Rights, W>(session, arguments).await,
        CommandId::SoleraStale => serve::<Stale, W>(session, arguments).await,
        CommandId::SoleraHome => serve::<Home, W>(session, arguments).await,
        CommandId::SoleraAtRisk => serve::<AtRisk, W>(session, arguments).await,
        CommandId::SoleraExport => serve::<Export, W>(session, arguments).await,
        CommandId::SoleraTxid => serve::<Txid, W>(session, arguments).await,
        CommandId::SoleraOutcome => serve::<Query, W>(session, arguments).await,
        CommandId::SoleraLeaders => serve::<Leaders, W>(session, arguments).await,
        CommandId::SoleraStable => serve::<Stable, W>(session, arguments).await,
        CommandId::SoleraState => serve::<State, W>(session, arguments).await,
        CommandId::SoleraLog => serve::<Log, W>(session, arguments).await,
        CommandId::SoleraModule | CommandId::SoleraCall | CommandId::SoleraPhase => {
            serve::<Modules, W>(session, arguments).await;
        }
        _ => session.fail("ERR the command cannot be run here"),
    }
    Next::Stay
}

/// Parses a command for EXEC, which runs it later. Returns `None` for commands that are not on keys
/// and are not allowed between MULTI and EXEC. None of the commands that it parses needs
/// [`Request::admit`].
///
/// [`Request::admit`]: self::request::Request::admit
pub(crate) fn for_exec<W: Context>(
    spec: &ClusterSpec,
    command: CommandId,
    arguments: &Arguments<'_>,
) -> Option<Result<Box<dyn Later<W>>, String>> {
    Some(match command {
        CommandId::Ping => for_later::<Ping, W>(arguments, spec),
        CommandId::Echo => for_later::<Echo, W>(arguments, spec),
        CommandId::Time => for_later::<Time, W>(arguments, spec),
        CommandId::Unwatch => for_later::<Unwatch, W>(arguments, spec),
        CommandId::Info => for_later::<Info, W>(arguments, spec),
        CommandId::Dbsize => for_later::<Dbsize, W>(arguments, spec),
        CommandId::SoleraSite => for_later::<Site, W>(arguments, spec),
        CommandId::SoleraSpaces => for_later::<Spaces, W>(arguments, spec),
        CommandId::SoleraLevel => for_later::<Level, W>(arguments, spec),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use solera_commands::Unit;

    use super::{acl, client, config, modules};

    #[test]
    fn access_can_be_given_to_every_subcommand_that_is_served() {
        let client = client::SUBCOMMANDS.iter().map(|(_, full, ..)| (*full).to_owned());
        let config = config::SUBCOMMANDS.iter().map(|name| format!("config|{name}"));
        let modules = modules::SUBCOMMANDS.iter().map(|name| format!("solera.module|{name}"));
        let acl = acl::SUBCOMMANDS.iter().map(|name| format!("acl|{name}"));
        for name in client.chain(config).chain(acl).chain(modules) {
            assert!(Unit::find(&name).is_some(), "resp::access knows no {name}");
        }
    }
}
