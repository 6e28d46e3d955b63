//! SOLERA.TXID: the name of the open strong transaction.

use solera_commands::CommandId;
use solera_unistore::TransactionId;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// SOLERA.TXID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Txid;

impl Typed for Txid {
    type Answer = TransactionId;

    fn command(&self) -> CommandId {
        CommandId::SoleraTxid
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<TransactionId, String> {
        session.name_transaction().await
    }
}

pub(crate) async fn txid<W: Context>(session: &mut Session<W>) {
    match Txid.run(session).await {
        Ok(tid) => session.out.bulk(tid.to_string().as_bytes()),
        Err(error) => session.fail(error),
    }
}
