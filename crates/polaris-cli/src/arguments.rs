//! The command line: one definition for parsing, help, completions and docs/cli.md.

mod bench;
mod compare;
mod embed;
mod imatrix;
mod llm;
mod model;
mod quantize;
#[cfg(test)]
mod reference;
mod train;
mod tune;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use polaris::runtime::cpu::MAX_THREADS;
use polaris::{DeviceName, MemoryLimit};

pub use bench::{BenchModes, Gemm, Memory};
pub use compare::Compare;
pub use embed::{Embed, FormatName};
pub use imatrix::Imatrix;
pub use llm::{
    BenchLlm, Chat, Constraint, EngineChoice, Perplexity, SamplingChoice, SpeculationChoice,
    Tokenize,
};
pub use model::{
    BenchModel, Info, ModeName, ModelChoice, OnnxTest, PassChoice, Plan, PrecisionName, Run,
};
pub use quantize::{ActivationName, CalibrationName, MethodName, Quantize, WeightName};
pub use train::{Eval, Export, Generate, Train, WeightType};
pub use tune::{Tune, TuneGemm, TuneSearch, TuneStudy, TuneWhat};

/// AI and scientific compute on the GPU you already own
///
/// Results go to stdout; notes, warnings, errors and progress bars go to stderr. Progress bars appear only where
/// stderr is a terminal. docs/guide.md describes exit codes, environment variables, files and Ctrl-C.
#[derive(Debug, Parser)]
#[command(
    name = "polaris",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  polaris quickstart                  inspect, measure and check this machine
  polaris devices --measure           measure every device
  polaris check --device gpu          test the kernels of this driver
  polaris run model.onnx --random-inputs
  polaris chat                        chat with the toy model that is built in
  polaris chat model.gguf             chat with a language model
  polaris bench memory --json         print figures for programs to read

