//! The command line: one description for parsing, help and completions.

mod bench;
mod embed;
mod model;
mod train;
mod tune;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use polaris::runtime::cpu::MAX_THREADS;
use polaris::{DeviceName, MemoryLimit};

pub use bench::{BenchModes, Gemm, Memory};
pub use embed::{Embed, FormatName};
pub use model::{BenchModel, Info, ModeName, ModelChoice, OnnxTest, PassChoice, Plan, Run};
pub use train::{Eval, Export, Generate, Train};
pub use tune::{Tune, TuneGemm, TuneSearch, TuneStudy, TuneWhat};

/// AI and scientific compute on the GPU you already own.
#[derive(Debug, Parser)]
#[command(
    name = "polaris",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  polaris quickstart                  look at this machine, measure and check it
  polaris devices --measure           what each device has and reaches
  polaris check --device gpu     does this driver compute right?
  polaris bench memory --json         bandwidth, for programs to read

Exit codes: 0 all well, 1 something is computed wrongly, 2 wrong usage, 3 failed,
130 stopped by Ctrl-C."
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Print JSON on stdout instead of text
    #[arg(long, global = true)]
    pub json: bool,

    /// Use this device (cpu, gpu, a part of a name such as nvidia, opencl:1); may be repeated
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Vec<DeviceName>,

    /// Let a device use at most this much memory, as in gpu=512MiB; may be repeated
    #[arg(long, global = true, value_name = "DEVICE=SIZE")]
    pub memory_limit: Vec<MemoryLimit>,

    /// Use this many CPU threads, from 1 to 1024; one for each logical processor by default
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS as i64))]
    pub threads: Option<u16>,

    /// Do not check a device the first time it is seen
    #[arg(long, global = true)]
    pub no_first_check: bool,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at this machine, measure it, check it, and say how to use it best
    #[command(after_help = "Examples:
  polaris quickstart
  polaris quickstart --json")]
    Quickstart,

    /// Show what this machine has: CPU, memory, GPUs, drivers, and what is wrong with them
    #[command(after_help = "Examples:
  polaris devices
  polaris devices --measure           measure what they reach, and remember it
  polaris devices --json
  POLARIS_OPENCL=off polaris devices  as if there were no OpenCL")]
    Devices(Devices),

    /// Run every operation on your devices against a reference, and quarantine what is wrong
    #[command(after_help = "Examples:
  polaris check
  polaris check --device gpu
  polaris check --quick                 a few cases, in seconds
  polaris check --full                  every kernel in every layout
  polaris check --json > check.json

A kernel that is wrong on a driver is remembered and not used again on it; another kernel or the
CPU does its work. A later check that finds it right releases it.")]
    Check(Check),

    /// Measure how fast this machine is
    #[command(after_help = "Examples:
  polaris bench memory
  polaris bench launch --json
  polaris bench gemm --peers
  polaris bench modes --html modes.html
  polaris bench model model.onnx")]
    Bench {
        #[command(subcommand)]
        what: Bench,
    },

    /// Search for the fastest configurations of kernels on a device, and remember them
    #[command(after_help = "Examples:
  polaris tune gemm --budget 60s
  polaris tune gemm --device gpu --shapes 512x512x512,1x4096x4096 --budget 200evals
  polaris tune gemm --around 1280 --strategy annealing --seed 7
  polaris tune --list
  polaris tune --explain 1024,1024,1024
  polaris tune --export tuned.jsonl

Every candidate is built and run in a process of its own and compared with a reference before its
time counts. Ctrl-C keeps everything; the same command goes on where the last one ended.")]
    Tune(Box<Tune>),

    /// Train a model from a configuration, with checkpoints, a log and a report
    #[command(after_help = "Examples:
  polaris train digits
  polaris train digits --device gpu --set train.epochs=5 --set optim.lr=1e-3
  polaris train mine.toml --out runs/first
  polaris train mine.toml --out runs/first --resume

Ctrl-C saves a checkpoint and says how to go on. docs/training.md describes configurations.")]
    Train(Train),

    /// Test a trained model
    #[command(after_help = "Examples:
  polaris eval runs/digits
  polaris eval runs/mine/model.safetensors --set data.path=other.csv --all --json")]
    Eval(Eval),

    /// Write a trained model as ONNX, for other engines
    #[command(after_help = "Examples:
  polaris export runs/digits --out digits.onnx
  polaris export runs/mine/model.safetensors --out mine.onnx --json

What goes in is named input, what comes out is named output, and the batch may have any size.")]
    Export(Export),

    /// Let a trained GPT write
    #[command(after_help = "Examples:
  polaris generate runs/text --prompt 'In the beginning '
  polaris generate runs/text --tokens 100 --temperature 0 --json")]
    Generate(Generate),

    /// Run an ONNX model
    #[command(after_help = "Examples:
  polaris run model.onnx --input tokens=ids.npy --output-dir out
  polaris run classifier.onnx --image cat.jpg --labels imagenet.txt
  polaris run model.onnx --random-inputs --dim batch=4 --mode gpu --repeat 20
  polaris run model.onnx --random-inputs --profile trace.json

Inputs are NPY files. What the device has no operation for runs on the CPU; `polaris plan` shows it.")]
    Run(Box<Run>),

    /// Turn lines of text into vectors
    #[command(after_help = "Examples:
  polaris embed all-MiniLM-L6-v2 sentences.txt -o vectors.npy
  cat sentences.txt | polaris embed all-MiniLM-L6-v2 > vectors.jsonl
  polaris embed model.onnx sentences.txt.gz -o vectors.jsonl --pooling cls --mode gpu --json

