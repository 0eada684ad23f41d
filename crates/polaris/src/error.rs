//! One error for everything.

use std::fmt;

use polaris_core::ErrorKind;

/// The result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in whichever crate. [`Error::kind`] is the same for the same mistake wherever it is found;
/// [`Error::cause`] has the details.
#[derive(Debug)]
pub struct Error(Box<Cause>);

macro_rules! causes {
    ($($(#[$attribute:meta])* $name:ident($error:path), $about:literal;)*) => {
        /// The crate's own error.
        #[derive(Debug, thiserror::Error)]
        #[non_exhaustive]
        pub enum Cause {
            $(
                #[doc = $about]
                $(#[$attribute])*
                #[error(transparent)]
                $name($error),
            )*
            /// An output that was asked for and is not there.
            #[error("there is no output `{name}`; there are {known}")]
            NoOutput {
                /// What was asked for.
                name: String,
                /// Those that there are.
                known: String,
            },
            /// `set_runtime` came too late.
            #[error(
                "the runtime is in use already; call `set_runtime` once, before the first `Device` or `Session`"
            )]
            RuntimeInUse,
        }

        impl Cause {
            fn kind(&self) -> ErrorKind {
                match self {
                    $($(#[$attribute])* Self::$name(error) => error.kind(),)*
                    Self::NoOutput { .. } => ErrorKind::NotFound,
                    Self::RuntimeInUse => ErrorKind::InvalidArgument,
                }
            }
        }

        $(
            $(#[$attribute])*
            impl From<$error> for Error {
                fn from(error: $error) -> Self {
                    Cause::$name(error).into()
                }
            }
        )*
    };
}

causes! {
    Core(polaris_core::Error), "A shape, a layout or a data type.";
    Runtime(polaris_runtime::Error), "A device, its memory or its driver.";
    Operation(polaris_ops::Error), "An operation.";
    Tensor(polaris_tensor::Error), "A tensor or its gradient.";
    #[cfg(feature = "onnx")]
    Onnx(polaris_onnx::Error), "A model's file, or one of its operators.";
    #[cfg(feature = "onnx")]
    Graph(polaris_graph::Error), "A session.";
    #[cfg(any(feature = "text", feature = "image"))]
    Model(polaris_models::Error), "A model with its surroundings.";
    #[cfg(feature = "llm")]
    LanguageModel(polaris_llm::Error), "A language model.";
    #[cfg(feature = "llm")]
    Optimize(polaris_optimize::Error), "Making a model smaller.";
    #[cfg(feature = "llm")]
    Gguf(polaris_gguf::Error), "A GGUF file.";
    #[cfg(feature = "train")]
    Data(polaris_data::Error), "Data.";
    #[cfg(feature = "train")]
    Training(polaris_nn::Error), "Training.";
    #[cfg(feature = "tools")]
    Bench(polaris_bench::Error), "A benchmark.";
    #[cfg(feature = "tools")]
    Tuner(polaris_tuner::Error), "Tuning.";
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// The error of the crate where it was found.
    pub fn cause(&self) -> &Cause {
        &self.0
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
