//! The methods of tensors, by what they do. Each computes with `polaris-ops` and says how its
//! gradients flow back.

mod attention;
mod convolution;
mod einsum;
mod elementwise;
mod fused;
mod indexing;
mod loss;
mod matmul;
mod norm;
mod operators;
mod pooling;
mod quantize;
mod reduce;
mod softmax;
mod update;
mod views;
