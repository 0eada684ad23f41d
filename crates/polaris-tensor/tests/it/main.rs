//! Tensors and their gradients.

mod advice;
mod gradients;
mod tape;
