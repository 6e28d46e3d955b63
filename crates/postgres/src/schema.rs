//! The tables, and the statements that use them.
//!
//! | table | row |
//! |---|---|
//! | `objects` | an object: `kind`, and the `value` of a register, the `number` of a counter, the length of a list |
//! | `items` | an element of a set (`item`), an entry of a map (`item`, `value`), a field of a struct, a value of a list |
//! | `names` | a value of a named object |
//! | `format` | the version of the tables |
//!
//! `value` and `item` are bytes as [`Codec`](solera_program::codec::Codec) writes them. `id` is the
//! digest of the item, so that items of any length can be indexed; in lists it is the index.
//! Statements that write an object write nothing if the key holds another kind of object. The first
//! statement of a pipeline returns the kind.

use tokio_postgres::Client;

use crate::failure::RequestError;

/// Version of the tables. It increases when they change.
const FORMAT: i32 = 1;

/// Number of the advisory lock that hosts hold while they create the tables; arbitrary, but the
/// same for all.
const CREATION_LOCK: i64 = 0x736f_6c65_7261_0001;

/// The statements, with the name of the schema.
#[derive(Debug)]
pub(crate) struct Sql {
    /// Name of the schema, for messages.
    schema: String,
    created: String,
    format: String,
    create: String,

    pub(crate) read_names: String,
    pub(crate) set_names: String,
    pub(crate) new_names: String,
    pub(crate) remove_names: String,
    pub(crate) list_names: String,

    /// Reads an object's row.
    pub(crate) object: String,
    /// Reads one item by its digest.
    pub(crate) item: String,
    /// Reads one value of a list by its index.
    pub(crate) place: String,
    /// Reads all items.
    pub(crate) items: String,
    pub(crate) size: String,
    pub(crate) put_value: String,
    pub(crate) add_number: String,
    /// Creates an object without items, unless it exists.
    pub(crate) ensure: String,
    pub(crate) put_items: String,
    pub(crate) remove_item: String,
    pub(crate) append: String,
    pub(crate) delete_items: String,
    pub(crate) delete_object: String,
}