Exit codes:
  0    success
  1    the command ran and found an error, such as a kernel that fails its check
  2    wrong usage
  3    the command failed
  130  stopped by Ctrl-C"
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Print one JSON document on stdout instead of text
    ///
    /// docs/json.md describes the fields.
    #[arg(long, global = true)]
    pub json: bool,

    /// Use this device: cpu, gpu, opencl:1, or part of a name such as nvidia; may be repeated [default: all devices]
    ///
    /// `gpu` is the first graphics card, `opencl` the first OpenCL device (GPUs come first), `opencl:1` the device
    /// with that number. Anything else matches part of a device's name, vendor or platform, as in `"rx 580"`.
    ///
    /// Polaris does not open the OpenCL libraries if only `cpu` is named, with `--mode cpu`, or in commands that use
    /// the CPU by default (`eval`, `export`, `generate`, `tune --list`, `--export` and `--import`).
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Vec<DeviceName>,

    /// Limit the live buffers of a device, as in gpu=512MiB; may be repeated [default: the device's memory]
    ///
    /// Write sizes as `4096`, `512MiB` or `1.5GiB` (binary), `8GB` (decimal) or `512M` (binary), in any case. Zero, or
    /// more than the device has, is an error.
    #[arg(long, global = true, value_name = "DEVICE=SIZE")]
    pub memory_limit: Vec<MemoryLimit>,

    /// Use this many CPU threads, from 1 to 1024 [default: all hardware threads that this process may use]
    ///
    /// If the system refuses that many threads, the command fails and says how many are possible.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS as i64))]
    pub threads: Option<u16>,

    /// Skip the quick check of a device or driver that Polaris sees for the first time
    #[arg(long, global = true)]
    pub no_first_check: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Inspect, measure and check this machine, and recommend how to use it
    ///
    /// Run this first on a new machine. It finds the devices, measures them, runs the standard check (see `polaris
    /// check`) and recommends a mode: cpu, gpu or hybrid. If the check passes, it also measures square f32 matmuls of
    /// 512, 1024 and 2048 on each device as long as they are short, compares the modes as `polaris bench modes --quick`
    /// does, and classifies handwritten digits with the built-in model, exported to ONNX: it prints the accuracy on
    /// 359 validation digits, and a few of them with their predictions, one wrong prediction included.
    ///
    /// On an OpenCL device the check starts no case after 20 seconds; the output says how many cases it skipped.
    /// `--device` limits what is measured and checked. The exit code is 1 if a kernel fails its check or the modes
    /// disagree.
    #[command(after_help = "Examples:
  polaris quickstart
  polaris quickstart --device cpu     use no OpenCL device
  polaris quickstart --json")]
    Quickstart,

    /// Show CPU, memory, GPUs and drivers, and explain what is wrong with them
    ///
    /// Lists CPU, caches, RAM, the GPUs on the PCI bus, every usable device with its capabilities, its last measurement
    /// and check, quarantined kernels, problems of the OpenCL installation, and the recommended mode. For a GPU without
    /// a usable OpenCL driver it prints the command that installs one.
    ///
    /// It always lists all devices; `--device` selects which ones are measured and checked for the first time. GPUs
    /// come before OpenCL drivers that run on the CPU, and the default device is marked. A device keeps its number
    /// once a check or a measurement of it is stored, whatever is installed later.
    #[command(after_help = "Examples:
  polaris devices
  polaris devices --measure           measure the devices and store the figures
  polaris devices --json
  POLARIS_OPENCL=off polaris devices  ignore OpenCL")]
    Devices(Devices),

    /// Test every operation on your devices against an f64 reference, and quarantine wrong kernels
    ///
    /// By default it runs every kernel of an OpenCL device once, and every variant of every operation, without a time
    /// limit. Nearly all of the time goes into compiling the kernels. The CPU has nothing to compile, so it always gets
    /// the full check, except with `--quick`.
    ///
    /// Polaris stores a kernel that is wrong under a driver and does not use it again there: another kernel or the CPU
    /// takes its place. A later check that finds it correct releases it. docs/check.md describes the check, the
    /// quarantine and the table.
    #[command(after_help = "Examples:
  polaris check
  polaris check --device gpu
  polaris check matmul softmax        test these operations only
  polaris check --quick               run a few cases, in seconds
  polaris check --full                run every kernel in every layout
  polaris check --json > check.json")]
    Check(Check),

    /// Measure the speed of this machine
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

    /// Search for the fastest kernel configurations of a device, and store them
    ///
    /// Later work of the tuned shapes, and of shapes near them, uses what the search found. Without a subcommand this
    /// lists, explains, exports or imports what is stored. docs/tuning.md describes the search.
    ///
    /// Every candidate is built and run in its own process and compared with an f64 reference before its time counts.
    /// A candidate that does not build, hangs, crashes or is wrong is stored as failed and not tried again. Every
    /// measurement is on disk before the next one starts: Ctrl-C or a crash loses only the current one, and the same
    /// command continues the search. At the end the best six are measured in turns with the default configuration, and
    /// the best replaces it only if it is at least 2 % faster.
    #[command(after_help = "Examples:
  polaris tune gemm --budget 60s
  polaris tune gemm --device gpu --shapes 512x512x512,1x4096x4096 --budget 200evals
  polaris tune --list                 list the tuned shapes
  polaris tune --explain 1024,1024,1024
  polaris tune --export tuned.jsonl")]
    Tune(Box<Tune>),

    /// Train a model from a configuration, with checkpoints, a log and a report
    ///
    /// docs/training.md describes the configuration and the files of a run. Ctrl-C saves a checkpoint, prints the
    /// command that continues, and exits with 130. `--device` overrides `train.device` of the configuration.
    #[command(after_help = "Examples:
  polaris train digits
  polaris train digits --device gpu --set train.epochs=5 --set optim.lr=1e-3
  polaris train llama --set train.epochs=1
  polaris train mine.toml --out runs/first
  polaris train mine.toml --out runs/first --resume")]
    Train(Train),

    /// Evaluate a trained model on its validation data
    #[command(after_help = "Examples:
  polaris eval runs/digits
  polaris eval runs/digits --exported digits.onnx
  polaris eval runs/mine/model.safetensors --set data.path=other.csv --all --json")]
    Eval(Eval),

    /// Export a trained model to ONNX or GGUF, for other engines
    ///
    /// ONNX files are of opset 17. The input is named `input`, the output `output`, and the batch size is free. Models of
    /// the kind `llama` can also be GGUF, with their tokenizer and a chat template, for `polaris chat` and llama.cpp. docs/training.md describes the files.
    #[command(after_help = "Examples:
  polaris export runs/digits --out digits.onnx
  polaris export runs/digits --out digits-int4.onnx --set quantize.weights=4 --set quantize.group=32
  polaris export runs/llama --out llama.gguf
  polaris export runs/tiny --out tiny.gguf --type q8_0
  polaris export runs/mine/model.safetensors --out mine.onnx --json")]
    Export(Export),

    /// Chat with a language model in the terminal
    ///
    /// Reads messages from stdin, a line each (a line that ends in \ goes on in the next), and prints the answers while
    /// they are generated. The model's own chat template writes the prompt; models without one get ChatML, with a
    /// warning. Only what is new in a conversation is computed. Ctrl-C stops an answer, not the chat.
    ///
    /// Without a model it uses one that is built in: a toy of a million parameters that knows a few answers.
    ///
    /// Commands: /system TEXT, /reset, /save FILE, /help, /exit. docs/llm.md describes models, formats and options.
    #[command(after_help = "Examples:
  polaris chat
  polaris chat model.gguf
  polaris chat SmolLM2-135M-Instruct
  polaris chat model.gguf --system 'Answer in one sentence.' -c 8192
  echo 'Name three stars.' | polaris chat model.gguf --json
  polaris chat model.gguf --json-schema answer.json --temperature 0
  polaris chat large.gguf --draft small.gguf")]
    Chat(Box<Chat>),

    /// Generate text with a language model: a GGUF file, a folder of Hugging Face, or one of `polaris train`
    ///
    /// Prints the text on stdout while it is generated. For models of `polaris train`, `--temperature`, `--top-k`,
    /// `--seed`, `--prompt` and `--tokens` apply; they sample from all tokens unless `--top-k` says otherwise.
    #[command(after_help = "Examples:
  polaris generate model.gguf -p 'The pole star is' -n 64
  polaris generate model.gguf -p 'One, two,' --temperature 0 --stop '.'
  polaris generate model.gguf -p 'A person: ' --json-schema person.json
  polaris generate runs/text --prompt 'In the beginning '
  polaris generate runs/text --tokens 100 --temperature 0 --json")]
    Generate(Box<Generate>),

    /// Score how well a language model predicts a text, by itself or beside another model
    ///
    /// Cuts the text into windows and scores the second half of each, as llama.cpp does, so that figures can be
    /// compared. With `--base` it also prints the mean KL divergence from that model, and how often both agree on the
    /// most probable token.
    #[command(after_help = "Examples:
  polaris perplexity model.gguf wiki.txt
  polaris perplexity model-q4.gguf wiki.txt --base model-f16.gguf --windows 20 --json")]
    Perplexity(Perplexity),

    /// Make a model smaller: quantise the matrices of a GGUF file, or the layers of an ONNX file to int8
    ///
    /// GGUF: scales are searched for; the error of each tensor is measured while it is written. It takes some megabytes of
    /// memory however large the model is. With `--method gptq` the model computes a text first, and what it multiplies decides
    /// how weights are rounded; with `--size`, `--loss` or `--speed` each tensor gets a
    /// format of its own, and the file is measured afterwards.
    ///
    /// ONNX: samples of `--data` run through the model, and histograms of its activations give their ranges. The file has
    /// pairs of QuantizeLinear and DequantizeLinear, which Polaris and other engines run on integers. The signal-to-noise
    /// ratio of each layer is measured.
    ///
    /// A file appears whole or not at all. docs/quantization.md says which type and which calibration is for what.
    #[command(after_help = "Examples:
  polaris quantize model-f16.gguf -o model-q4.gguf
  polaris quantize model-f16.gguf -o model-q6.gguf --type Q6_K --json
  polaris quantize model-f16.gguf -o model.gguf --type Q4_K_S --tensor attn_v=Q6_K --tensor output.=Q8_0
  polaris quantize model-f16.gguf --type Q3_K_M --dry-run
  polaris quantize model-f16.gguf -o model-q4.gguf --imatrix model.imatrix.gguf
  polaris quantize model-f16.gguf -o model-4gb.gguf --size 4GB --calibrate text.txt --sensitivities model.sensitivities.json
  polaris quantize model-f16.gguf -o model-2x.gguf --speed 2x --calibrate text.txt --html model-2x.html
  polaris quantize model-f16.gguf -o model-q3.gguf --type Q3_K_M --method gptq --calibrate text.txt
  polaris quantize classifier.onnx --data images -o classifier-int8.onnx
  polaris quantize classifier.onnx --data images --calibration mse --method bias-correction -o int8.onnx --html int8.html")]
    Quantize(Box<Quantize>),

    /// Compare two models on the same samples or text: answers, sizes and speed
    ///
    /// Runs both models with the same inputs, batch by batch. For each output it prints the signal-to-noise ratio and the
    /// largest difference; for outputs that look like scores of classes also how often both name the same class, the mean
    /// KL divergence of the second model's distribution from the first's, and the accuracy if the samples have labels. The
    /// times of a batch are measured in turns.
    ///
    /// Of two language models it prints the perplexity of the text, tokens a second one after another, the KL divergence of the
    /// second one's predictions from the first's, and how often both agree on the most probable token.
    #[command(after_help = "Examples:
  polaris compare classifier.onnx classifier-int8.onnx --data images
  polaris compare a.onnx b.onnx --data validation.npz --batch 1 --json
  polaris compare model-f16.gguf model-q4.gguf --data text.txt")]
    Compare(Compare),

    /// Calibrate a language model: compute a text, and write how much each column of its matrices counts
    ///
    /// Sums the squares of what every matrix is multiplied with, for `polaris quantize --imatrix`. Files are those of
    /// llama.cpp: GGUF, or its older format if the name ends with .dat; programs read each other's. Runs on the CPU. The
    /// file is written every so many windows, whole each time, and `--resume` goes on from it. docs/quantization.md says
    /// which text to take.
    #[command(after_help = "Examples:
  polaris imatrix model-f16.gguf text.txt -o model.imatrix.gguf
  polaris imatrix model-f16.gguf text.txt -o model.imatrix.gguf --resume
  polaris imatrix --merge a.gguf --merge b.dat -o both.gguf")]
    Imatrix(Imatrix),

    /// Show the tokens of a text
    #[command(after_help = "Examples:
  polaris tokenize model.gguf 'Hello world'
  polaris tokenize model.gguf '<|im_start|>user' --special --bare
  polaris tokenize model.gguf --json < text.txt")]
    Tokenize(Tokenize),

    /// Run an ONNX model
    ///
    /// Inputs are NPY files, an image, or random values. Operators that the device does not support run on the CPU;
    /// `polaris plan` shows which. docs/onnx.md describes how models run.
    #[command(after_help = "Examples:
  polaris run model.onnx --input tokens=ids.npy --output-dir out
  polaris run classifier.onnx --image cat.jpg --labels imagenet.txt
  polaris run model.onnx --random-inputs --dim batch=4 --mode gpu --repeat 20
  polaris run model.onnx --random-inputs --profile trace.json")]
    Run(Box<Run>),

    /// Embed lines of text as vectors
    ///
    /// The model is an encoder of the BERT family with its tokenizer.json: ONNX, or safetensors with config.json. Row N
    /// belongs to line N. A line that is empty, longer than 1 MiB or not UTF-8 is reported on stderr and gets zeros, or
    /// null in JSON lines; the exit code is then 1. All files must be regular ones: pipe text to stdin.
    /// docs/embedding.md has the details.
    #[command(after_help = "Examples:
  polaris embed all-MiniLM-L6-v2 sentences.txt -o vectors.npy
  cat sentences.txt | polaris embed all-MiniLM-L6-v2 > vectors.jsonl
  polaris embed model.onnx sentences.txt.gz -o vectors.jsonl --pooling cls --mode gpu --json")]
    Embed(Box<Embed>),

    /// Show what a model is made of: ONNX, GGUF or a folder of Hugging Face
    ///
    /// For a language model: metadata by GGUF's keys, architecture, tensors by type, and whether weights and cache fit each
    /// device. For an ONNX model: inputs, outputs, parameters and operators.
    ///
    /// Lists unsupported operators, and the work and memory of one run with the dimensions of `--dim`. Operators are
    /// counted as they are in the file, before the graph passes.
    #[command(after_help = "Examples:
  polaris info model.onnx
  polaris info model.gguf -c 8192
  polaris info model.onnx --dim batch=8 --dim sequence=128 --json")]
    Info(Info),

    /// Print the plan of a model: its instructions with device, operands and memory
    ///
    /// For a language model: the steps that compute one token, or as many as `--dim tokens=N` says. For an ONNX model:
    ///
    /// The first line counts what each graph pass changed. With `--mode hybrid`, instructions without a stored time are
    /// measured first; each line then shows its predicted time, and the last line the predictions for the CPU, the
    /// device and both, the times of the plans that were benchmarked, and the choice.
    #[command(after_help = "Examples:
  polaris plan model.onnx
  polaris plan model.onnx --mode gpu --dim batch=4 --html plan.html
  polaris plan model.onnx --mode hybrid
  polaris plan model.gguf --dim tokens=512")]
    Plan(Plan),

    /// Run the test data of the ONNX standard
    ///
    /// Prints failures, what is not supported, and a table. The exit code is 1 if a test fails.
    ///
    /// Folders hold `model.onnx` with `test_data_set_*/{input,output}_*.pb`, or `light_*.onnx` with their outputs. The
    /// Python package `onnx` 1.22.0 contains them.
    #[command(
        name = "onnx-test",
        after_help = "Examples:
  polaris onnx-test onnx/backend/test/data/node
  polaris onnx-test onnx/backend/test/data/node --mode gpu --only conv --json"
    )]
    OnnxTest(OnnxTest),

    /// Show or clear the cache: built programs, prepacked weights, measured costs
    ///
    /// Polaris rebuilds whatever is missing. This command uses no device.
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

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Measure memory bandwidth: copy, add and sum against a plain loop or the driver's copy
    ///
    /// Copy counts two passes over the array, add three, sum one. docs/measuring.md describes the method.
    #[command(after_help = "Examples:
  polaris bench memory
  polaris bench memory --device gpu --size 256MiB
  polaris bench memory --json")]
    Memory(Memory),

    /// Measure the overhead of one small operation against a bare OpenCL enqueue
    ///
    /// Times an addition of 16 f32 in a row of many calls, into an existing array and into a new one each time. On
    /// OpenCL devices it also times a small kernel launched through the code that operations use, and a bare
    /// `clEnqueueNDRangeKernel`. Medians of 31 batches of 500 calls, in turns.
    #[command(after_help = "Examples:
  polaris bench launch
  polaris bench launch --json")]
    Launch,

    /// Measure how long it takes to choose a matmul kernel
    ///
    /// Times the first choice in a process, which reads the decisions of `polaris tune`, and later ones. Also prints the
    /// number of decisions, and the size and speed of the predictor behind them. For OpenCL devices.
    #[command(after_help = "Examples:
  polaris bench select
  polaris bench select --device gpu --json")]
    Select,

    /// Measure an ONNX model on random inputs: loading, first run, later runs, memory
    ///
    /// Every run starts and ends with its inputs and outputs in host memory. The first run includes planning and building
    /// programs. `bench/onnx/speed.py` runs it in turns with ONNX Runtime on the same files and threads.
    #[command(after_help = "Examples:
  polaris bench model model.onnx
  polaris bench model model.onnx --dim batch=8 --mode gpu --runs 50 --json
  polaris bench model model.onnx --threads 1 --profile trace.json")]
    Model(Box<BenchModel>),

    /// Measure a language model: tokens per second of prompts and of generation
    ///
    /// As `llama-bench` does: `pp512` is a prompt of 512 tokens, `tg128` the generation of 128 tokens from an empty
    /// context; means and standard deviations of five repetitions after one that is not counted. Tokens are drawn from
    /// the vocabulary. `GB/s` are the bytes of all weights by the time of a generated token.
    #[command(after_help = "Examples:
  polaris bench llm model.gguf
  polaris bench llm model.gguf -p 512,2048 -n 128 --threads 1 --json
  polaris bench llm model.gguf --mode gpu")]
    Llm(BenchLlm),

    /// Compare CPU, GPU and hybrid on the workloads that models consist of
    ///
    /// Every workload runs as an ONNX model in the modes cpu, gpu and hybrid, in turns; times include the copies to the
    /// device and back. The modes gpu and hybrid use the first GPU among the chosen devices, else the first OpenCL
    /// device. The exit code is 1 if results of two modes differ by more than 1e-4 of the largest value.
    /// docs/measuring.md describes the workloads and the method.
    #[command(after_help = "Examples:
  polaris bench modes
  polaris bench modes --html modes.html
  polaris bench modes --quick --json
  polaris bench modes --only matmul-1024,transformer --device gpu

