//! `solera run`: calls transactions of a MixT source over stores in memory, as a site would.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use solera::modules::{Settings, Store};
use solera::{Client, ClusterSpec, Embedded, Overrides, Value};
use solera_language::compile::compile;
use solera_language::ir::Program;
use solera_mixt::memory::Memory;

use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  solera run post.mixt create_user Ann
  solera run counter.mixt increment hits then increment hits then read hits

Each store of the program is a space in memory of the level that it declares, empty at first and gone at the end. Arguments
are as for SOLERA.CALL: a handle is a key, with or without its store before a colon; lists and the like are JSON.
`then` begins the next call. A store may declare `query strong_size(of: *set<T>) -> int`; other custom operations
need a database that has them. `-` stands for standard input.

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
            let mut client = load(&program, &source).await.map_err(|error| error.to_string())?;
            for call in args.calls.split(|word| word == "then") {
                say!("{}", shown(&called(&mut client, call).await?));
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

/// A client of a site that has the module, and its stores.
async fn load(program: &Program, source: &Source) -> Result<Client, solera::Error> {
    let stores = program.stores.iter();
    let weakest = |store: &solera_language::ir::Store| {
        *store.accepts.last().expect("the strongest level is as strong as any")
    };
    let spaces: Vec<_> = stores.clone().map(|store| (&*store.name, weakest(store))).collect();
    // Each may be a database of its own: so a transaction runs in as many phases as it could anywhere.
    let database = Arc::new(Memory::disjoint(MEMORY, &spaces));
    let memory = Store { database, spaces: stores.clone().map(|one| one.name.clone()).collect() };
    let spec = ClusterSpec::parse("", "sites = 1", Overrides::default());
    let spec = spec.map_err(|error| solera::Error::Start(error.to_string()))?;
    let cluster = Embedded::with_modules(spec, Settings::default(), vec![memory])?;
    let mut client = cluster.client(0).await?;
    let mut load: Vec<String> =
        ["SOLERA.MODULE", "LOAD", "m", &source.text].map(str::to_owned).to_vec();
    for store in stores {
        load.extend(["BIND".to_owned(), format!("{0}={MEMORY}/{0}", store.name)]);
    }
    client.command(&load).await?;
    Ok(client)
}

async fn called(client: &mut Client, call: &[String]) -> Result<Value, String> {
    let Some((transaction, args)) = call.split_first() else {
        return Err("a transaction is named before and after each `then`".to_owned());
    };
    let name = format!("m.{transaction}");
    let words = ["SOLERA.CALL", &name].into_iter().chain(args.iter().map(String::as_str));
    let answer = client.command(&words.collect::<Vec<_>>()).await;
    answer.map_err(|error| format!("{transaction}: {error}"))
}

/// Text as it is, everything else as JSON.
fn shown(value: &Value) -> String {
    match in_json(value) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

fn in_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => json!(null),
        Value::Integer(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::Boolean(truth) => json!(truth),
        Value::Bulk(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Simple(text)
        | Value::Error(text)
        | Value::BigNumber(text)
        | Value::Verbatim { text, .. } => json!(text),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            values.iter().map(in_json).collect()
        }
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| (shown(key), in_json(value))).collect()
        }
    }
}