impl Sql {
    #[expect(clippy::too_many_lines, reason = "one statement per field")]
    pub(crate) fn new(schema: &str) -> Sql {
        let s = format!("\"{}\"", schema.replace('"', "\"\""));
        let of_object = "space = $1 AND key = $2";
        let one_item = |id: &str| {
            format!(
                "SELECT o.kind, i.id IS NOT NULL, i.value FROM {s}.objects o LEFT JOIN {s}.items i \
                 ON i.space = o.space AND i.key = o.key AND i.id = {id} WHERE o.space = $1 AND o.key = $2"
            )
        };
        let insert_names = format!(
            "INSERT INTO {s}.names (space, key, field, value) \
             SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::bytea[])"
        );
        Sql {
            schema: schema.to_owned(),
            // The name is quoted twice: as an SQL identifier, and within a string literal.
            created: format!("SELECT to_regclass('{}.format') IS NOT NULL", s.replace('\'', "''")),
            format: format!("SELECT version FROM {s}.format"),
            create: format!(
                "BEGIN; \
                 SELECT pg_advisory_xact_lock({CREATION_LOCK}); \
                 CREATE SCHEMA IF NOT EXISTS {s}; \
                 CREATE TABLE IF NOT EXISTS {s}.objects (space text COLLATE \"C\", key text COLLATE \"C\", \
                   kind text NOT NULL, number int8 NOT NULL DEFAULT 0, value bytea, \
                   PRIMARY KEY (space, key)) WITH (fillfactor = 80); \
                 CREATE TABLE IF NOT EXISTS {s}.items (space text COLLATE \"C\", key text COLLATE \"C\", \
                   id bytea, item bytea, value bytea, PRIMARY KEY (space, key, id)); \
                 CREATE TABLE IF NOT EXISTS {s}.names (space text COLLATE \"C\", key text COLLATE \"C\", \
                   field int8, value bytea NOT NULL, PRIMARY KEY (space, key, field)); \
                 CREATE TABLE IF NOT EXISTS {s}.format (version int4 PRIMARY KEY); \
                 INSERT INTO {s}.format VALUES ({FORMAT}) ON CONFLICT DO NOTHING; \
                 COMMIT"
            ),
            // The offset makes the planner look up each name in the index, and prevents other kinds
            // of joins.
            read_names: format!(
                "SELECT w.place, n.field, n.value \
                 FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (space, key, place), \
                 LATERAL (SELECT field, value FROM {s}.names n \
                   WHERE n.space = w.space AND n.key = w.key OFFSET 0) n"
            ),
            set_names: format!(
                "{insert_names} ON CONFLICT (space, key, field) DO UPDATE SET value = EXCLUDED.value"
            ),
            new_names: insert_names,
            remove_names: format!(
                "DELETE FROM {s}.names n USING unnest($1::text[], $2::text[], $3::int8[]) AS w (space, key, field) \
                 WHERE n.space = w.space AND n.key = w.key AND n.field = w.field"
            ),
            list_names: format!(
                "SELECT DISTINCT key FROM {s}.names WHERE space = $1 AND key >= $2 AND key > $3 \
                 AND starts_with(key, $2) ORDER BY key LIMIT $4"
            ),
            object: format!("SELECT kind, number, value FROM {s}.objects WHERE {of_object}"),
            item: one_item("sha256($3)"),
            place: one_item("int8send($3)"),
            items: format!(
                "SELECT o.kind, i.id IS NOT NULL, i.item, i.value FROM {s}.objects o LEFT JOIN {s}.items i \
                 ON i.space = o.space AND i.key = o.key WHERE o.space = $1 AND o.key = $2 ORDER BY i.id"
            ),
            size: format!(
                "SELECT o.kind, CASE o.kind WHEN 'list' THEN o.number ELSE (SELECT count(*) FROM {s}.items i \
                 WHERE i.space = o.space AND i.key = o.key) END FROM {s}.objects o WHERE {of_object}"
            ),
            put_value: format!(
                "INSERT INTO {s}.objects AS o (space, key, kind, value) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (space, key) DO UPDATE SET value = EXCLUDED.value WHERE o.kind = EXCLUDED.kind"
            ),
            add_number: format!(
                "INSERT INTO {s}.objects AS o (space, key, kind, number) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (space, key) DO UPDATE SET number = o.number + EXCLUDED.number \
                 WHERE o.kind = EXCLUDED.kind"
            ),
            ensure: format!(
                "INSERT INTO {s}.objects (space, key, kind) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            ),
            put_items: format!(
                "INSERT INTO {s}.items (space, key, id, item, value) \
                 SELECT o.space, o.key, sha256(w.item), w.item, w.value \
                 FROM {s}.objects o, unnest($4::bytea[], $5::bytea[]) AS w (item, value) \
                 WHERE o.space = $1 AND o.key = $2 AND o.kind = $3 \
                 ON CONFLICT (space, key, id) DO UPDATE SET value = EXCLUDED.value"
            ),
            remove_item: format!(
                "DELETE FROM {s}.items WHERE {of_object} AND id = sha256($4) \
                 AND EXISTS (SELECT FROM {s}.objects o WHERE o.space = $1 AND o.key = $2 AND o.kind = $3)"
            ),
            append: format!(
                "WITH o AS (UPDATE {s}.objects SET number = number + 1 WHERE {of_object} AND kind = $3 \
                 RETURNING space, key, number) \
                 INSERT INTO {s}.items (space, key, id, value) SELECT space, key, int8send(number - 1), $4 FROM o"
            ),
            delete_items: format!(
                "DELETE FROM {s}.items WHERE {of_object} \
                 AND EXISTS (SELECT FROM {s}.objects o WHERE o.space = $1 AND o.key = $2 AND o.kind = $3)"
            ),
            delete_object: format!("DELETE FROM {s}.objects WHERE {of_object} AND kind = $3"),
        }
    }
}

/// Reason why the tables cannot be used.
pub(crate) enum Unusable {
    /// The server cannot be reached, or rejects a statement.
    Request(RequestError),
    /// The tables have another version.
    OtherFormat { schema: String, found: Option<i32> },
}

impl From<tokio_postgres::Error> for Unusable {
    fn from(error: tokio_postgres::Error) -> Unusable {
        Unusable::Request(RequestError::Server(error))
    }
}

/// Creates the tables unless they exist. A user who must not create them may use tables that
/// another user has created.
pub(crate) async fn create(client: &Client, sql: &Sql) -> Result<(), Unusable> {
    let there: bool = client.query_one(&sql.created, &[]).await?.try_get(0)?;
    if !there && let Err(error) = client.batch_execute(&sql.create).await {
        // The open transaction must end. The first error is the one to report.
        let _ = client.batch_execute("ROLLBACK").await;
        return Err(error.into());
    }
    let rows = client.query(&sql.format, &[]).await?;
    let found = rows.first().map(|row| row.try_get(0)).transpose()?;
    match found {
        Some(FORMAT) if rows.len() == 1 => Ok(()),
        found => Err(Unusable::OtherFormat { schema: sql.schema.clone(), found }),
    }
}