Columns:
  *             the fastest mode; hybrid only where it uses both sides
  ms per call   median
  spread        standard deviation of all samples, relative to their mean
  GFLOPS        additions and multiplications of a call by its time
  by cpu        time of mode cpu divided by the time of this mode; above 1 it is faster
  predicted ms  for hybrid: the prediction of the cost model for the chosen plan")]
    Modes(BenchModes),

    /// Measure matmul: speed, error, share of the roofline, compared with other libraries
    ///
    /// Multiplies an m x k matrix A by a k x n matrix B. A case that does not fit an OpenCL device is streamed from the
    /// host, and its time includes the copies; a case that does not fit at all is skipped with a note.
    /// docs/measuring.md describes the method.
    ///
    /// Peers are OpenBLAS (CPU), CLBlast (OpenCL devices) and cuBLAS (NVIDIA GPUs). They are loaded at run time from
    /// the folders of `POLARIS_PEERS_PATH` and the system's library path.
    #[command(after_help = "Examples:
  polaris bench gemm
  polaris bench gemm --device cpu --threads 1 --sizes 512,1024 --peers
  polaris bench gemm --shapes 1x4096x4096,128x768x3072 --dtypes f32,f16
  polaris bench gemm --device gpu --sizes 1024 --variants all
  polaris bench gemm --sizes 1024 --epilogue bias-gelu
  polaris bench gemm --sweep 1200:1450:10 --peers --report gemm.html
  polaris bench gemm --device gpu --sizes 1024 --memory-limit gpu=8MiB   stream from the host

