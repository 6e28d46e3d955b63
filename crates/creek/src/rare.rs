//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// Operations of a stream that do not continue what the site has.
    GAP = "creek: operations of a stream left a gap";
    /// A site sends operations that it did not invoke.
    RELAYED = "creek: a site sent operations of another site";
    /// Operations that all sites have are removed.
    REMOVED = "creek: operations were removed from a stream";
    /// An operation waits for its context.
    WAITS = "creek: an operation waits for its causal context";
    /// An operation is inserted before others.
    INSERTED = "creek: an operation was inserted before executed ones";
    /// A commit changes the order.
    REORDERED = "creek: a commit changed the order";
    /// An execution is revoked.
    ROLLED_BACK = "creek: an operation was rolled back";
    /// A commit does not change the order of what was executed.
    KEPT = "creek: a tentative execution became final";
    /// A strong operation commits before its first execution.
    UNEXECUTED = "creek: a strong operation committed before its first execution";
    /// A site commits what the clients would leave tentative.
    SETTLED = "creek: an operation without effect committed tentative ones";
    /// A job executes an operation.
    JOB = "creek: a job executes an operation";
    /// A step ends with executions left to do.
    SLICED = "creek: executions were left for the next step";
    /// A later execution has another response.
    REVISED = "creek: a client received a revised response";
    /// The next response to an operation differs from what a client has seen.
    FOLLOWED = "creek: a client received the next response to an operation";
    /// A barrier needs a commit.
    BARRIER = "creek: an operation without effect committed the weak ones of barriers";
    /// A past is not delivered, and a client waits for it.
    BEHIND = "creek: a client waited for operations that its site lacked";
    /// The bound of the tentative list is reached.
    BUSY = "creek: an operation was refused because the tentative list is full";
    /// All members have the same of what sites that have left had sent.
    CLOSED = "creek: all members had the same operations of sites that left";
    /// An operation of a site that has left can never be executed.
    LOST = "creek: an operation was lost with a site that left";
    /// A client waited for such an operation.
    WAITED_FOR_LOST = "creek: a client waited for an operation that was lost";
    /// A joining site has another site's data.
    FILLED = "creek: a joining site took over the data of another one";
    /// A donor was restarted during a transfer.
    FETCHES_AGAIN = "creek: a joining site fetches again because its donor was restarted";
    /// A joining site fetches the data of another donor.
    NEXT_DONOR = "creek: a joining site turned to another donor";
    /// A strong operation got a tentative response without a place.
    FORETOLD = "creek: a strong operation had a tentative response without a place";
    /// A promise contained operations that the site lacked.
    HANDED_OVER = "creek: a promise handed over operations";
}
