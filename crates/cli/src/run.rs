//! `solera run`: calls transactions of a MixT source over stores in memory, as a site would.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use solera::{Client, Value as Reply};
use solera_embedded::{ClusterSpec, Embedded, Overrides, Settings, Store};
use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::memory::Memory;
use solera_mixt::store::{BoxFuture, Connection, Database, Description, StoreError};
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::types::{StoreId, Type};
use solera_program::value::Value;

use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  solera run post.mixt create_user Ann
  solera run counter.mixt increment hits then increment hits then read hits

Each store of the program is a space in memory of the level that it declares, empty at first and gone at the end. Arguments
are as for SOLERA.CALL: a handle is a key, with or without its store before a colon; lists and the like are JSON.
`then` begins the next call. A store may declare `query strong_size(of: *set<T>) -> int`; other custom operations
need a database that has them, and a call that comes to one fails. `-` stands for standard input.

Exit codes: 0 all calls have succeeded; 1 the program has errors, or a call has failed, after which none is made; 2 a file
that cannot be read.";

/// Run transactions of a program in the MixT language over stores in memory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The source; - is standard input
    file: String,
    /// A transaction and its arguments; further ones after `then`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    calls: Vec<String>,
}

/// What the stores are called together.
const MEMORY: &str = "memory";

pub(crate) fn main(args: &RunArgs) -> ExitCode {
    let source = match Source::read(&args.file) {
        Ok(source) => source,
        Err(reason) => {
            eprintln!("solera run: {reason}");
            return ExitCode::from(2);
        }
    };
    let compiled = compile(&source.text);
    source.tell(&compiled.diagnostics);
    let Some(program) = compiled.program else { return ExitCode::FAILURE };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            let mut client =
                load(&program, &source.text).await.map_err(|error| error.to_string())?;
            for call in args.calls.split(|word| word == "then") {
                let reply = called(&mut client, call).await?;
                say_bytes(&shown(&program, &call[0], &reply)?);
            }
            Ok(())
        })
    });
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err::<_, String>(reason) => {
            eprintln!("solera run: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Memory that is bound to a store whatever operations that declares: transactions that use none of
/// those it lacks can be called, and the others fail where they come to one.
struct Unasked(Memory);

impl Database for Unasked {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.0.level(space)
    }

    fn check_operations<'a>(
        &'a self,
        _program: &'a Program,
        _store: StoreId,
        _space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        self.0.connect()
    }
}

/// A client of a site that has the module, and its stores.
async fn load(program: &Program, source: &str) -> Result<Client, Box<dyn Error>> {
    let stores = program.stores.iter();
    let weakest = |store: &solera_program::ir::Store| {
        *store.accepts.last().expect("the strongest level is as strong as any")
    };
    let spaces: Vec<_> = stores.clone().map(|store| (&*store.name, weakest(store))).collect();
    // Each may be a database of its own: so a transaction runs in as many phases as it could
    // anywhere.
    let database = Arc::new(Unasked(Memory::disjoint(MEMORY, &spaces)));
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

async fn called(client: &mut Client, call: &[String]) -> Result<Reply, String> {
    let Some((transaction, args)) = call.split_first() else {
        return Err("a transaction is named before and after each `then`".to_owned());
    };
    let name = format!("m.{transaction}");
    let words = ["SOLERA.CALL", &name].into_iter().chain(args.iter().map(String::as_str));
    let answer = client.command(&words.collect::<Vec<_>>()).await;
    answer.map_err(|error| format!("{transaction}: {}", without_server(&error.to_string())))
}

/// An error without what could be asked of a server about it later: the stores end with this
/// process.
fn without_server(told: &str) -> String {
    match told.split_once("; SOLERA.CALL ") {
        Some((told, _)) => {
            format!("{told}; nothing can be completed later, as `solera run` ends with its stores")
        }
        None => told.to_owned(),
    }
}

/// A result as it is written as an argument: text and bytes as they are, lists and the like as
/// JSON.
fn shown(program: &Program, transaction: &str, reply: &Reply) -> Result<Vec<u8>, String> {
    let transaction = program.transactions.iter().find(|found| *found.name == *transaction);
    let ty = &transaction.expect("it was called").result;
    if *ty == Type::Unit {
        return Ok(b"OK".to_vec());
    }
    let codec = Codec::new(program);
    let value = value(program, reply, ty)?;
    codec.result(&value, ty).map_err(|error| format!("the result cannot be told: {error}"))
}

/// What a reply is in a type of the program.
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
            read.map_err(|error| format!("the result cannot be told: {error}"))?
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
            // The fields are in the order of the declaration.
            let fields = program.structs[usize::from(id.0)].fields.iter().zip(pairs);
            let fields = fields.map(|((_, ty), (_, reply))| value(program, reply, ty));
            Value::Struct(Arc::new(fields.collect::<Result<_, String>>()?))
        }
        (reply, _) => return Err(format!("{reply:?} is no result of its type")),
    })
}

/// Writes a line that need not be text.
fn say_bytes(line: &[u8]) {
    // As of `say!`: who does not read it any more does not want it.
    let _ = std::io::stdout().write_all(&[line, b"\n"].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store's operations that memory lacks are in the way of who uses them only.
    #[test]
    fn operations_that_memory_lacks_are_told_where_they_are_used() {
        let source = "store shop : linearizable { operation take(product: string) -> bool; } \
             transaction buy(product: string) -> bool { return shop.take(product); } \
             transaction count(n: handle<counter> in shop) -> int { n.add(1); return n.value(); }";
        let program = compile(source).program.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = load(&program, source).await.unwrap();
            let call =
                |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
            let counted = called(&mut client, &call(&["count", "n"])).await;
            assert_eq!(counted, Ok(Reply::Integer(1)));
            let told = called(&mut client, &call(&["buy", "pen"])).await.unwrap_err();
            assert!(told.contains("it has no operation `take`"), "{told}");
        });
    }

    /// There is no server that could be asked to complete or forget anything.
    #[test]
    fn what_stays_incomplete_is_told_without_commands_for_a_server() {
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
            called(&mut client, &grow).await.unwrap();
            let told = called(&mut client, &grow).await.unwrap_err();
            let place = "(in transaction `grow`, line 4); nothing can be completed later";
            assert!(told.starts_with("grow: INCOMPLETE ") && told.contains(place), "{told}");
            assert!(!told.contains("SOLERA.CALL"), "{told}");
        });
    }

    /// What is printed is what the next call takes.
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
                let call = [transaction, written].map(str::to_owned);
                let reply = called(&mut client, &call).await.unwrap();
                let shown = shown(&program, transaction, &reply).unwrap();
                assert_eq!(String::from_utf8(shown).unwrap(), written, "{transaction}");
            }
        });
        // By themselves bytes are as they are, text or not.
        let reply = Reply::Bulk(vec![0xff, 0]);
        assert_eq!(shown(&program, "give_bytes", &reply), Ok(vec![0xff, 0]));
    }
}