Columns:
  GFLOPS         2 m n k divided by the median time of a call
  roofline       share of what peak and bandwidth allow; - where the FP32 peak does not apply
  error          relative Frobenius error against f64; for i8 the number of wrong elements
  cv             standard deviation of all samples, relative to their mean
  time by plain  time of a fused epilogue relative to the first plain variant
  PEER           GFLOPS of that library in the same turns
  ratio          GFLOPS of Polaris divided by the peer's; above 1 Polaris is faster")]
    Gemm(Box<Gemm>),
}

/// Options of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Measure arithmetic, memory, transfers and launches of the chosen devices, and store the figures
    #[arg(long)]
    pub measure: bool,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Only these operations, by the names in the table [default: all]
    #[arg(value_name = "OPERATION", value_parser = PossibleValuesParser::new(operations()), hide_possible_values = true)]
    pub operations: Vec<String>,

    /// Run a few cases only, in a few seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Run every kernel in every kind of layout instead of every kernel once
    #[arg(long)]
    pub full: bool,

    /// Start no case on an OpenCL device after this many seconds [default: 2 with --quick, otherwise no limit]
    #[arg(long, value_name = "SECONDS")]
    pub limit: Option<u32>,

    /// Run a job from stdin: the process that takes a driver's crashes
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// The names of operations that can be checked.
fn operations() -> impl Iterator<Item = &'static str> {
    polaris::ops::FAMILIES.iter().map(|family| family.name)
}

/// Options of `cache`.
#[derive(Debug, Args)]
pub struct Cache {
    /// Remove all cached programs, prepacked weights and costs
    #[arg(long)]
    pub clear: bool,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell to print a script for
    pub shell: ShellName,
}

/// Shells with completion scripts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ShellName {
    Bash,
    Elvish,
    Fish,
    Powershell,
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
    seconds.ok_or_else(|| "expected a time from 0 to 3600 seconds".to_owned())
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
