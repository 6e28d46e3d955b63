//! SOLERA.PHASE: runs phases for coordinators in other processes, as the calling user (MixT §7.2).

use solera_mixt::executor::Clock;
use solera_mixt::remote_group::RemoteGroup;
use solera_mixt::worker::ExecuteError;
use solera_node::{Caller, Local};
use solera_resp::Value;
use solera_spaces::{System, UNKNOWN_MODULE};

use crate::own::Own;
use crate::request::Phase;
use crate::{Answered, Shared, connections, library, registry};

/// Error code for a remote group of which nothing was begun.
const NOT_RUN: &str = "NOTRUN";

pub(crate) async fn phase(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    phase: Phase,
) -> Answered {
    match phase {
        Phase::Settle { number, until_ms } => {
            let settled = shared.worker.settle(number, until_ms, System.now_ms());
            Ok(Value::Integer(settled.into()))
        }
        Phase::Learn { source } => {
            library::compile("module", &source)?;
            registry::keep_source(&caller, &source).await?;
            Ok(Value::Simple("OK".to_owned()))
        }
        Phase::Run(bytes) => run(shared, local, caller, &bytes).await,
    }
}

async fn run(shared: &Shared, local: &Local, caller: Caller, bytes: &[u8]) -> Answered {
    let remote_group = RemoteGroup::decode(bytes).map_err(|error| format!("{NOT_RUN} {error}"))?;
    let spaces_here = *remote_group.database().as_ref() == *local.cluster();
    let named = remote_group.user(local.cluster());
    let own = local.user();
    if local.is_guarded() && named.map(|user| &**user) != own && (named.is_some() || spaces_here) {
        let named = named.map_or("no user of this cluster", |user| user);
        return Err(format!(
            "{NOT_RUN} the phases belong to user '{}', but user '{}' sent them",
            named.escape_debug(),
            own.unwrap_or_default()
        ));
    }
    if shared.library.get(&caller, remote_group.module()).await.is_err() {
        return Err(format!(
            "{UNKNOWN_MODULE} the module {} is not known here; send it with SOLERA.PHASE LEARN",
            remote_group.module().escape_debug()
        ));
    }
    let mut connections = connections(Own::of_caller(local, Some(caller)), &shared.stores);
    let known = (&*shared.library.all(), shared.settings.limits);
    let executed = shared.worker.execute(&remote_group, known, &mut connections, &System).await;
    executed.map(|replies| Value::Bulk(replies.encode().to_vec())).map_err(|why| match why {
        ExecuteError::Duplicate => format!("UNKNOWN {why}; their outcome is not reported again"),
        other => format!("{NOT_RUN} {other}"),
    })
}
