//! Layers, training and export.

mod export;
mod layers;
mod training;
