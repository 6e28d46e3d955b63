//! `solera papers`: reproduces the experiments of papers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use solera_bench::papers::{
    Effort, Results, calibrate, creek, ipa, mixt, occult, predict, turns, unistore,
};

use crate::stores;

const EXAMPLES: &str = "\
Examples:
  solera papers unistore                     writes papers-unistore/index.html in two minutes
  solera papers unistore --full --json rows.json
  solera papers unistore --figure 5          one figure alone
  solera papers mixt                         mixed transactions over two clusters
  solera papers mixt --postgres URL          also over PostgreSQL
  scripts/with-stores solera papers mixt     the same, with a temporary server
  solera papers ipa                          bounds of latency and error under emulated delays
  solera papers occult                       Occult in virtual clusters of the paper's shape
  solera papers creek                        Creek and its baselines in virtual time
  solera papers calibrate > crates/bench/src/virtual_cluster/costs.json
                                             recounts the costs of virtual clusters in minutes
  solera papers calibrate --check            lists steps whose costs differ from the table
  solera papers calibrate --turns            latencies beside a busy space of primary

All numbers are measured in this run. A missed target is reported and is not an error. The command
exits with 1 if the experiments cannot run, or if their results cannot be written.";

/// Run the experiments behind a paper's figures, and compare the numbers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PapersArgs {
    /// Paper to reproduce, or `calibrate` for the costs of unistore's virtual clusters
    #[arg(value_enum)]
    paper: Paper,
    /// Run every figure at a reduced scale (the default), in under three minutes, ipa in nine
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run at the paper's scale: unistore in up to twenty minutes, mixt and ipa in about an hour,
    /// occult and creek in about half an hour
    #[arg(long)]
    full: bool,
    /// Run only the experiments of this figure: 3 to 6 of unistore, 15 to 17 of mixt, 2 and 6 to 9
    /// of occult, 5 to 11 of ipa, 1 of creek
    #[arg(long, value_name = "N")]
    figure: Option<u8>,
    /// PostgreSQL server for mixt's linearizable store, as
    /// postgresql://USER:PASSWORD@HOST:PORT/DATABASE. The schema solera_papers holds the measured
    /// data and may be dropped afterwards [default: $SOLERA_TEST_POSTGRES]
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Write the numbers to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// calibrate: compare with the built-in table, and exit with 1 if a cost differs
    #[arg(long)]
    check: bool,
    /// calibrate: predict transactions per second of worker time, at one site with one and two
    /// workers, and compare with a measurement
    #[arg(long, conflicts_with = "check")]
    predict: bool,
    /// calibrate: measure in virtual time the latency of causal transactions beside a saturated
    /// space of primary
    #[arg(long, conflicts_with_all = ["check", "predict"])]
    turns: bool,
    /// Run these steps, for callgrind
    #[arg(long, hide = true)]
    steps: Option<String>,
    /// Folder for the page with numbers and plots (default papers-NAME)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// UniStore (USENIX ATC 2021), Figures 3 to 6
    Unistore,
    /// MixT (PLDI 2018), Figures 15 to 17
    Mixt,
    /// Occult (NSDI 2017), Figures 2 and 6 to 9
    Occult,
    /// IPA (SoCC 2016), Figures 5 to 9 and 11
    Ipa,
    /// Creek, Figure 1 and the variations of §6.3
    Creek,
    /// The table of costs of UniStore's virtual clusters; needs valgrind
    Calibrate,
}

/// Returns the first given option that does not apply to this paper.
fn misplaced(args: &PapersArgs) -> Option<&'static str> {
    let (calibrate, mixt) =
        (matches!(args.paper, Paper::Calibrate), matches!(args.paper, Paper::Mixt));
    let options = [
        ("--check", args.check, calibrate),
        ("--predict", args.predict, calibrate),
        ("--turns", args.turns, calibrate),
        ("--postgres", args.postgres.is_some(), mixt),
        ("--quick", args.quick, !calibrate),
        ("--full", args.full, !calibrate),
        ("--figure", args.figure.is_some(), !calibrate),
        ("--json", args.json.is_some(), !calibrate),
        ("--out", args.out.is_some(), !calibrate),
    ];
    options.into_iter().find(|(_, given, applies)| *given && !applies).map(|(name, ..)| name)
}

