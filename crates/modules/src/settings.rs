//! Limits of modules and their calls.

use std::time::Duration;

use solera_config::{ConfigError, ModuleSpec, Placed};
use solera_mixt::outcome::Limits;
use solera_program::run;

/// Limits of modules and their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximal size of a module's source, in bytes.
    pub source_bytes: usize,
    /// Limits of a transaction, and of the time for which it is retried.
    pub limits: Limits,
    /// Number of threads that run calls.
    pub threads: usize,
    /// Number of calls that run at once; further ones wait.
    pub calls: usize,
    /// Maximal time that a call waits before it runs.
    pub patience: Duration,
    /// Interval of the search for incomplete transactions and garbage.
    pub upkeep: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let (source_bytes, limits) = (256 << 10, Limits::default());
        let (upkeep, patience) = (Duration::from_secs(5), Duration::from_secs(5));
        Settings { source_bytes, limits, threads: 2, calls: 1024, patience, upkeep }
    }
}

impl Settings {
    /// Reads the settings of a configuration; settings that it does not contain have their
    /// defaults.
    ///
    /// # Errors
    /// The settings contradict one another. For example, a coordinator must give its transaction up
    /// before others complete it, and one value must not exceed the limit of all values together.
    pub fn configured(spec: &ModuleSpec) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        let limits = &mut settings.limits;
        set(&mut settings.source_bytes, &spec.source_bytes);
        set(&mut settings.threads, &spec.threads);
        set(&mut settings.calls, &spec.calls);
        set(&mut limits.phase.fuel, &spec.steps);
        set(&mut limits.phase.depth, &spec.depth);
        set(&mut limits.phase.value_bytes, &spec.value_bytes);
        set(&mut limits.phase.held_bytes, &spec.held_bytes);
        set(&mut limits.phase.tape_bytes, &spec.handed_on_bytes);
        set(&mut limits.run_ms, &spec.run_ms);
        set(&mut limits.attempts, &spec.attempts);
        set(&mut limits.finish_ms, &spec.finish_ms);
        set(&mut limits.orphan_ms, &spec.orphan_ms);
        set(&mut limits.blocked_ms, &spec.blocked_ms);
        set(&mut limits.keep_ms, &spec.keep_ms);
        if let Some(ms) = &spec.upkeep_ms {
            settings.upkeep = Duration::from_millis(ms.value);
        }
        let run::Limits { value_bytes, held_bytes, .. } = limits.phase;
        if value_bytes > held_bytes {
            let given = spec.held_bytes.as_ref().or(spec.value_bytes.as_ref());
            return given.expect("the defaults do not contradict").invalid(format!(
                "max_value ({value_bytes}) must not be more than max_held ({held_bytes})"
            ));
        }
        let Err(contradiction) = limits.check() else {
            return Ok(settings);
        };
        let given = |name: &str| match name {
            "finish_ms" => spec.finish_ms.as_ref(),
            "orphan_ms" => spec.orphan_ms.as_ref(),
            "blocked_ms" => spec.blocked_ms.as_ref(),
            _ => spec.keep_ms.as_ref(),
        };
        let given = given(contradiction.more.0).or(given(contradiction.less.0));
        given.expect("the defaults do not contradict").invalid(contradiction.to_string())
    }
}

fn set<T: TryFrom<u64>>(to: &mut T, given: &Option<Placed<u64>>) {
    if let Some(value) = given.as_ref().and_then(|given| T::try_from(given.value).ok()) {
        *to = value;
    }
}

#[cfg(test)]
mod tests {
    use solera_config::{ClusterSpec, Overrides};

    use super::*;

    fn configured(text: &str) -> Result<Settings, String> {
        let text = format!("[modules]\n{text}");
        let spec = ClusterSpec::parse("s.toml", &text, Overrides::default()).unwrap();
        Settings::configured(&spec.modules).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_settings_have_their_defaults() {
        assert_eq!(configured("").unwrap(), Settings::default());
        let text = "max_source = 2048\nthreads = 3\nmax_calls = 4\nupkeep_ms = 40\nmax_steps = 5000\nmax_depth = 6\n\
                    max_value = 7000\nmax_handed_on = 8000\nmax_held = 9000\nattempts = 9\nrun_ms = 14\nfinish_ms = 10\n\
                    orphan_ms = 12011\nblocked_ms = 12012\nkeep_ms = 12013";
        let found = configured(text).unwrap();
        let mut wanted = Settings::default();
        (wanted.source_bytes, wanted.threads) = (2048, 3);
        wanted.calls = 4;
        wanted.upkeep = Duration::from_millis(40);
        let phase = &mut wanted.limits.phase;
        (phase.fuel, phase.depth, phase.value_bytes, phase.tape_bytes) = (5000, 6, 7000, 8000);
        phase.held_bytes = 9000;
        let limits = &mut wanted.limits;
        (limits.attempts, limits.finish_ms, limits.orphan_ms) = (9, 10, 12_011);
        (limits.blocked_ms, limits.keep_ms, limits.run_ms) = (12_012, 12_013, 14);
        assert_eq!(found, wanted);
    }

    #[test]
    fn contradicting_times_are_named_with_their_line() {
        let error = configured("threads = 1\nfinish_ms = 12000").unwrap_err();
        let reason = "finish_ms (12000) must be less than orphan_ms (22000) by 12001 or more: \
                      a commit may take effect that late";
        assert_eq!(error, format!("s.toml, line 3: {reason}"));
        let error = configured("keep_ms = 32000\n").unwrap_err();
        assert_eq!(error, "s.toml, line 2: blocked_ms (32000) must be less than keep_ms (32000)");
    }
    #[test]
    fn one_value_must_not_exceed_the_limit_of_all_together() {
        let error = configured("threads = 1\nmax_value = '65 MiB'").unwrap_err();
        let reason = "max_value (68157440) must not be more than max_held (67108864)";
        assert_eq!(error, format!("s.toml, line 3: {reason}"));
        let error = configured("max_value = '2 MiB'\nmax_held = '1 MiB'").unwrap_err();
        let reason = "max_value (2097152) must not be more than max_held (1048576)";
        assert_eq!(error, format!("s.toml, line 3: {reason}"));
        assert!(configured("max_value = '64 MiB'").is_ok());
    }
}
