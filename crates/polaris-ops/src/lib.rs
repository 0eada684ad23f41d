//! The operations of Polaris, one folder each: the problem and its checks, a naive reference, the
//! CPU implementation, the OpenCL kernels.
//!
//! ```
//! use polaris_ops::{Array, Binary, elementwise};
//! use polaris_runtime::{Runtime, RuntimeOptions};
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let a = Array::from_slice(runtime.cpu(), &[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
//! let b = Array::from_slice(runtime.cpu(), &[2], &[10.0f32, 20.0])?;
//! let sum = elementwise::binary(Binary::Add, &a, &b)?;
//! assert_eq!(sum.to_vec::<f32>()?, [11.0, 22.0, 13.0, 24.0]);
//! # Ok::<(), polaris_ops::Error>(())
//! ```

mod array;
pub mod attention;
pub mod batch_norm;
pub mod cache_write;
pub mod cached_attention;
pub mod causal_conv;
pub mod conv;
pub mod copy;
mod cpu;
pub mod cross_entropy;
mod custom;
pub mod elementwise;
mod error;
pub mod expert_matmul;
mod families;
pub mod fill;
pub mod format;
pub mod fused;
pub mod indexing;
mod lanes;
pub mod linear_attention;
pub mod linears;
pub mod matmul;
pub mod norm;
mod opencl;
mod operation;
pub mod pad;
pub mod pool;
pub mod quantize;
pub mod random;
pub mod reduce;
pub mod rope;
pub mod route;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod suite;
pub mod weight;
mod work;

pub use array::{Array, ArrayType};
pub use attention::{Attention, AttentionGradient};
pub use batch_norm::{BatchNorm, BatchNormGradient, BatchNormSums, BatchStatistics};
pub use cache_write::CacheWrite;
pub use cached_attention::{CachedAttention, PagedCache};
pub use causal_conv::CausalConv;
pub use conv::{Convolution, ConvolutionInputGradient, ConvolutionWeightGradient};
pub use cross_entropy::{CrossEntropy, CrossEntropyGradient, CrossEntropyOptions};
pub use custom::{Call, Kernel};
pub use elementwise::{Binary, Function, Ternary, Unary};
pub use error::{Error, Result};
pub use expert_matmul::ExpertMatMul;
pub use families::{FAMILIES, Family, shipped_programs};
pub use format::{Block, Format, encode_best, encode_by_importance};
pub use fused::Expression;
pub use indexing::{Lookup, LookupRule, Scatter, ScatterRule};
pub use linear_attention::LinearAttention;
pub use linears::Linears;
pub use matmul::MatMul;
pub use norm::{Norm, NormGradient, NormKind, NormWeightGradient};
pub use operation::{AnyOperation, Operation, has_trusted_kernel, run, run_kernel, usable_kernels};
pub use pad::PadMode;
pub use pool::{Pool, PoolGradient, Pooling, Window, Windows};
pub use quantize::{Requantize, Scale};
pub use random::Distribution;
pub use reduce::Reduction;
pub use rope::{Pairing, Rope};
pub use route::{Route, RouteIds, RouteWeights};
pub use softmax::{Softmax, SoftmaxGradient};
pub use work::{Class, Work};
