//! Layers, training and export.

mod config;
mod export;
mod layers;
mod llama;
mod own;
mod quantize;
mod training;
