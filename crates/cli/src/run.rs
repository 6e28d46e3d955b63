//! `solera run`: calls transactions of a MixT source over in-memory stores.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use solera::{Client, Value as Reply};
use solera_embedded::{ClusterSpec, Embedded, Overrides, Settings, Store};
use solera_language::compile::compile;
use solera_mixt::database_methods;
use solera_mixt::memory::Memory;
use solera_mixt::store::{BoxFuture, Database, StoreError};
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::types::{StoreId, Type};
use solera_program::value::Value;

use crate::output;
use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  solera run post.mixt create_user Ann
  solera run counter.mixt increment hits then increment hits then read hits

Each store of the program is an in-memory space with the level that the store declares. It is
empty at first and is discarded at the end. Arguments are those of SOLERA.CALL: a handle is a key,
with or without its store before a colon; lists, sets, maps, options and structs are JSON. A map
is an array of pairs, or an object if its keys are strings. `then` begins the next call. A store
may declare `query strong_size(of: *set<T>) -> int`; other custom operations require a database
that implements them, and a call fails when it reaches one. `-` stands for standard input.

Exit codes: 0 all calls succeeded; 1 the program has errors, or a call failed, which skips the
remaining calls; 2 the file cannot be read.";

/// Run transactions of a program in the MixT language over in-memory stores
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Source file; - for standard input
    file: String,
    /// A transaction and its arguments; further calls follow after `then`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    calls: Vec<String>,
}

/// Name of the database that holds all stores.
const MEMORY: &str = "memory";

