//! `solera bench --workload tickets` and `--workload retwis`: services in variants that differ in
//! how consistent their data is.

use std::process::ExitCode;

use clap::Args;
use solera_bench::services::{Comparison, Service, Variant, run};
use solera_bench::{BenchError, Strong};
use solera_node::raise_descriptor_limit;

use super::{BenchArgs, Workload, conclude, report_error};

#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// tickets, retwis: variants to run: strong, weak, latency-bound and error-bound (default all
    /// of them, in this order)
    #[arg(long, value_name = "VARIANT,…", value_delimiter = ',')]
    pub(super) variant: Vec<Variant>,
    /// tickets: mean number of tickets of an event (default 2000). With few, events sell out
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) tickets: Option<u32>,
    /// retwis: number of users (default 1000)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) users: Option<u32>,
}

/// Runs the variants, and prints them side by side.
pub(super) fn main(args: &BenchArgs) -> ExitCode {
    let service = args.service();
    if args.print_spaces {
        output!("{}", service.spaces().trim_end());
        return ExitCode::SUCCESS;
    }
    let comparison = match args.compare(&service) {
        Ok(comparison) => comparison,
        Err(error) => return report_error(&error),
    };
    match args.json {
        true => output!("{:#}", comparison.json()),
        false => output!("{}", comparison.to_string().trim_end()),
    }
    conclude(comparison.holds(), comparison.has_run())
}

impl BenchArgs {
    fn service(&self) -> Service {
        match self.workload {
            Workload::Retwis => Service::Retwis { users: self.services.users.unwrap_or(1000) },
            _ => {
                let tickets = self.services.tickets.unwrap_or(Service::TICKETS);
                Service::Tickets { tickets }
            }
        }
    }

    fn compare(&self, service: &Service) -> Result<Comparison, BenchError> {
        if self.strong == Strong::Causal {
            return Err(BenchError::Settings(format!(
                "--strong causal does not apply to {}, which has the variant weak",
                self.workload.name()
            )));
        }
        raise_descriptor_limit();
        let place = self.place(&service.spaces())?;
        let report = |what: &str| print_error!("solera bench: {what}");
        let variants = match self.services.variant.as_slice() {
            [] => &Variant::ALL,
            some => some,
        };
        run(service, (variants, self.seed), &place, &self.pace(), &report)
    }
}
