//! The users of the cluster, in whose names transactions are gone on with.

use solera::mixed::{Rights, Space};
use solera::{Client, Error};
use solera_mixt::store::BoxFuture;
use solera_node::{Local, Wanted};

/// Opens sessions at the site of a call, for any user that there is.
pub(crate) struct Lender(pub(crate) Local);

impl Rights for Lender {
    fn are_needed(&self) -> bool {
        self.0.is_guarded()
    }

    fn is_user(&self, user: &str) -> Result<(), String> {
        self.0.is_user(user)
    }

    fn may_call(&self, user: &str) -> Result<(), String> {
        self.0.may_run(user, "solera.call")
    }

    fn may(&self, user: &str, command: &str, key: Result<&[u8], &Space>) -> Result<(), String> {
        match key {
            Ok(key) => self.0.may(user, command, Wanted::Key(key)),
            Err(space) => {
                let found = self.0.spaces().find(|found| found.name == *space.name);
                found.map_or(Ok(()), |space| self.0.may(user, command, Wanted::SomeKeyOf(space)))
            }
        }
    }

    fn connect(&self, user: &str) -> BoxFuture<'static, Result<Client, Error>> {
        let opened = self.0.connect_as(user);
        Box::pin(async { Client::over(opened.map_err(|refused| Error::server(&refused))?).await })
    }
}
