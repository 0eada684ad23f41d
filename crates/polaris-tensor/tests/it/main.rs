//! Tensors and their gradients.

mod advice;
mod axes;
mod display;
mod gradients;
mod quantize;
mod tape;
