//! The errors of this crate.

use std::path::PathBuf;

use polaris_core::ErrorKind;
use polaris_gguf::TensorType;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of making a model smaller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In running a language model.
    #[error(transparent)]
    Llm(#[from] polaris_llm::Error),
    /// A device that this does not run on.
    #[error("sensitivities are measured on the CPU")]
    NotOnCpu,
    /// A file of sensitivities that cannot be used.
    #[error("the sensitivities in {}: {what}; use another file, or remove this one", path.display())]
    SensitivityFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Predictions that cannot be compared.
    #[error(
        "with other weights in `{tensor}` the divergence of the model is {sum}; its logits cannot be compared"
    )]
    NoDivergence {
        /// The tensor.
        tensor: String,
        /// What was found.
        sum: f64,
    },
    /// A tensor whose rows no format fills.
    #[error("the tensor `{tensor}` has rows of {row}, which no block format fills")]
    NoFormat {
        /// Its name.
        tensor: String,
        /// The elements of its rows.
        row: usize,
    },
    /// In reading or writing a GGUF file.
    #[error(transparent)]
    Gguf(#[from] polaris_gguf::Error),
    /// In a model of ONNX.
    #[error(transparent)]
    Onnx(polaris_onnx::Error),
    /// In running a model of ONNX.
    #[error(transparent)]
    Graph(Box<polaris_graph::Error>),
    /// A model of ONNX that has integers already.
    #[error(
        "the model is quantised already: node `{node}` is a {operator}; quantise the float model that it was made from"
    )]
    QuantisedModel {
        /// A node that says so.
        node: String,
        /// Its operator.
        operator: String,
    },
    /// A part of a name that no layer has.
    #[error("no convolution or product has `{part}` in its name; there are {some} and others")]
    NoSuchLayer {
        /// What was asked for.
        part: String,
        /// Some names that there are.
        some: String,
    },
    /// A model without anything to quantise.
    #[error("the model has no convolution or product that can be quantised ({reasons})")]
    NoLayers {
        /// Layers that there are, and why they cannot be.
        reasons: String,
    },
    /// The type of a tensor that is quantised already.
    #[error(
        "the tensor `{tensor}` is quantised already ({ty}), and would lose more than the result says; quantise the model that it \
         was made from, or allow quantising again"
    )]
    Quantised {
        /// Its name.
        tensor: String,
        /// Its type.
        ty: TensorType,
    },
    /// An override that names a type that the tensor cannot have.
    #[error(
        "the tensor `{tensor}` cannot be {ty}: its rows of {row} are no multiple of a block's {}",
        ty.block_elements()
    )]
    Override {
        /// Its name.
        tensor: String,
        /// The type that was asked for.
        ty: TensorType,
        /// The elements of its rows.
        row: usize,
    },
    /// An override that no matrix has the name of.
    #[error("no matrix has `{pattern}` in its name; there are {some} and others")]
    NoSuchTensor {
        /// What was asked for.
        pattern: String,
        /// Some names that there are.
        some: String,
    },
    /// The weights of a tensor that cannot be encoded.
    #[error("the tensor `{tensor}`: {source}")]
    Encode {
        /// Its name.
        tensor: String,
        /// What is wrong.
        source: polaris_blocks::Error,
    },
    /// Levels of integers that there are not.
    #[error("there are no levels of {bits} bits; 2 to 8 there are")]
    Bits {
        /// What was asked for.
        bits: u32,
    },
    /// Groups without elements.
    #[error("a group of weights needs an element")]
    EmptyGroup,
    /// Elements that are not those of a matrix.
    #[error("{elements} elements are no matrix of {rows} rows with {columns} columns")]
    Elements {
        /// How many there are.
        elements: usize,
        /// The rows that there should be.
        rows: usize,
        /// The elements of each.
        columns: usize,
    },
    /// An element that is not finite.
    #[error("element {at} is {value}, which no level stands for")]
    NotFinite {
        /// The element.
        value: f32,
        /// Where it is.
        at: usize,
    },
    /// A budget that nothing fits.
    #[error("a budget of {budget} cannot be met; the least that is possible is {least}")]
    Budget {
        /// What was asked for.
        budget: u64,
        /// What the cheapest choices cost.
        least: u64,
    },
    /// A second budget that nothing fits within the first.
    #[error(
        "a second budget of {most} cannot be met within {budget} of the first; the least that is possible is {least}"
    )]
    Both {
        /// The first budget.
        budget: u64,
        /// What was asked for.
        most: u64,
        /// The least of the second cost within the first budget.
        least: u64,
    },
    /// A goal of speed without measured times.
    #[error("a speed needs the times of a token, which were not measured")]
    NoTimes,
    /// A speed that no mixture reaches.
    #[error(
        "{asked:.1} tokens a second cannot be reached{}: the fastest mixture is predicted to make {fastest:.1}, {:.2} times as \
         many as the model makes now ({source_speed:.1})",
        if *within_size { " within that size" } else { "" }, fastest / source_speed
    )]
    Speed {
        /// What was asked for, in tokens a second.
        asked: f64,
        /// What the fastest mixture is predicted to make.
        fastest: f64,
        /// What the model makes as it is.
        source_speed: f64,
        /// Whether the mixture may have so many bytes only.
        within_size: bool,
    },
    /// A loss that nothing stays below.
    #[error("a loss of at most {loss} cannot be met; the least that is possible is {least}")]
    Loss {
        /// What was asked for.
        loss: f64,
        /// What the best choices lose.
        least: f64,
    },
    /// Something to be chosen for without a choice.
    #[error("item {item} has no choice, or one whose loss is not a number")]
    NoChoice {
        /// Which one.
        item: usize,
    },
    /// In opening a file.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// An error in a file that was opened by its path.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A file that is no importance matrix.
    #[error("not a valid importance matrix: {why}")]
    NoImportance {
        /// What was found and what is accepted.
        why: String,
    },
    /// Importance of one tensor from models that differ.
    #[error(
        "`{tensor}` has {} sums and {} counts in one importance matrix, and {} and {} in another; they are not of one model",
        sums[0], counts[0], sums[1], counts[1]
    )]
    Unlike {
        /// The tensor.
        tensor: String,
        /// Its columns in both.
        sums: [usize; 2],
        /// Its matrices in both.
        counts: [usize; 2],
    },
    /// Importance of another model.
    #[error(
        "the importance matrix has {sums} sums and {counts} counts for `{tensor}`, which is {matrices} x {columns} columns; it is \
         of another model"
    )]
    Columns {
        /// The tensor.
        tensor: String,
        /// How many sums there are.
        sums: usize,
        /// How many counts there are.
        counts: usize,
        /// The matrices that the tensor has.
        matrices: usize,
        /// The columns of each.
        columns: usize,
    },
    /// Importance of tensors that the model does not have.
    #[error("the importance matrix has no tensor of this model; it has {some} and others")]
    OtherModel {
        /// Some names that it has.
        some: String,
    },
    /// Rows that do not fill blocks.
    #[error("rows of {columns} do not fill blocks of {block}, which have {}", block.elements())]
    Blocks {
        /// The format.
        block: polaris_blocks::Block,
        /// Elements of a row.
        columns: usize,
    },
    /// Weights that cannot be encoded.
    #[error(transparent)]
    Block(polaris_blocks::Error),
    /// Inputs of another length than the columns that they are for.
    #[error("{found} columns were given; there are {expected}")]
    Width {
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
    },
    /// A damping that is no part of the diagonal.
    #[error("a damping of {damping}; it is a part of the diagonal, 0 to 1")]
    Damping {
        /// What was asked for.
        damping: f64,
    },
    /// An exponent that makes no norm.
    #[error("a norm with exponent {norm}; exponents are above 0, at most 2")]
    Norm {
        /// What was asked for.
        norm: f64,
    },
    /// Real zero points for a grid that has none.
    #[error("a symmetric grid has no zero points; real ones need an affine grid")]
    Symmetric,
    /// Blocks that a rotation cannot have.
    #[error(
        "blocks of {block} in rows of {columns}; a rotation needs blocks of a power of two that fill rows"
    )]
    Rotation {
        /// Elements of a block.
        block: usize,
        /// Elements of a row.
        columns: usize,
    },
    /// A strength that is no part.
    #[error("a strength of {strength}; 0 leaves activations as they are, 1 evens them out")]
    Strength {
        /// What was asked for.
        strength: f32,
    },
    /// Sums of inputs that cannot be: squares are not negative.
    #[error(
        "the Hessian is not positive definite at column {column}, even with {damping} times the mean of its diagonal added to \
         it; it is damaged, or sums of its inputs are beyond f32"
    )]
    NotPositive {
        /// The column.
        column: usize,
        /// What was added to the diagonal, as a part of its mean.
        damping: f64,
    },
    /// A file that is not what was written.
    #[error("{}: {what}; remove it, so that it is made again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file that could not be read or written.
    #[error("{}: {source}{}", path.display(), polaris_files::write_advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// In an operation.
    #[error(transparent)]
    Ops(#[from] polaris_ops::Error),
    /// Activations that are no numbers, or beyond `f32`.
    #[error(
        "what `{tensor}` is multiplied with has {sum} as a sum of squares; the model or the text makes no finite activations"
    )]
    Activations {
        /// The tensor.
        tensor: String,
        /// What was found.
        sum: f64,
    },
    /// A window that cannot be computed.
    #[error("a window of {window} tokens; 1 to {context} fit the context")]
    Window {
        /// What was asked for.
        window: usize,
        /// The context of the engine.
        context: usize,
    },
    /// A text that is too short to calibrate with.
    #[error("the text has {tokens} tokens, and a window {window}; give a longer text")]
    ShortText {
        /// What it has.
        tokens: usize,
        /// What is needed.
        window: usize,
    },
    /// A run that cannot go on with what is there.
    #[error(
        "the importance matrix does not say that its {windows} windows are of this text and size ({texts}); go on with the same in \
         GGUF, or merge two files"
    )]
    OtherRun {
        /// The windows that it has.
        windows: usize,
        /// Its texts.
        texts: String,
    },
    /// A share of values that leaves none, or more than all.
    #[error("a range cannot keep {percent} % of the values; 50 to 100 are accepted")]
    Percent {
        /// What was asked for.
        percent: f64,
    },
    /// A tensor without values to calibrate with.
    #[error("the tensor `{tensor}` has no values to calibrate with")]
    EmptyActivation {
        /// Its name.
        tensor: String,
    },
    /// A tensor whose values are all the same.
    #[error(
        "the tensor `{tensor}` is {value} in all of its {count} values, which says nothing of its range; check the data, \
         or leave the layers out that use it"
    )]
    ConstantActivation {
        /// Its name.
        tensor: String,
        /// The value.
        value: f32,
        /// How often it was seen.
        count: u64,
    },
    /// A value that is infinite or no number.
    #[error(
        "the tensor `{tensor}` has a value that is not finite: {value} at element {at}; check the data and the model"
    )]
    NotFiniteActivation {
        /// Its name.
        tensor: String,
        /// The value.
        value: f32,
        /// Where it is.
        at: usize,
    },
    /// A tensor that is not what it should be.
    #[error("the tensor `{tensor}`: {why}")]
    Activation {
        /// Its name.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// Histograms of another model.
    #[error("the histograms are those of another model or method: {found}, not {expected}")]
    OtherHistograms {
        /// The model that there is.
        expected: String,
        /// The model that they are of.
        found: String,
    },
    /// Histograms with other bins.
    #[error("the histograms have {found} bins on each side of zero, not {expected}")]
    Bins {
        /// Those that there are.
        expected: usize,
        /// Those of the others.
        found: usize,
    },
    /// A file that is none of histograms.
    #[error("{}: not a file of histograms: {why}", path.display())]
    HistogramFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file that cannot be read.
    #[error("{}: cannot be read: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
        /// What kind of error it is.
        kind: ErrorKind,
    },
    /// A file that cannot be written.
    #[error("{}: cannot be written: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says, and what to do.
        why: String,
        /// What kind of error it is.
        kind: ErrorKind,
    },
    /// An activation that no Hessian can have.
    #[error(
        "the text makes an activation of {value} in front of `{tensor}`; its model cannot be calibrated with it"
    )]
    NotFiniteInput {
        /// The tensor.
        tensor: String,
        /// The activation.
        value: f32,
    },
    /// A Hessian that is larger than what may be used.
    #[error(
        "one Hessian of {columns} columns takes {needed} bytes; at most {limit} may be used for all"
    )]
    Memory {
        /// The columns.
        columns: usize,
        /// The bytes that it takes.
        needed: u64,
        /// The bytes that may be used.
        limit: u64,
    },
    /// A folder that is no work folder, or that of other work.
    #[error("{}: {what}", folder.display())]
    Work {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The user stopped it.
    #[error("it was stopped before the file was whole; nothing was written")]
    Cancelled,
}

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Gguf(error) => error.kind(),
            Self::Llm(error) => error.kind(),
            Self::Runtime(error) => error.kind(),
            Self::Ops(error) => error.kind(),
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::NotPositive { .. } | Self::Damaged { .. } => ErrorKind::InvalidData,
            Self::NotFiniteInput { .. } => ErrorKind::NotFinite,
            Self::InFile { source, .. } => source.kind(),
            Self::NoImportance { .. } => ErrorKind::InvalidData,
            Self::Activations { .. } => ErrorKind::NotFinite,
            Self::Onnx(error) => error.kind(),
            Self::Graph(error) => error.kind(),
            Self::NoDivergence { .. } => ErrorKind::NotFinite,
            Self::NoSuchLayer { .. } => ErrorKind::NotFound,
            Self::NoLayers { .. } => ErrorKind::Unsupported,
            Self::QuantisedModel { .. } => ErrorKind::InvalidArgument,
            Self::Unlike { .. }
            | Self::Columns { .. }
            | Self::OtherModel { .. }
            | Self::Window { .. }
            | Self::ShortText { .. }
            | Self::OtherRun { .. }
            | Self::Quantised { .. }
            | Self::Override { .. }
            | Self::Bits { .. }
            | Self::NotOnCpu
            | Self::NoFormat { .. }
            | Self::Budget { .. }
            | Self::Both { .. }
            | Self::NoTimes
            | Self::Speed { .. }
            | Self::Loss { .. }
            | Self::NoChoice { .. }
            | Self::EmptyGroup
            | Self::Width { .. }
            | Self::Blocks { .. }
            | Self::Work { .. }
            | Self::Damping { .. }
            | Self::Norm { .. }
            | Self::Symmetric
            | Self::Rotation { .. }
            | Self::Strength { .. }
            | Self::Elements { .. } => ErrorKind::InvalidArgument,
            Self::NoSuchTensor { .. } => ErrorKind::NotFound,
            Self::Memory { .. } => ErrorKind::OutOfMemory,
            Self::NotFinite { .. }
            | Self::Encode { source: polaris_blocks::Error::NotFinite { .. }, .. } => {
                ErrorKind::NotFinite
            }
            Self::Encode { .. } | Self::Block(_) | Self::SensitivityFile { .. } => {
                ErrorKind::InvalidData
            }
            Self::NotFiniteActivation { .. } => ErrorKind::NotFinite,
            Self::Percent { .. } | Self::OtherHistograms { .. } | Self::Bins { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::EmptyActivation { .. }
            | Self::ConstantActivation { .. }
            | Self::Activation { .. }
            | Self::HistogramFile { .. } => ErrorKind::InvalidData,
            Self::Read { kind, .. } | Self::Write { kind, .. } => *kind,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}

impl From<polaris_onnx::Error> for Error {
    fn from(error: polaris_onnx::Error) -> Self {
        match error.kind() {
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Onnx(error),
        }
    }
}

impl From<polaris_graph::Error> for Error {
    fn from(error: polaris_graph::Error) -> Self {
        match error.kind() {
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Graph(Box::new(error)),
        }
    }
}
