//! SOLERA.TXID: replies with the name of the open transaction, which is strong or of level `pcpsi`.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;
use solera_unistore::TransactionId;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// SOLERA.TXID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Txid;

impl Typed for Txid {
    type Answer = TransactionId;

    fn command(&self) -> CommandId {
        CommandId::SoleraTxid
    }

    async fn run<W: Context>(
        &self,
        session: &mut ClientSession<W>,
    ) -> Result<TransactionId, String> {
        session.name_transaction().await
    }
}

impl Request for Txid {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Txid, String> {
        Ok(Txid)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if let Some(transaction) = session.mode.occult() {
            let name = session.name_of(transaction).to_string();
            return session.out.bulk(name.as_bytes());
        }
        match self.run(session).await {
            Ok(tid) => session.out.bulk(tid.to_string().as_bytes()),
            Err(error) => session.fail(error),
        }
    }
}