The model is an encoder of the BERT family with its tokenizer.json: ONNX, or safetensors with config.json. Row N
belongs to line N: lines that are empty, longer than 1 MiB or no UTF-8 are named on stderr and get zeros, or in
JSON lines a null, and the exit code is then 1. docs/embedding.md has the rest.")]
    Embed(Box<Embed>),

    /// Show what an ONNX model is made of, and what of it is not supported
    #[command(after_help = "Examples:
  polaris info model.onnx
  polaris info model.onnx --dim batch=8 --dim sequence=128 --json")]
    Info(Info),

    /// Show the instructions by which an ONNX model would be computed
    #[command(after_help = "Examples:
  polaris plan model.onnx
  polaris plan model.onnx --mode gpu --dim batch=4 --html plan.html
  polaris plan model.onnx --mode hybrid

With --mode hybrid, instructions that were never measured are measured first, and the expected times are
shown.")]
    Plan(Plan),

    /// Run the test data of the ONNX standard
    #[command(
        name = "onnx-test",
        after_help = "Examples:
  polaris onnx-test onnx/backend/test/data/node
  polaris onnx-test onnx/backend/test/data/node --mode gpu --only conv --json

Folders hold model.onnx with test_data_set_*/{input,output}_*.pb, or light_*.onnx with their outputs. The
Python package `onnx` 1.22.0 has them."
    )]
    OnnxTest(OnnxTest),

    /// Show or empty the cache: built programs, packed weights, measured costs
    #[command(after_help = "Examples:
  polaris cache
  polaris cache --clear")]
    Cache(Cache),

    /// Print a completion script for your shell
    #[command(after_help = "Examples:
  polaris completions bash > ~/.local/share/bash-completion/completions/polaris
  polaris completions zsh > ~/.zfunc/_polaris")]
    Completions(Completions),
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Copy, add and sum, beside the plain loop or the device's own copy
    #[command(after_help = "Examples:
  polaris bench memory
  polaris bench memory --device gpu --size 256MiB
  polaris bench memory --json")]
    Memory(Memory),

    /// What one small operation costs, beside a bare OpenCL enqueue
    #[command(after_help = "Examples:
  polaris bench launch
  polaris bench launch --json")]
    Launch,

    /// How long it takes to choose a kernel for a product, and what the predictor weighs
    #[command(after_help = "Examples:
  polaris bench select
  polaris bench select --device gpu --json")]
    Select,

    /// An ONNX model on random inputs: loading, first run, a run, memory
    #[command(after_help = "Examples:
  polaris bench model model.onnx
  polaris bench model model.onnx --dim batch=8 --mode gpu --runs 50 --json
  polaris bench model model.onnx --threads 1 --profile trace.json

Every run begins and ends with its inputs and outputs in the host's memory.")]
    Model(Box<BenchModel>),

    /// CPU, GPU and both together, in what models are made of: the comparison of this machine
    #[command(after_help = "Examples:
  polaris bench modes
  polaris bench modes --html modes.html
  polaris bench modes --quick --json
  polaris bench modes --only matmul-1024,transformer --device gpu

Every workload runs as an ONNX model in the modes cpu, gpu and hybrid, in turns; times include the copies to
the device and back. Results are compared: exit code 1 if modes do not agree.")]
    Modes(BenchModes),

    /// Matrix products: speed, error, share of the roofline, beside other libraries
    #[command(after_help = "Examples:
  polaris bench gemm
  polaris bench gemm --device cpu --threads 1 --sizes 512,1024 --peers
  polaris bench gemm --shapes 1x4096x4096,128x768x3072 --dtypes f32,f16
  polaris bench gemm --device gpu --sizes 1024 --variants all
  polaris bench gemm --sizes 1024 --epilogue bias-gelu
  polaris bench gemm --sweep 1200:1450:10 --peers --report gemm.html

Peers are OpenBLAS (for the CPU), CLBlast (for OpenCL devices) and cuBLAS (for NVIDIA's). They are
looked for in the folders of POLARIS_PEERS_PATH and where the system looks.")]
    Gemm(Box<Gemm>),
}

/// Options of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Measure arithmetic, memory, transfers and launches, and remember the figures
    #[arg(long)]
    pub measure: bool,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Only a few cases, in a few seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Every kernel in every kind of layout; without it every kernel is run once
    #[arg(long)]
    pub full: bool,

    /// Begin no case after so many seconds; 2 for a quick check, otherwise there is no limit
    #[arg(long, value_name = "SECONDS")]
    pub limit: Option<u32>,

    /// Run a job from stdin: the process that takes a driver's crashes
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// Options of `cache`.
#[derive(Debug, Args)]
pub struct Cache {
    /// Remove it all: programs, packed weights and costs are made again when they are needed
    #[arg(long)]
    pub clear: bool,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: ShellName,
}

/// Shells that completions can be made for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ShellName {
    /// GNU Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// PowerShell
    Powershell,
    /// Z shell
    Zsh,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Elvish => Self::Elvish,
            ShellName::Fish => Self::Fish,
            ShellName::Powershell => Self::PowerShell,
            ShellName::Zsh => Self::Zsh,
        }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "not a time from 0 to 3600 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_description_is_consistent() {
        Arguments::command().debug_assert();
    }
}
