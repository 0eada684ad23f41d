//! The model of GCN cards against figures of others and our own kernels.

mod kernels;
mod known;