/// Runs the experiments to the end.
pub(crate) fn main(args: &PapersArgs) -> ExitCode {
    if let Some(option) = misplaced(args) {
        print_error!(
            "solera papers: {option} does not apply to this paper; see solera papers --help"
        );
        return ExitCode::from(2);
    }
    let effort = if args.full { Effort::Full } else { Effort::Quick };
    let report = |what: &str| print_error!("solera papers: {what}");
    let figures = match args.paper {
        Paper::Unistore => unistore::FIGURES,
        Paper::Mixt => mixt::FIGURES,
        Paper::Occult => occult::FIGURES,
        Paper::Ipa => ipa::FIGURES,
        Paper::Creek => creek::FIGURES,
        Paper::Calibrate => return calibrated(args, &report),
    };
    if let Some(figure) = args.figure.filter(|figure| !figures.contains(figure)) {
        let (first, last) = figures.into_inner();
        print_error!(
            "solera papers: there is no figure {figure}; this paper has figures {first} to {last}"
        );
        return ExitCode::from(2);
    }
    // Fails before the experiments, not after them, if the results cannot be written.
    if let Err(error) = prepare(args) {
        print_error!("solera papers: {error}");
        return ExitCode::FAILURE;
    }
    let results = match args.paper {
        Paper::Unistore | Paper::Calibrate => unistore::run(effort, args.figure, &report),
        Paper::Occult => occult::run(effort, args.figure, &report),
        Paper::Ipa => ipa::run(effort, args.figure, &report),
        Paper::Creek => creek::run(effort, args.figure, &report),
        Paper::Mixt => {
            let postgres = stores::test_postgres(args.postgres.as_deref());
            mixt::run(effort, args.figure, postgres.as_deref(), &report)
        }
    };
    let written = results.map_err(|error| error.to_string()).and_then(|results| {
        output!("{}", results.to_string().trim_end());
        write(args, &results)
    });
    match written {
        Ok(page) => {
            output!("\nThe page is {}", page.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error!("solera papers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates the table of costs, or compares with it.
fn calibrated(args: &PapersArgs, report: &dyn Fn(&str)) -> ExitCode {
    let done = match (&args.steps, args.check) {
        _ if args.predict => predict::predict(report).map(|lines| (lines.join("\n"), true)),
        _ if args.turns => {
            report("measuring six virtual clusters, in about fifteen seconds");
            Ok((turns::turns(), true))
        }
        (Some(variant), _) => calibrate::steps(variant).map(|classes| (classes, true)),
        (None, false) => calibrate::table(report).map(|table| (table, true)),
        (None, true) => calibrate::check(report).map(|drifts| match drifts.is_empty() {
            true => ("No kind of steps has drifted.".to_owned(), true),
            false => (drifts.join("\n"), false),
        }),
    };
    match done {
        Ok((text, holds)) => {
            output!("{}", text.trim_end());
            if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            print_error!("solera papers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the folder of the page.
fn folder(args: &PapersArgs) -> PathBuf {
    let name = match args.paper {
        Paper::Unistore => "unistore",
        Paper::Mixt => "mixt",
        Paper::Occult => "occult",
        Paper::Ipa => "ipa",
        Paper::Creek => "creek",
        Paper::Calibrate => "calibrate",
    };
    args.out.clone().unwrap_or_else(|| PathBuf::from(format!("papers-{name}")))
}

/// Checks that the results can be written.
fn prepare(args: &PapersArgs) -> Result<(), String> {
    let folder = folder(args);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    match &args.json {
        Some(file) => put(file, ""),
        None => Ok(()),
    }
}

/// Writes the requested files; returns the path of the page.
fn write(args: &PapersArgs, results: &Results) -> Result<PathBuf, String> {
    if let Some(file) = &args.json {
        put(file, &format!("{:#}\n", results.json()))?;
    }
    let page = folder(args).join("index.html");
    put(&page, &results.page.html(&results.rows))?;
    Ok(page)
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
