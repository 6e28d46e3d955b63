//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// Entries of a stream that do not continue what the site has.
    GAP = "reservations: entries of a stream left a gap";
    /// Versions of the record that do not continue the copy.
    VERSION_GAP = "reservations: a version of the record left a gap";
    /// A change depends on an item that was changed since.
    INEFFECTIVE = "reservations: a change of the record had no effect";
    /// A reader whose renewals have stopped is excluded.
    EXCLUDED = "reservations: a reader was excluded";
    /// A site gets the right again.
    ADMITTED = "reservations: a site was admitted";
    /// A removed site is no holder any more.
    REMOVED = "reservations: a site was removed";
    /// A later generation of a removed site takes part again.
    RETURNED = "reservations: a removed site returned";
    /// A site without data gets those of another site.
    FILLED = "reservations: a site got the state of another site";
    /// All readers have lost the right.
    CLOSED = "reservations: a partition was closed";
    /// A closed partition has readers again.
    FOUNDED = "reservations: readers were founded";
    /// A sponsor's reports are lower for a holder that does not know of an admission yet.
    CAPPED = "reservations: a report was capped because of an admission";
    /// A guard refuses a token that was taken back.
    LAPSED = "reservations: a token was refused after it was taken back";
    /// A guard refuses a token of an ended epoch.
    STOPPED = "reservations: a token of an ended epoch was refused";
    /// A guard refuses a decrement.
    NO_RIGHT = "reservations: a decrement was refused without the right";
    /// A reservation ends before its promise, and gives tokens back.
    RELEASED = "reservations: a reservation gave tokens back";
    /// A site gives rights.
    GIVEN = "reservations: a site gave rights";
    /// A transaction must begin again with a later snapshot.
    LATER = "reservations: a snapshot lacked what rights depend on";
    /// All sites together have too few rights.
    SOLD_OUT = "reservations: a transaction found that too few rights are left";
    /// The floor rises.
    RAISED = "reservations: a floor was raised";
    /// The floor falls.
    LOWERED = "reservations: a floor was lowered";
    /// A holder stops because a reader waits.
    STOPPED_FOR_READER = "reservations: a holder ended its epoch because a read waited";
    /// A holder stops because another site needs tokens.
    STOPPED_FOR_HOLDER = "reservations: a holder ended its epoch for another site";
}
