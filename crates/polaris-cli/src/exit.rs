//! Exit codes, as documented in docs/guide.md.

use polaris::runtime::Error as RuntimeError;

/// Success.
pub const OK: u8 = 0;
/// The command ran and found an error: a kernel fails its check, modes disagree, a test fails.
pub const FOUND_WRONG: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// The command failed.
pub const FAILED: u8 = 3;
/// Stopped by the user: 128 + SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Wrong usage that only shows while the command runs.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The runtime's error, if that is the cause.
pub fn runtime_error(error: &anyhow::Error) -> Option<&RuntimeError> {
    error.chain().find_map(|cause| {
        let of_ops = || match cause.downcast_ref::<polaris::ops::Error>() {
            Some(polaris::ops::Error::Runtime(error)) => Some(error),
            _ => None,
        };
        let of_graph = || match cause.downcast_ref::<polaris::graph::Error>() {
            Some(polaris::graph::Error::Runtime(error)) => Some(error),
            _ => None,
        };
        let of_llm = || match cause.downcast_ref::<polaris::llm::Error>() {
            Some(
                polaris::llm::Error::Runtime(error)
                | polaris::llm::Error::Ops(polaris::ops::Error::Runtime(error)),
            ) => Some(error),
            _ => None,
        };
        let of_optimize = || match cause.downcast_ref::<polaris::optimize::Error>() {
            Some(polaris::optimize::Error::Graph(error)) => match &**error {
                polaris::graph::Error::Runtime(error) => Some(error),
                _ => None,
            },
            _ => None,
        };
        let of_bench = || cause.downcast_ref::<polaris_bench::Error>()?.runtime();
        let of_tuner = || cause.downcast_ref::<polaris_tuner::Error>()?.runtime();
        let direct = cause.downcast_ref::<RuntimeError>();
        let of_models = direct.or_else(of_ops).or_else(of_graph).or_else(of_llm);
        of_models.or_else(of_optimize).or_else(of_bench).or_else(of_tuner)
    })
}

/// The exit code of an error.
pub fn code_of(error: &anyhow::Error) -> u8 {
    use polaris::graph::Error::ModeWithoutDevice;
    use polaris::llm::SampleError;
    use polaris::models::Error::UnknownLength;
    let is_usage = matches!(error.downcast_ref(), Some(ModeWithoutDevice { .. }))
        || matches!(error.downcast_ref(), Some(UnknownLength { .. }))
        || match error.downcast_ref() {
            Some(polaris_bench::Error::Graph(error)) => matches!(error, ModeWithoutDevice { .. }),
            Some(polaris_bench::Error::Models(error)) => matches!(error, UnknownLength { .. }),
            _ => error.is::<Usage>(),
        }
        || matches!(
            error.downcast_ref(),
            Some(polaris::llm::Error::Sample(SampleError::Option { .. }))
        );
    if matches!(error.downcast_ref(), Some(polaris::llm::Error::Cancelled))
        || matches!(error.downcast_ref(), Some(polaris::optimize::Error::Cancelled))
    {
        return INTERRUPTED;
    }
    if is_usage {
        return USAGE;
    }
    match runtime_error(error) {
        Some(RuntimeError::Interrupted) => INTERRUPTED,
        Some(
            RuntimeError::UnknownDevice { .. }
            | RuntimeError::InvalidMemoryLimit { .. }
            | RuntimeError::InvalidThreads { .. },
        ) => USAGE,
        _ => FAILED,
    }
}
