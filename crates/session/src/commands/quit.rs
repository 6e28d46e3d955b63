//! QUIT: closes the connection.

use crate::session::{Next, Session};

/// Appends the reply to QUIT, after which the connection is closed.
pub(crate) fn quit<W>(session: &mut Session<W>) -> Next {
    session.out.simple("OK");
    Next::Close
}
