//! Layers, training and export.

mod config;
mod export;
mod layers;
mod own;
mod training;
