//! Next steps on the command line for errors of the libraries, which know no options.

use polaris::graph::Error as GraphError;
use polaris::models::Error as ModelError;
use polaris::optimize::Error as OptimizeError;
use polaris::runtime::Error as RuntimeError;
use polaris_bench::Error as BenchError;
use polaris_tuner::Error as TunerError;

use crate::exit::runtime_error;

/// What the user can do about an error, with the options of this program.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    let bench = error.downcast_ref::<BenchError>();
    let model = match bench {
        Some(BenchError::Models(error)) => Some(error),
        _ => error.downcast_ref::<ModelError>(),
    };
    let graph = match (bench, model) {
        (Some(BenchError::Graph(error)), _) | (_, Some(ModelError::Graph(error))) => Some(error),
        _ => error.downcast_ref::<GraphError>(),
    };
    let fixed = match (graph, model, error.downcast_ref::<TunerError>(), bench) {
        (Some(GraphError::NoGpu), ..) => "use `--mode cpu`; `polaris devices` explains why",
        (_, Some(ModelError::NoTokenizer { .. }), ..) => "`--tokenizer FILE` names it",
        (_, Some(ModelError::UnknownLength { .. }), ..) => "set one of these with `--dim NAME=N`",
        (.., Some(TunerError::NoDevice), _) | (.., Some(BenchError::NoOpenCl)) => {
            "`polaris devices` explains why"
        }
        (.., Some(TunerError::NotPredicted), _) => {
            "leave out `--dtype` and `--transpose` with `--target`"
        }
        (.., Some(TunerError::Tune(polaris_tune::Error::TooFew { .. })), _) => {
            "`polaris tune gemm` measures more"
        }
        _ => match error.downcast_ref() {
            Some(OptimizeError::Quantised { .. }) => "`--requantize` allows it",
            Some(OptimizeError::ConstantActivation { .. }) => "`--exclude PART` leaves layers out",
            Some(OptimizeError::OtherModel { .. }) => "name that of this model with `--imatrix`",
            Some(OptimizeError::Memory { .. }) => "`--hessian-memory SIZE` allows more",
            Some(OptimizeError::OtherHistograms { .. } | OptimizeError::HistogramFile { .. }) => {
                "name another file with `--histograms`"
            }
            _ => return runtime_hint(error),
        },
    };
    Some(fixed.to_owned())
}

fn runtime_hint(error: &anyhow::Error) -> Option<String> {
    match runtime_error(error)? {
        RuntimeError::OutOfMemory { .. } => {
            Some("`--memory-limit DEVICE=SIZE` sets the limit, `--device` the device".to_owned())
        }
        RuntimeError::TooFewThreads { made, .. } => Some(format!("try `--threads {made}`")),
        RuntimeError::OpenCl { .. } => Some("`--device cpu` uses the CPU".to_owned()),
        _ => None,
    }
}
