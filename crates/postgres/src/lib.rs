//! PostgreSQL as a store of mixed transactions.
//!
//! A [`Postgres`] is a database of a PostgreSQL server as a
//! [`Database`](solera_mixt::store::Database). Its spaces are linearizable, and one transaction may
//! use several of them. Objects of programs, witnesses and recovery records are in tables of a
//! separate schema. A store's custom operations are SQL statements on any other tables. Solera
//! accesses those tables only through these statements. `docs/guide/postgres.md` describes the use,
//! and `docs/decisions/0018-postgres.md` the design.

mod builder;
mod config_error;
mod custom;
mod failure;
mod link;
mod names;
mod objects;
mod postgres;
mod schema;
mod session;
mod shared;
mod statement;
mod tls;

pub use self::builder::Builder;
pub use self::config_error::ConfigError;
pub use self::custom::{CheckError, Problem};
pub use self::postgres::Postgres;
pub use solera_tls::Files as TlsFiles;