pub(crate) fn main(args: &RunArgs) -> ExitCode {
    let source = match Source::read(&args.file) {
        Ok(source) => source,
        Err(reason) => {
            print_error!("solera run: {reason}");
            return ExitCode::from(2);
        }
    };
    let compiled = compile(&source.text);
    source.report(&compiled.diagnostics);
    let Some(program) = compiled.program else { return ExitCode::FAILURE };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            let mut client =
                load(&program, &source.text).await.map_err(|error| error.to_string())?;
            for call in args.calls.split(|word| word == "then") {
                let reply = self::call(&mut client, call).await?;
                output::bytes(&shown(&program, &call[0], &reply)?);
            }
            Ok(())
        })
    });
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err::<_, String>(reason) => {
            print_error!("solera run: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// In-memory database that accepts stores with any custom operations. Transactions that use an
/// operation which it lacks fail when they reach it; the others run.
struct Unchecked(Memory);

macro_rules! memory {
    ($self:ident, $method:ident $(, $argument:ident)*) => {
        $self.0.$method($($argument),*)
    };
}

impl Database for Unchecked {
    database_methods!(memory: name level spans connect);

    fn check_operations<'a>(
        &'a self,
        _program: &'a Program,
        _store: StoreId,
        _space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Starts a site with in-memory stores, loads the module, and returns a client of the site.
async fn load(program: &Program, source: &str) -> Result<Client, Box<dyn Error>> {
    let stores = program.stores.iter();
    let weakest = |store: &solera_program::ir::Store| {
        *store.accepts.last().expect("the strongest level is as strong as any")
    };
    let spaces: Vec<_> = stores.clone().map(|store| (&*store.name, weakest(store))).collect();
    // Each store counts as a separate database, so that a transaction runs in the maximum number of
    // phases.
    let database = Arc::new(Unchecked(Memory::disjoint(MEMORY, &spaces)));
    let memory = Store { database, spaces: stores.clone().map(|one| one.name.clone()).collect() };
    let spec = ClusterSpec::parse("", "sites = 1", Overrides::default());
    let cluster = Embedded::with_modules(spec?, Settings::default(), vec![memory])?;
    let mut client = cluster.client(0).await?;
    let mut load: Vec<String> = ["SOLERA.MODULE", "LOAD", "m", source].map(str::to_owned).to_vec();
    for store in stores {
        load.extend(["BIND".to_owned(), format!("{0}={MEMORY}/{0}", store.name)]);
    }
    client.command(&load).await?;
    Ok(client)
}

async fn call(client: &mut Client, call: &[String]) -> Result<Reply, String> {
    let Some((transaction, args)) = call.split_first() else {
        return Err("a transaction name is missing before or after `then`".to_owned());
    };
    let name = format!("m.{transaction}");
    let words = ["SOLERA.CALL", &name].into_iter().chain(args.iter().map(String::as_str));
    let answer = client.command(&words.collect::<Vec<_>>()).await;
    answer.map_err(|error| format!("{transaction}: {}", without_hint(&error.to_string())))
}

/// Removes the hint about completing the transaction later from an error: the stores end with this
/// process.
fn without_hint(error: &str) -> String {
    match error.split_once("; SOLERA.CALL ") {
        Some((error, _)) => {
            format!(
                "{error}; nothing can be completed later, because `solera run` discards its stores"
            )
        }
        None => error.to_owned(),
    }
}

/// Formats a result like an argument: text and bytes unchanged, other composite values as JSON.
fn shown(program: &Program, transaction: &str, reply: &Reply) -> Result<Vec<u8>, String> {
    let transaction = program.transactions.iter().find(|found| *found.name == *transaction);
    let ty = &transaction.expect("it was called").result;
    if *ty == Type::Unit {
        return Ok(b"OK".to_vec());
    }
    let codec = Codec::new(program);
    let value = value(program, reply, ty)?;
    codec.result(&value, ty).map_err(|error| format!("cannot display the result: {error}"))
}

/// Converts a reply to a value of a type of the program.
fn value(program: &Program, reply: &Reply, ty: &Type) -> Result<Value, String> {
    let all = |replies: &[Reply], of: &Type| {
        replies.iter().map(|reply| value(program, reply, of)).collect::<Result<Vec<_>, _>>()
    };
    Ok(match (reply, ty) {
        (Reply::Boolean(truth), Type::Bool) => Value::Bool(*truth),
        (Reply::Integer(number), Type::Int) => Value::Int(*number),
        (Reply::Double(number), Type::Float) => Value::Float(*number),
        (Reply::Null, Type::Option(_)) => Value::Option(None),
        (reply, Type::Option(of)) => Value::some(value(program, reply, of)?),
        (Reply::Bulk(bytes), Type::String | Type::Bytes | Type::Handle(..)) => {
            let read = Codec::new(program).argument(bytes, ty);
            read.map_err(|error| format!("cannot display the result: {error}"))?
        }
        (Reply::Array(replies), Type::List(of)) => Value::list(all(replies, of)?),
        (Reply::Set(replies), Type::Set(of)) => {
            Value::Set(Arc::new(all(replies, of)?.into_iter().collect()))
        }
        (Reply::Map(pairs), Type::Map(key, of)) => {
            let pairs = pairs
                .iter()
                .map(|(name, reply)| Ok((value(program, name, key)?, value(program, reply, of)?)));
            Value::Map(Arc::new(pairs.collect::<Result<_, String>>()?))
        }
        (Reply::Map(pairs), Type::Struct(id)) => {
            // Fields are in the order of their declaration.
            let fields = program.structs[usize::from(id.0)].fields.iter().zip(pairs);
            let fields = fields.map(|((_, ty), (_, reply))| value(program, reply, ty));
            Value::Struct(Arc::new(fields.collect::<Result<_, String>>()?))
        }
        (reply, _) => return Err(format!("{reply:?} does not match the type of the result")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation that the in-memory database lacks only affects transactions that use it.
    #[test]
    fn missing_operations_fail_where_they_are_used() {
        let source = "store shop : linearizable { operation take(product: string) -> bool; } \
             transaction buy(product: string) -> bool { return shop.take(product); } \
             transaction count(n: handle<counter> in shop) -> int { n.add(1); return n.value(); }";
        let program = compile(source).program.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = load(&program, source).await.unwrap();
            let words =
                |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
            let counted = call(&mut client, &words(&["count", "n"])).await;
            assert_eq!(counted, Ok(Reply::Integer(1)));
            let error = call(&mut client, &words(&["buy", "pen"])).await.unwrap_err();
            assert!(error.contains("it has no operation `take`"), "{error}");
        });
    }

    /// The error does not refer to a server that could complete or forget the transaction.
    #[test]
    fn errors_of_incomplete_calls_name_no_server_commands() {
        let source = "store directory : linearizable; store audit : eventual;\n\
            transaction grow(a: handle<counter> in directory, b: handle<counter> in audit) {\n\
              a.add(1);\n\
              b.add(9223372036854775807);\n\
            }";
        let program = compile(source).program.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = load(&program, source).await.unwrap();
            let grow = ["grow", "a", "b"].map(str::to_owned);
            call(&mut client, &grow).await.unwrap();
            let error = call(&mut client, &grow).await.unwrap_err();
            let place = "(in transaction `grow`, line 4); nothing can be completed later";
            assert!(error.starts_with("grow: INCOMPLETE ") && error.contains(place), "{error}");
            assert!(!error.contains("SOLERA.CALL"), "{error}");
        });
    }

    /// The next call accepts a printed result as an argument.
    #[test]
    fn results_are_printed_as_arguments_are_written() {
        let source = "store s : causal; struct Pair { of: bytes, at: option<float> }\n\
            transaction give_bytes(x: bytes) -> bytes { return x; }\n\
            transaction give_text(x: string) -> string { return x; }\n\
            transaction give_number(x: float) -> float { return x; }\n\
            transaction give_list(x: list<bytes>) -> list<bytes> { return x; }\n\
            transaction give_set(x: set<string>) -> set<string> { return x; }\n\
            transaction give_map(x: map<int, bool>) -> map<int, bool> { return x; }\n\
            transaction give_option(x: option<int>) -> option<int> { return x; }\n\
            transaction give_pair(x: Pair) -> Pair { return x; }\n\
            transaction give_handles(x: list<handle<counter> in s>) -> list<handle<counter> in s> { return x; }";
        let program = compile(source).program.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = load(&program, source).await.unwrap();
            for (transaction, written) in [
                ("bytes", "00ff"),
                ("text", "a \"b\""),
                ("number", "NaN"),
                ("list", r#"["ff","00","41"]"#),
                ("set", r#"["a","b"]"#),
                ("map", "[[1,true],[2,false]]"),
                ("option", "[3]"),
                ("option", "null"),
                ("pair", r#"{"of":"00ff","at":["-inf"]}"#),
                ("pair", r#"{"of":"","at":null}"#),
                ("handles", r#"["s:k"]"#),
            ] {
                let transaction = &*format!("give_{transaction}");
                let words = [transaction, written].map(str::to_owned);
                let reply = call(&mut client, &words).await.unwrap();
                let shown = shown(&program, transaction, &reply).unwrap();
                assert_eq!(String::from_utf8(shown).unwrap(), written, "{transaction}");
            }
        });
        // A result of bytes alone is printed unchanged, whether or not it is text.
        let reply = Reply::Bulk(vec![0xff, 0]);
        assert_eq!(shown(&program, "give_bytes", &reply), Ok(vec![0xff, 0]));
    }
}
