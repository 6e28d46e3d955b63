//! Histories of speculative spaces as text: `docs/formats/speculative-history.md` defines the
//! format.
//!
//! [`History`]'s `Display` writes the format and its `FromStr` reads it; reading a written history
//! returns an equal one.

mod read;
mod write;
