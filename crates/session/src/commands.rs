//! What each command means, a file for each; [`crate::plan`] is what commands on keys mean.

mod abort;
mod acl;
mod at_risk;
mod attach;
mod auth;
mod barrier;
mod begin;
mod client;
mod command;
mod commit;
mod config;
mod dbsize;
mod export;
mod hello;
mod help;
mod info;
mod leaders;
mod level;
mod modules;
mod on_key;
mod outcome;
mod ping;
mod select;
mod site;
mod sites;
mod spaces;
mod time;
mod token;
mod txid;
mod wait;
mod watch;

use solera_commands::CommandId;
use solera_resp::Arguments;

pub use self::abort::Abort;
pub use self::attach::{Attach, AttachHorizon, AttachUntil, Horizon};
pub use self::begin::Begin;
pub use self::commit::Commit;
pub use self::on_key::OnKey;
pub use self::outcome::Outcome;
pub use self::token::TakeToken;
pub use self::txid::Txid;
pub use self::watch::Watch;
use crate::context::Context;
use crate::session::{Next, Session};

/// Runs a command that is not about the content of keys.
pub(crate) async fn run_other<W: Context>(
    session: &mut Session<W>,
    command: CommandId,
    arguments: &Arguments<'_>,
) -> Next {
    if let Some(lines) = help::asked(command, arguments) {
        help::answer(session, lines);
        return Next::Stay;
    }
    match command {
        CommandId::Ping => ping::ping(session, arguments),
        CommandId::Echo => session.out.bulk(arguments.get(1)),
        CommandId::Hello => hello::hello(session, arguments),
        CommandId::Select => select::select(session, arguments),
        CommandId::Quit => {
            session.out.simple("OK");
            return Next::Close;
        }
        CommandId::Reset => {
            session.reset();
            session.out.simple("RESET");
        }
        CommandId::Auth => auth::auth(session, arguments),
        CommandId::Client => return client::client(session, arguments),
        CommandId::Command => command::command(session, arguments),
        CommandId::Info => info::info(session, arguments).await,
        CommandId::Time => time::time(session),
        CommandId::Config => config::config(session, arguments),
        CommandId::Dbsize => dbsize::dbsize(session).await,
        CommandId::Acl => acl::acl(session, arguments),
        CommandId::Watch => watch::watch(session, arguments).await,
        CommandId::SoleraBegin => begin::begin(session, arguments).await,
        CommandId::SoleraCommit => commit::commit(session).await,
        CommandId::SoleraAbort => abort::abort(session, arguments).await,
        CommandId::SoleraToken => token::token(session).await,
        CommandId::SoleraAttach => attach::attach(session, arguments).await,
        CommandId::SoleraBarrier => barrier::barrier(session, arguments).await,
        CommandId::SoleraSite => site::site(session),
        CommandId::SoleraSites => sites::sites(session, arguments).await,
        CommandId::SoleraSpaces => spaces::spaces(session),
        CommandId::SoleraLevel => level::level(session, arguments),
        CommandId::SoleraAtRisk => at_risk::at_risk(session, arguments).await,
        CommandId::SoleraTxid => txid::txid(session).await,
        CommandId::SoleraOutcome => outcome::outcome(session, arguments).await,
        CommandId::SoleraLeaders => leaders::leaders(session, arguments).await,
        CommandId::SoleraModule | CommandId::SoleraCall | CommandId::SoleraPhase => {
            modules::run(session, arguments).await;
        }
        CommandId::SoleraExport => export::export(session, arguments).await,
        CommandId::Wait => wait::wait(session, arguments).await,
        _ => session.fail("ERR the command cannot be run here"),
    }
    Next::Stay
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
